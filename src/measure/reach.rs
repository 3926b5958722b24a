//! Whether a port can be reached, in words: what was seen, what to do about it, and the firewall rule as text.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::measure::plan::throughput::Protocol;

/// What came back from a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// Something listens and answers.
    Open,
    /// The host says that nothing listens.
    Refused,
    /// Nothing came, or somebody on the way says that nothing can.
    NoAnswer,
}

impl Reached {
    /// The word in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Refused => "refused",
            Self::NoAnswer => "no_answer",
        }
    }
}

/// What should listen on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// An iperf 2 receiver.
    Iperf2,
    /// An iperf 3 server.
    Iperf3,
    /// A web server.
    Web,
}

/// Which port of which host, as people name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name or address of the host.
    pub host: String,
    /// The port.
    pub number: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// What should listen there.
    pub listener: Listener,
}

/// What a check saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The address that packets leave from; a translation on the way may change it.
    pub source: Option<IpAddr>,
    /// Round trip in ms.
    pub rtt_ms: Option<f64>,
    /// Who reported what, without a full stop.
    pub report: Option<String>,
    /// How long an answer was waited for, in s.
    pub waited_s: f64,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// The port.
    pub port: u16,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// What came back.
    pub result: Reached,
    /// The same in a sentence.
    pub sentence: String,
    /// What to do about it; empty where all is well.
    pub advice: String,
    /// Firewall rules that let it through, where they may help.
    pub rules: Vec<FirewallRule>,
    /// Round trip in ms.
    pub rtt_ms: Option<f64>,
}

/// A command to run on the other side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirewallRule {
    /// `gcloud` (the network's firewall) or `nftables` (the host's own).
    pub r#for: String,
    /// The command.
    pub command: String,
}

/// Puts what was seen of a port into words.
pub fn describe(port: &Port, result: Reached, seen: &Seen) -> Reach {
    let (sentence, advice) = match result {
        Reached::Open => (open(port), String::new()),
        Reached::Refused => (refused(port), start(port)),
        Reached::NoAnswer => (no_answer(port, seen), let_through(port)),
    };
    // A host that says no is not behind a wall.
    let rules = if result == Reached::NoAnswer {
        firewall_rules(&[(port.protocol, port.number)], seen.source)
    } else {
        Vec::new()
    };
    Reach {
        port: port.number,
        protocol: word(port.protocol).to_owned(),
        result,
        sentence,
        advice,
        rules,
        rtt_ms: seen.rtt_ms,
    }
}

/// The rules that let packets from `source` (else from anywhere) through to these ports, as commands.
pub fn firewall_rules(ports: &[(Protocol, u16)], source: Option<IpAddr>) -> Vec<FirewallRule> {
    if ports.is_empty() {
        return Vec::new();
    }
    let allowed: Vec<String> = ports
        .iter()
        .map(|(protocol, port)| format!("{}:{port}", word(*protocol)))
        .collect();
    let from = match source {
        Some(source @ IpAddr::V4(_)) => format!("{source}/32"),
        Some(source @ IpAddr::V6(_)) => format!("{source}/128"),
        None => "10.0.0.0/8".to_owned(),
    };
    let first = ports[0].1;
    let mut rules = vec![FirewallRule {
        r#for: "gcloud".to_owned(),
        command: format!(
            "gcloud compute firewall-rules create tidemark-{first} --direction=INGRESS --allow={} --source-ranges={from}",
            allowed.join(",")
        ),
    }];
    let family = match source {
        Some(IpAddr::V6(_)) => "ip6 saddr",
        _ => "ip saddr",
    };
    let from = source.map_or_else(|| "10.0.0.0/8".to_owned(), |source| source.to_string());
    rules.extend(ports.iter().map(|(protocol, port)| FirewallRule {
        r#for: "nftables".to_owned(),
        command: format!(
            "nft add rule inet filter input {family} {from} {} dport {port} accept",
            word(*protocol)
        ),
    }));
    rules
}

/// The word in JSON and in firewall rules.
const fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    }
}

/// `TCP port 5001 of web`.
fn name(port: &Port) -> String {
    let protocol = match port.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    };
    format!("{protocol} port {} of {}", port.number, port.host)
}

fn open(port: &Port) -> String {
    let name = name(port);
    match port.protocol {
        Protocol::Tcp => format!("{name} accepts connections."),
        Protocol::Udp => format!("Something answers on {name}."),
    }
}

fn refused(port: &Port) -> String {
    format!(
        "The host answers, and says that nothing listens on {}.",
        name(port)
    )
}

fn start(port: &Port) -> String {
    let number = port.number;
    match (port.listener, port.protocol) {
        (Listener::Iperf2, Protocol::Tcp) => format!(
            "Start a receiver there (iperf -s -p {number}, or tidemark serve --receiver 0.0.0.0:{number}), or name the port that it listens on."
        ),
        (Listener::Iperf2, Protocol::Udp) => format!(
            "Start a receiver there (iperf -s -u -p {number}, or tidemark serve --receiver 0.0.0.0:{number}): iperf -s without -u takes TCP only."
        ),
        (Listener::Iperf3, Protocol::Tcp) => format!(
            "Start a server there (iperf3 -s -p {number}, or tidemark serve --receiver3 0.0.0.0:{number}), or name the port that it listens on."
        ),
        (Listener::Iperf3, Protocol::Udp) => {
            "An iperf 3 server opens its UDP port only while a test runs: check its TCP port instead.".to_owned()
        }
        (Listener::Web, _) => {
            "Start the server there on an address that others can reach, or name the port that it listens on.".to_owned()
        }
    }
}

