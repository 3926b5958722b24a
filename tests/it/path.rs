//! Path checks: the MTU of loopback, of one cable, of a way with a narrower hop, and of ways on which large packets
//! vanish.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tidemark::measure::plan::path;
use tidemark::measure::summary::flow::{PathProbe, PathSummary};
use tidemark::measure::verdict::judge_path;
use tidemark::net::icmp::icmp_allowed;
use tidemark::runner::Stop;
use tidemark::runner::path::{PathJob, run};

use crate::support::netns::{Namespace, Pair, Routed, serve};
use crate::support::skip;

/// Checks the path to an address; the summary, and title with verdict.
fn go(address: SocketAddr, expect: Option<u32>) -> Result<(PathSummary, String), String> {
    go_until(address, expect, &Stop::new(), |_| ())
}

fn go_until(
    address: SocketAddr,
    expect: Option<u32>,
    stop: &Stop,
    mut seen: impl FnMut(&PathProbe),
) -> Result<(PathSummary, String), String> {
    let mut plan = json!({"host": address.ip().to_string()});
    if let Some(mtu) = expect {
        plan["expect_mtu"] = json!(mtu);
    }
    let plan = path::from_json(plan.as_object().unwrap()).unwrap();
    let job = PathJob {
        plan: plan.clone(),
        address,
    };
    let summary = run(&job, stop, &mut |probe| seen(&probe)).map_err(|error| error.to_string())?;
    let judgement = judge_path(&plan, &summary);
    let sums = judgement
        .checks
        .iter()
        .find(|check| check.name == "sums_agree");
    assert_ne!(sums.unwrap().ok, Some(false), "{summary:?}");
    let words = format!("{}. {}", judgement.title, judgement.verdict);
    Ok((summary, words.replace(['\u{a0}', '\u{202f}'], " ")))
}

/// Runs inside a namespace: a path check.
#[test]
fn inside() {
    serve(|input| {
        let address = input["address"].as_str().unwrap().parse().unwrap();
        let expect = input["expect"]
            .as_u64()
            .map(|mtu| u32::try_from(mtu).unwrap());
        match go(address, expect) {
            Ok((summary, words)) => json!({"summary": summary, "words": words}),
            Err(error) => json!({"error": error}),
        }
    });
}

fn check_in(namespace: &Namespace, address: &str, expect: Option<u32>) -> Value {
    namespace.inside(
        "path::inside",
        &json!({"address": address, "expect": expect}),
    )
}

/// Asserts the path MTU and whether larger packets vanish.
fn assert_found(result: &Value, mtu: u32, black_hole: bool) {
    let summary = &result["summary"];
    assert_eq!(summary["path_mtu"], mtu, "{result}");
    assert_eq!(summary["black_hole"], black_hole, "{result}");
    // The boundary itself was probed.
    let of = |size: u32| {
        let probes = summary["probes"].as_array().unwrap();
        let probe = probes.iter().find(|probe| probe["size_bytes"] == size);
        probe.map(|probe| probe["result"].as_str().unwrap().to_owned())
    };
    assert_eq!(of(mtu).as_deref(), Some("answered"), "{result}");
    let above = of(mtu + 1);
    let own = summary["interface_mtu"] == mtu;
    let expected = match (own, black_hole) {
        (true, _) => None,
        (false, true) => Some("no_answer"),
        (false, false) => Some("too_big"),
    };
    assert_eq!(above.as_deref(), expected, "{result}");
}

const NEAR: [&str; 2] = ["10.77.0.2:0", "[fd77::2]:0"];
const FAR: [&str; 2] = ["10.77.1.2:0", "[fd77:0:0:1::2]:0"];

#[test]
fn loopback_carries_the_largest_packet_there_is() {
    if let Err(why) = icmp_allowed() {
        skip(&format!("ICMP is not permitted here: {why}"));
        return;
    }
    for (address, largest) in [("127.0.0.1:0", 65_535), ("[::1]:0", 65_575)] {
        let (summary, words) = go(address.parse().unwrap(), None).unwrap();
        let own = summary.interface_mtu.unwrap();
        assert_eq!(summary.path_mtu, Some(own.min(largest)), "{summary:?}");
        assert_eq!((summary.black_hole, summary.ok), (Some(false), None));
        assert_eq!(summary.interface.as_deref(), Some("lo"));
        assert_eq!(summary.method.as_deref(), Some("icmp"));
        assert!(
            words.contains("as much as this machine's interface"),
            "{words}"
        );
    }
}

#[test]
fn a_cable_carries_exactly_its_mtu() {
    for mtu in [8_896, 1_500, 1_460] {
        let Some(pair) = Pair::new(mtu) else { return };
        for address in NEAR {
            let result = check_in(&pair.near, address, Some(8_896));
            assert_found(&result, mtu, false);
            let summary = &result["summary"];
            assert_eq!(summary["interface"], "eth0");
            assert_eq!(summary["interface_mtu"], mtu);
            assert_eq!(summary["ok"], mtu == 8_896);
            let words = result["words"].as_str().unwrap();
            let said = if mtu == 8_896 {
                "as expected"
            } else {
                "set the MTU of eth0 to 8 896"
            };
            assert!(words.contains(said), "{words}");
            let interfaces = summary["interfaces"].as_array().unwrap();
            assert_eq!(interfaces.len(), 2, "{interfaces:?}");
        }
    }
}

