//! What limited one direction of a throughput run, from the senders' own account, CPU, caps and round trips.

use crate::measure::flow::Way;
use crate::measure::flow_series::{CpuPoint, StreamTotals, TcpTotals};
use crate::measure::plan::throughput::Direction;
use crate::measure::run::Limit;
use crate::measure::verdict::flow::OneWay;
use crate::measure::verdict::words;

/// A bandwidth that was asked for counts as reached from here on.
const REACHED: f64 = 0.98;
/// More throttled periods than this are a limit.
const THROTTLED: f64 = 0.05;
/// The wire rate counts as at the cap within this share of it.
const AT_CAP: f64 = 0.05;
/// A thread is busy from this share of a core on; so is a core with software interrupts.
const BUSY: f64 = 0.9;
/// The whole machine is.
const HOST_BUSY: f64 = 0.95;
/// The hypervisor takes more than this.
const STOLEN: f64 = 0.05;
/// A sender is window or buffer limited above this share of its busy time, and idle above this share of all time.
const HELD: f64 = 0.3;
/// A rate is flat when every step is within this share of the median.
const FLAT: f64 = 0.02;
/// A run that no cause held for this share of its time was held by something else.
const HOLDS: f64 = 0.1;
/// A cause of a smaller share of the run is none.
const COUNTS: f64 = 0.005;
/// Loss from here on counts.
const LOSS: f64 = 0.001;

/// Causes with their shares and evidence, strongest first, in the order below where shares are about the same.
pub(super) fn of(one: &OneWay<'_>) -> Vec<Limit> {
    if one.bytes() == 0 {
        return vec![failed(one)];
    }
    let asked = bandwidth_asked(one);
    let as_asked = asked.is_some();
    let mut limits: Vec<Limit> = [asked, cgroup(one), egress_cap(one)]
        .into_iter()
        .flatten()
        .collect();
    limits.extend(cpu(one));
    if one.run.is_tcp() {
        limits.extend(windows(one));
        limits.extend(shaper(one));
        limits.extend(congestion(one));
        limits.extend(application(one).filter(|_| !as_asked));
    } else {
        limits.extend(datagrams(one));
    }
    limits.retain(|limit| limit.share >= COUNTS);
    // Stable: about the same shares stay in the order of the causes.
    limits.sort_by_key(|limit| std::cmp::Reverse(twentieths(limit.share)));
    let strongest = limits.first().map_or(0.0, |limit| limit.share);
    if strongest < HOLDS {
        limits.insert(0, limit("unknown", 1.0 - strongest, unknown(one)));
    }
    limits
}

fn limit(cause: &str, share: f64, evidence: String) -> Limit {
    Limit {
        cause: cause.to_owned(),
        share: if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        },
        evidence,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share from 0 to 1"
)]
fn twentieths(share: f64) -> u32 {
    (share * 20.0).round() as u32
}

fn failed(one: &OneWay<'_>) -> Limit {
    let why = one.run.failed().find_map(|stream| stream.failed.as_deref());
    let evidence = match why {
        Some(why) => why.trim_end_matches('.').to_owned(),
        None if one.run.is_tcp() => "nothing was acknowledged".to_owned(),
        None => "the receiver did not report anything".to_owned(),
    };
    limit("failed", 1.0, evidence)
}

fn unknown(one: &OneWay<'_>) -> String {
    if one.way == Way::Receive {
        "the sender is the other end, and it does not say what held it".to_owned()
    } else if one.totals().iter().all(|stream| stream.tcp.is_none()) && one.run.is_tcp() {
        "this kernel does not say what the sender waited for".to_owned()
    } else {
        "no cause that was looked for reached its threshold".to_owned()
    }
}

fn bandwidth_asked(one: &OneWay<'_>) -> Option<Limit> {
    let each = one.run.plan.bandwidth_bits_per_second?;
    let streams = one
        .summary
        .streams
        .iter()
        .filter(|stream| stream.failed.is_none())
        .count();
    let asked = each * streams as f64;
    let rate = one.rate()?;
    (rate >= asked * REACHED).then(|| {
        let evidence = format!(
            "{} of the {} asked for",
            words::bits(rate),
            words::bits(asked)
        );
        limit("bandwidth_asked", 1.0, evidence)
    })
}

