//! Whether a throughput run may be believed: one check for each way in which it could mislead.

use crate::measure::flow::{FlowEnd, StreamEnd, Way};
use crate::measure::plan::throughput::{Dialect, Direction};
use crate::measure::run::{Check, Environment, Limit, Severity};
use crate::measure::verdict::checks::{check, does_not_apply};
use crate::measure::verdict::flow::{Flows, OneWay};
use crate::measure::verdict::words;

/// A larger step of the wall clock than this makes the labels of a run wrong, in s.
const CLOCK_STEP_S: f64 = 1.0;
/// A stream that is absent for more than this share of the span did not overlap.
const ABSENT: f64 = 0.05;
/// From this share on the generator is what was measured.
const GENERATOR: f64 = 0.5;
/// From this share on a run got the bandwidth that was asked for.
const AS_ASKED: f64 = 0.99;
/// The largest send buffer of a Linux as it comes, in bytes (`net.ipv4.tcp_wmem`).
const SEND_BUFFER: u64 = 4_194_304;
/// The largest receive buffer of a Linux as it comes, in bytes (`net.ipv4.tcp_rmem`): what is in it is not read yet.
const RECEIVE_BUFFER: u64 = 33_554_432;

/// All checks, in a fixed order.
pub(super) fn of(run: &Flows<'_>, environment: &Environment, limits: &[Limit]) -> Vec<Check> {
    vec![
        check(
            "on_schedule",
            None,
            Severity::Fail,
            does_not_apply("a throughput test has no schedule of its own"),
        ),
        generator_not_limited(run, limits),
        sums_agree(run),
        ends_agree(run),
        clock_steady(run.end),
        streams_overlap(run),
        not_shared_host(run.end, environment),
        complete(run),
    ]
}

fn generator_not_limited(run: &Flows<'_>, limits: &[Limit]) -> Check {
    let own: &[&str] = match run.plan.direction {
        Direction::Send => &["sender_cpu", "cgroup"],
        Direction::Receive => &["receiver_cpu", "cgroup"],
        Direction::Both | Direction::InTurn => &["sender_cpu", "receiver_cpu", "cgroup"],
    };
    // What was asked for and came was not held back, however busy the machine was with other work.
    let as_asked = limits
        .first()
        .is_some_and(|limit| limit.cause == "bandwidth_asked" && limit.share >= AS_ASKED);
    let held = limits.iter().find(|limit| {
        !as_asked
            && own.contains(&limit.cause.as_str())
            && (limit.share >= GENERATOR || limit.cause == "cgroup")
    });
    let busiest = run
        .series
        .streams
        .iter()
        .filter(|stream| stream.wall_s > 0.0)
        .map(|stream| stream.cpu_s / stream.wall_s)
        .fold(0.0, f64::max);
    let host = run
        .series
        .cpu
        .iter()
        .map(|point| point.busy)
        .fold(f64::NAN, f64::max);
    let detail = match held {
        Some(limit) => limit.evidence.clone(),
        None if host.is_finite() => format!(
            "its busiest thread used {} of a core, this machine at most {} of all",
            words::percent(busiest),
            words::percent(host)
        ),
        None => format!(
            "its busiest thread used {} of a core",
            words::percent(busiest)
        ),
    };
    check(
        "generator_not_limited",
        Some(held.is_none()),
        Severity::Warn,
        detail,
    )
}

/// Whether the intervals sum to what the streams counted at their end, to the byte.
fn sums_agree(run: &Flows<'_>) -> Check {
    let mut parts = Vec::new();
    for one in run.ways() {
        let Some(line) = run.series.sums.iter().find(|line| line.way == one.way) else {
            continue;
        };
        let rows: u64 = if run.plan.peer_omits() {
            let streams = run.series.streams.iter();
            streams
                .filter(|stream| stream.way == one.way)
                .map(|stream| stream.bytes)
                .sum()
        } else {
            line.points.iter().map(|point| point.bytes).sum()
        };
        let ends: Vec<&StreamEnd> = run
            .end
            .streams
            .iter()
            .filter(|end| end.way.unwrap_or(Way::Send) == one.way)
            .collect();
        let counted = |end: &&StreamEnd| match one.way {
            Way::Send if run.is_tcp() => end.acked_bytes,
            _ => Some(end.bytes),
        };
        // Without the kernel's account there is nothing to hold the intervals against.
        let Some(total) = ends.iter().map(counted).sum::<Option<u64>>() else {
            continue;
        };
        parts.push((rows, total, ends.len()));
    }
    let (ok, detail) = match parts.iter().find(|(rows, total, _)| rows != total) {
        Some(_) if run.plan.peer_omits() => {
            let why = "the omitted start ends inside an interval";
            (None, does_not_apply(why))
        }
        Some((rows, total, _)) => (
            Some(false),
            format!(
                "the intervals sum to {} bytes, the streams to {}",
                words::count(*rows),
                words::count(*total)
            ),
        ),
        None if parts.is_empty() => (None, does_not_apply("there are no intervals")),
        None => {
            let streams: usize = parts.iter().map(|part| part.2).sum();
            let bytes: u64 = parts.iter().map(|part| part.0).sum();
            let what = words::counted(streams as u64, "stream", "streams");
            let bytes = words::count(bytes);
            (
                Some(true),
                format!("the intervals of {what} sum to {bytes} bytes, to the byte"),
            )
        }
    };
    check("sums_agree", ok, Severity::Fail, detail)
}

