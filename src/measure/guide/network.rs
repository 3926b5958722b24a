//! The guides of the network labs: round trips, cores, addresses, sixteen streams.

use super::source;
use super::{
    Beside, Difference, Evidence, Manner, Stands, alone, bar, compared, share_text, spot,
    times_text, told,
};
use crate::measure::experiment::{levels, median};
use crate::measure::summary::Summary;
use crate::measure::summary::flow::{PathSummary, PingSummary, ThroughputSummary};
use crate::measure::units;
use crate::measure::verdict::words;

/// A first packet that takes this many times the others is slow.
const SLOW_FIRST: f64 = 1.5;

fn flow<'a>(found: &'a Evidence, step: &str) -> Option<&'a ThroughputSummary> {
    match found.run(step)?.summary.as_ref()? {
        Summary::Throughput(flow) => Some(flow),
        _ => None,
    }
}

fn ping<'a>(found: &'a Evidence, step: &str) -> Option<&'a PingSummary> {
    match found.run(step)?.summary.as_ref()? {
        Summary::Ping(ping) => Some(ping),
        _ => None,
    }
}

/// The first value over the median of the others.
fn first_over_others(values: &[f64]) -> Option<f64> {
    let (first, others) = values.split_first()?;
    let others = median(others.to_vec()).filter(|others| *others > 0.0)?;
    Some(first / others)
}

#[expect(clippy::too_many_lines, reason = "one figure after the other")]
pub(super) fn connection(found: &Evidence) -> Beside {
    let points = found.echoes.get("ping").map_or(&[][..], Vec::as_slice);
    let values: Vec<f64> = points.iter().filter_map(|point| point.rtt_ms).collect();
    let middle = |values: &[f64]| median(values.to_vec()).filter(|middle| *middle > 0.0);
    let lab_middle = middle(&source::PING_MS).unwrap_or(1.0);
    let lab_first = first_over_others(&source::PING_MS).unwrap_or(1.0);
    // The first answer is the first packet's only if that one came back.
    let first_came = points.first().is_some_and(|point| point.rtt_ms.is_some());
    let own_first = first_over_others(&values).filter(|_| first_came);
    let slow = |value: f64| value > SLOW_FIRST;
    let one = ping(found, "ping");
    let many = ping(found, "many");
    let lost = |ping: &PingSummary| {
        format!(
            "{} of {}",
            words::count(ping.transmitted.saturating_sub(ping.received)),
            words::count(ping.transmitted)
        )
    };
    let spread = |ping: &PingSummary| {
        let figures = &ping.rtt_ms.figures;
        Some(figures.max? / figures.min.filter(|least| *least > 0.0)?)
    };
    let rows = vec![
        Difference {
            figure: "packets lost",
            lab: "0 of 5".to_owned(),
            own: one.map(lost).unwrap_or_default(),
            stands: one.map_or(Stands::Open, |ping| {
                if ping.received == ping.transmitted {
                    Stands::Alike
                } else {
                    Stands::Differs
                }
            }),
            says: match one {
                None => "not measured yet".to_owned(),
                Some(ping) if ping.received == ping.transmitted => "as there".to_owned(),
                Some(ping) if ping.received == 0 => {
                    "Nothing came back: a firewall, or the machine is down. Check its ports on the Peers page.".to_owned()
                }
                Some(_) => "Some came back, so the way works and drops packets.".to_owned(),
            },
        },
        Difference {
            figure: "first packet over the others",
            lab: times_text(lab_first),
            own: own_first.map(times_text).unwrap_or_default(),
            stands: own_first.map_or(Stands::Open, |own| {
                if slow(own) == slow(lab_first) {
                    Stands::Alike
                } else {
                    Stands::Differs
                }
            }),
            says: match own_first {
                None => "not measured yet".to_owned(),
                Some(own) if slow(own) => "slow, as there".to_owned(),
                Some(_) => "Not slow here: the way was set up already, or never has to be, as on this machine itself.".to_owned(),
            },
        },
        compared(
            "median round trip",
            lab_middle,
            one.and_then(|ping| ping.rtt_ms.figures.median),
            words::time,
            "Another way, another network.",
        ),
        alone(
            "of 100 packets, slowest over fastest",
            many.and_then(spread).map(times_text),
            "the lab sends five only",
        ),
        alone(
            "of 100 packets, lost",
            many.map(lost),
            "the lab sends five only",
        ),
    ];
    let scaled = |values: &[f64], middle: f64| {
        values
            .iter()
            .enumerate()
            .map(|(place, value)| spot(place as f64 + 1.0, value / middle))
            .collect()
    };
    let own = middle(&values).map_or_else(Vec::new, |middle| {
        points
            .iter()
            .enumerate()
            .filter_map(|(place, point)| Some(spot(place as f64 + 1.0, point.rtt_ms? / middle)))
            .collect()
    });
    Beside {
        title: told(
            &rows,
            "In the source lab the first of five packets took three times as long",
        ),
        what: "Each packet's round trip over the median of all of them, so that a long way and a short one compare",
        x_name: "packet",
        y_name: "times the median",
        manner: Manner::Line,
        lab: scaled(&source::PING_MS, lab_middle),
        own,
        rows,
        ..Beside::default()
    }
}

