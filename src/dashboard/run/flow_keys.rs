//! The key figures of throughput runs: one row of them, or a column for each direction.

use crate::dashboard::run::flow_words;
use crate::dashboard::run::keys::{Key, key};
use crate::dashboard::words::{self, Measure};
use crate::measure::flow_series::FlowSeries;
use crate::measure::plan::throughput::{Direction, Protocol, ThroughputPlan};
use crate::measure::summary::flow::{ThroughputSummary, UdpFigures};

/// The key figures of one direction under its heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// `Sending to …`.
    pub head: String,
    /// At most six.
    pub keys: Vec<Key>,
}

/// A throughput run as its key figures are made from it.
#[derive(Clone, Copy)]
pub(super) struct Flow<'a> {
    pub plan: &'a ThroughputPlan,
    pub summary: &'a ThroughputSummary,
    pub series: Option<&'a FlowSeries>,
    pub live: bool,
}

impl Flow<'_> {
    /// The row of key figures: of the one direction, or of both together.
    pub(super) fn keys(&self) -> Vec<Key> {
        match flow_words::ways(self.plan, self.summary).as_slice() {
            [(way, part)] if self.summary.directions.is_empty() => self.one_way(way, part, true),
            ways => self.together(ways),
        }
    }

    /// A column for each direction; empty where there is one direction only.
    pub(super) fn sides(&self) -> Vec<Side> {
        if self.summary.directions.is_empty() {
            return Vec::new();
        }
        let peer = self.plan.host.as_str();
        flow_words::ways(self.plan, self.summary)
            .into_iter()
            .map(|(way, part)| Side {
                head: if way == "send" {
                    format!("Sending to {peer}")
                } else {
                    format!("Receiving from {peer}")
                },
                keys: self.one_way(way, part, false),
            })
            .collect()
    }

    fn together(&self, ways: &[(&str, &ThroughputSummary)]) -> Vec<Key> {
        let sum = if self.plan.direction == Direction::InTurn {
            key(
                "Together",
                Measure::missing(),
                "the directions ran one after the other, so there is no sum".to_owned(),
            )
        } else {
            key(
                "Together",
                Measure::bits(self.summary.bits_per_second),
                self.with_short_cuts("the sum of both directions".to_owned()),
            )
        };
        let bytes = ways
            .iter()
            .map(|(_, part)| arrived(part))
            .sum::<Option<u64>>();
        vec![
            sum,
            key(
                "Arrived",
                Measure::volume(bytes),
                bytes.map_or_else(String::new, |bytes| {
                    format!(
                        "{} both ways in {}",
                        words::binary(bytes),
                        words::seconds(self.summary.duration_s)
                    )
                }),
            ),
            self.round_trips(),
            self.cpu(),
        ]
    }

    fn one_way(&self, way: &str, part: &ThroughputSummary, alone: bool) -> Vec<Key> {
        let mut keys = vec![self.rate(way, part)];
        if self.plan.protocol == Protocol::Udp {
            keys.extend(self.datagrams(part));
        } else {
            keys.push(self.bytes(way, part));
        }
        keys.push(self.streams(part));
        if self.plan.protocol == Protocol::Tcp {
            keys.push(self.retransmits(way, part));
        }
        if alone {
            keys.insert(keys.len() - 1, self.round_trips());
            if self.plan.protocol == Protocol::Tcp {
                keys.push(self.cpu());
            }
        }
        keys.truncate(6);
        keys
    }

    /// The headline, who counted it, and what it is held against.
    fn rate(&self, way: &str, part: &ThroughputSummary) -> Key {
        let rate = part.bits_per_second.or(part.bits_per_second_whole);
        let counted = if self.live && rate.is_some() {
            "so far"
        } else {
            flow_words::counted(self.plan, way, part)
        };
        let mut subs = vec![counted.to_owned()];
        let cap = part
            .egress_cap_bits_per_second
            .filter(|cap| *cap > 0.0)
            .filter(|_| way == "send" || self.plan.direction == Direction::Receive);
        if let Some(rate) = rate {
            if let Some(cap) = cap {
                subs.push(format!(
                    "{} of the documented cap",
                    words::share(rate / cap)
                ));
            } else if let Some(asked) = flow_words::asked(self.plan) {
                subs.push(format!("{} of what was asked", words::share(rate / asked)));
            }
        }
        if let Some(whole) = part
            .bits_per_second_whole
            .filter(|whole| rate.is_some_and(|rate| (whole / rate - 1.0).abs() > 0.01))
        {
            subs.push(format!("{} over the whole span", words::bits(Some(whole))));
        }
        key(
            "Throughput",
            Measure::bits(rate),
            self.with_short_cuts(subs.join(", ")),
        )
    }

    fn with_short_cuts(&self, sub: String) -> String {
        match flow_words::short_cuts(self.plan) {
            Some(how) if sub.is_empty() => how,
            Some(how) => format!("{sub}; {how}"),
            None => sub,
        }
    }

    fn bytes(&self, way: &str, part: &ThroughputSummary) -> Key {
        let over = words::seconds(part.duration_s);
        let (name, bytes) = match (part.bytes_received, part.bytes_acknowledged) {
            (Some(bytes), _) => ("Received", Some(bytes)),
            (None, Some(bytes)) => ("Acknowledged", Some(bytes)),
            (None, None) if way == "receive" => ("Received", None),
            (None, None) => ("Sent", part.bytes_sent),
        };
        let sub = bytes.map_or_else(
            || "the receiver has not told".to_owned(),
            |bytes| {
                format!("{} in {over}", words::binary(bytes))
                    .trim_start()
                    .to_owned()
            },
        );
        key(name, Measure::volume(bytes), self.with_short_cuts(sub))
    }

    fn streams(&self, part: &ThroughputSummary) -> Key {
        let came = part
            .streams
            .iter()
            .filter(|stream| stream.failed.is_none())
            .count() as u64;
        let asked = u64::from(part.streams_asked);
        let sub = match (part.fairness, part.fastest_to_slowest) {
            _ if asked == 1 => format!("of {asked}"),
            (Some(fairness), Some(ratio)) => format!(
                "of {asked}; fairness {}, fastest {}\u{a0}× the slowest",
                words::digits(fairness),
                words::digits(ratio)
            ),
            (Some(fairness), None) => format!("of {asked}; fairness {}", words::digits(fairness)),
            _ => format!("of {asked}"),
        };
        let mut key = key("Streams", Measure::count(came), sub);
        key.hot = came < asked && !self.live;
        key
    }

    fn retransmits(&self, way: &str, part: &ThroughputSummary) -> Key {
        let share = self.series.and_then(|series| {
            let told: Vec<_> = series
                .streams
                .iter()
                .filter(|stream| stream.way.word() == way)
                .filter_map(|stream| Some((stream.bytes, stream.tcp?.retransmitted_bytes)))
                .collect();
            let bytes: u64 = told.iter().map(|(bytes, _)| bytes).sum();
            let again: u64 = told.iter().map(|(_, again)| again).sum();
            (bytes > 0).then(|| again as f64 / bytes as f64)
        });
        let sub = match (part.retransmits, share) {
            (None, _) if way == "receive" => "the sender is the other end".to_owned(),
            (None, _) => "this kernel does not tell".to_owned(),
            (Some(1..), Some(share)) => format!("segments, {} of the bytes", words::share(share)),
            (Some(_), _) => "segments sent again".to_owned(),
        };
        key(
            "Sent again",
            part.retransmits
                .map_or_else(Measure::missing, Measure::count),
            sub,
        )
    }

    /// The round trip without and with load, and the queue that the load caused.
    fn round_trips(&self) -> Key {
        let rtt = &self.summary.rtt_ms;
        let (idle, loaded) = (rtt.idle.median, rtt.loaded.median);
        let p99 = rtt
            .loaded
            .p99
            .filter(|_| rtt.loaded.count >= 100)
            .map(|p99| format!(", p99 {}", words::ms(Some(p99))))
            .unwrap_or_default();
        let (value, sub) = match (idle, loaded) {
            (Some(idle), Some(loaded)) => {
                let queue = flow_words::queue_ms(self.summary);
                let said = if queue.is_some_and(|queue| queue > idle * 0.2) {
                    format!("a queue of {}{p99}", words::ms(queue))
                } else {
                    format!("no queue to speak of{p99}")
                };
                (from_to(idle, loaded), format!("medians; {said}"))
            }
            (Some(idle), None) => (Measure::ms(Some(idle)), "idle; none under load".to_owned()),
            (None, Some(loaded)) => (
                Measure::ms(Some(loaded)),
                format!("under load{p99}; the idle path was not probed"),
            ),
            (None, None) => (Measure::missing(), "not probed".to_owned()),
        };
        key("RTT idle → loaded", value, sub)
    }

    fn cpu(&self) -> Key {
        let cpu = &self.summary.cpu;
        if self.live || cpu.user_s + cpu.system_s <= 0.0 {
            return key("CPU", Measure::missing(), "told at the end".to_owned());
        }
        key(
            "CPU",
            Measure::share(cpu.percent.map(|percent| percent / 100.0)),
            format!(
                "of one core here: {} user, {} system",
                words::seconds(cpu.user_s),
                words::seconds(cpu.system_s)
            ),
        )
    }

    fn datagrams(&self, part: &ThroughputSummary) -> Vec<Key> {
        let none = UdpFigures::default();
        let udp = part.udp.as_ref().unwrap_or(&none);
        let untold = if self.live {
            "so far not told"
        } else {
            "the receiver did not tell"
        };
        let all = udp
            .datagrams_lost
            .zip(udp.datagrams_received)
            .map(|(lost, received)| lost + received);
        let mut lost = key(
            "Lost",
            Measure::share(udp.lost_percent.map(|percent| percent / 100.0)),
            match (udp.datagrams_lost, all) {
                (Some(lost), Some(all)) => {
                    let dropped = udp
                        .dropped_by_receiver
                        .filter(|dropped| *dropped > 0)
                        .map(|dropped| format!("; {} dropped by its socket", words::count(dropped)))
                        .unwrap_or_default();
                    format!(
                        "{} of {} datagrams{dropped}",
                        words::count(lost),
                        words::count(all)
                    )
                }
                _ => match udp.datagrams_sent {
                    Some(sent) => {
                        format!("{} datagrams sent; {untold}", words::count(sent))
                    }
                    None => untold.to_owned(),
                },
            },
        );
        lost.hot = udp.datagrams_lost.is_some_and(|lost| lost > 0);
        let jitter = key(
            "Jitter",
            Measure::ms(udp.jitter_ms),
            if self.plan.offload {
                "not measured with offload".to_owned()
            } else if udp.jitter_ms.is_some() {
                "smoothed, mean of the streams".to_owned()
            } else {
                untold.to_owned()
            },
        );
        let duplicated = match udp.datagrams_duplicated {
            Some(0) => "none came twice".to_owned(),
            Some(twice) => format!("{} came twice", words::count(twice)),
            None => "duplicates are not told".to_owned(),
        };
        let out_of_order = key(
            "Out of order",
            udp.datagrams_out_of_order
                .map_or_else(Measure::missing, Measure::count),
            if udp.datagrams_out_of_order.is_some() {
                duplicated
            } else {
                untold.to_owned()
            },
        );
        vec![lost, jitter, out_of_order]
    }
}