fn cgroup(one: &OneWay<'_>) -> Option<Limit> {
    let throttled: Vec<f64> = one
        .run
        .series
        .cpu
        .iter()
        .filter_map(|point| point.throttled)
        .collect();
    let share = mean(&throttled)?;
    (share > THROTTLED).then(|| {
        let evidence = format!(
            "its CPU quota throttled this process in {} of the periods",
            words::percent(share)
        );
        limit("cgroup", share, evidence)
    })
}

/// The documented cap of the sending side: this node where it sends, the peer where it alone does.
pub(super) fn cap<'a>(one: &OneWay<'a>) -> Option<&'a (f64, String)> {
    let applies = one.way == Way::Send || one.run.plan.direction == Direction::Receive;
    one.run
        .end
        .egress_cap
        .as_ref()
        .filter(|(cap, _)| applies && *cap > 0.0)
}

fn egress_cap(one: &OneWay<'_>) -> Option<Limit> {
    let (cap, source) = cap(one)?;
    let wire = one.on_the_wire(one.rate()?);
    let is_at = |wire: f64| (wire / cap - 1.0).abs() <= AT_CAP;
    if !is_at(wire) {
        return None;
    }
    let steps = one.whole_steps();
    let at_cap = steps
        .iter()
        .filter_map(|step| step.bits_per_second())
        .filter(|rate| is_at(one.on_the_wire(*rate)))
        .count();
    let share = if steps.is_empty() {
        1.0
    } else {
        at_cap as f64 / steps.len() as f64
    };
    let evidence = format!(
        "on the wire {}, at {} of the documented cap of {} ({source})",
        words::bits(wire),
        words::percent(wire / cap),
        words::bits(*cap)
    );
    Some(limit("egress_cap", share, evidence))
}

/// CPU of this end, which sends or receives, and of the other where it tells.
fn cpu(one: &OneWay<'_>) -> Vec<Limit> {
    let (here, there) = match one.way {
        Way::Send => ("sender_cpu", "receiver_cpu"),
        Way::Receive => ("receiver_cpu", "sender_cpu"),
    };
    let mut limits: Vec<Limit> = own_cpu(one, here).into_iter().collect();
    if let Some(used) = one.run.end.peer_cpu.filter(|used| *used > BUSY) {
        let evidence = format!(
            "the peer says that it used {} of a core",
            words::percent(used)
        );
        limits.push(limit(there, used, evidence));
    }
    limits
}

fn own_cpu(one: &OneWay<'_>, cause: &str) -> Option<Limit> {
    let streams = one.totals();
    let all: u64 = streams.iter().map(|stream| stream.bytes).sum();
    let full: Vec<&&StreamTotals> = streams
        .iter()
        .filter(|stream| stream.wall_s > 0.0 && stream.cpu_s / stream.wall_s > BUSY)
        .collect();
    let carried: u64 = full.iter().map(|stream| stream.bytes).sum();
    let mut found: Vec<(f64, String)> = Vec::new();
    if let Some(most) = full
        .iter()
        .map(|stream| stream.cpu_s / stream.wall_s)
        .reduce(f64::max)
    {
        let names: Vec<String> = full
            .iter()
            .map(|stream| stream.stream.to_string())
            .collect();
        let more = if full.len() == 1 && streams.len() == 1 && cause == "sender_cpu" {
            "; more streams may go faster"
        } else {
            ""
        };
        let which = if streams.len() == 1 {
            "the stream's thread".to_owned()
        } else if full.len() == 1 {
            format!("the thread of stream {}", names[0])
        } else {
            format!("the threads of streams {}", words::listed(&names))
        };
        let used = words::percent(most);
        let up_to = if full.len() == 1 { "" } else { "up to " };
        let evidence = format!("{which} used {up_to}{used} of a core{more}");
        found.push((carried as f64 / all.max(1) as f64, evidence));
    }
    let points = &one.run.series.cpu;
    let touched = touched_by_cpu(one);
    for (of, most, words_of, touched) in [
        (
            (|point| point.softirq_busiest) as fn(&CpuPoint) -> f64,
            BUSY,
            "software interrupts fill one core",
            1.0,
        ),
        (
            |point| point.busy,
            HOST_BUSY,
            "all cores of this machine are busy",
            touched,
        ),
        (
            |point| point.steal,
            STOLEN,
            "the hypervisor takes CPU from this machine",
            touched,
        ),
    ] {
        let over = points.iter().filter(|point| of(point) > most).count();
        let largest = points.iter().map(of).fold(0.0, f64::max);
        let share = over as f64 / points.len().max(1) as f64;
        if share >= 0.2 {
            let share = share.min(touched);
            let evidence = format!("{words_of}, up to {}", words::percent(largest));
            found.push((share, evidence));
        }
    }
    let share = found.iter().map(|found| found.0).reduce(f64::max)?;
    let evidence: Vec<String> = found.into_iter().map(|found| found.1).collect();
    Some(limit(cause, share, evidence.join("; ")))
}

