//! The kits for deployment: what they say to the program is what it understands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::process::TempFolder;
use crate::support::skip;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidemark");

fn kit(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy")
        .join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end != "md"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

/// The words of a text that begin so, to the first character that belongs to no flag or variable.
fn words<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    text.match_indices(start)
        .filter(|(at, _)| {
            !text[..*at].ends_with(|before: char| before.is_alphanumeric() || before == '-')
        })
        .map(|(at, _)| {
            let word = &text[at..];
            let end = word
                .find(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'))
                .unwrap_or(word.len());
            &word[..end]
        })
        .collect()
}

fn help() -> String {
    let output = Command::new(PROGRAM)
        .args(["serve", "--help"])
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_flag_and_variable_of_the_kits_is_known_to_the_program() {
    let help = help();
    let known_flags = words(&help, "--");
    let known_variables = words(&help, "TIDEMARK_");
    let mut seen = 0;
    for path in ["systemd", "kubernetes", "gcloud"]
        .into_iter()
        .flat_map(kit)
    {
        let text = fs::read_to_string(&path).unwrap();
        let said = text.lines().filter(|line| !line.starts_with('#'));
        for line in said {
            for variable in words(line, "TIDEMARK_") {
                assert!(
                    known_variables.contains(&variable),
                    "{}: {variable}",
                    path.display()
                );
                seen += 1;
            }
            let Some((_, ours)) = ["tidemark serve ", "args: [serve", "listen="]
                .iter()
                .find_map(|start| line.split_once(start))
            else {
                continue;
            };
            for flag in words(ours, "--") {
                assert!(known_flags.contains(&flag), "{}: {flag}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "only {seen} flags and variables were found");
}

#[test]
fn the_startup_script_is_good_shell() {
    for script in kit("gcloud") {
        let checked = Command::new("bash").arg("-n").arg(&script).status();
        assert!(checked.unwrap().success(), "{}", script.display());
    }
}

#[test]
fn systemd_accepts_the_units() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        skip("systemd-analyze is not installed");
        return;
    }
    let folder = TempFolder::new();
    for unit in kit("systemd") {
        let text = fs::read_to_string(&unit).unwrap();
        let at = folder.path().join(unit.file_name().unwrap());
        fs::write(&at, text.replace("/usr/local/bin/tidemark", PROGRAM)).unwrap();
        let verified = Command::new("systemd-analyze")
            .arg("verify")
            .arg("--man=no")
            .arg(&at)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&verified.stderr);
        let about_it: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("tidemark"))
            .collect();
        assert!(
            verified.status.success() && about_it.is_empty(),
            "{}: {said}",
            unit.display()
        );
    }
}
