//! ping's line (iputils), both ways.

use std::net::IpAddr;

use super::options::Takes::{Nothing, Value};
use super::options::{Item, Spec, both, items};
use super::{Draft, Reading, number, push_option};
use crate::measure::plan::PingPlan;
use crate::measure::plan::ping::PingMethod;

const OPTIONS: &[Spec] = &[
    both('a', "-a", Nothing),
    both('A', "-A", Nothing),
    both('b', "-b", Nothing),
    both('B', "-B", Nothing),
    both('c', "-c", Value),
    both('C', "-C", Nothing),
    both('D', "-D", Nothing),
    both('d', "-d", Nothing),
    both('e', "-e", Value),
    both('f', "-f", Nothing),
    both('F', "-F", Value),
    both('h', "-h", Nothing),
    both('H', "-H", Nothing),
    both('I', "-I", Value),
    both('i', "-i", Value),
    both('L', "-L", Nothing),
    both('l', "-l", Value),
    both('m', "-m", Value),
    both('M', "-M", Value),
    both('n', "-n", Nothing),
    both('N', "-N", Value),
    both('O', "-O", Nothing),
    both('p', "-p", Value),
    both('q', "-q", Nothing),
    both('Q', "-Q", Value),
    both('r', "-r", Nothing),
    both('R', "-R", Nothing),
    both('s', "-s", Value),
    both('S', "-S", Value),
    both('t', "-t", Value),
    both('T', "-T", Value),
    both('U', "-U", Nothing),
    both('v', "-v", Nothing),
    both('V', "-V", Nothing),
    both('w', "-w", Value),
    both('W', "-W", Value),
    both('4', "-4", Nothing),
    both('6', "-6", Nothing),
];

/// What the options add up to.
#[derive(Default)]
struct Asked {
    hosts: Vec<String>,
    count: bool,
    /// The option that asks for IPv4 or IPv6, with which.
    version: Option<(String, u8)>,
    deadline: Option<(String, f64)>,
}

pub(super) fn read(program: &str, arguments: &[String], mut draft: Draft) -> Reading {
    draft.set("kind", "ping");
    draft.understood(program, "round trips of ICMP echoes");
    let mut asked = Asked::default();
    if super::base(program) == "ping6" {
        asked.version = Some((program.to_owned(), 6));
    }
    for item in items("ping", arguments, OPTIONS) {
        match item {
            Item::Option { name, text, value } => asked.take(&mut draft, name, &text, &value),
            Item::Operand(word) => asked.hosts.push(word),
            Item::Fault { text, sentence } => draft.problem(&text, sentence),
        }
    }
    asked.finish(&mut draft);
    draft.finish()
}

impl Asked {
    fn take(&mut self, draft: &mut Draft, name: &str, text: &str, value: &str) {
        match name {
            "-c" => {
                self.count = true;
                if let Some(count) = draft.count(text, value) {
                    draft.set("count", count);
                    draft.understood(
                        text,
                        format!("{count} probes; lost ones are not sent again"),
                    );
                }
            }
            "-i" => {
                if let Some(seconds) = draft.number(text, value) {
                    draft.set("interval_s", seconds);
                    draft.understood(text, format!("a probe every {seconds} s"));
                }
            }
            "-s" => {
                if let Some(bytes) = draft.count(text, value) {
                    draft.set("size_bytes", bytes);
                    draft.understood(text, format!("{bytes} bytes of data in a probe"));
                }
            }
            "-W" => {
                if let Some(seconds) = draft.number(text, value) {
                    draft.set("timeout_s", seconds);
                    draft.understood(text, format!("an answer after {seconds} s counts as lost"));
                }
            }
            "-w" => {
                if let Some(seconds) = draft.number(text, value) {
                    self.deadline = Some((text.to_owned(), seconds));
                }
            }
            "-q" => {
                draft.output.quiet = true;
                draft.understood(text, "prints the summary alone");
            }
            "-4" | "-6" => {
                self.version = Some((text.to_owned(), if name == "-4" { 4 } else { 6 }));
            }
            _ => take_others(draft, name, text, value),
        }
    }

    fn finish(self, draft: &mut Draft) {
        match self.hosts.as_slice() {
            [] => draft
                .problems
                .push("The host is missing: put it at the end of the line.".to_owned()),
            [host] => {
                draft.set("host", host.trim_matches(['[', ']']));
                draft.understood(host, "the host to probe");
            }
            [_, more, ..] => draft.problem(
                more,
                "One host is probed: leave the others out (a route through several hosts is not supported).",
            ),
        }
        if let Some((text, version)) = &self.version {
            check_version(draft, text, *version, self.hosts.first());
        }
        if let Some((text, seconds)) = self.deadline {
            bound_by_time(draft, &text, seconds, self.count);
        } else if !self.count {
            draft.problems.push(
                "Without -c this would never end: add -c 5 (probes), or -w 5 (seconds).".to_owned(),
            );
        }
        if !draft.plan.contains_key("interval_s") {
            draft.added("no -i", "a probe every second");
        }
        if !draft.plan.contains_key("timeout_s") {
            draft.added("no -W", "an answer after 1 s counts as lost");
        }
        if !draft.plan.contains_key("size_bytes") {
            draft.added("no -s", "56 bytes of data in a probe");
        }
    }
}

