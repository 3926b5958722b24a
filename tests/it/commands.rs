//! The commands page: fields in, commands for the cloud and their clean-up list out.

use std::process::Command;

use axum::http::StatusCode;

use crate::support::pages::Pages;
use crate::support::process::TempFolder;

fn run<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

#[test]
fn the_page_writes_both_lists_from_its_fields() {
    run(async {
        let pages = Pages::new();
        let page = pages.get("/commands").await;
        assert_eq!(page.status, StatusCode::OK);
        page.says(&[
            "13 resources",
            "Write the commands",
            "create.sh",
            "delete.sh",
        ]);
        let page = pages
            .get("/commands?prefix=sea&regions=europe-west1&max_rate=6.6&machine_type=n1-highcpu-4")
            .await;
        page.says(&[
            "sea-group-europe-west1",
            "--max-rate-per-instance=6.6",
            "--machine-type=n1-highcpu-4",
            "backend-services delete sea-backend --global --quiet",
            "/commands/delete.sh?",
        ]);
        assert!(!page.text.contains("us-central1"), "the form's word counts");
        let page = pages.get("/commands?lab=peers&machines=2&mtu=8896").await;
        page.says(&["tidemark-net", "tidemark-vm-2", "--mtu=8896"]);
    });
}

#[test]
fn a_bad_field_is_refused_at_its_place_and_nothing_is_written() {
    run(async {
        let pages = Pages::new();
        let page = pages.get("/commands?prefix=Sea%3Brm&from=0.0.0.0/0").await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
        page.says(&[
            "2 things need",
            "lower-case letters",
            "large part of the world",
            "Sea;rm",
        ]);
        assert!(!page.text.contains("gcloud compute networks create"));
        let file = pages.get("/commands/create.sh?prefix=Sea").await;
        assert!(!file.status.is_success());
        assert_eq!(
            pages.get("/commands/other.sh").await.status,
            StatusCode::NOT_FOUND
        );
    });
}

#[test]
fn a_shell_takes_both_lists() {
    run(async {
        let pages = Pages::new();
        let folder = TempFolder::new();
        let built = folder.path().join("target/release");
        std::fs::create_dir_all(&built).unwrap();
        std::fs::write(built.join("tidemark"), "the binary").unwrap();
        for lab in ["balanced", "peers"] {
            let mut named: Vec<Vec<String>> = Vec::new();
            for file in ["create.sh", "delete.sh"] {
                let answer = pages.get(&format!("/commands/{file}?lab={lab}")).await;
                assert_eq!(answer.status, StatusCode::OK);
                assert!(answer.header("content-disposition").contains(file));
                // With a gcloud that says what it was given, and is asked for addresses.
                let fake = "gcloud() { echo \"$*\" >&2; case \"$*\" in *natIP*) printf '192.0.2.1\\n192.0.2.2\\n';; esac; }";
                let output = Command::new("bash")
                    .arg("-c")
                    .arg(format!("{fake}\n{}", answer.text))
                    .current_dir(folder.path())
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{output:?}");
                let said = String::from_utf8(output.stderr).unwrap();
                assert!(
                    said.lines().all(|line| line.starts_with("compute ")),
                    "{said}"
                );
                if file == "create.sh" {
                    let hex = said.split("tidemark-sha256=").nth(1).unwrap_or_default();
                    let hex: String = hex.chars().take_while(char::is_ascii_hexdigit).collect();
                    assert_eq!(hex.len(), 64, "{said}");
                    if lab == "peers" {
                        assert!(
                            said.contains("--source-ranges=192.0.2.1,192.0.2.2"),
                            "{said}"
                        );
                    }
                }
                let verb = if file == "create.sh" {
                    " create "
                } else {
                    " delete "
                };
                named.push(
                    said.lines()
                        .filter(|line| line.contains(verb))
                        .filter_map(|line| {
                            line.split_whitespace()
                                .find(|word| word.starts_with("tidemark-"))
                        })
                        .map(str::to_owned)
                        .collect(),
                );
            }
            named[1].reverse();
            assert!(named[0].len() >= 7);
            assert_eq!(named[0], named[1], "{lab}");
        }
    });
}
