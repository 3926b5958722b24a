//! What a plan will cost, and whether this machine can do it, before anything is sent.

use crate::dashboard::run::rail::Fact;
use crate::dashboard::words::{self, DASH};
use crate::measure::experiment::planned_bytes;
use crate::measure::plan::throughput::{Direction, Protocol, ThroughputPlan};
use crate::measure::plan::{Kind, PingPlan, Plan};

/// One line about this machine.
pub(super) struct MachineLine {
    /// Class of its mark.
    pub(super) class: &'static str,
    /// Its mark.
    pub(super) mark: &'static str,
    /// What it says.
    pub(super) text: String,
}

/// What it will take at most.
pub(super) fn cost(plan: &Plan, open_runs: usize) -> Vec<Fact> {
    let mut out = match plan {
        Plan::Throughput(plan) => throughput(plan),
        Plan::Ping(plan) => ping(plan),
        Plan::Path(_) => vec![
            fact("Takes", "a few seconds".to_owned()),
            fact("Probes", "about 20, one after another".to_owned()),
        ],
        Plan::Rate(_) | Plan::Users(_) | Plan::Fetch(_) => requests(plan),
        Plan::Imported(_) => Vec::new(),
    };
    out.push(fact(
        "Queue",
        match open_runs {
            0 => "empty, starts now".to_owned(),
            1 => "1 run before it".to_owned(),
            more => format!("{more} runs before it"),
        },
    ));
    out
}

fn fact(name: &str, value: String) -> Fact {
    Fact {
        name: name.to_owned(),
        value,
        bad: false,
    }
}

fn requests(plan: &Plan) -> Vec<Fact> {
    let cost = plan.cost();
    vec![
        fact(
            "Sending",
            cost.sending_s
                .map_or_else(|| "as fast as it answers".to_owned(), words::seconds),
        ),
        fact(
            "Last replies by",
            cost.last_reply_by_s
                .map_or_else(|| DASH.to_owned(), words::seconds),
        ),
        fact(
            "Requests",
            cost.requests_at_most.map_or_else(
                || "bounded by time".to_owned(),
                |number| format!("{} at most", words::count(number)),
            ),
        ),
        fact(
            "In flight if all hang",
            words::count(cost.in_flight_if_all_hang),
        ),
    ]
}

fn throughput(plan: &ThroughputPlan) -> Vec<Fact> {
    let both = matches!(plan.direction, Direction::Both | Direction::InTurn);
    let streams = f64::from(plan.streams);
    let mut out = vec![
        fact(
            "Sending",
            plan.sending_s()
                .map_or_else(|| "until all bytes are through".to_owned(), words::seconds),
        ),
        fact(
            "Streams",
            if both {
                format!("{} each way", words::count(plan.streams.into()))
            } else {
                words::count(plan.streams.into())
            },
        ),
    ];
    let rate = plan.bandwidth_bits_per_second.map(|each| each * streams);
    out.push(fact(
        "Rate",
        match rate {
            Some(rate) if both => format!("{} each way", words::bits(Some(rate))),
            Some(rate) => words::bits(Some(rate)),
            None => "all that the path takes".to_owned(),
        },
    ));
    if let Some(bytes) = planned_bytes(plan) {
        out.push(fact("Data", words::bytes(bytes)));
    }
    if plan.protocol == Protocol::Udp {
        let each = f64::from(plan.length_bytes) * 8.0;
        if let Some(rate) = rate {
            out.push(fact(
                "Datagrams",
                format!("{} a second", words::digits(rate / each)),
            ));
        }
    }
    out
}

fn ping(plan: &PingPlan) -> Vec<Fact> {
    let count = f64::from(plan.count);
    vec![
        fact(
            "Takes",
            format!(
                "{} at most",
                words::seconds((count - 1.0).max(0.0) * plan.interval_s + plan.timeout_s)
            ),
        ),
        fact("Packets", words::count(plan.count.into())),
    ]
}