/// The receiver's bytes of a direction, else acknowledged ones.
pub(super) fn arrived(part: &ThroughputSummary) -> Option<u64> {
    part.bytes_received.or(part.bytes_acknowledged)
}

/// Both round trips in the unit of the longer one.
fn from_to(idle: f64, loaded: f64) -> Measure {
    let longer = Measure::ms(Some(idle.max(loaded)));
    let factor = match longer.unit {
        "s" => 1e-3,
        "µs" => 1e3,
        _ => 1.0,
    };
    Measure {
        number: format!(
            "{}\u{a0}→\u{a0}{}",
            words::digits(idle * factor),
            words::digits(loaded * factor)
        ),
        unit: longer.unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::run::fixture;
    use crate::measure::plan::Plan;
    use crate::measure::summary::Summary;
    use serde_json::json;

    fn check(plan: &serde_json::Value, change: impl FnOnce(&mut ThroughputSummary)) -> Vec<Key> {
        let (mut run, series) = fixture::throughput(plan);
        let (Plan::Throughput(plan), Some(Summary::Throughput(summary))) =
            (&run.plan, &mut run.summary)
        else {
            panic!("{run:?}");
        };
        change(summary);
        let flow = Flow {
            plan,
            summary,
            series: Some(&series),
            live: false,
        };
        let mut keys = flow.keys();
        keys.extend(flow.sides().into_iter().flat_map(|side| side.keys));
        keys
    }

    fn text(keys: &[Key]) -> String {
        let lines: Vec<String> = keys
            .iter()
            .map(|key| format!("{}: {} ({})", key.name, key.value.text(), key.sub))
            .collect();
        lines.join("\n").replace('\u{a0}', " ")
    }

    #[test]
    fn the_headline_says_who_counted_and_what_it_is_held_against() {
        let keys = check(&json!({"streams": 16}), |summary| {
            summary.egress_cap_bits_per_second = summary.bits_per_second;
        });
        assert_eq!(keys.len(), 6);
        let text = text(&keys);
        for words in [
            "Throughput: ",
            "counted by the receiver, 100 % of the documented cap",
            "Streams: 16 (of 16; fairness ",
            "RTT idle → loaded: 0.20 → 1.80 ms (medians; a queue of 1.60 ms",
            "Sent again: ",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
    }

    #[test]
    fn both_directions_have_a_sum_and_directions_in_turn_have_none() {
        let both = text(&check(&json!({"direction": "both"}), |_| {}));
        assert!(both.contains("the sum of both directions"), "{both}");
        assert_eq!(both.matches("Throughput: ").count(), 2, "{both}");
        let turn = text(&check(&json!({"direction": "in_turn"}), |_| {}));
        assert!(
            turn.contains("Together: – (the directions ran one after"),
            "{turn}"
        );
    }

    #[test]
    fn what_cuts_corners_is_said_and_what_was_not_told_is_a_dash() {
        let discard = text(&check(&json!({"receive": "discard"}), |_| {}));
        assert!(
            discard.matches("receive: discard").count() >= 2,
            "{discard}"
        );
        let untold = text(&check(
            &json!({"protocol": "udp", "bandwidth_bits_per_second": 1e8}),
            |summary| {
                summary.bits_per_second = None;
                summary.bits_per_second_whole = None;
                summary.bytes_received = None;
                summary.udp = Some(UdpFigures {
                    datagrams_sent: Some(85),
                    ..UdpFigures::default()
                });
            },
        ));
        for words in [
            "Throughput: – (not confirmed by the receiver)",
            "Lost: – (85 datagrams sent; the receiver did not tell)",
            "Jitter: – (the receiver did not tell)",
        ] {
            assert!(untold.contains(words), "{words}\n{untold}");
        }
        assert!(!untold.contains("NaN"), "{untold}");
    }
}