/// `-w`: as many probes as are sent in this time.
fn bound_by_time(draft: &mut Draft, text: &str, seconds: f64, counted: bool) {
    let interval = draft
        .plan
        .get("interval_s")
        .and_then(serde_json::Value::as_f64);
    let interval = interval.unwrap_or(1.0);
    let good = seconds > 0.0 && seconds < 1e9 && interval > 0.0;
    if !good {
        draft.problem(
            text,
            "-w takes the seconds after which ping ends, such as -w 5.",
        );
        return;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of probes, at least 1; the plan bounds it"
    )]
    let probes = (seconds / interval - 1e-9).ceil().max(1.0) as u64;
    let asked = draft.plan.get("count").and_then(serde_json::Value::as_u64);
    match asked {
        Some(count) if counted && count <= probes => {
            draft.ignored(text, "the probes of -c are sent before");
        }
        _ => {
            draft.set("count", probes);
            draft.understood(text, format!("ends after {seconds} s: {probes} probes"));
        }
    }
}

/// A plan of round trips has no IP version of its own: the host's address decides.
pub(super) fn check_version(draft: &mut Draft, text: &str, version: u8, host: Option<&String>) {
    let Some(host) = host else {
        return;
    };
    let bare = host.trim_matches(['[', ']']);
    let bare = bare.split('%').next().unwrap_or(bare);
    match bare.parse::<IpAddr>() {
        Ok(address) if address.is_ipv6() == (version == 6) => {
            draft.understood(text, format!("over IPv{version}, as the address says"));
        }
        Ok(_) => draft.problem(
            text,
            format!("{} is no IPv{version} address.", super::cut(host)),
        ),
        Err(_) => draft.problem(
            text,
            format!("A name's first address is taken here: write the IPv{version} address in place of {}.", super::cut(host)),
        ),
    }
}

/// Options that are ignored or refused whatever their value.
fn take_others(draft: &mut Draft, name: &str, text: &str, value: &str) {
    let ignored = match name {
        "-n" => "addresses are never looked up for their names here",
        "-D" => "not printed at the start of lines; every probe's time is kept",
        "-O" => "lost probes are shown anyway",
        "-v" | "-a" | "-d" => "changes what is printed only",
        "-U" => {
            "the round trip counts from the send to the arrival as the kernel stamps it, where it does"
        }
        "-B" | "-C" | "-e" | "-L" | "-H" => "not needed here",
        "-S" => "not needed: one probe is sent at a time",
        "-p" => "the content of the data changes nothing that is measured",
        "-M" if matches!(value, "want" | "dont") => "probes are small, or split where they must be",
        _ => "",
    };
    if !ignored.is_empty() {
        draft.ignored(text, ignored);
        return;
    }
    let reason = match name {
        "-f" | "-A" | "-l" => {
            "Sending as fast as answers come (-f, -A, -l) is not supported: give the time between probes with -i, 0.01 s at least."
        }
        "-I" => {
            "-I is not supported: the system's routes decide from which address probes go; leave it out."
        }
        "-t" => "-t (time to live) is not supported: leave it out.",
        "-Q" => "-Q (type of service) is not supported: leave it out.",
        "-m" => "-m (firewall mark) is not supported: leave it out.",
        "-M" => {
            "-M do (don't fragment) is not supported in a ping: tracepath HOST finds the largest packet that passes whole, to the byte."
        }
        "-b" => "Broadcast is not supported: name one host.",
        "-r" => "-r is not supported: the system's routes are followed.",
        "-R" | "-T" => "Recording the route or times (-R, -T) is not supported.",
        "-N" | "-F" => "This option of IPv6 is not supported: leave it out.",
        "-h" | "-V" => "This line starts no test: it asks ping for its own text.",
        _ => "This option is not supported here: leave it out.",
    };
    draft.problem(text, reason);
}

