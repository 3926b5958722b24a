//! tracepath's line, both ways, and the lines that show the interfaces (`ifconfig`, `ip link`).

use super::options::Takes::{Nothing, Value};
use super::options::{Item, Spec, both, items};
use super::{Draft, Reading, ping};
use crate::measure::plan::PathPlan;

const OPTIONS: &[Spec] = &[
    both('4', "-4", Nothing),
    both('6', "-6", Nothing),
    both('b', "-b", Nothing),
    both('l', "-l", Value),
    both('m', "-m", Value),
    both('n', "-n", Nothing),
    both('p', "-p", Value),
    both('V', "-V", Nothing),
    both('h', "-h", Nothing),
];

pub(super) fn read(program: &str, arguments: &[String], mut draft: Draft) -> Reading {
    draft.set("kind", "path");
    let tool = super::base(program);
    if matches!(tool, "ifconfig" | "ip") {
        return read_interfaces(program, arguments, draft);
    }
    draft.understood(
        program,
        "the MTU of the interface and of the way to the host",
    );
    let mut hosts = Vec::new();
    let mut version = (tool == "tracepath6").then(|| (program.to_owned(), 6));
    for item in items("tracepath", arguments, OPTIONS) {
        match item {
            Item::Operand(word) => hosts.push(word),
            Item::Fault { text, sentence } => draft.problem(&text, sentence),
            Item::Option { name, text, .. } => match name {
                "-4" => version = Some((text, 4)),
                "-6" => version = Some((text, 6)),
                "-n" | "-b" => draft.ignored(&text, "the routers on the way are not listed"),
                "-m" => draft.ignored(&text, "the way is probed whole, not hop by hop"),
                "-l" => draft.ignored(&text, "sizes are tried up to the interface's MTU"),
                "-p" => draft.ignored(&text, "ICMP echoes are sent, which have no port"),
                _ => draft.problem(
                    &text,
                    "This line starts no test: it asks tracepath for its own text.",
                ),
            },
        }
    }
    match hosts.as_slice() {
        [host] => {
            draft.set("host", host.trim_matches(['[', ']']));
            draft.understood(host, "the other end");
        }
        [] => draft
            .problems
            .push("The host is missing: put it at the end of the line.".to_owned()),
        [_, more, ..] => draft.problem(more, "One path is probed: name one host."),
    }
    if let Some((text, version)) = version {
        ping::check_version(&mut draft, &text, version, hosts.first());
    }
    draft.finish()
}

/// `ifconfig`, `ip link`, `ip addr`: the interfaces are part of every path run, so the path to this machine itself.
fn read_interfaces(program: &str, arguments: &[String], mut draft: Draft) -> Reading {
    let is_ip = super::base(program) == "ip";
    let mut words = arguments.iter().map(String::as_str);
    let shows = if is_ip {
        let mut words = words.by_ref().filter(|word| !word.starts_with('-'));
        let object = words.next().unwrap_or_default();
        let verb = words.next().unwrap_or("show");
        let is_object = ["address", "link"]
            .iter()
            .any(|name| !object.is_empty() && name.starts_with(object));
        is_object && matches!(verb, "show" | "list" | "ls" | "s" | "l" | "sh")
    } else {
        let interfaces = words.filter(|word| !word.starts_with('-')).count();
        interfaces <= 1
    };
    if !shows {
        draft.word(program, "not understood", super::WordNote::NotUnderstood);
        return draft.refused(
            "Only what shows the interfaces is understood here: ifconfig, ip link or ip addr.",
        );
    }
    draft.set("host", "127.0.0.1");
    draft.understood(
        program,
        "every interface of this node with its MTU and addresses",
    );
    for word in arguments {
        draft.ignored(word, "all interfaces are shown");
    }
    draft.added(
        "no host",
        "the path to this node itself; tracepath HOST finds the MTU on the way to another",
    );
    draft.finish()
}

/// The tracepath line, and what it cannot say.
pub(super) fn write(plan: &PathPlan) -> (String, Vec<String>) {
    let host = shell_words::quote(&plan.host);
    let differs = plan
        .expect_mtu
        .map(|mtu| format!("tracepath expects no MTU; this plan expects {mtu} bytes."));
    (format!("tracepath {host}"), differs.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::{UNLIMITED, read, written};
    use super::*;
    use crate::measure::plan::Plan;
    use serde_json::json;

    fn plan_of(line: &str) -> Option<PathPlan> {
        match Plan::from_json(&read(line).plan?, &UNLIMITED) {
            Ok(Plan::Path(plan)) => Some(plan),
            _ => None,
        }
    }

    #[test]
    fn lines_are_read() {
        for (line, host) in [
            ("tracepath 10.0.0.2", "10.0.0.2"),
            ("tracepath -n -m 5 h", "h"),
            ("tracepath6 ::1", "::1"),
            ("tracepath -4 127.0.0.1", "127.0.0.1"),
            ("ifconfig | grep mtu", "127.0.0.1"),
            ("ifconfig eth0", "127.0.0.1"),
            ("ip link", "127.0.0.1"),
            ("ip -br addr show dev eth0", "127.0.0.1"),
        ] {
            let plan = plan_of(line).unwrap_or_else(|| panic!("{line}: {:?}", read(line).problems));
            assert_eq!(
                (plan.host.as_str(), plan.expect_mtu),
                (host, None),
                "{line}"
            );
        }
        for (line, words) in [
            ("tracepath", "host is missing"),
            ("tracepath a b", "name one host"),
            ("tracepath -6 127.0.0.1", "no IPv6 address"),
            ("ifconfig eth0 mtu 1460", "Only what shows"),
            ("ip route", "Only what shows"),
            ("ip link set eth0 down", "Only what shows"),
            ("ip", "Only what shows"),
        ] {
            let reading = read(line);
            assert!(
                reading.plan.is_none() && reading.problems.iter().any(|one| one.contains(words)),
                "{line}: {:?}",
                reading.problems
            );
        }
    }

    #[test]
    fn a_path_plan_has_a_line_unless_it_expects_something() {
        let plan = |fields| Plan::from_json(&fields, &UNLIMITED).unwrap();
        let line = written(&plan(json!({"kind": "path", "host": "h"})));
        assert_eq!((line.line.as_str(), line.exact), ("tracepath h", true));
        let plan = plan(json!({"kind": "path", "host": "h", "expect_mtu": 8896}));
        let written = written(&plan);
        assert!(!written.exact);
        assert_eq!(
            written.differs,
            ["tracepath expects no MTU; this plan expects 8896 bytes."]
        );
        assert_eq!(plan_of(&written.tidemark).map(Plan::Path), Some(plan));
    }
}
