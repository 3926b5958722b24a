//! What a check of a peer's ports found: the mark in its row, each port, and what to do about those that are not open.

use crate::dashboard::words::{self, DASH};
use crate::measure::reach::Reached;
use crate::supervisor::{PeerCheck, PortCheck, PortLeftOut};

/// The last check of one peer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Checked {
    /// The peer.
    pub name: String,
    /// Its place on the page.
    pub anchor: String,
    /// All ports in one word: class, mark and words.
    pub all: Found,
    /// When it was made.
    pub when: String,
    /// Each port.
    pub ports: Vec<PortLine>,
    /// Rules that let through what did not answer.
    pub rules: Vec<Rule>,
}

/// A result in a word.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    /// `ok`, `bad` or `muted`.
    pub class: &'static str,
    /// Mark and words.
    pub text: String,
}

/// One port.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PortLine {
    /// `TCP 5001`.
    pub port: String,
    /// What should listen there.
    pub service: &'static str,
    /// The address, and which of the peer's it is.
    pub address: String,
    /// `internal` or `external`.
    pub side: &'static str,
    /// What came back.
    pub found: Found,
    /// The round trip.
    pub rtt: String,
    /// What was seen, in a sentence.
    pub sentence: String,
    /// What to do about it; empty where all is well.
    pub advice: String,
}

/// A command that lets a port through.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    /// Its place on the page.
    pub id: String,
    /// Where it is typed.
    pub place: &'static str,
    /// The command.
    pub command: String,
}

/// The check as its part of the page shows it; `anchor` is that part's place.
pub(super) fn checked(check: &PeerCheck, anchor: String) -> Checked {
    let mut ports: Vec<PortLine> = check.ports.iter().map(line).collect();
    ports.extend(check.not_checked.iter().map(left_out));
    let mut rules = Vec::new();
    for rule in check.ports.iter().flat_map(|port| &port.reach.rules) {
        if rules
            .iter()
            .any(|known: &Rule| known.command == rule.command)
        {
            continue;
        }
        rules.push(Rule {
            id: format!("{anchor}-rule-{}", rules.len() + 1),
            place: match rule.r#for.as_str() {
                "gcloud" => "For the network’s firewall",
                _ => "For the peer’s own firewall",
            },
            command: rule.command.clone(),
        });
    }
    Checked {
        name: check.peer.clone(),
        all: all(check),
        when: words::when(check.at),
        anchor,
        ports,
        rules,
    }
}

fn all(check: &PeerCheck) -> Found {
    let number = check.ports.len() as u64;
    let is_open = |port: &&PortCheck| port.reach.result == Reached::Open;
    let open = check.ports.iter().filter(is_open).count() as u64;
    let (class, text) = match number {
        0 => ("muted", "– nothing to check".to_owned()),
        _ if open == number => ("ok", format!("✓ all {number} open")),
        _ => ("bad", format!("✕ {} of {number} not open", number - open)),
    };
    Found { class, text }
}

fn line(port: &PortCheck) -> PortLine {
    let reach = &port.reach;
    let (class, text) = match reach.result {
        Reached::Open => ("ok", "✓ open"),
        Reached::Refused => ("bad", "✕ refused"),
        Reached::NoAnswer => ("bad", "✕ no answer"),
    };
    PortLine {
        port: format!("{}\u{a0}{}", reach.protocol.to_uppercase(), reach.port),
        service: port.service,
        address: port.address.to_string(),
        side: port.side,
        found: Found {
            class,
            text: words::unbroken(text),
        },
        rtt: words::ms(reach.rtt_ms),
        sentence: reach.sentence.clone(),
        advice: reach.advice.clone(),
    }
}

fn left_out(port: &PortLeftOut) -> PortLine {
    PortLine {
        port: format!("TCP\u{a0}{}", port.port),
        service: port.service,
        address: port.address.to_string(),
        side: port.side,
        found: Found {
            class: "muted",
            text: words::unbroken("– not checked"),
        },
        rtt: DASH.to_owned(),
        sentence: port.why.clone(),
        advice: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::throughput::Protocol;
    use crate::measure::reach::{Listener, Port, Seen, describe};

    fn port(protocol: Protocol, result: Reached) -> PortCheck {
        let port = Port {
            host: "10.0.0.2".into(),
            number: 5001,
            protocol,
            listener: Listener::Iperf2,
        };
        PortCheck {
            side: "internal",
            address: [10, 0, 0, 2].into(),
            service: "throughput",
            reach: describe(
                &port,
                result,
                &Seen {
                    source: Some([10, 0, 0, 1].into()),
                    rtt_ms: (result == Reached::Open).then_some(0.34),
                    report: None,
                    waited_s: 3.0,
                },
            ),
        }
    }

    fn check(ports: Vec<PortCheck>) -> Checked {
        let check = PeerCheck {
            peer: "us-b".into(),
            at: "2026-11-30T17:44:35Z".parse().unwrap(),
            ports,
            not_checked: vec![PortLeftOut {
                side: "internal",
                address: [10, 0, 0, 2].into(),
                service: "dashboard",
                port: 8080,
                why: "It is never a target.".into(),
            }],
        };
        checked(&check, "check-us-b".into())
    }

    #[test]
    fn each_port_says_what_came_and_rules_are_given_once() {
        let found = check(vec![
            port(Protocol::Tcp, Reached::Open),
            port(Protocol::Udp, Reached::NoAnswer),
            port(Protocol::Udp, Reached::NoAnswer),
            port(Protocol::Tcp, Reached::Refused),
        ]);
        assert_eq!(found.all.text, "✕ 3 of 4 not open");
        assert_eq!(found.ports[0].port, "TCP\u{a0}5001");
        assert_eq!(found.ports[0].found.text, "✓\u{a0}open");
        assert_eq!(found.ports[0].advice, "");
        assert!(found.ports[3].advice.contains("iperf -s -p 5001"));
        assert_eq!(found.ports[4].found.class, "muted");
        assert_eq!(found.ports[4].rtt, DASH);
        let ids: Vec<&str> = found.rules.iter().map(|rule| rule.id.as_str()).collect();
        assert_eq!(ids, ["check-us-b-rule-1", "check-us-b-rule-2"]);
        assert!(found.rules[0].command.contains("--allow=udp:5001"));
    }

    #[test]
    fn ports_that_were_not_probed_are_neither_open_nor_closed() {
        let open = check(vec![port(Protocol::Tcp, Reached::Open)]);
        assert_eq!(
            (open.all.class, open.all.text.as_str()),
            ("ok", "✓ all 1 open")
        );
        assert!(open.rules.is_empty());
        assert_eq!(check(Vec::new()).all.class, "muted");
    }
}
