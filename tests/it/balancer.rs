//! The settings for load balancers, read by the real programs.

use std::process::Command;

use axum::http::StatusCode;
use serde_json::json;
use tidemark::measure::search::Capacity;
use tidemark::report::{Allowed, Backend, Balancer, Held, balancer_text};

use crate::browser::runtime;
use crate::support::pages::Pages;
use crate::support::process::TempFolder;
use crate::support::skip;

/// 4 slots of 0.38 s: as a search finds them.
fn held() -> Held {
    Held::of(&Capacity {
        poisson_lower_per_s: Some(7.4),
        suggested_max_rate_per_instance: Some(6.6),
        suggested_share: Some(0.9),
        ceiling_per_s: Some(10.53),
        baseline_mean_ms: Some(380.0),
        quantile: Some(0.95),
        goal_ms: Some(760.0),
        ..Capacity::default()
    })
    .unwrap()
}

fn backend(name: &str, address: &str, cap: Option<f64>) -> Backend {
    Backend {
        name: name.to_owned(),
        address: address.to_owned(),
        port: 8000,
        zone: Some("europe-west1-b".to_owned()),
        cap_bits_per_second: cap,
        allowed: None,
    }
}

/// What may stand behind a balancer: one, several, an IPv6 address, odd names, caps.
fn all_backends() -> Vec<Vec<Backend>> {
    vec![
        vec![backend("web-a1", "127.0.0.1", None)],
        vec![
            backend("web a;1", "127.0.0.1", Some(2e9)),
            backend("", "::1", Some(16e9)),
            backend("naïve\n}", "localhost", None),
        ],
    ]
}

/// The same with what each may be sent by its cap, or by what it is said to hold.
fn allowed() -> Vec<Backend> {
    let mut backends = all_backends().remove(1);
    for backend in &mut backends {
        backend.allowed = Allowed::of(backend.cap_bits_per_second, 24_168.0, Some(9_000.0), 0.8);
    }
    backends
}

fn texts(balancer: Balancer) -> Vec<String> {
    let held = held();
    let mut texts: Vec<String> = all_backends()
        .iter()
        .map(|backends| {
            balancer_text(balancer, "experiment 9\nglobal", Some(&held), backends).unwrap()
        })
        .collect();
    // From caps alone.
    texts.push(balancer_text(balancer, "peers", None, &all_backends()[1]).unwrap());
    // From rates that follow from caps.
    texts.push(balancer_text(balancer, "peers", None, &allowed()).unwrap());
    texts
}