#[test]
fn a_narrower_hop_is_found_to_the_byte() {
    for (near, far) in [(8_896, 1_500), (1_500, 1_460), (8_896, 1_437)] {
        let Some(routed) = Routed::new(near, far) else {
            return;
        };
        for address in FAR {
            let result = check_in(&routed.near, address, None);
            assert_found(&result, far, false);
            assert_eq!(result["summary"]["interface_mtu"], near);
            // The router names what fits, so few sizes are needed.
            let probes = result["summary"]["probes"].as_array().unwrap();
            assert!(probes.len() <= 5, "{result}");
            assert!(
                probes.iter().any(|probe| probe["named_mtu"] == far),
                "{result}"
            );
            let words = result["words"].as_str().unwrap();
            assert!(words.contains("and says so"), "{words}");
        }
    }
}

#[test]
fn a_router_that_says_nothing_is_a_black_hole() {
    let Some(routed) = Routed::new(8_896, 1_460) else {
        return;
    };
    let router = &routed.router;
    router.run("nft add table inet t");
    router.run("nft add chain inet t out { type filter hook output priority 0 ; }");
    router.run("nft add rule inet t out icmp type destination-unreachable drop");
    router.run("nft add rule inet t out icmpv6 type packet-too-big drop");
    for address in FAR {
        let result = check_in(&routed.near, address, Some(8_896));
        assert_found(&result, 1_460, true);
        let words = result["words"].as_str().unwrap();
        assert!(
            words.contains("Packets above 1 460 bytes vanish"),
            "{words}"
        );
        assert!(words.contains("A black hole"), "{words}");
    }
}

#[test]
fn a_firewall_that_drops_large_packets_is_a_black_hole_of_its_size() {
    let Some(routed) = Routed::new(1_500, 1_500) else {
        return;
    };
    let router = &routed.router;
    router.run("nft add table inet t");
    router.run("nft add chain inet t through { type filter hook forward priority 0 ; }");
    router.run("nft add rule inet t through meta length > 1333 drop");
    for address in FAR {
        let result = check_in(&routed.near, address, None);
        assert_found(&result, 1_333, true);
    }
}

#[test]
fn losses_by_chance_do_not_move_the_boundary() {
    let Some(routed) = Routed::new(8_896, 1_437) else {
        return;
    };
    let router = &routed.router;
    router.run("nft add table inet t");
    router.run("nft add chain inet t in { type filter hook prerouting priority 0 ; }");
    let rule = "nft add rule inet t in meta l4proto { icmp, ipv6-icmp } numgen inc mod 4 == 1 drop";
    if !router.can(rule) {
        skip("this kernel's nftables cannot count packets (numgen)");
        return;
    }
    let result = check_in(&routed.near, FAR[0], None);
    assert_found(&result, 1_437, false);
}

#[test]
fn where_echoes_are_ignored_unreachable_ports_answer() {
    let Some(routed) = Routed::new(8_896, 1_500) else {
        return;
    };
    let far = &routed.far;
    far.run("sysctl -q -w net.ipv4.icmp_echo_ignore_all=1 net.ipv6.icmp.echo_ignore_all=1");
    for address in FAR {
        let result = check_in(&routed.near, address, None);
        assert_eq!(result["summary"]["method"], "udp");
        assert_found(&result, 1_500, false);
    }
    // And without any privilege.
    routed
        .near
        .run("sysctl -q -w net.ipv4.ping_group_range=1\t0");
    let input = json!({"address": FAR[0], "expect": 1_500});
    let result = routed.near.inside_as_nobody("path::inside", &input);
    assert_eq!(result["summary"]["method"], "udp");
    assert_found(&result, 1_500, false);
    assert_eq!(result["summary"]["ok"], true);
}

#[test]
fn a_host_that_answers_nothing_has_no_path_mtu() {
    let Some(pair) = Pair::new(1_500) else { return };
    pair.far.run("nft add table inet t");
    pair.far
        .run("nft add chain inet t in { type filter hook input priority 0 ; policy drop ; }");
    pair.far.run(
        "nft add rule inet t in icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept",
    );
    let result = check_in(&pair.near, NEAR[0], Some(1_500));
    let summary = &result["summary"];
    for figure in ["path_mtu", "black_hole", "ok"] {
        assert_eq!(summary[figure], Value::Null, "{result}");
    }
    assert_eq!(summary["interface_mtu"], 1_500);
    let words = result["words"].as_str().unwrap();
    assert!(words.contains("No probe reached 10.77.0.2"), "{words}");
    // And without a route it is refused.
    let result = check_in(&pair.near, "192.0.2.1:0", None);
    let error = result["error"].as_str().unwrap();
    assert!(error.contains("no route from this machine"), "{result}");
}

#[test]
fn a_stop_leaves_it_unknown() {
    if let Err(why) = icmp_allowed() {
        skip(&format!("ICMP is not permitted here: {why}"));
        return;
    }
    let stop = Stop::new();
    let address = "127.0.0.1:0".parse().unwrap();
    let (summary, words) = go_until(address, None, &stop, |_| stop.stop()).unwrap();
    assert_eq!((summary.path_mtu, summary.ok), (None, None));
    assert!(words.contains("stopped"), "{words}");
}