/// Descriptors, ports and cores against what the plan may need.
pub(super) fn machine(plan: &Plan, open_files: Option<u64>, cpus: Option<u32>) -> Vec<MachineLine> {
    let mut lines = Vec::new();
    if plan.kind().is_http() || plan.kind() == Kind::Throughput {
        lines.extend(descriptors(plan, open_files));
    }
    match plan {
        Plan::Rate(rate) => lines.extend(local_ports(rate.peak_rate())),
        Plan::Throughput(plan) => {
            lines.extend(cpus.map(|cpus| cores(plan, cpus)));
            if is_loopback(&plan.host) {
                lines.push(line(
                    false,
                    "This host is this machine: both ends share its cores, and no network is measured."
                        .to_owned(),
                ));
            }
        }
        _ => {}
    }
    lines
}

/// Whether a host is this machine by its loopback address.
pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

fn descriptors(plan: &Plan, open_files: Option<u64>) -> Option<MachineLine> {
    let needed = plan.cost().in_flight_if_all_hang;
    let files = open_files?;
    // The listeners, the notebook and the pages need some of them too.
    let free = files.saturating_sub(200);
    Some(if needed <= free {
        line(
            true,
            format!(
                "{} file descriptors; this run needs {} at most.",
                words::count(files),
                words::count(needed)
            ),
        )
    } else {
        line(
            false,
            format!(
                "{} file descriptors, and {} connections if all hang: raise them with ulimit -n.",
                words::count(files),
                words::count(needed)
            ),
        )
    })
}

fn local_ports(peak_rate: f64) -> Option<MachineLine> {
    // A closed connection keeps its local port for 60 s.
    (peak_rate * 60.0 > 28_000.0).then(|| {
        line(
            false,
            format!(
                "{} new connections a second need more local ports than one address has in 60 s (about 28\u{202f}000), if they end on this side; more calls per connection need fewer.",
                words::digits_short(peak_rate)
            ),
        )
    })
}

/// A thread for each stream and direction.
fn cores(plan: &ThroughputPlan, cpus: u32) -> MachineLine {
    let (send, receive) = plan.flows();
    let threads = if plan.direction == Direction::InTurn {
        send.max(receive)
    } else {
        send + receive
    };
    let who = words::plural(threads.into(), "thread", "threads");
    let on = words::plural(cpus.into(), "CPU", "CPUs");
    if threads > cpus {
        line(
            false,
            format!(
                "{who} on {on}: streams share cores, so this machine may be the limit. The report will say."
            ),
        )
    } else {
        line(true, format!("{who} on {on}."))
    }
}

fn line(good: bool, text: String) -> MachineLine {
    MachineLine {
        class: if good { "ok" } else { "warn" },
        mark: if good { "✓" } else { "!" },
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::Caps;
    use serde_json::json;

    fn costs(plan: &serde_json::Value) -> String {
        let plan = Plan::from_json(plan, &Caps::default()).unwrap();
        let lines: Vec<String> = cost(&plan, 0)
            .into_iter()
            .map(|fact| format!("{} {}", fact.name, fact.value))
            .collect();
        lines.join("\n").replace('\u{a0}', " ")
    }

    #[test]
    fn bounded_tests_say_how_much_they_move() {
        let udp = costs(
            &json!({"kind": "throughput", "host": "h", "protocol": "udp", "streams": 2,
            "bandwidth_bits_per_second": 1e8, "duration_s": 10}),
        );
        for words in [
            "Rate 200 Mbit/s",
            "Data 250 MB",
            "Datagrams 17",
            "Sending 10 s",
        ] {
            assert!(udp.contains(words), "{words}\n{udp}");
        }
        let bytes = costs(
            &json!({"kind": "throughput", "host": "h", "streams": 4, "bytes": 1_000_000, "direction": "both"}),
        );
        assert!(bytes.contains("Data 8.00 MB"), "{bytes}");
        assert!(bytes.contains("until all bytes are through"), "{bytes}");
        let ping = costs(&json!({"kind": "ping", "host": "h", "count": 5}));
        assert!(ping.contains("Takes 5 s at most"), "{ping}");
    }

    #[test]
    fn more_threads_than_cores_and_a_test_of_oneself_are_warned_of() {
        let plan = json!({"kind": "throughput", "host": "127.0.0.1", "streams": 16});
        let plan = Plan::from_json(&plan, &Caps::default()).unwrap();
        let lines = machine(&plan, Some(20_000), Some(2));
        let warned = lines.iter().filter(|line| line.class == "warn").count();
        assert_eq!((lines.len(), warned), (3, 2));
    }
}