#[expect(clippy::too_many_lines, reason = "one figure after the other")]
pub(super) fn cores(found: &Evidence) -> Beside {
    let ones: Vec<(String, f64, Option<f64>)> = found
        .runs
        .get("one")
        .into_iter()
        .flatten()
        .filter_map(|run| match run.summary.as_ref()? {
            Summary::Throughput(flow) => Some((
                run.plan.target(),
                flow.bits_per_second?,
                flow.egress_cap_bits_per_second,
            )),
            _ => None,
        })
        .collect();
    let steps: Vec<_> = found
        .experiments
        .get("streams")
        .map(|sweep| levels(&sweep.points))
        .unwrap_or_default()
        .into_iter()
        .filter_map(|level| {
            let value = median(level.values.clone())?;
            Some((level.x, value, level.cap_bits_per_second))
        })
        .collect();
    // Where no cap is documented, the highest that was found stands for it.
    let highest = ones
        .iter()
        .map(|(_, value, _)| *value)
        .chain(steps.iter().map(|(_, value, _)| *value))
        .fold(0.0, f64::max);
    let over = |value: f64, cap: Option<f64>| {
        let ceiling = cap.filter(|cap| *cap > 0.0).unwrap_or(highest);
        (ceiling > 0.0).then(|| value / ceiling)
    };
    let mut own = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (target, value, cap) in &ones {
        if !seen.contains(&target.as_str()) && seen.len() < 4 {
            seen.push(target);
            own.extend(
                over(*value, *cap).map(|share| bar(format!("1 to {target}"), share * 100.0)),
            );
        }
    }
    for (streams, value, cap) in &steps {
        let label = streams.map_or_else(String::new, |streams| format!("-P {streams}"));
        own.extend(over(*value, *cap).map(|share| bar(label, share * 100.0)));
    }
    let of_streams = |wanted: f64| {
        steps
            .iter()
            .find(|(streams, ..)| streams.is_some_and(|streams| streams.total_cmp(&wanted).is_eq()))
            .map(|(_, value, _)| *value)
    };
    let single = of_streams(1.0);
    let best = steps.iter().map(|(_, value, _)| *value).reduce(f64::max);
    let gain = single
        .filter(|single| *single > 0.0)
        .and_then(|single| Some(best? / single));
    let (_, lab_cap, lab_one) = source::ONE_STREAM[1];
    let series = found.experiments.get("hundred").map(|series| {
        let mut values: Vec<f64> = levels(&series.points)
            .into_iter()
            .flat_map(|level| level.values)
            .collect();
        values.sort_by(f64::total_cmp);
        values
    });
    let spread = series.filter(|values| values.len() > 1).map(|values| {
        let at = |percent: usize| values.get((values.len() - 1) * percent / 100).copied();
        let (low, high) = (at(5).unwrap_or(0.0), at(95).unwrap_or(0.0));
        format!(
            "{} to {}, n = {}",
            words::bits(low),
            words::bits(high),
            values.len()
        )
    });
    let rows = vec![
        compared(
            "one stream, share of the ceiling",
            lab_one / lab_cap,
            ones.first().and_then(|(_, value, cap)| over(*value, *cap)),
            share_text,
            "The report of the run names what limited it.",
        ),
        compared(
            "most streams over one",
            lab_cap / lab_one,
            gain,
            times_text,
            "One connection was the limit here, or more of them get in each other's way.",
        ),
        alone(
            "90 % of the repeats",
            spread,
            "the lab draws a hundred and prints none",
        ),
    ];
    Beside {
        title: told(
            &rows,
            "In the source lab one stream reaches 96 % of 2 Gbit/s for each vCPU",
        ),
        what: "Throughput in per cent of the sender's documented cap; where none is documented, of the highest that was found",
        x_name: "sender; streams",
        y_name: "% of the ceiling",
        manner: Manner::Bars,
        lab: source::ONE_STREAM
            .iter()
            .map(|(name, cap, value)| bar(*name, value / cap * 100.0))
            .collect(),
        own,
        rows,
        ..Beside::default()
    }
}

