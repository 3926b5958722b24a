//! HTTPS through the HTTP engine: who is trusted, and what a handshake that fails is called.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tidemark::measure::outcome::Outcome;

use crate::support::load::{Done, go_to};
use crate::support::misbehave::Misbehave;

/// A server with a certificate for `name`, and the file of the authority that signed it.
struct Secure {
    address: SocketAddr,
    folder: std::path::PathBuf,
}

impl Secure {
    fn start(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()])
            .unwrap()
            .signed_by(&key, &authority)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let folder = std::env::temp_dir().join(format!(
            "tidemark-tls-{}-{}",
            std::process::id(),
            address.port()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .unwrap();
        let config = Arc::new(config);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let config = Arc::clone(&config);
                std::thread::spawn(move || {
                    let session = rustls::ServerConnection::new(config).unwrap();
                    let mut stream = rustls::StreamOwned::new(session, socket);
                    let mut head = Vec::new();
                    let mut piece = [0; 4096];
                    while let Ok(count @ 1..) = stream.read(&mut piece) {
                        head.extend_from_slice(&piece[..count]);
                        if head.ends_with(b"\r\n\r\n") {
                            head.clear();
                            let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
                            let body = vec![b'x'; 100_000];
                            let _ = stream
                                .write_all(reply)
                                .and_then(|()| stream.write_all(&body));
                        }
                    }
                });
            }
        });
        Self { address, folder }
    }

    fn ca(&self) -> String {
        self.folder.join("ca.pem").display().to_string()
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn check(server: &Secure, name: &str, tls: &Value) -> Done {
    let mut plan = json!({
        "kind": "rate", "url": format!("https://{name}/"), "rate": 50, "num_conns": 3, "num_calls": 3, "timeout_s": 5,
    });
    for (key, value) in tls.as_object().unwrap() {
        plan[key] = value.clone();
    }
    go_to(&plan, server.address)
}

#[test]
fn the_given_authority_is_trusted_for_its_names_and_addresses() {
    let server = Secure::start("server.test");
    let done = check(&server, "server.test", &json!({"ca": server.ca()}));
    done.all(Outcome::Ok);
    for one in &done.requests {
        assert_eq!(one.content_bytes, 100_000);
        assert_eq!(one.tls.is_some(), one.seq % 3 == 0);
    }
    let numbered = Secure::start("127.0.0.1");
    check(&numbered, "127.0.0.1", &json!({"ca": numbered.ca()})).all(Outcome::Ok);
}

#[test]
fn a_wrong_name_or_an_unknown_authority_is_a_failed_handshake() {
    let server = Secure::start("server.test");
    let done = check(&server, "other.test", &json!({"ca": server.ca()}));
    done.all(Outcome::TlsFailed);
    let first = done
        .requests
        .iter()
        .find(|one| one.started.is_some())
        .unwrap();
    assert!(first.connect.is_some() && first.tls.is_none());
    check(&server, "server.test", &json!({})).all(Outcome::TlsFailed);
}

#[test]
fn insecure_accepts_any_certificate() {
    let server = Secure::start("server.test");
    check(&server, "other.test", &json!({"insecure": true})).all(Outcome::Ok);
}

#[test]
fn a_server_without_tls_is_a_failed_handshake() {
    let server = Misbehave::start();
    let plan = json!({"kind": "rate", "url": "https://server.test/", "rate": 50, "num_conns": 2, "timeout_s": 0.5});
    let done = go_to(&plan, server.address);
    assert!(
        done.requests
            .iter()
            .all(|one| matches!(one.outcome, Outcome::TlsFailed | Outcome::ConnectTimeout)),
        "{:?}",
        done.outcomes()
    );
}

#[test]
fn an_authority_file_that_cannot_be_read_is_said_before_the_start() {
    let plan = json!({"kind": "rate", "url": "https://127.0.0.1/", "rate": 1, "num_conns": 1, "ca": "/no/such/file.pem"});
    let job = crate::support::load::job(crate::support::load::plan(&plan));
    let error = tidemark::runner::run(&job, &tidemark::runner::Stop::new(), &mut |_| {});
    assert!(error.unwrap_err().to_string().contains("/no/such/file.pem"));
}
