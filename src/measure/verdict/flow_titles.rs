//! The finding of a throughput run in one sentence, and what it means in at most two.

use crate::measure::plan::throughput::{Direction, Protocol, ThroughputPlan};
use crate::measure::run::Limit;
use crate::measure::summary::flow::ThroughputSummary;
use crate::measure::units;
use crate::measure::verdict::flow::{Flows, OneWay, peer_name};
use crate::measure::verdict::flow_limits;
use crate::measure::verdict::words;

/// What broke off before this never was a test.
const AT_ONCE_S: f64 = 0.25;
/// From this ratio on the streams share it badly.
const UNFAIR: f64 = 2.0;

/// Title and verdict.
pub(super) fn of(run: &Flows<'_>, limits: &[Limit]) -> (String, String) {
    let (titles, sentences) = if let Some(found) = nothing(run) {
        found
    } else if let Some(found) = broken_off(run) {
        found
    } else if let Some(found) = unconfirmed(run) {
        found
    } else {
        measured(run, limits)
    };
    let verdict: Vec<String> = sentences.into_iter().take(2).collect();
    (
        words::first_that_fits(titles, "Throughput"),
        verdict.join(" "),
    )
}

/// The title while the run still sends.
pub(super) fn live(plan: &ThroughputPlan, summary: &ThroughputSummary) -> String {
    let peer = peer_name(plan);
    match summary.bits_per_second.or(summary.bits_per_second_whole) {
        Some(rate) => words::first_that_fits(
            [format!(
                "{} {}, so far",
                words::bits(rate),
                way_words(plan.direction, &peer)
            )],
            "Throughput so far",
        ),
        None => "Throughput so far".to_owned(),
    }
}

fn way_words(direction: Direction, peer: &str) -> String {
    match direction {
        Direction::Send => format!("to {peer}"),
        Direction::Receive => format!("from {peer}"),
        Direction::Both => format!("to and from {peer}, together"),
        Direction::InTurn => format!("to and from {peer}, in turn"),
    }
}

type Finding = (Vec<String>, Vec<String>);

/// No stream got anything through.
fn nothing(run: &Flows<'_>) -> Option<Finding> {
    let moved = run.end.streams.iter().any(|stream| stream.bytes > 0);
    let got_through = run.ways().iter().any(|one| one.bytes() > 0);
    let why = run.failed().find_map(|stream| stream.failed.as_deref());
    let at_once = moved_for_s(run) < AT_ONCE_S;
    let vanished = why.is_some() && !at_once;
    let unanswered = why.is_none() && run.plan.protocol == Protocol::Udp;
    if got_through || (moved && (vanished || unanswered)) {
        return None;
    }
    let peer = run.peer();
    let mut titles = Vec::new();
    if let Some(why) = why {
        titles.push(format!(
            "No stream reached {peer}: {}",
            why.trim_end_matches('.')
        ));
    }
    titles.push(format!("No stream got anything through to {peer}"));
    let sentence = match run.end.remarks.first() {
        Some(remark) => remark.clone(),
        // What to do is said where the reason is known.
        None if moved && why.is_some() => "Nothing was measured.".to_owned(),
        None if why.is_some() => {
            "Nothing was measured: look whether a receiver listens there and whether a firewall lets this port through."
                .to_owned()
        }
        None => "Nothing was measured: the streams were set up, and no byte arrived.".to_owned(),
    };
    Some((titles, vec![sentence]))
}

/// How long something moved, in s.
fn moved_for_s(run: &Flows<'_>) -> f64 {
    let points = run.series.sums.iter().flat_map(|line| &line.points);
    let start = run.series.load_start_s.unwrap_or(0.0);
    points
        .filter(|point| point.bytes > 0)
        .map(|point| point.to_s - start)
        .fold(0.0, f64::max)
}