fn accepted(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let Ok(output) = output else {
        skip(&format!("{program} is not installed"));
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    assert!(!said.to_lowercase().contains("warn"), "{said}");
}

#[test]
fn haproxy_takes_its_settings() {
    let folder = TempFolder::new();
    for (index, text) in texts(Balancer::Haproxy).into_iter().enumerate() {
        let path = folder.path().join(format!("{index}.cfg"));
        std::fs::write(&path, text).unwrap();
        accepted("haproxy", &["-c", "-q", "-f", path.to_str().unwrap()]);
    }
}

#[test]
fn nginx_takes_its_settings() {
    let folder = TempFolder::new();
    for (index, text) in texts(Balancer::Nginx).into_iter().enumerate() {
        let path = folder.path().join(format!("{index}.conf"));
        std::fs::write(&path, text).unwrap();
        let pid = format!("pid {};", folder.path().join("pid").display());
        accepted(
            "nginx",
            &[
                "-t",
                "-q",
                "-e",
                "stderr",
                "-g",
                &pid,
                "-c",
                path.to_str().unwrap(),
            ],
        );
    }
}

#[test]
fn a_shell_takes_the_commands_for_google_cloud() {
    let folder = TempFolder::new();
    for (index, text) in texts(Balancer::Gcloud).into_iter().enumerate() {
        let path = folder.path().join(format!("{index}.sh"));
        // With a gcloud that only repeats what it was given.
        std::fs::write(&path, format!("gcloud() {{ echo \"$*\"; }}\n{text}")).unwrap();
        let output = Command::new("bash").arg("-eu").arg(&path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.lines().all(|line| line.starts_with("compute ")),
            "{said}"
        );
        let asked = said.matches("--max-rate-per-instance=6.6").count();
        let groups = said.matches("update-backend web-backend --global").count();
        assert_eq!(asked, if index >= 2 { 0 } else { groups }, "{said}");
        assert!(said.contains("--request-path=/health-check"));
        assert_eq!(said.matches("--capacity-scaler=").count(), groups);
        if index == 3 {
            // 0.8 x 2e9 / (8 x 24168), rounded down to a tenth.
            assert!(said.contains("--max-rate-per-instance=7200"), "{said}");
            assert_eq!(said.matches("--balancing-mode=RATE").count(), groups);
            assert_eq!(said.matches("--capacity-scaler=1.0").count(), groups);
        } else if index > 0 {
            assert!(said.contains("--capacity-scaler=0.13"), "{said}");
        }
    }
}

#[test]
fn the_figures_are_those_of_the_capacity() {
    let held = held();
    let three = all_backends().remove(1);
    let text = |balancer| balancer_text(balancer, "experiment 9", Some(&held), &three).unwrap();
    let haproxy = text(Balancer::Haproxy);
    for words in [
        // 10 s × 6.6 × 3.
        "sc_http_req_rate(0) gt 198",
        // 10.53 × 0.38 = 4.0.
        "server web-a-1-1 127.0.0.1:8000 maxconn 4 weight 13 check",
        "server web-2 [::1]:8000 maxconn 4 weight 100 check",
        "timeout queue 760ms",
        "6.6 requests a second = 0.9 x 7.4",
        "Margin: a tenth",
    ] {
        assert!(haproxy.contains(words), "{words}\n{haproxy}");
    }
    let nginx = text(Balancer::Nginx);
    for words in [
        "rate=1188r/m",
        "burst=12",
        "server [::1]:8000 max_conns=8 weight=100",
    ] {
        assert!(nginx.contains(words), "{words}\n{nginx}");
    }
    assert!(text(Balancer::Gcloud).contains("ZONE_1=europe-west1-b"));
}

#[test]
fn nothing_known_is_said_in_words() {
    assert_eq!(Held::of(&Capacity::default()), None);
    let one = [backend("web", "127.0.0.1", None)];
    let refused = balancer_text(Balancer::Nginx, "experiment 9", None, &one).unwrap_err();
    assert!(refused.contains("nothing to set"), "{refused}");
    assert!(balancer_text(Balancer::Nginx, "x", Some(&held()), &[]).is_err());
    assert_eq!(
        Balancer::ALL.map(|one| Balancer::from_word(one.word())),
        Balancer::ALL.map(Some)
    );
}

#[test]
fn caps_of_peers_become_settings_with_their_margin() {
    runtime().block_on(async {
        let pages = Pages::new();
        let page = pages.get("/balancer").await;
        assert_eq!(page.status, StatusCode::OK);
        page.says(&["No peer with a cap"]);
        for record in [
            json!({"name": "web-a", "internal_address": "10.0.0.1", "internal_cap_bits_per_second": 2e9}),
            json!({"name": "web-b", "internal_address": "10.0.0.2", "vcpus": 4}),
            json!({"name": "db", "internal_address": "10.0.0.3"}),
        ] {
            pages.state.supervisor.register_peer(&record, "local").await.unwrap();
        }
        let page = pages.get("/balancer?reply_bytes=25000").await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.text);
        // 2 Gbit/s / (8 x 25 000) x 0.8, and four times that by 4 vCPUs.
        page.says(&["8\u{202f}000\u{a0}req/s", "32\u{202f}000\u{a0}req/s", "web-a, web-b"]);
        page.says(&["The margin", "/balancer/haproxy?"]);
        let haproxy = pages.get("/balancer/haproxy?reply_bytes=25000").await;
        haproxy.says(&["sc_http_req_rate(0) gt 400000", "weight 25 check", "weight 100 check"]);
        haproxy.says(&["# web-a-1: 8000 requests a second = 0.8 x 2000000000 bit/s", "Margin:"]);
        let nginx = pages.get("/balancer/nginx?peers=web-a&rate=5").await;
        nginx.says(&["rate=240r/m", "burst=4", "0.8 x 5, the rate that it is said to hold"]);
        let page = pages.get("/balancer?peers=db").await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
        page.says(&["Of db neither a cap nor its vCPUs are known"]);
        for bad in ["share=0", "share=101", "reply_bytes=x", "rate=-1", "peers=nobody"] {
            let page = pages.get(&format!("/balancer?{bad}")).await;
            assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{bad}");
        }
        let other = pages.get("/balancer/envoy?peers=web-a").await;
        assert_eq!(other.status, StatusCode::NOT_FOUND);
    });
}
