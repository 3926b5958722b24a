//! Login: what a stranger meets, how a person comes in and leaves, and what each token may do.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::support::process::{Program, TempFolder, run_to_end};
use crate::support::raw::{Raw, Reply, exchange};

const TOKEN: &str = "5b0c2f6d9e8a47c1b3d2f1e0a9b8c7d6";
const LAUNCH: &str = "launch-0f6d9e8a47c1b3d2f1e0a9b8";
const VIEW: &str = "view-2f6d9e8a47c1b3d2f1e0a9b8c7";

fn program(more: &[&str]) -> Program {
    let tokens = [
        "--token",
        TOKEN,
        "--launch-token",
        LAUNCH,
        "--view-token",
        VIEW,
    ];
    Program::start(&[&tokens[..], more].concat())
}

/// One request on a connection of its own.
fn send(address: SocketAddr, line: &str, headers: &[&str], body: &str) -> Reply {
    let mut raw = Raw::connect(address);
    send_on(&mut raw, address, line, headers, body)
}

fn send_on(raw: &mut Raw, address: SocketAddr, line: &str, headers: &[&str], body: &str) -> Reply {
    let headers: String = headers
        .iter()
        .flat_map(|header| [*header, "\r\n"])
        .collect();
    let length = body.len();
    raw.send(format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    ));
    raw.reply()
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

fn get(address: SocketAddr, path: &str, token: &str) -> (u16, Value) {
    let reply = send(address, &format!("GET {path}"), &[&bearer(token)], "");
    (
        reply.status(),
        serde_json::from_str(&reply.body).unwrap_or_default(),
    )
}

fn post(address: SocketAddr, path: &str, token: &str, body: &Value) -> Reply {
    let headers = [&*bearer(token), "Content-Type: application/json"];
    send(
        address,
        &format!("POST {path}"),
        &headers,
        &body.to_string(),
    )
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded";

fn origin(address: SocketAddr) -> String {
    format!("Origin: http://{address}")
}

/// The link of the start.
fn code(program: &Program) -> String {
    let errors = program.errors();
    let (_, after) = errors
        .split_once("login?code=")
        .unwrap_or_else(|| panic!("no link: {errors}"));
    after.split_whitespace().next().unwrap().to_owned()
}

/// `name=value` of the cookie that a reply sets.
fn cookie(reply: &Reply) -> String {
    let set = reply.header("set-cookie").unwrap();
    set.split(';').next().unwrap().to_owned()
}

/// Every route, read from the routers' own text: methods and path, with something in the place of each parameter.
fn routes() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut routes = Vec::new();
    let pages = fs::read_to_string(root.join("dashboard/mod.rs")).unwrap();
    for route in pages.split(".route(").skip(1) {
        let Some(path) = route.split('"').nth(1).filter(|path| path.starts_with('/')) else {
            continue;
        };
        for (word, method) in [("get(", "GET"), ("post(", "POST")] {
            if route.contains(word) {
                routes.push((method.to_owned(), path.to_owned()));
            }
        }
    }
    let calls = fs::read_to_string(root.join("api/mod.rs")).unwrap();
    for call in calls.split("Call {\n").skip(1) {
        let value = |name: &str| {
            let (_, after) = call.split_once(name)?;
            after.split('"').nth(1).map(str::to_owned)
        };
        if let (Some(method), Some(path)) = (value("method:"), value("path:"))
            && path.starts_with('/')
        {
            routes.push((method, path));
        }
    }
    for (_, path) in &mut routes {
        while let Some((before, after)) = path.clone().split_once('{') {
            let (_, after) = after.split_once('}').unwrap();
            *path = format!("{before}1{after}");
        }
    }
    routes
}