/// Every stream broke off while it moved, or nothing moved any more up to the end.
fn broken_off(run: &Flows<'_>) -> Option<Finding> {
    let streams = &run.series.streams;
    let all_failed =
        !run.end.streams.is_empty() && run.end.streams.iter().all(|stream| stream.failed.is_some());
    let quiet = !streams.is_empty()
        && streams.iter().all(|stream| {
            stream
                .silence_s
                .is_some_and(|(from, to)| to - from >= 2.0 && to >= run.series.covers_s - 1.5)
        });
    let lasted = moved_for_s(run);
    if !(all_failed || quiet) || lasted <= 0.0 {
        return None;
    }
    let after = words::instant(lasted);
    let of = run.plan.sending_s().map_or_else(String::new, |planned| {
        format!(" of {}", words::instant(planned))
    });
    let peer = run.peer();
    let why = run.failed().find_map(|stream| stream.failed.as_deref());
    let mut titles = Vec::new();
    if let Some(why) = why {
        titles.push(format!(
            "{peer} vanished after {after}{of}: {}",
            why.trim_end_matches('.')
        ));
    }
    titles.push(format!("{peer} vanished after {after}{of}"));
    let sentence =
        "From then on nothing moved, so there is no result for the whole test; the intervals hold what came before."
            .to_owned();
    Some((titles, vec![sentence]))
}

/// UDP without any word from the receiver: what was sent is no throughput.
fn unconfirmed(run: &Flows<'_>) -> Option<Finding> {
    let ways = run.ways();
    let one = ways.first().filter(|one| {
        !run.is_tcp() && one.rate().is_none() && one.summary.bytes_sent.is_some_and(|sent| sent > 0)
    })?;
    let sent = one.summary.udp.as_ref().and_then(|udp| udp.datagrams_sent);
    let what = match sent {
        Some(sent) => words::counted(sent, "datagram", "datagrams"),
        None => "All datagrams".to_owned(),
    };
    let peer = run.peer();
    let back = ways.iter().find_map(OneWay::rate);
    if let Some(back) = back {
        let back = words::bits(back);
        return Some((
            vec![
                format!("{back} from {peer}; nobody confirmed what arrived there"),
                format!("{back} from {peer}"),
            ],
            vec![
                "An iperf 2 server sends no report in a full-duplex UDP test, so for the way there only what was sent is known.".to_owned(),
                "One direction at a time, or one after the other (-r), has the report.".to_owned(),
            ],
        ));
    }
    Some((
        vec![
            format!("{what} left for {peer}; nobody confirmed that any arrived"),
            "Nobody confirmed that any datagram arrived".to_owned(),
        ],
        vec![
            "Without the receiver's report there is no throughput and no loss to state.".to_owned(),
            "Either nothing listens there, or a firewall keeps its answer back.".to_owned(),
        ],
    ))
}

fn measured(run: &Flows<'_>, limits: &[Limit]) -> Finding {
    let ways = run.ways();
    let (mut titles, mut sentences) = match ways.as_slice() {
        [one] => one_way(run, one, limits),
        _ => two_ways(run, &ways, limits),
    };
    if let Some(silence) = silence(run) {
        let with: Vec<String> = titles
            .iter()
            .map(|title| format!("{title}; {silence}"))
            .collect();
        titles = [with, vec![capital(&silence)], titles].concat();
        sentences.insert(1.min(sentences.len()), format!("{}.", capital(&silence)));
    }
    let failed = run.failed().count();
    if failed > 0 {
        let all = run.end.streams.len();
        let of = format!(
            "{} of {} failed and are not in the sum",
            failed,
            words::counted(all as u64, "stream", "streams")
        );
        let with: Vec<String> = titles
            .iter()
            .map(|title| format!("{title}; {of}"))
            .collect();
        titles = [with, titles].concat();
        sentences.insert(1.min(sentences.len()), format!("{}.", capital(&of)));
    }
    if run.end.stopped {
        let after = words::instant(run.summary.duration_s);
        sentences.insert(
            1.min(sentences.len()),
            format!("It was stopped after {after}, so this is only its beginning."),
        );
    }
    if run.end.same_host {
        sentences.push("Both ends share this machine, so no network was measured.".to_owned());
    }
    (titles, sentences)
}

