//! The rules of the house that a compiler does not check.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `folder` whose name ends in `end`, with its path from the root and its text.
fn files(folder: &str, end: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(end) {
                let text = fs::read_to_string(&path).unwrap();
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((name, text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no {end} below {folder}");
    found
}

/// The files that git tracks (or would), for checks over everything that is published.
fn published() -> Vec<PathBuf> {
    let listing = std::process::Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ])
        .current_dir(root())
        .output();
    match listing {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout)
            .unwrap()
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(|name| root().join(name))
            .filter(|path| path.is_file())
            .collect(),
        _ => ["src", "tests", "docs", "templates", "static", "scripts"]
            .iter()
            .flat_map(|folder| files(folder, ""))
            .map(|(name, _)| root().join(name))
            .collect(),
    }
}

/// The part of a source file that is not tests.
fn without_tests(text: &str) -> &str {
    text.find("\n#[cfg(test)]\nmod tests")
        .map_or(text, |at| &text[..at])
}

/// Lines of code without comments, so that prose may name anything.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(index, line)| (index + 1, line))
}

/// The rooms and what each may import, from the table in `ARCHITECTURE.md`.
fn import_table() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let words = |cell: &str| -> Vec<String> {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    let table: BTreeMap<_, _> = text
        .lines()
        .skip_while(|line| !line.starts_with("| room | may import |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .flat_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
            let allowed: BTreeSet<String> = words(cells[1]).into_iter().collect();
            words(cells[0])
                .into_iter()
                .map(move |room| (room, allowed.clone()))
        })
        .collect();
    assert!(table.len() >= 10, "the import table was not found");
    table
}

/// The paths that begin with what follows `crate::`: one, or one for each name in braces.
fn imported(rest: &str) -> Vec<String> {
    let path: String = rest
        .chars()
        .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':'))
        .collect();
    let Some(group) = rest[path.len()..].strip_prefix('{') else {
        return vec![path];
    };
    group
        .split('}')
        .next()
        .unwrap_or_default()
        .split(',')
        .map(|name| format!("{path}{}", name.trim()))
        .collect()
}