/// The share of the run that a machine without CPU to spare can have cost at most.
///
/// A TCP sender that gets too little CPU leaves its socket with nothing to send, or computes all the time; one that
/// does neither waits for the network or the peer, however busy the machine is with other work. Of receivers and
/// datagrams nobody tells, so all of it.
fn touched_by_cpu(one: &OneWay<'_>) -> f64 {
    let accounts = accounts(one);
    if one.way == Way::Receive || accounts.is_empty() {
        return 1.0;
    }
    accounts
        .iter()
        .map(|(weight, stream, tcp)| {
            let idle = 1.0 - tcp.busy_s / stream.wall_s;
            weight * (idle + stream.cpu_s / stream.wall_s).clamp(0.0, 1.0)
        })
        .sum::<f64>()
        .max(0.05)
}

/// What one stream's share of the whole is worth, and its account.
fn accounts<'a>(one: &OneWay<'a>) -> Vec<(f64, &'a StreamTotals, TcpTotals)> {
    let streams = one.totals();
    let all: u64 = streams.iter().map(|stream| stream.bytes).sum();
    streams
        .into_iter()
        .filter(|stream| stream.wall_s > 0.0)
        .filter_map(|stream| Some((stream.bytes as f64 / all.max(1) as f64, stream, stream.tcp?)))
        .collect()
}

/// Streams that one thing held back.
#[derive(Default)]
struct Held {
    share: f64,
    seconds: f64,
    of_seconds: f64,
    streams: Vec<String>,
    window: Option<(u64, f64)>,
}

impl Held {
    fn add(
        &mut self,
        weight: f64,
        stream: &StreamTotals,
        seconds: f64,
        window: Option<(u64, f64)>,
    ) {
        self.share += weight * seconds / stream.wall_s;
        self.seconds += seconds;
        self.of_seconds += stream.wall_s;
        self.streams.push(stream.stream.to_string());
        self.window = self.window.or(window);
    }

    fn limit(self, cause: &str, all: usize, words_of: impl Fn(&Self) -> String) -> Option<Limit> {
        let on = match self.streams.len() {
            0 => return None,
            n if n == all => String::new(),
            1 => format!(" on stream {}", self.streams[0]),
            _ => format!(" on streams {}", words::listed(&self.streams)),
        };
        let evidence = format!(
            "{} of {}{on}{}",
            words::seconds(self.seconds),
            words::seconds(self.of_seconds),
            words_of(&self)
        );
        Some(limit(cause, self.share, evidence))
    }
}