fn no_answer(port: &Port, seen: &Seen) -> String {
    let name = name(port);
    if let Some(report) = &seen.report {
        return format!("{name} cannot be reached. {report}.");
    }
    let waited = seen.waited_s;
    match port.protocol {
        Protocol::Tcp => format!(
            "Nothing came back from {name} within {waited} s: a firewall drops the packets, or the host is down."
        ),
        Protocol::Udp => format!(
            "No refusal was seen from {name} within {waited} s, and no answer either: a firewall drops the datagrams, or what listens there does not answer as an iperf 2 receiver does."
        ),
    }
}

fn let_through(port: &Port) -> String {
    let protocol = match port.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    };
    format!(
        "Look whether the host is up, and let {protocol} port {} through in its network's firewall and in its own:",
        port.number
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(
        result: Reached,
        protocol: Protocol,
        listener: Listener,
        report: Option<&str>,
    ) -> Reach {
        let port = Port {
            host: "db".into(),
            number: 5001,
            protocol,
            listener,
        };
        let seen = Seen {
            source: Some([10, 0, 0, 2].into()),
            rtt_ms: None,
            report: report.map(str::to_owned),
            waited_s: 3.0,
        };
        describe(&port, result, &seen)
    }

    #[test]
    fn every_result_says_what_was_seen_and_what_to_do() {
        use Listener::{Iperf2, Iperf3, Web};
        use Protocol::{Tcp, Udp};
        for (result, protocol, listener, sentence, advice) in [
            (
                Reached::Open,
                Tcp,
                Iperf2,
                "TCP port 5001 of db accepts",
                "",
            ),
            (Reached::Open, Udp, Iperf2, "answers on UDP port 5001", ""),
            (
                Reached::Refused,
                Tcp,
                Iperf2,
                "nothing listens",
                "iperf -s -p 5001",
            ),
            (
                Reached::Refused,
                Udp,
                Iperf2,
                "nothing listens",
                "iperf -s -u -p 5001",
            ),
            (
                Reached::Refused,
                Udp,
                Iperf3,
                "nothing listens",
                "only while a test runs",
            ),
            (
                Reached::Refused,
                Tcp,
                Web,
                "nothing listens",
                "Start the server",
            ),
            (
                Reached::NoAnswer,
                Tcp,
                Web,
                "within 3 s: a firewall drops",
                "let TCP port 5001 through",
            ),
            (
                Reached::NoAnswer,
                Udp,
                Iperf2,
                "No refusal was seen",
                "let UDP port 5001 through",
            ),
        ] {
            let reach = said(result, protocol, listener, None);
            assert!(reach.sentence.contains(sentence), "{reach:?}");
            assert!(reach.advice.contains(advice), "{reach:?}");
            assert_eq!(reach.advice.is_empty(), result == Reached::Open);
            assert_eq!(reach.rules.is_empty(), result != Reached::NoAnswer);
        }
        let reach = said(
            Reached::NoAnswer,
            Tcp,
            Web,
            Some("10.0.0.1 reports: host unreachable"),
        );
        assert!(
            reach
                .sentence
                .ends_with("10.0.0.1 reports: host unreachable.")
        );
    }

    #[test]
    fn rules_are_commands_for_the_network_and_for_the_host() {
        let both = [(Protocol::Tcp, 5001), (Protocol::Udp, 5001)];
        let commands = |source: Option<IpAddr>| -> Vec<String> {
            let rules = firewall_rules(&both, source);
            rules.into_iter().map(|rule| rule.command).collect()
        };
        assert_eq!(
            commands(Some([10, 0, 0, 2].into())),
            [
                "gcloud compute firewall-rules create tidemark-5001 --direction=INGRESS --allow=tcp:5001,udp:5001 --source-ranges=10.0.0.2/32",
                "nft add rule inet filter input ip saddr 10.0.0.2 tcp dport 5001 accept",
                "nft add rule inet filter input ip saddr 10.0.0.2 udp dport 5001 accept",
            ]
        );
        let six = commands(Some("fd00::2".parse().unwrap()));
        assert!(six[0].ends_with("--source-ranges=fd00::2/128"));
        assert!(six[1].contains("ip6 saddr fd00::2 tcp"));
        assert!(firewall_rules(&[], None).is_empty());
    }

    #[test]
    fn results_are_words_in_json() {
        let reach = said(Reached::NoAnswer, Protocol::Udp, Listener::Iperf2, None);
        let json = serde_json::to_value(&reach).unwrap();
        assert_eq!(json["result"], "no_answer");
        assert_eq!(json["protocol"], "udp");
        assert_eq!(json["rules"][0]["for"], "gcloud");
        assert_eq!(serde_json::from_value::<Reach>(json).unwrap(), reach);
        for reached in [Reached::Open, Reached::Refused, Reached::NoAnswer] {
            assert_eq!(serde_json::to_value(reached).unwrap(), reached.word());
        }
    }
}