pub(super) fn ways(found: &Evidence) -> Beside {
    let single = |step: &str| flow(found, step).and_then(|flow| flow.bits_per_second);
    let (internal, external) = (single("internal"), single("external"));
    let pair = found.experiments.get("pair").and_then(|pair| pair.ratio);
    let ratio = pair.map(|ratio| ratio.b_to_a).or_else(|| {
        let internal = internal.filter(|value| *value > 0.0)?;
        Some(external? / internal)
    });
    let lab = source::EXTERNAL / source::INTERNAL;
    let interval = pair.and_then(|ratio| {
        Some(format!(
            "{} to {} over {}",
            units::significant(ratio.low?),
            units::significant(ratio.high?),
            words::counted(u64::from(ratio.pairs), "pair", "pairs")
        ))
    });
    let same = pair.and_then(|ratio| ratio.differs()) == Some(false);
    let rows = vec![
        compared(
            "external over internal",
            lab,
            ratio,
            units::significant,
            if same {
                "The interval includes 1: here both ways are the same."
            } else {
                "Another network, another cap outside."
            },
        ),
        alone("95 % interval of it", interval, "the lab measured once"),
        compared(
            "internal",
            source::INTERNAL,
            internal,
            words::bits,
            "Another machine: compare the ratio.",
        ),
        compared(
            "external",
            source::EXTERNAL,
            external,
            words::bits,
            "Another machine: compare the ratio.",
        ),
    ];
    let mut own = Vec::new();
    if let Some(ratio) = ratio {
        own.push(bar("internal", 100.0));
        own.push(bar("external", ratio * 100.0));
    }
    Beside {
        title: told(
            &rows[..1],
            "In the source lab the external address reached 60 % of the internal one",
        ),
        what: "Throughput in per cent of the internal address's",
        x_name: "address",
        y_name: "% of internal",
        manner: Manner::Bars,
        lab: vec![bar("internal", 100.0), bar("external", lab * 100.0)],
        own,
        rows,
        ..Beside::default()
    }
}

pub(super) fn tier(found: &Evidence) -> Beside {
    let path: Option<&PathSummary> =
        found
            .run("mtu")
            .and_then(|run| match run.summary.as_ref()? {
                Summary::Path(path) => Some(&**path),
                _ => None,
            });
    let flow = flow(found, "sixteen");
    let mut streams: Vec<f64> = flow
        .map(|flow| {
            flow.streams
                .iter()
                .filter_map(|stream| stream.bits_per_second)
                .collect()
        })
        .unwrap_or_default();
    streams.sort_by(f64::total_cmp);
    let shared = |rates: &[f64]| -> Vec<_> {
        let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        rates
            .iter()
            .enumerate()
            .filter(|_| mean > 0.0)
            .map(|(place, rate)| spot(place as f64 + 1.0, rate / mean))
            .collect()
    };
    let mtu = path.and_then(|path| path.path_mtu).map(f64::from);
    let mut frames = compared(
        "MTU of the path",
        source::MTU,
        mtu,
        |bytes| format!("{bytes:.0}\u{a0}bytes"),
        "",
    );
    // An MTU is right to the byte or not at all.
    if let Some(mtu) = mtu {
        let exact = (mtu - source::MTU).abs() < 0.5;
        frames.stands = if exact {
            Stands::Alike
        } else {
            Stands::Differs
        };
        frames.says = match exact {
            true => "as there, to the byte".to_owned(),
            false if mtu > source::MTU => {
                "Larger: this machine itself, or another kind of network.".to_owned()
            }
            false => "Smaller: create the network and both machines with --mtu=8896.".to_owned(),
        };
    }
    let share = flow.and_then(|flow| {
        let cap = flow.egress_cap_bits_per_second.filter(|cap| *cap > 0.0)?;
        Some(flow.bits_per_second? / cap)
    });
    let mut of_cap = compared(
        "sum, share of the documented cap",
        source::TIER_SUM / source::TIER_CAP,
        share,
        share_text,
        "The report of the run names what limited it.",
    );
    if share.is_none() && flow.is_some() {
        "no cap is documented for this sender: set --egress-cap, or the peer's field"
            .clone_into(&mut of_cap.says);
    }
    let lab = &source::TIER_STREAMS;
    let rows = vec![
        frames,
        of_cap,
        compared(
            "fastest stream over the slowest",
            lab[lab.len() - 1] / lab[0],
            flow.and_then(|flow| flow.fastest_to_slowest),
            times_text,
            "How evenly streams share depends on queues and cores on the way.",
        ),
        alone(
            "sum",
            flow.and_then(|flow| flow.bits_per_second).map(words::bits),
            "the lab's link gave 74.9 Gbit/s: compare the share",
        ),
    ];
    Beside {
        title: told(
            &rows,
            "In the source lab 16 streams shared 74.9 of 75 Gbit/s, the slowest a sixth of the fastest",
        ),
        what: "Each stream's rate over their mean, slowest first, so that a fast link and a slow one compare",
        x_name: "stream, slowest first",
        y_name: "times the mean",
        manner: Manner::Line,
        lab: shared(lab),
        own: shared(&streams),
        rows,
        ..Beside::default()
    }
}