fn one_way(run: &Flows<'_>, one: &OneWay<'_>, limits: &[Limit]) -> Finding {
    let peer = run.peer();
    let came = came(one);
    let streams = words::counted(came as u64, "stream", "streams");
    let verb = if came == 1 {
        ("reaches", "carries")
    } else {
        ("reach", "carry")
    };
    let rate = one.rate().map_or_else(|| "–".to_owned(), words::bits);
    let way = way_words(run.plan.direction, &peer);
    let cause = limits
        .first()
        .map_or("unknown", |limit| limit.cause.as_str());
    let queue = run
        .queue_ms()
        .map(|queue| format!("at a cost of {} of queue", words::time(queue)));
    let mut titles = Vec::new();
    if cause == "egress_cap"
        && let Some((cap, _)) = flow_limits::cap(one)
    {
        let base = format!(
            "{streams} {} the documented cap: {}",
            verb.0,
            of_cap(one.rate().unwrap_or(0.0), *cap)
        );
        titles.extend(queue.iter().map(|queue| format!("{base}, {queue}")));
        titles.push(base);
    }
    let loss = loss_words(one);
    let base = match cause {
        "bandwidth_asked" => format!("{streams} {} {rate} {way}, as asked", verb.1),
        _ => format!("{streams} {} {rate} {way}", verb.1),
    };
    if let Some(loss) = &loss {
        titles.push(format!("{base}; {loss}"));
    }
    titles.extend(queue.iter().map(|queue| format!("{base}, {queue}")));
    titles.push(base);
    titles.push(format!("{rate} {way}"));
    titles.push(rate);
    let mut sentences = vec![cause_sentence(one, cause, limits)];
    if let Some(queue) = run.queue_ms() {
        sentences.push(format!("It fills a queue of {}.", words::time(queue)));
    }
    if let Some(ratio) = one
        .summary
        .fastest_to_slowest
        .filter(|ratio| *ratio >= UNFAIR)
    {
        sentences.push(format!(
            "The streams share it badly, the fastest takes {}\u{a0}× the slowest.",
            one_decimal(ratio)
        ));
    }
    (titles, sentences)
}

fn two_ways(run: &Flows<'_>, ways: &[OneWay<'_>], limits: &[Limit]) -> Finding {
    let peer = run.peer();
    let rate = |one: &OneWay<'_>| one.rate().map_or_else(|| "nothing".to_owned(), words::bits);
    let (to, from) = match ways {
        [to, from] => (rate(to), rate(from)),
        _ => (String::new(), String::new()),
    };
    let titles = if run.plan.direction == Direction::InTurn {
        vec![
            format!("{to} to {peer}, then {from} from it"),
            format!("{to} one way, then {from} the other"),
        ]
    } else {
        let sum = run
            .summary
            .bits_per_second
            .map_or_else(|| "–".to_owned(), words::bits);
        vec![
            format!("{sum} in both directions together: {to} to {peer}, {from} from it"),
            format!("{sum} in both directions together"),
        ]
    };
    let cause = limits
        .first()
        .map_or("unknown", |limit| limit.cause.as_str());
    let mut sentences: Vec<String> = ways
        .first()
        .map(|one| cause_sentence(one, cause, limits))
        .into_iter()
        .collect();
    if let Some(queue) = run.queue_ms() {
        sentences.push(format!("It fills a queue of {}.", words::time(queue)));
    }
    (titles, sentences)
}

/// Streams that did not fail.
fn came(one: &OneWay<'_>) -> usize {
    one.summary
        .streams
        .iter()
        .filter(|stream| stream.failed.is_none())
        .count()
}

/// `74.9 of 75 Gbit/s`: both in the unit of the cap.
fn of_cap(rate: f64, cap: f64) -> String {
    let cap_words = words::bits(cap);
    let Some((_, unit)) = cap_words.rsplit_once('\u{a0}') else {
        return cap_words;
    };
    let factor = [
        ("Gbit/s", 1e9),
        ("Mbit/s", 1e6),
        ("kbit/s", 1e3),
        ("Tbit/s", 1e12),
    ]
    .into_iter()
    .find(|(name, _)| *name == unit)
    .map_or(1.0, |(_, factor)| factor);
    format!("{} of {cap_words}", units::significant(rate / factor))
}