fn windows(one: &OneWay<'_>) -> Vec<Limit> {
    let accounts = accounts(one);
    let (mut window, mut reader, mut buffer) = (Held::default(), Held::default(), Held::default());
    for (weight, stream, tcp) in &accounts {
        if tcp.rwnd_limited_s > tcp.busy_s * HELD {
            let last = tcp.peer_window_bytes.map(|(last, _)| (last, tcp.rtt_ms));
            if window_is_full(one, stream, tcp) {
                window.add(*weight, stream, tcp.rwnd_limited_s, last);
            } else {
                reader.add(*weight, stream, tcp.rwnd_limited_s, last);
            }
        }
        if tcp.sndbuf_limited_s > tcp.busy_s * HELD {
            buffer.add(*weight, stream, tcp.sndbuf_limited_s, None);
        }
    }
    let all = accounts.len();
    let (asked, got) = one.run.end.send_buffer;
    [
        window.limit("receiver_window", all, |held| match held.window {
            Some((bytes, rtt)) if rtt > 0.0 => format!(
                ": a window of {} at {} lets through {} a stream; ask for a larger one (window_bytes; net.core.rmem_max allows it)",
                words::bytes(bytes),
                words::time(rtt),
                words::bits(bytes as f64 * 8.0 / (rtt / 1e3))
            ),
            _ => ": the peer's window was full".to_owned(),
        }),
        reader.limit("receiver_application", all, |_| {
            ": the receiving program took the bytes too slowly".to_owned()
        }),
        buffer.limit("send_buffer", all, |_| {
            let asked = asked.map_or("the system's".to_owned(), words::bytes);
            let got = got.map_or(String::new(), |got| format!(", got {}", words::bytes(got)));
            format!(": the send buffer was full (asked {asked}{got}); window_bytes and net.core.wmem_max allow more")
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether the peer's window is as large as it ever was and the stream fills it: then it is the window, not the
/// program behind it. Where the kernel does not tell the window, one that was asked for is taken for the reason.
fn window_is_full(one: &OneWay<'_>, stream: &StreamTotals, tcp: &TcpTotals) -> bool {
    let Some((last, largest)) = tcp.peer_window_bytes else {
        return one.run.plan.window_bytes.is_some();
    };
    let rate = stream.bytes as f64 / stream.wall_s;
    // The way there and back alone: a program that reads slowly delays the acknowledgements of a full window too.
    let way_ms = if tcp.min_rtt_ms > 0.0 {
        tcp.min_rtt_ms
    } else {
        tcp.rtt_ms
    };
    let in_flight = rate * way_ms / 1e3;
    last as f64 >= largest as f64 * 0.8 && in_flight >= last as f64 * 0.4
}

/// Something on the path that holds the rate: flat, with a queue of constant length before it.
fn shaper(one: &OneWay<'_>) -> Option<Limit> {
    if cap(one).is_some() {
        return None;
    }
    let rates: Vec<f64> = one
        .whole_steps()
        .iter()
        .filter_map(|step| step.bits_per_second())
        .collect();
    let middle = median(&rates).filter(|middle| *middle > 0.0 && rates.len() >= 5)?;
    let flat = rates
        .iter()
        .filter(|rate| (**rate / middle - 1.0).abs() <= FLAT)
        .count() as f64
        / rates.len() as f64;
    let Rise::Plateau { queue_ms } = rise(one) else {
        return None;
    };
    (flat >= 0.9).then(|| {
        let evidence = format!(
            "something on the path holds it at {}: flat within 2\u{a0}%, and the round trip stays {} above idle",
            words::bits(middle),
            words::time(queue_ms)
        );
        limit("shaper", flat, evidence)
    })
}

/// How load changes the round trip.
enum Rise {
    None,
    Plateau { queue_ms: f64 },
    Growth { queue_ms: f64 },
}

fn rise(one: &OneWay<'_>) -> Rise {
    let Some((idle, loaded)) = one.run.round_trips() else {
        return Rise::None;
    };
    let queue_ms = loaded - idle;
    if queue_ms < (idle * 0.5).max(0.3) {
        return Rise::None;
    }
    let series = one.run.series;
    let rtts: Vec<f64> = if series.echoes.is_empty() {
        let loaded = series.echo_bins.iter().filter(|bin| bin.loaded);
        loaded.filter_map(|bin| Some(bin.rtt_ms?.p50)).collect()
    } else {
        let loaded = series.echoes.iter().filter(|echo| echo.loaded);
        loaded.filter_map(|echo| echo.rtt_ms).collect()
    };
    // The first fifth is the queue filling.
    let settled = &rtts[rtts.len() / 5..];
    let third = settled.len() / 3;
    let level: Vec<f64> = (0..3)
        .filter_map(|index| median(&settled[index * third..(index + 1) * third]))
        .collect();
    let steady = level.len() == 3
        && level
            .iter()
            .all(|part| (part - loaded).abs() <= queue_ms * 0.3);
    if steady {
        Rise::Plateau { queue_ms }
    } else {
        Rise::Growth { queue_ms }
    }
}

fn congestion(one: &OneWay<'_>) -> Option<Limit> {
    let accounts = accounts(one);
    let sent: u64 = accounts.iter().map(|(_, stream, _)| stream.bytes).sum();
    let again: f64 = accounts
        .iter()
        .map(|(_, _, tcp)| {
            if tcp.retransmitted_bytes > 0 {
                tcp.retransmitted_bytes as f64
            } else {
                tcp.retransmits as f64 * f64::from(tcp.mss_bytes)
            }
        })
        .sum();
    let loss = again / (sent.max(1) as f64);
    let control = one.summary.congestion.as_deref().unwrap_or_default();
    // BBR sends on through loss, so there it means little unless the rate falls.
    let counts = loss > LOSS && (!control.starts_with("bbr") || falls(one));
    let mut evidence = Vec::new();
    if counts {
        evidence.push(format!("{} was sent again", words::percent(loss)));
    }
    if let Rise::Growth { queue_ms } = rise(one) {
        let queue = words::time(queue_ms);
        evidence.push(format!("the round trip grows by {queue} without settling"));
    }
    if evidence.is_empty() {
        return None;
    }
    let share = if accounts.is_empty() {
        // Only the round trips tell: nothing says how much of the time.
        0.5
    } else {
        accounts
            .iter()
            .map(|(weight, stream, tcp)| {
                let network = tcp.busy_s - tcp.rwnd_limited_s - tcp.sndbuf_limited_s;
                weight * (network / stream.wall_s).clamp(0.0, 1.0)
            })
            .sum()
    };
    Some(limit("congestion", share, evidence.join("; ")))
}

/// Whether the last third of the run is slower than the first by a tenth.
fn falls(one: &OneWay<'_>) -> bool {
    let rates: Vec<f64> = one
        .whole_steps()
        .iter()
        .filter_map(|step| step.bits_per_second())
        .collect();
    let third = rates.len() / 3;
    let first = mean(&rates[..third]);
    let last = mean(&rates[rates.len() - third..]);
    first
        .zip(last)
        .is_some_and(|(first, last)| last < first * 0.9)
}

fn application(one: &OneWay<'_>) -> Option<Limit> {
    let accounts = accounts(one);
    let idle: f64 = accounts
        .iter()
        .map(|(weight, stream, tcp)| weight * (1.0 - tcp.busy_s / stream.wall_s).clamp(0.0, 1.0))
        .sum();
    (idle > HELD).then(|| {
        let evidence = format!(
            "the sockets had nothing to send for {} of the time",
            words::percent(idle)
        );
        limit("application", idle, evidence)
    })
}

/// Missing datagrams: dropped by the receiver's socket, and the rest.
fn datagrams(one: &OneWay<'_>) -> Vec<Limit> {
    let Some(udp) = &one.summary.udp else {
        return Vec::new();
    };
    let Some((lost, got)) = udp.datagrams_lost.zip(udp.datagrams_received) else {
        return Vec::new();
    };
    let all = (lost + got).max(1);
    let drops = udp.dropped_by_receiver.unwrap_or(0);
    // With receive offload one drop is up to 64 datagrams, so what is missing by id is what counts.
    let by_receiver = if one.run.plan.offload && drops > 0 {
        lost
    } else {
        drops.min(lost)
    };
    let on_path = lost - by_receiver;
    let share = |n: u64| n as f64 / all as f64;
    let mut limits = Vec::new();
    if share(by_receiver) > LOSS {
        let evidence = format!(
            "{} of {} dropped by the receiving socket: its buffer was full",
            words::counted(by_receiver, "datagram", "datagrams"),
            words::count(all)
        );
        limits.push(limit("receiver_drops", share(by_receiver), evidence));
    }
    if share(on_path) > LOSS {
        let evidence = format!(
            "{} of {} lost on the way",
            words::counted(on_path, "datagram", "datagrams"),
            words::count(all)
        );
        limits.push(limit("congestion", share(on_path), evidence));
    }
    limits
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