/// The ping line, and what it cannot say.
pub(super) fn write(plan: &PingPlan) -> (String, Vec<String>) {
    let mut words = vec!["ping".to_owned()];
    let mut differs = Vec::new();
    push_option(&mut words, "-c", &plan.count.to_string());
    if plan.interval_s.to_bits() != 1_f64.to_bits() {
        push_option(&mut words, "-i", &number(plan.interval_s));
    }
    if plan.size_bytes != 56 {
        push_option(&mut words, "-s", &plan.size_bytes.to_string());
    }
    push_option(&mut words, "-W", &number(plan.timeout_s));
    words.push(shell_words::quote(&plan.host).into_owned());
    if plan.method == PingMethod::Tcp {
        differs.push(
            "ping sends ICMP echoes; this plan times TCP connects, to a port that ping cannot name."
                .to_owned(),
        );
    }
    (words.join(" "), differs)
}

#[cfg(test)]
mod tests {
    use super::super::{UNLIMITED, read, written};
    use super::*;
    use crate::measure::plan::Plan;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn plan_of(line: &str) -> Option<PingPlan> {
        match Plan::from_json(&read(line).plan?, &UNLIMITED) {
            Ok(Plan::Ping(plan)) => Some(plan),
            _ => None,
        }
    }

    #[test]
    fn lines_are_read() {
        for (line, count, interval_s, size, timeout_s) in [
            ("ping -c 5 10.0.0.2", 5, 1.0, 56, 1.0),
            ("ping 10.0.0.2 -c5 -i 0.2 -s 1472 -W 2", 5, 0.2, 1472, 2.0),
            ("ping -w 3 -i 0.5 -q -n -D h", 6, 0.5, 56, 1.0),
            ("ping -c 2 -w 30 h", 2, 1.0, 56, 1.0),
            ("ping -c 50 -w 3 h", 3, 1.0, 56, 1.0),
            ("ping6 -c 1 ::1", 1, 1.0, 56, 1.0),
            ("ping -4 -c 1 -M dont 127.0.0.1", 1, 1.0, 56, 1.0),
        ] {
            let plan = plan_of(line).unwrap_or_else(|| panic!("{line}: {:?}", read(line).problems));
            assert_eq!(
                (plan.count, plan.interval_s, plan.size_bytes, plan.timeout_s),
                (count, interval_s, size, timeout_s),
                "{line}"
            );
        }
        assert!(read("ping -q -c 1 h").output.quiet);
    }

    #[test]
    fn what_has_no_end_or_another_meaning_is_refused() {
        for (line, words) in [
            ("ping h", "add -c 5"),
            ("ping -c 5", "host is missing"),
            ("ping -f -c 5 h", "-f, -A, -l"),
            ("ping -c 5 -l 3 h", "-f, -A, -l"),
            ("ping -c 5 -t 3 h", "time to live"),
            ("ping -c 5 -I eth0 h", "-I is not supported"),
            ("ping -c 5 -M do -s 1472 h", "tracepath"),
            ("ping -c 5 -b 10.0.0.255", "Broadcast"),
            ("ping -6 -c 1 127.0.0.1", "no IPv6 address"),
            ("ping -6 -c 1 h", "write the IPv6 address"),
            ("ping -c 1 a b", "One host"),
            ("ping -c x h", "whole number"),
            ("ping -w 0 h", "-w takes"),
            ("ping -c 1 -Z h", "no option -Z"),
        ] {
            let reading = read(line);
            assert_eq!(reading.plan, None, "{line}");
            assert!(
                reading.problems.iter().any(|one| one.contains(words)),
                "{line}: {:?}",
                reading.problems
            );
        }
    }

    #[test]
    fn a_ping_by_tcp_has_no_line_of_ping() {
        let plan = json!({"kind": "ping", "host": "h", "method": "tcp", "port": 80});
        let plan = Plan::from_json(&plan, &UNLIMITED).unwrap();
        let written = written(&plan);
        assert!(!written.exact && written.differs[0].contains("TCP connects"));
        assert_eq!(plan_of(&written.tidemark).map(Plan::Ping), Some(plan));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            host in prop::sample::select(vec!["10.0.0.2", "::1", "fe80::1%eth0", "node-a"]),
            count in 1_u32..10_000,
            interval in 1_u32..1_000,
            size in 0_u32..65_507,
            timeout in 1_u32..600,
        ) {
            let plan = json!({"kind": "ping", "host": host, "count": count, "interval_s": f64::from(interval) / 50.0,
                "size_bytes": size, "timeout_s": f64::from(timeout) / 10.0});
            let plan = Plan::from_json(&plan, &UNLIMITED).unwrap();
            let written = written(&plan);
            prop_assert!(written.exact, "{}", written.line);
            prop_assert_eq!(plan_of(&written.line).map(Plan::Ping), Some(plan));
        }
    }

    #[test]
    fn the_fields_are_named_as_the_plan_has_them() {
        let reading = read("ping -c 3 -i 2 [::1]");
        assert_eq!(
            reading.plan,
            Some(json!({"kind": "ping", "host": "::1", "count": 3, "interval_s": 2}))
        );
        assert_eq!(reading.draft, None::<Value>);
    }
}