#[test]
fn rooms_import_only_what_the_architecture_allows() {
    let table = import_table();
    let mut wrong = Vec::new();
    for (name, text) in files("src", ".rs") {
        let room = name
            .trim_start_matches("src/")
            .split('/')
            .next()
            .unwrap()
            .trim_end_matches(".rs")
            .to_owned();
        if matches!(room.as_str(), "lib" | "main") {
            continue;
        }
        let Some(allowed) = table.get(&room) else {
            wrong.push(format!("{name}: the room `{room}` is not in the table"));
            continue;
        };
        if allowed.contains("*") {
            continue;
        }
        for (line, code) in code_lines(without_tests(&text)) {
            for path in code.split("crate::").skip(1).flat_map(imported) {
                let other = path.split("::").next().unwrap_or_default();
                if other == room || other.is_empty() || !table.contains_key(other) {
                    continue;
                }
                let fine = allowed
                    .iter()
                    .any(|entry| path == *entry || path.starts_with(&format!("{entry}::")));
                if !fine {
                    wrong.push(format!("{name}:{line}: `{room}` must not import `{path}`"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_net_reads_a_clock_or_opens_client_sockets() {
    let clocks = [
        "Instant::now",
        "SystemTime::now",
        "Timestamp::now",
        "Zoned::now",
        "UNIX_EPOCH",
    ];
    let sockets = [
        "TcpStream::connect",
        "UdpSocket::bind",
        "to_socket_addrs",
        "lookup_host",
    ];
    let mut wrong = Vec::new();
    for (name, text) in files("src", ".rs") {
        if name.starts_with("src/net/") {
            continue;
        }
        for (line, code) in code_lines(without_tests(&text)) {
            for word in clocks.iter().chain(&sockets) {
                if code.contains(word) {
                    wrong.push(format!("{name}:{line}: {word}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_rooms_know_no_runtime_and_no_files() {
    let banned = [
        "tokio",
        "std::fs",
        "std::thread",
        "rusqlite",
        "axum",
        "tracing::",
        "std::env",
    ];
    let mut wrong = Vec::new();
    for room in ["src/measure", "src/wire", "src/report", "src/chart"] {
        for (name, text) in files(room, ".rs") {
            for (line, code) in code_lines(without_tests(&text)) {
                for word in banned {
                    if code.contains(word) {
                        wrong.push(format!("{name}:{line}: {word}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_stays_in_one_room_and_says_why() {
    let mut wrong = Vec::new();
    for (name, text) in files("src", ".rs") {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = line.trim_start();
            if code.starts_with("//") || !code.contains("unsafe ") {
                continue;
            }
            let reasoned = lines[index.saturating_sub(4)..index]
                .iter()
                .any(|above| above.contains("SAFETY:"));
            if !name.starts_with("src/net/sys") || !reasoned {
                wrong.push(format!("{name}:{}: {code}", index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_hold_one_subject() {
    let long: Vec<String> = files("src", ".rs")
        .into_iter()
        .filter(|(name, _)| !name.ends_with("/tests.rs"))
        .map(|(name, text)| (without_tests(&text).lines().count(), name))
        .filter(|(lines, _)| *lines > 600)
        .map(|(lines, name)| format!("{name}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn every_source_file_says_its_subject_first() {
    let silent: Vec<String> = files("src", ".rs")
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(name, _)| name)
        .collect();
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

#[test]
fn nothing_is_left_unfinished_or_ignored() {
    let mut wrong = Vec::new();
    for folder in ["src", "templates", "tests", "static"] {
        for (name, text) in files(folder, "") {
            if name.ends_with("tidy.rs") {
                continue;
            }
            for (index, line) in text.lines().enumerate() {
                let lower = line.to_lowercase();
                let words = [
                    "todo!",
                    "unimplemented!",
                    "coming soon",
                    "fixme",
                    "#[ignore",
                    "not yet implemented",
                ];
                if words.iter().any(|word| lower.contains(word)) {
                    wrong.push(format!("{name}:{}: {line}", index + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn templates_carry_no_inline_style_or_script_and_trust_one_type() {
    let mut wrong = Vec::new();
    let mut safe = 0;
    for (name, text) in files("templates", ".html") {
        safe += text.matches("|safe").count() + text.matches("| safe").count();
        for (index, line) in text.lines().enumerate() {
            let handler = line
                .split_whitespace()
                .any(|word| word.starts_with("on") && word.contains("=\""));
            // The stand-alone report carries its style sheet with it.
            let styled =
                line.contains("style=") || line.contains("<style") && !name.contains("report");
            if handler || styled || line.contains("javascript:") {
                wrong.push(format!("{name}:{}: {line}", index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(safe <= 1, "`|safe` stands {safe} times; once is enough");
}

#[test]
fn migrations_are_numbered_without_gaps() {
    for (index, (name, _)) in files("migrations", ".sql").iter().enumerate() {
        let expected = format!("migrations/{:04}_", index + 1);
        assert!(name.starts_with(&expected), "{name}: expected {expected}…");
    }
}

#[test]
fn published_files_name_no_machine_and_no_registry() {
    // Put together here, so that this file does not hold them either.
    let banned = [
        ["/wo", "rk/"].concat(),
        ["/ro", "ot/"].concat(),
        ["/home/", "u"].concat(),
        ["crates", ".io"].concat(),
        ["pypi", ".org"].concat(),
        ["deb.debian", ".org"].concat(),
    ];
    let mut wrong = Vec::new();
    for path in published() {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        if matches!(name.as_str(), "Cargo.lock" | "LICENSE" | "deny.toml") {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for (index, line) in text.lines().enumerate() {
            if let Some(word) = banned.iter().find(|word| line.contains(word.as_str())) {
                wrong.push(format!("{name}:{}: {word}", index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for path in published() {
        if path.extension().is_none_or(|end| end != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1) {
            let target = link.split(')').next().unwrap_or_default();
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            if !path.parent().unwrap().join(file).exists() {
                wrong.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn scripts_can_be_run() {
    use std::os::unix::fs::PermissionsExt;
    for (name, text) in files("scripts", ".sh") {
        let mode = fs::metadata(root().join(&name))
            .unwrap()
            .permissions()
            .mode();
        assert!(mode & 0o111 != 0, "{name} is not executable");
        assert!(text.starts_with("#!/usr/bin/env bash"), "{name}");
    }
}

/// `cargo metadata` of this package, offline and locked.
fn metadata() -> serde_json::Value {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        // Crates of other systems need not be here.
        .args([
            "--filter-platform",
            &format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_direct_crate_has_its_reason_and_every_crate_its_licence() {
    let data = metadata();
    let decisions: String = files("docs/decisions", ".md")
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    let packages = data["packages"].as_array().unwrap();
    let own = packages
        .iter()
        .find(|package| package["name"] == "tidemark")
        .unwrap();
    for dependency in own["dependencies"].as_array().unwrap() {
        let name = dependency["name"].as_str().unwrap();
        assert!(
            decisions.contains(&format!("`{name}`")),
            "{name} has no line in docs/decisions/"
        );
    }

    let allowed = fs::read_to_string(root().join("deny.toml")).unwrap();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none stated");
        let fits = licence
            .split(" OR ")
            .flat_map(|part| part.split('/'))
            .any(|choice| {
                choice
                    .trim_matches(|c| matches!(c, '(' | ')' | ' '))
                    .split(" AND ")
                    .all(|word| {
                        let word = word.trim_matches(|c| matches!(c, '(' | ')' | ' '));
                        allowed.contains(&format!("\"{word}\""))
                    })
            });
        if !fits {
            wrong.push(format!("{name}: licence {licence}"));
        }
        let source = package["source"].as_str();
        if source.is_some_and(|source| !source.starts_with("registry+")) {
            wrong.push(format!("{name}: source {source:?}"));
        }
        if matches!(name, "openssl" | "openssl-sys" | "native-tls" | "h2") {
            wrong.push(format!("{name} is banned"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        packages.len() <= 260,
        "{} crates: each one is something to keep an eye on",
        packages.len()
    );
}

#[test]
fn quantities_in_csv_headers_carry_their_unit() {
    // Counts, names and shares of text need none; everything that is a quantity does.
    let bare = [
        "latency",
        "duration",
        "lateness",
        "bytes_sent",
        "rate",
        "rtt",
        "size",
        "throughput",
        "elapsed",
    ];
    let mut wrong = Vec::new();
    for (name, text) in files("src/report", ".rs") {
        // The JSON of siege and of iperf 3 has their own keys, and what is imported those of the JSON API.
        let keys = name.ends_with("/siege.rs") || name.ends_with("/iperf3_json.rs");
        if keys || name.contains("/import/") {
            continue;
        }
        for (line, code) in code_lines(without_tests(&text)) {
            for word in code.split('"').skip(1).step_by(2) {
                if bare.contains(&word) {
                    wrong.push(format!("{name}:{line}: the column `{word}` has no unit"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