fn one_decimal(value: f64) -> String {
    format!("{value:.1}")
}

/// Loss of datagrams; nothing for TCP, which sends again.
fn loss_words(one: &OneWay<'_>) -> Option<String> {
    let udp = one.summary.udp.as_ref()?;
    let percent = udp.lost_percent?;
    let lost = udp.datagrams_lost?;
    let all = lost + udp.datagrams_received?;
    Some(if lost == 0 {
        format!(
            "all {} arrived",
            words::counted(all, "datagram", "datagrams")
        )
    } else {
        format!(
            "{} of {} lost",
            words::percent(percent / 100.0),
            words::counted(all, "datagram", "datagrams")
        )
    })
}

fn cause_sentence(one: &OneWay<'_>, cause: &str, limits: &[Limit]) -> String {
    let evidence = limits.first().map_or("", |limit| limit.evidence.as_str());
    let loses = limits
        .iter()
        .any(|limit| ["congestion", "receiver_drops"].contains(&limit.cause.as_str()));
    match cause {
        "bandwidth_asked" if loses && !one.run.is_tcp() => {
            "As asked, and part of it is lost: this is more than the path or the receiver takes.".to_owned()
        }
        "bandwidth_asked" => {
            "As asked. How much more the path takes only a higher bandwidth can show.".to_owned()
        }
        "cgroup" => "Its CPU quota holds this process back; the network may take more.".to_owned(),
        "egress_cap" => {
            "The cap is what stops it: other counts of streams should not go faster.".to_owned()
        }
        "sender_cpu" if evidence.contains("more streams") => {
            "The sending thread is the limit: more streams may go faster.".to_owned()
        }
        "sender_cpu" => "The sender's CPU is the limit, not the network.".to_owned(),
        "receiver_cpu" => "The receiver's CPU is the limit, not the network.".to_owned(),
        "receiver_window" => {
            "The receiver's window is the limit: a larger one, or more streams, should go faster.".to_owned()
        }
        "receiver_application" => {
            "The receiving program is the limit: it takes the bytes too slowly.".to_owned()
        }
        "receiver_drops" => {
            "The receiver's socket dropped what its program did not take in time; the network delivered it.".to_owned()
        }
        "send_buffer" => {
            "The send buffer is the limit: a larger window, or more streams, should go faster.".to_owned()
        }
        "shaper" => {
            let steps: Vec<f64> = one
                .whole_steps()
                .iter()
                .filter_map(|step| step.bits_per_second())
                .collect();
            let rate = flow_limits::median(&steps).or(one.rate()).unwrap_or(0.0);
            format!("Something on the path holds it at {}.", words::bits(rate))
        }
        "congestion" => "The path is full: it loses or delays what comes beyond this.".to_owned(),
        "application" => {
            "The sending program had nothing to send for part of the time, so the network was not the limit.".to_owned()
        }
        _ => "What limits it the evidence does not show.".to_owned(),
    }
}

/// Streams that stood still while the run went on, by name.
fn silence(run: &Flows<'_>) -> Option<String> {
    let mut still: Vec<(u32, f64, f64)> = run
        .series
        .streams
        .iter()
        .filter(|stream| !stream.failed)
        .filter_map(|stream| stream.silence_s.map(|(from, to)| (stream.stream, from, to)))
        .collect();
    let all = run
        .series
        .streams
        .iter()
        .filter(|stream| !stream.failed)
        .count();
    still.sort_by(|a, b| (b.2 - b.1).total_cmp(&(a.2 - a.1)));
    let (stream, from, to) = *still.first()?;
    let start = run.series.load_start_s.unwrap_or(0.0);
    let when = format!(
        "from {} to {}",
        words::instant((from - start).max(0.0)),
        words::instant((to - start).max(0.0))
    );
    Some(if still.len() == all {
        format!("nothing moved {when}")
    } else if still.len() == 1 {
        format!("stream {stream} stood still {when}")
    } else {
        format!("{} streams stood still, the longest {when}", still.len())
    })
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
