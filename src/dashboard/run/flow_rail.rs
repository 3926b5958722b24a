//! The rail beside a throughput, ping or path report: the path, and what the plan says beyond the command line.

use crate::dashboard::run::rail::{Fact, fact};
use crate::dashboard::words::{self, DASH};
use crate::measure::flow_series::FlowSeries;
use crate::measure::plan::ping::{PingMethod, PingPlan};
use crate::measure::plan::throughput::{Dialect, Direction, Protocol, Receive, ThroughputPlan};
use crate::measure::plan::{PathPlan, Plan};
use crate::measure::run::{Origin, Run};
use crate::measure::summary::Summary;
use crate::measure::summary::flow::{PathSummary, ThroughputSummary};

/// What lies between the two ends, as far as it is known; empty for HTTP runs.
pub(super) fn path(run: &Run, series: Option<&FlowSeries>) -> Vec<Fact> {
    match (&run.plan, &run.summary) {
        (Plan::Throughput(plan), Some(Summary::Throughput(summary))) => {
            throughput_path(run, plan, summary, series)
        }
        (Plan::Ping(plan), Some(Summary::Ping(summary))) => {
            let mut out = ends(run, &plan.host, summary.address.as_deref());
            out.push(fact("by", method(plan), false));
            out.extend(interface_mtu(run));
            out
        }
        (Plan::Path(plan), Some(Summary::Path(summary))) => {
            let mut out = ends(run, &plan.host, summary.address.as_deref());
            out.extend(path_method(summary).map(|how| fact("probed by", how, false)));
            out
        }
        _ => Vec::new(),
    }
}

fn ends(run: &Run, host: &str, address: Option<&str>) -> Vec<Fact> {
    let (here, there) = if run.origin == Origin::Received {
        ("served by", "client")
    } else {
        ("from", "to")
    };
    let mut out = vec![fact(here, &run.node, false), fact(there, host, false)];
    if let Some(address) = address.filter(|address| *address != host) {
        out.push(fact("address", address, false));
    }
    out
}

fn interface_mtu(run: &Run) -> Option<Fact> {
    let mtu = run.environment.mtu?;
    Some(fact("interface MTU", &words::count(mtu.into()), false))
}

fn throughput_path(
    run: &Run,
    plan: &ThroughputPlan,
    summary: &ThroughputSummary,
    series: Option<&FlowSeries>,
) -> Vec<Fact> {
    let mut out = ends(run, &plan.host, None);
    if let Some(peer) = &summary.peer {
        out.push(fact("peer says it is", peer, false));
    }
    out.extend(interface_mtu(run));
    if plan.protocol == Protocol::Tcp {
        let told = series
            .and_then(|series| series.streams.iter().find_map(|stream| stream.tcp))
            .map(|tcp| tcp.mss_bytes)
            .filter(|mss| *mss > 0);
        let mss = told.or(plan.mss_bytes);
        out.push(fact(
            "MSS",
            &mss.map_or_else(|| DASH.to_owned(), |mss| words::count(mss.into())),
            false,
        ));
        out.push(fact(
            "congestion",
            summary.congestion.as_deref().unwrap_or(DASH),
            false,
        ));
    }
    let size = |bytes: Option<u64>| bytes.map(|bytes| words::bytes(bytes as f64));
    let window = &summary.window_bytes;
    out.push(fact(
        "window asked, got",
        &format!(
            "{}, {}",
            size(window.asked).unwrap_or_else(|| "system".to_owned()),
            size(window.got).unwrap_or_else(|| DASH.to_owned())
        ),
        window
            .asked
            .zip(window.got)
            .is_some_and(|(asked, got)| got < asked),
    ));
    out.push(fact(
        "receive",
        receive(plan.receive),
        plan.receive == Receive::Discard,
    ));
    if plan.protocol == Protocol::Udp {
        out.push(fact(
            "offload",
            if plan.offload { "yes" } else { "no" },
            plan.offload,
        ));
    }
    if let Some(cap) = summary.egress_cap_bits_per_second {
        out.push(fact("documented cap", &words::bits(Some(cap)), false));
    }
    out
}

const fn receive(receive: Receive) -> &'static str {
    match receive {
        Receive::Copy => "copy",
        Receive::Discard => "discard: not copied out of the kernel",
    }
}

const fn method(plan: &PingPlan) -> &'static str {
    match plan.method {
        PingMethod::Icmp => "ICMP echo",
        PingMethod::Tcp => "TCP connect",
    }
}

/// How a path was probed; `None` where no size was tried.
pub(super) fn path_method(summary: &PathSummary) -> Option<&'static str> {
    match summary.method.as_deref()? {
        "icmp" => Some("ICMP echoes"),
        "udp" => Some("datagrams to a closed UDP port"),
        _ => None,
    }
}