#[test]
fn a_stranger_changes_nothing_and_sees_nothing_on_any_route() {
    let program = program(&[]);
    let address = program.dashboard();
    let before = post(
        address,
        "/api/peers",
        TOKEN,
        &json!({"name": "b", "internal_address": "127.0.0.2"}),
    );
    assert_eq!(before.status(), 201, "{before:?}");
    let routes = routes();
    assert!(routes.len() > 70, "{}", routes.len());
    for (method, path) in &routes {
        if matches!(path.as_str(), "/login" | "/logout" | "/theme") || path.starts_with("/static/")
        {
            continue;
        }
        for more in [
            vec![],
            vec!["Cookie: tidemark-8080=0123456789abcdef; tidemark-0=".to_owned()],
            vec![bearer(""), origin(address)],
        ] {
            let mut headers: Vec<&str> = more.iter().map(String::as_str).collect();
            headers.push(FORM);
            let reply = send(address, &format!("{method} {path}"), &headers, "");
            // A cookie without any sign of a browser's own page is turned away before that.
            let pass = match reply.status() {
                303 => reply.header("location").unwrap().starts_with("/login"),
                401 => reply.header("www-authenticate") == Some("Bearer realm=\"tidemark\""),
                // Ten wrong tokens are enough for a minute.
                429 => reply.header("retry-after").is_some(),
                _ => false,
            };
            assert!(pass, "{method} {path} {headers:?}: {reply:?}");
        }
    }
    // Another address has had no wrong tokens yet.
    let mut raw = from_address("127.0.0.2", address);
    let reply = send_on(&mut raw, address, "GET /api/runs", &[&bearer(TOKEN)], "");
    assert_eq!(reply.status(), 200, "{reply:?}");
    assert_eq!(
        serde_json::from_str::<Value>(&reply.body).unwrap()["runs"],
        json!([])
    );
    let reply = send_on(&mut raw, address, "GET /api/peers", &[&bearer(TOKEN)], "");
    assert!(reply.body.contains("\"name\":\"b\""), "{reply:?}");
}

