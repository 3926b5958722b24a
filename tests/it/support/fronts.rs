//! Two regions of three real backends, and the balancers of `deploy/` in front of them.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::process::{Program, TempFolder};

/// A file of `deploy/`.
pub fn kit(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy")
        .join(path)
}

/// A port that is free on every loopback address of the lab.
pub fn free_port() -> u16 {
    let any = TcpListener::bind("0.0.0.0:0").unwrap();
    any.local_addr().unwrap().port()
}

/// Two regions of three backends, each with one thread.
pub struct Regions {
    pub backends: Vec<(String, Program)>,
    port: u16,
}

impl Regions {
    pub fn start() -> Self {
        let port = free_port();
        let backends = [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'a'), (2, 'b'), (2, 'c')]
            .into_iter()
            .map(|(region, letter)| {
                let name = format!("r{region}{letter}");
                let number = letter as u8 - b'a' + 1;
                let workload = format!("127.0.{region}.{number}:{port}");
                let region = format!("region{region}");
                let program = Program::start(&[
                    "--dashboard",
                    "off",
                    "--workload",
                    &workload,
                    "--name",
                    &name,
                    "--region",
                    &region,
                    "--workload-threads",
                    "1",
                ]);
                (name, program)
            })
            .collect();
        Self { backends, port }
    }

    pub fn backend(&self, name: &str) -> &Program {
        let (_, program) = self
            .backends
            .iter()
            .find(|(known, _)| known == name)
            .unwrap();
        program
    }
}

/// A balancer that is ended by its pid.
pub struct Front {
    child: Child,
    pub address: SocketAddr,
    /// Of its configuration, where that was made for it.
    _folder: Option<TempFolder>,
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Front {
    /// HAProxy with one of the kit's files, in front of these regions.
    pub fn haproxy(file: &str, regions: &Regions) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let servers = regions
            .backends
            .iter()
            .map(|(name, program)| (format!("LAB_{}", name.to_uppercase()), program.workload()));
        let child = Command::new("haproxy")
            .args(["-db", "-f"])
            .arg(kit("haproxy").join(file))
            .env("LAB_FRONT", address.to_string())
            .envs(servers.map(|(name, address)| (name, address.to_string())))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("scripts/test.sh installs haproxy");
        Self::listening(child, address, None)
    }

    /// nginx likewise, in one process.
    pub fn nginx(regions: &Regions) -> Self {
        let folder = TempFolder::new();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let text = fs::read_to_string(kit("nginx/global.conf")).unwrap();
        let text = text
            .replace(":8080", &format!(":{}", regions.port))
            .replace("127.0.0.1:8111", &address.to_string());
        let configuration = folder.path().join("nginx.conf");
        fs::write(&configuration, text).unwrap();
        let child = Command::new("nginx")
            .arg("-p")
            .arg(folder.path())
            .arg("-c")
            .arg(&configuration)
            .args(["-g", "daemon off; master_process off;"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("scripts/test.sh installs nginx");
        Self::listening(child, address, Some(folder))
    }

    fn listening(child: Child, address: SocketAddr, folder: Option<TempFolder>) -> Self {
        let front = Self {
            child,
            address,
            _folder: folder,
        };
        let most = Instant::now() + Duration::from_mins(1);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < most, "nothing listens on {address}");
            std::thread::sleep(Duration::from_millis(20));
        }
        front
    }

    pub fn plan(&self, rate: u32, count: u32) -> Value {
        let url = format!("http://{}/?work=light", self.address);
        json!({"kind": "rate", "url": url, "rate": rate, "num_conns": count})
    }
}