/// What the plan of a throughput run says.
pub(super) fn throughput(plan: &ThroughputPlan) -> Vec<Fact> {
    let mut out = vec![
        fact(
            "dialect",
            match plan.dialect {
                Dialect::Iperf2 => "iperf 2",
                Dialect::Iperf3 => "iperf 3",
            },
            false,
        ),
        fact(
            "protocol",
            match plan.protocol {
                Protocol::Tcp => "TCP",
                Protocol::Udp => "UDP",
            },
            false,
        ),
        fact("direction", direction(plan.direction), false),
        fact("streams", &words::count(plan.streams.into()), false),
    ];
    let mut add = |name: &str, value: Option<String>| {
        out.extend(value.map(|value| fact(name, &value, false)));
    };
    let bytes = |bytes: u64| words::bytes(bytes as f64);
    add("for", plan.duration_s.map(words::seconds));
    add(
        match plan.dialect {
            Dialect::Iperf2 => "bytes of each stream",
            Dialect::Iperf3 => "bytes of all streams",
        },
        plan.bytes.map(words::volume),
    );
    add(
        "omitted at the start",
        Some(plan.omit_s)
            .filter(|omit| *omit > 0.0)
            .map(words::seconds),
    );
    add("interval", Some(words::seconds(plan.interval_s)));
    add(
        match plan.protocol {
            Protocol::Tcp => "block",
            Protocol::Udp => "datagram",
        },
        Some(size(u64::from(plan.length_bytes))),
    );
    add(
        "rate of each stream",
        Some(match plan.bandwidth_bits_per_second {
            Some(rate) => words::bits(Some(rate)),
            None => "unlimited".to_owned(),
        }),
    );
    add("window asked", plan.window_bytes.map(bytes));
    add("MSS asked", plan.mss_bytes.map(|mss| bytes(mss.into())));
    add("congestion asked", plan.congestion.clone());
    add(
        "service type",
        plan.tos.map(|tos| format!("{tos} (0x{tos:02x})")),
    );
    add(
        "IP version",
        plan.ip_version.map(|version| version.to_string()),
    );
    add("sent from", plan.bind.map(|bind| bind.to_string()));
    add(
        "source ports",
        plan.cport.map(|first| match plan.streams {
            1 => first.to_string(),
            _ => format!("from {first} on"),
        }),
    );
    out
}

/// A size as people give it: powers of 1024 where they fit.
fn size(bytes: u64) -> String {
    [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or_else(
            || words::plural(bytes, "byte", "bytes"),
            |(unit, name)| format!("{}\u{a0}{name}", words::count(bytes / unit)),
        )
}

/// The direction in words, seen from this node.
pub(super) const fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Send => "send",
        Direction::Receive => "receive",
        Direction::Both => "both at once",
        Direction::InTurn => "one after the other",
    }
}

/// What the plan of a ping says.
pub(super) fn ping(plan: &PingPlan) -> Vec<Fact> {
    let mut out = vec![
        fact("packets", &words::count(plan.count.into()), false),
        fact("one every", &words::seconds(plan.interval_s), false),
        fact("lost after", &words::seconds(plan.timeout_s), false),
        fact("method", method(plan), false),
    ];
    match plan.port {
        Some(port) => out.push(fact("port", &port.to_string(), false)),
        None => out.push(fact(
            "payload",
            &words::plural(plan.size_bytes.into(), "byte", "bytes"),
            false,
        )),
    }
    out
}

/// What the plan of a path check says.
pub(super) fn of_path(plan: &PathPlan) -> Vec<Fact> {
    vec![fact(
        "expected MTU",
        &plan
            .expect_mtu
            .map_or_else(|| "none stated".to_owned(), |mtu| words::count(mtu.into())),
        false,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::run::fixture;

    #[test]
    fn the_rail_says_window_congestion_and_what_was_cut_short() {
        let (run, series) = fixture::throughput(
            &serde_json::json!({"receive": "discard", "window_bytes": 262_144}),
        );
        let facts = path(&run, Some(&series));
        let of = |name: &str| {
            let fact = facts.iter().find(|fact| fact.name == name);
            fact.unwrap_or_else(|| panic!("{name}: {facts:?}")).clone()
        };
        assert_eq!(of("MSS").value, "8\u{202f}844");
        assert_eq!(of("congestion").value, "cubic");
        assert!(of("receive").bad && of("receive").value.starts_with("discard"));
        let Plan::Throughput(plan) = &run.plan else {
            panic!("{run:?}");
        };
        let plan = throughput(plan);
        let block = plan.iter().find(|fact| fact.name == "block").unwrap();
        assert_eq!(block.value, "1\u{a0}MiB");
        assert!(plan.iter().any(|fact| fact.value == "unlimited"));
    }
}