/// A connection from this loopback address.
fn from_address(source: &str, to: SocketAddr) -> Raw {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let source: SocketAddr = format!("{source}:0").parse().unwrap();
    socket.bind(&source.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let raw = Raw(socket.into());
    raw.0
        .set_read_timeout(Some(std::time::Duration::from_secs(20)))
        .unwrap();
    raw
}

#[test]
fn the_link_logs_in_once_and_logout_ends_it() {
    let program = program(&[]);
    let address = program.dashboard();
    let code = code(&program);
    let home = send(address, "GET /runs?kind=rate", &[], "");
    assert_eq!(home.status(), 303);
    let location = home.header("location").unwrap();
    assert_eq!(location, "/login?next=%2Fruns%3Fkind%3Drate");
    let login = send(address, &format!("GET {location}"), &[], "");
    assert_eq!(login.status(), 200);
    assert!(
        login.body.contains("value=\"/runs?kind=rate\""),
        "{}",
        login.body
    );

    // An id that somebody else put there is not adopted.
    let set = "Cookie: tidemark=0000000000000000000000000000000000000000000000000000000000000000";
    let came = send(
        address,
        &format!("GET /login?code={code}&next=/peers"),
        &[set],
        "",
    );
    assert_eq!(
        (came.status(), came.header("location")),
        (303, Some("/peers"))
    );
    let attributes = came.header("set-cookie").unwrap().to_owned();
    for part in ["; Path=/", "; SameSite=Strict", "; HttpOnly"] {
        assert!(attributes.contains(part), "{attributes}");
    }
    assert!(!attributes.contains("Secure"), "{attributes}");
    let ours = cookie(&came);
    let (name, id) = ours.split_once('=').unwrap();
    assert_eq!(name, format!("tidemark-{}", address.port()));
    assert!(id.len() == 64 && !set.contains(id));

    let cookie = format!("Cookie: {ours}");
    let page = send(address, "GET /peers", &[&cookie], "");
    assert_eq!(page.status(), 200);
    assert!(page.body.contains("action=\"/logout\""));
    // The cookie alone is no proof that the page was ours.
    let forged = send(address, "POST /logout", &[&cookie, FORM], "");
    assert_eq!(forged.status(), 403);
    let evil = "Origin: http://evil.example";
    let forged = send(address, "POST /runs/new", &[&cookie, FORM, evil], "");
    assert_eq!(forged.status(), 403);
    assert_eq!(send(address, "GET /api/runs", &[&cookie], "").status(), 200);

    let again = send(address, &format!("GET /login?code={code}"), &[], "");
    assert_eq!(again.status(), 401);
    assert!(again.body.contains("has been used"), "{}", again.body);
    let out = send(
        address,
        "POST /logout",
        &[&cookie, FORM, &origin(address)],
        "",
    );
    assert_eq!(
        (out.status(), out.header("location")),
        (303, Some("/login"))
    );
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(send(address, "GET /peers", &[&cookie], "").status(), 303);
    assert_eq!(send(address, "GET /api/runs", &[&cookie], "").status(), 401);
}

#[test]
fn the_form_takes_tokens_and_ten_wrong_ones_a_minute() {
    let program = program(&["--public-url", "https://bench.example"]);
    let address = program.dashboard();
    let enter = |token: &str, next: &str| {
        let body = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("token", token)
            .append_pair("next", next)
            .finish();
        send(address, "POST /login", &[FORM, &origin(address)], &body)
    };
    for next in [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example/",
        "http:evil.example",
        "",
        "javascript:alert(1)",
        "\\\\evil.example",
        "/\tevil",
        "///evil.example",
        "login",
        "/login?next=/login",
        "/logout",
        "\u{2f}\u{2f}evil.example",
        "%2f%2fevil.example",
        ".evil.example",
        "@evil.example",
    ] {
        let reply = enter(TOKEN, next);
        assert_eq!(
            (reply.status(), reply.header("location")),
            (303, Some("/")),
            "{next:?}"
        );
        assert!(reply.header("set-cookie").unwrap().contains("; Secure"));
    }
    let reply = enter(&format!("{VIEW} "), "/runs?tag=a%20b");
    assert_eq!(reply.header("location"), Some("/runs?tag=a%20b"));

    let mut wrong = [0, 0];
    for number in 0..200 {
        let reply = enter(&format!("guess-{number}"), "/");
        match reply.status() {
            401 => wrong[0] += 1,
            429 => {
                assert!(reply.header("retry-after").is_some());
                wrong[1] += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(wrong, [10, 190]);
    assert_eq!(get(address, "/api/runs", TOKEN).0, 429);
    let mut other = from_address("127.0.0.3", address);
    let reply = send_on(&mut other, address, "GET /api/runs", &[&bearer(TOKEN)], "");
    assert_eq!(reply.status(), 200);
    // Nobody can pretend to be another address: this program trusts no proxy.
    let said = ["X-Forwarded-For: 192.0.2.7", &bearer(TOKEN)];
    assert_eq!(send(address, "GET /api/runs", &said, "").status(), 429);
}

#[test]
fn each_token_has_its_rights_and_what_it_did_is_known() {
    let program = program(&[]);
    let address = program.dashboard();
    let plan = json!({"plan": {"kind": "fetch", "url": format!("http://{}/health-check", program.workload())}});
    let peer = json!({"name": "b", "internal_address": "127.0.0.2"});
    let refused = post(address, "/api/runs", VIEW, &plan);
    assert_eq!(refused.status(), 403);
    assert!(refused.body.contains("may view"), "{refused:?}");
    assert_eq!(get(address, "/api/runs", VIEW).0, 200);
    assert_eq!(get(address, "/metrics", VIEW).0, 200);
    assert_eq!(get(address, "/audit", LAUNCH).0, 403);

    let made = post(address, "/api/runs", LAUNCH, &plan);
    assert_eq!(made.status(), 201, "{made:?}");
    assert_eq!(post(address, "/api/peers", LAUNCH, &peer).status(), 403);
    assert_eq!(
        send(address, "DELETE /api/runs/1", &[&bearer(LAUNCH)], "").status(),
        403
    );
    assert_eq!(post(address, "/api/peers", TOKEN, &peer).status(), 201);
    // The page says it in words.
    let page = send(
        address,
        "GET /audit",
        &[&bearer(VIEW), "Accept: text/html"],
        "",
    );
    assert!(
        page.status() == 403 && page.body.contains("admin"),
        "{page:?}"
    );
}

#[test]
fn a_dashboard_for_others_makes_its_own_token_and_keeps_it_to_itself() {
    let folder = TempFolder::new();
    let open = |more: &[&str]| {
        let flags = ["--dashboard", "0.0.0.0:0"];
        Program::start_in(folder.path(), &[&flags[..], more].concat())
    };
    let program = open(&[]);
    assert!(
        program.errors().contains("--public-url https://"),
        "{}",
        program.errors()
    );
    let file = folder.path().join("token");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let token = fs::read_to_string(&file).unwrap().trim().to_owned();
    assert_eq!(token.len(), 64);
    let address: SocketAddr = format!("127.0.0.1:{}", program.dashboard().port())
        .parse()
        .unwrap();
    let link = code(&program);
    assert_eq!(
        send(address, &format!("GET /login?code={link}"), &[], "").status(),
        303
    );
    assert_eq!(get(address, "/api/runs", &token).0, 200);
    assert_eq!(send(address, "GET /api/runs", &[], "").status(), 401);
    assert_eq!(send(address, "GET /healthz", &[], "").body, "ok");
    let (_, node) = get(address, "/api/node", &token);
    assert!(!node.to_string().contains(&token));

    // The token is in its file alone: not in the log, the notebook or the command line.
    let errors = program.errors();
    let line = fs::read(format!("/proc/{}/cmdline", program.pid())).unwrap();
    assert!(program.stop().success());
    let holds = |bytes: &[u8]| {
        bytes
            .windows(token.len())
            .any(|part| part == token.as_bytes())
    };
    assert!(!holds(errors.as_bytes()) && !holds(&line));
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path != file {
            assert!(!holds(&fs::read(&path).unwrap()), "{}", path.display());
        }
    }

    // The same one at the next start; and none that others can read.
    let program = open(&[]);
    let again: SocketAddr = format!("127.0.0.1:{}", program.dashboard().port())
        .parse()
        .unwrap();
    assert_eq!(get(again, "/api/runs", &token).0, 200);
    assert_ne!(code(&program), link);
    drop(program);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let data = folder.path().to_str().unwrap();
    let off = [
        "--workload",
        "off",
        "--receiver",
        "off",
        "--receiver3",
        "off",
    ];
    let flags = [
        &["serve", "--dashboard", "0.0.0.0:0", "--data", data][..],
        &off,
    ]
    .concat();
    let (status, _, errors) = run_to_end(&flags);
    assert!(status == 2 && errors.contains("chmod 600"), "{errors}");
}

#[test]
fn without_a_token_loopback_needs_no_login() {
    let program = Program::start(&[]);
    let address = program.dashboard();
    assert!(!program.errors().contains("login"), "{}", program.errors());
    let page = send(address, "GET /", &[], "");
    assert!(page.status() == 200 && !page.body.contains("/logout"));
    let login = send(address, "GET /login?next=/runs", &[], "");
    assert_eq!(
        (login.status(), login.header("location")),
        (303, Some("/runs"))
    );
    assert!(!program.data().join("token").exists());
}

#[test]
fn whoever_changes_something_stands_in_the_audit_log() {
    let program = program(&[]);
    let address = program.dashboard();
    let link = code(&program);
    let came = send(address, &format!("GET /login?code={link}"), &[], "");
    assert_eq!(came.status(), 303);
    let url = format!("http://{}/health-check", program.workload());
    let plan = json!({"plan": {"kind": "fetch", "url": url}});
    assert_eq!(post(address, "/api/runs", LAUNCH, &plan).status(), 201);
    let far = json!({"plan": {"kind": "fetch", "url": "http://192.0.2.7/"}});
    assert_eq!(post(address, "/api/runs", LAUNCH, &far).status(), 422);
    assert_eq!(post(address, "/api/runs", VIEW, &plan).status(), 403);
    assert_eq!(post(address, "/api/runs", "wrong", &plan).status(), 401);
    let peer = json!({"name": "=b", "internal_address": "127.0.0.2"});
    assert_eq!(post(address, "/api/peers", TOKEN, &peer).status(), 201);
    // Reading leaves no trace.
    assert_eq!(get(address, "/api/runs", VIEW).0, 200);

    let log = exchange(
        address,
        format!(
            "GET /audit.csv HTTP/1.1\r\nHost: {address}\r\n{}\r\nConnection: close\r\n\r\n",
            bearer(TOKEN)
        ),
    );
    let (head, body) = log.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("filename=\"tidemark-audit.csv\""), "{head}");
    let expected = [
        "admin,127.0.0.1,register peer,=b (127.0.0.2),201".to_owned(),
        "nobody,127.0.0.1,start run,,401".to_owned(),
        "view,127.0.0.1,start run,,403".to_owned(),
        "launch,127.0.0.1,start run,http://192.0.2.7/,422".to_owned(),
        format!("launch,127.0.0.1,start run 1,{url},201"),
        "nobody,127.0.0.1,log in,as admin,303".to_owned(),
    ];
    let rows: Vec<&str> = body
        .lines()
        .filter(|line| line.contains("127.0.0.1"))
        .collect();
    assert_eq!(rows.len(), expected.len(), "{body}");
    for (row, expected) in rows.iter().zip(&expected) {
        // A text that a spreadsheet would run begins with an apostrophe.
        let row = row.replace("'=b", "=b");
        assert!(row.contains(expected.as_str()), "{row}: {expected}");
    }
    let page = send(address, "GET /audit", &[&bearer(TOKEN)], "");
    for words in ["start run 1", "not allowed", "192.0.2.7", "register peer"] {
        assert!(page.body.contains(words), "{words}: {}", page.body);
    }
    let page = send(address, "GET /audit?before=2", &[&bearer(TOKEN)], "");
    assert!(page.body.contains("log in") && !page.body.contains("start run"));
}
