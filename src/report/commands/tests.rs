//! The lists agree with each other and with the startup script, and bad fields are refused.

use std::collections::BTreeMap;

use super::{LONGEST_NAME, Wanted};

fn values(changes: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, String> = [
        ("lab", "balanced"),
        ("prefix", "tide"),
        ("project", "tide-lab-1"),
        ("zone", "europe-west1-b"),
        ("regions", "europe-west1 us-central1"),
        ("machine_type", "e2-standard-2"),
        ("machines", "3"),
        ("max_rate", "4.5"),
        ("mtu", "8896"),
        ("from", "203.0.113.7/32"),
        ("binary", "https://storage.googleapis.com/tide/tidemark"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    for (name, value) in changes {
        values.insert((*name).to_owned(), (*value).to_owned());
    }
    values
}

fn wanted(changes: &[(&str, &str)]) -> Wanted {
    Wanted::read(&values(changes)).unwrap_or_else(|faults| panic!("{changes:?}: {faults:?}"))
}

/// The commands of a list, each in one line of words.
fn lines(text: &str) -> Vec<Vec<String>> {
    text.replace(" \\\n", " ")
        .lines()
        .filter(|line| line.starts_with("gcloud compute "))
        .map(|line| line.split_whitespace().skip(2).map(str::to_owned).collect())
        .collect()
}

/// What a command is about: kind, name and where it lives.
fn about(words: &[String], verb: &str) -> Option<(String, String, Option<String>)> {
    let at = words.iter().position(|word| word == verb)?;
    let name = words[at + 1..]
        .iter()
        .find(|word| word.contains("tide") && !word.starts_with('-'))?;
    let scope = words.iter().find(|word| {
        *word == "--global" || word.starts_with("--region=") || word.starts_with("--zone=")
    });
    Some((words[..at].join(" "), name.clone(), scope.cloned()))
}

#[test]
fn every_resource_is_removed_in_the_opposite_order_where_it_was_made() {
    for (lab, expected) in [("balanced", 13), ("peers", 7)] {
        let commands = wanted(&[("lab", lab)]).commands();
        let made: Vec<_> = lines(&commands.create)
            .iter()
            .filter_map(|words| about(words, "create"))
            .collect();
        let mut removed: Vec<_> = lines(&commands.delete)
            .iter()
            .filter_map(|words| about(words, "delete"))
            .collect();
        removed.reverse();
        assert_eq!(made, removed, "{lab}");
        assert_eq!(
            (made.len(), commands.resources),
            (expected, expected),
            "{lab}"
        );
        for words in lines(&commands.create)
            .iter()
            .chain(&lines(&commands.delete))
        {
            assert!(
                words.contains(&"--project=tide-lab-1".to_owned()),
                "{words:?}"
            );
        }
    }
}

#[test]
fn nothing_is_named_before_it_is_made() {
    for lab in ["balanced", "peers"] {
        let text = wanted(&[("lab", lab)]).commands().create;
        let mut known: Vec<String> = Vec::new();
        for words in lines(&text) {
            for flag in [
                "--network=",
                "--template=",
                "--health-check=",
                "--health-checks=",
                "--instance-group=",
                "--default-service=",
                "--url-map=",
                "--target-http-proxy=",
                "--network-interface=network=",
            ] {
                for word in &words {
                    let Some(name) = word.strip_prefix(flag) else {
                        continue;
                    };
                    let name = name.split(',').next().unwrap_or_default().to_owned();
                    assert!(known.contains(&name), "{lab}: {word} before it is made");
                }
            }
            if let Some((_, name, _)) = about(&words, "create") {
                known.push(name);
            }
        }
        // Every rule with a tag is for machines that carry it.
        for words in lines(&text) {
            for tag in words
                .iter()
                .filter_map(|word| word.strip_prefix("--target-tags="))
            {
                assert!(text.contains(&format!("--tags={tag}")), "{tag}");
            }
        }
    }
}

#[test]
fn the_figures_of_the_form_stand_in_the_commands() {
    let text = wanted(&[]).commands().create;
    for words in [
        "backend-services add-backend tide-backend",
        "--max-rate-per-instance=4.5",
        "--instance-group=tide-group-us-central1",
        "--instance-group-region=us-central1",
        "--size=3",
        "--request-path=/health-check",
        "tidemark-role=workload",
        "--machine-type=e2-standard-2",
        "a region 13.5",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let text = wanted(&[("lab", "peers"), ("tier_1", "on"), ("project", "")])
        .commands()
        .create;
    for words in [
        "instances create tide-vm-3",
        "--mtu=8896",
        "total-egress-bandwidth-tier=TIER_1",
        "tcp:5001,udp:5001",
        "tidemark-role=throughput",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("--project"), "{text}");
}

#[test]
fn the_startup_script_knows_what_the_commands_tell_it() {
    let script = include_str!("../../../deploy/gcloud/startup.sh");
    for lab in ["balanced", "peers"] {
        let text = wanted(&[("lab", lab)]).commands().create;
        for pair in text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("--metadata="))
        {
            for (key, value) in pair.split(',').filter_map(|pair| pair.split_once('=')) {
                assert!(script.contains(&format!("attribute {key}")), "{key}");
                let value = value.trim_end_matches(" \\");
                if key == "tidemark-role" {
                    let case = [format!("|{value})"), format!("  {value})")];
                    assert!(case.iter().any(|case| script.contains(case)), "{value}");
                }
            }
        }
    }
    assert!(script.contains("--workload 0.0.0.0:8000"));
    assert!(script.contains("$address:5001") && script.contains("$address:5201"));
}

#[test]
fn no_name_is_longer_than_the_cloud_takes() {
    let long = |length: usize| "tide".to_owned() + &"x".repeat(length - 4);
    for (lab, suffix) in [
        ("balanced", "-group-europe-west1"),
        ("peers", "-allow-outside"),
    ] {
        let most = LONGEST_NAME - suffix.len();
        let fits = wanted(&[("lab", lab), ("prefix", &long(most))]).commands();
        let names: Vec<usize> = lines(&fits.delete)
            .iter()
            .filter_map(|words| about(words, "delete"))
            .map(|(_, name, _)| name.len())
            .collect();
        assert_eq!(names.iter().max(), Some(&LONGEST_NAME), "{lab}");
        let faults = Wanted::read(&values(&[("lab", lab), ("prefix", &long(most + 1))]));
        let faults = faults.unwrap_err();
        assert_eq!(faults.len(), 1);
        assert!(
            faults[0].0 == "prefix" && faults[0].1.contains(&format!("shorten it to {most}")),
            "{faults:?}"
        );
    }
}

#[test]
fn a_field_that_cannot_be_used_is_refused_with_a_sentence() {
    for (name, bad) in [
        ("lab", "all"),
        ("prefix", ""),
        ("prefix", "Tide"),
        ("prefix", "tide-"),
        ("prefix", "tide;rm -rf"),
        ("project", "short"),
        ("project", "$(id)aaaa"),
        ("zone", "europe-west1"),
        ("zone", "europe-west1-bb"),
        ("regions", ""),
        ("regions", "europe-west1-b"),
        ("regions", "europe-west1 europe-west1"),
        ("regions", "`id`"),
        ("machine_type", "e2 standard"),
        ("machines", "0"),
        ("machines", "three"),
        ("max_rate", "0"),
        ("max_rate", "NaN"),
        ("from", "0.0.0.0/0"),
        ("from", "203.0.113.7"),
        ("from", "203.0.113.7/33"),
        ("from", "203.0.113.7/+8"),
        ("binary", "http://storage.example/tidemark"),
        ("binary", "https://a/b;id"),
        ("binary", "https://a/b,tidemark-role=x"),
    ] {
        let faults = Wanted::read(&values(&[(name, bad)])).unwrap_err();
        assert_eq!(faults.len(), 1, "{name}={bad}: {faults:?}");
        assert_eq!(faults[0].0, name, "{bad}");
        assert!(faults[0].1.ends_with('.'), "{faults:?}");
    }
    for (name, bad) in [("mtu", "9000"), ("machines", "1")] {
        let faults = Wanted::read(&values(&[("lab", "peers"), (name, bad)])).unwrap_err();
        assert_eq!(faults[0].0, name, "{faults:?}");
    }
    // What a lab does not use is not asked of it.
    assert!(
        Wanted::read(&values(&[
            ("lab", "peers"),
            ("regions", ""),
            ("max_rate", "")
        ]))
        .is_ok()
    );
}