fn ends_agree(run: &Flows<'_>) -> Check {
    let verdicts: Vec<(Option<bool>, String)> = run
        .ways()
        .iter()
        .map(|one| {
            if run.is_tcp() {
                tcp_ends(one)
            } else {
                udp_ends(one)
            }
        })
        .collect();
    // The worst is what is said; what does not apply says least.
    let rank = |ok: Option<bool>| match ok {
        Some(false) => 0,
        Some(true) => 1,
        None => 2,
    };
    let (ok, detail) = verdicts
        .into_iter()
        .min_by_key(|verdict| rank(verdict.0))
        .unwrap_or_default();
    check("ends_agree", ok, Severity::Fail, detail)
}

fn alive<'a>(one: &OneWay<'a>) -> Vec<&'a StreamEnd> {
    let way = one.way;
    one.run
        .end
        .streams
        .iter()
        .filter(|end| end.way.unwrap_or(Way::Send) == way && end.failed.is_none())
        .collect()
}

fn tcp_ends(one: &OneWay<'_>) -> (Option<bool>, String) {
    let streams = alive(one);
    let pairs: Option<Vec<(u32, u64, u64)>> = streams
        .iter()
        .map(|end| Some((end.stream, end.bytes, end.peer_bytes?)))
        .collect();
    let Some(pairs) = pairs.filter(|pairs| !pairs.is_empty()) else {
        let why = match one.way {
            Way::Send => "the peer does not report its count; the figures are acknowledged bytes",
            Way::Receive => "the sender does not report its count; the figures are what arrived",
        };
        return (None, does_not_apply(why));
    };
    let (ours, theirs) = pairs
        .iter()
        .fold((0, 0), |sum, pair| (sum.0 + pair.1, sum.1 + pair.2));
    let both = format!(
        "{} bytes here, {} there",
        words::count(ours),
        words::count(theirs)
    );
    let exact = one.run.plan.dialect == Dialect::Iperf2;
    if pairs.iter().all(|(_, ours, theirs)| ours == theirs) {
        return (
            Some(true),
            format!(
                "{} bytes at both ends, equal to the byte",
                words::count(ours)
            ),
        );
    }
    if one.run.end.stopped {
        let why = format!("it was stopped, so bytes were still on their way: {both}");
        return (None, does_not_apply(&why));
    }
    if exact {
        let wrong: Vec<String> = pairs
            .iter()
            .filter(|(_, ours, theirs)| ours != theirs)
            .map(|(stream, ..)| stream.to_string())
            .collect();
        let which = if wrong.len() == 1 {
            "stream"
        } else {
            "streams"
        };
        return (
            Some(false),
            format!("{both} ({which} {})", words::listed(&wrong)),
        );
    }
    // iperf 3 stops counting at the test's end: what was in flight then is in one count only.
    let end = one.run.end;
    let buffer = |got: (_, Option<u64>), usual: u64| got.1.unwrap_or(usual).max(usual);
    let allowed = buffer(end.send_buffer, SEND_BUFFER)
        + buffer(end.receive_buffer, RECEIVE_BUFFER)
        + u64::from(one.run.plan.length_bytes);
    let ok = pairs
        .iter()
        .all(|(_, ours, theirs)| ours.abs_diff(*theirs) <= allowed);
    let detail = if ok {
        format!("{both}; the difference may be what was in flight at the end")
    } else {
        format!("{both}, more apart than can be in flight")
    };
    (Some(ok), detail)
}

fn udp_ends(one: &OneWay<'_>) -> (Option<bool>, String) {
    let streams = alive(one);
    if streams.is_empty() {
        return (None, does_not_apply("no stream got through"));
    }
    if one.way == Way::Receive {
        return (
            None,
            does_not_apply("the datagrams' numbers are the sender's own count"),
        );
    }
    let reports = streams.iter().filter(|end| end.udp.is_some()).count();
    if reports == 0
        && one.run.plan.direction == Direction::Both
        && one.run.plan.dialect == Dialect::Iperf2
    {
        let why = "an iperf 2 server sends no report in a full-duplex UDP test";
        return (None, does_not_apply(why));
    }
    if reports < streams.len() {
        let detail = format!(
            "not confirmed: {} of {} got a report from the receiver",
            reports,
            words::counted(streams.len() as u64, "stream", "streams")
        );
        return (Some(false), detail);
    }
    let sent: u64 = streams.iter().filter_map(|end| end.datagrams_sent).sum();
    let known: u64 = streams
        .iter()
        .filter_map(|end| end.udp)
        .map(|udp| udp.datagrams)
        .sum();
    // The last datagram of a stream may be counted or not, and each end has its own end of the omitted time.
    let either = if one.run.plan.peer_omits() {
        sent / 20
    } else {
        0
    };
    let ok = sent.abs_diff(known) <= streams.len() as u64 + either;
    let detail = format!(
        "{} sent, the receiver knows of {}",
        words::counted(sent, "datagram", "datagrams"),
        words::count(known)
    );
    (Some(ok), detail)
}

pub(super) fn clock_steady(end: &FlowEnd) -> Check {
    let ok = end.clock_step_s.abs() <= CLOCK_STEP_S;
    let duration = words::seconds(end.duration.as_secs_f64());
    let detail = if ok {
        format!("no step in {duration}")
    } else {
        format!(
            "the wall clock stepped by {} in {duration}; rates do not use it, dates do",
            words::seconds(end.clock_step_s)
        )
    };
    check("clock_steady", Some(ok), Severity::Warn, detail)
}

fn streams_overlap(run: &Flows<'_>) -> Check {
    let mut details = Vec::new();
    let mut ok = true;
    for one in run.ways() {
        let spans: Vec<(u32, f64, f64)> = alive(&one)
            .iter()
            .filter_map(|end| {
                Some((
                    end.stream,
                    end.first?.as_secs_f64(),
                    end.last?.as_secs_f64(),
                ))
            })
            .collect();
        if spans.len() < 2 {
            continue;
        }
        let first = spans
            .iter()
            .map(|span| span.1)
            .fold(f64::INFINITY, f64::min);
        let last = spans.iter().map(|span| span.2).fold(0.0, f64::max);
        let from = spans.iter().map(|span| span.1).fold(0.0, f64::max);
        let to = spans
            .iter()
            .map(|span| span.2)
            .fold(f64::INFINITY, f64::min);
        let span = last - first;
        let late: Vec<String> = spans
            .iter()
            .filter_map(|(stream, begun, ended)| {
                let (late, early) = (begun - first, last - ended);
                if late > span * ABSENT {
                    Some(format!(
                        "stream {stream} began {} late",
                        words::seconds(late)
                    ))
                } else if early > span * ABSENT {
                    Some(format!(
                        "stream {stream} ended {} early",
                        words::seconds(early)
                    ))
                } else {
                    None
                }
            })
            .collect();
        ok &= late.is_empty();
        let active = format!(
            "all {} active for {} of {}",
            spans.len(),
            words::seconds((to - from).max(0.0)),
            words::seconds(span)
        );
        details.push(if late.is_empty() {
            active
        } else {
            format!("{}; {active}", words::listed(&late))
        });
    }
    if details.is_empty() {
        let why = does_not_apply("there is one stream");
        return check("streams_overlap", None, Severity::Warn, why);
    }
    check(
        "streams_overlap",
        Some(ok),
        Severity::Warn,
        details.join("; "),
    )
}

pub(super) fn not_shared_host(end: &FlowEnd, environment: &Environment) -> Check {
    let detail = if end.same_host {
        let cores = match environment.cpus {
            None => "the same cores".to_owned(),
            Some(1) => "the one core of this machine".to_owned(),
            Some(cpus) => format!("the {cpus} cores of this machine"),
        };
        format!("both ends share {cores}, and no network lies between")
    } else {
        "both ends share no core".to_owned()
    };
    check(
        "not_shared_host",
        Some(!end.same_host),
        Severity::Warn,
        detail,
    )
}

fn complete(run: &Flows<'_>) -> Check {
    let asked = run.summary.streams_asked;
    let failed = run.failed().count();
    let came = run
        .summary
        .streams
        .iter()
        .filter(|stream| stream.failed.is_none())
        .count();
    let streams = format!(
        "{came} of {}",
        words::counted(asked.into(), "stream", "streams")
    );
    let duration = run.summary.duration_s;
    let omit_s = if run.plan.peer_omits() {
        run.plan.omit_s
    } else {
        0.0
    };
    let of = run.plan.sending_s().map(|all| all - omit_s);
    let short = of.is_some_and(|of| duration < of * 0.95 - 0.2);
    let time = match of {
        Some(of) if run.end.stopped || short => {
            format!("{} of {}", words::instant(duration), words::instant(of))
        }
        _ => words::instant(duration),
    };
    let all = u32::try_from(came).unwrap_or(u32::MAX) >= asked && failed == 0;
    let ok = all && !run.end.stopped && !short;
    let begins = if run.end.stopped {
        "stopped after "
    } else {
        ""
    };
    let severity = if all { Severity::Warn } else { Severity::Fail };
    let mut detail = format!("{begins}{time}, {streams}");
    if let Some(remark) = run.end.remarks.first() {
        detail = format!("{detail}; {}", remark.trim_end_matches('.'));
    }
    check("complete", Some(ok), severity, detail)
}
