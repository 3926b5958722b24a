//! What stands behind the rate on a line of iperf 2 or 3: each column by its own form, since sums and totals leave
//! columns out and old versions print them without a head.

use super::scan::{Number, Scan, named_numbers};

/// The columns of one line.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    pub(super) jitter_ms: Option<Number>,
    /// Lost, of how many; percent.
    pub(super) lost: Option<(Number, Number)>,
    pub(super) lost_percent: Option<Number>,
    pub(super) datagrams: Option<Number>,
    pub(super) retransmits: Option<Number>,
    pub(super) cwnd_bytes: Option<f64>,
    pub(super) rtt_ms: Option<f64>,
    /// All others, by their names in the head where they have one.
    pub(super) more: Vec<(String, f64)>,
    /// `sender` or `receiver`, where iperf 3 says whose count it is.
    pub(super) whose: Option<Whose>,
    /// iperf 3's `(omitted)`.
    pub(super) omitted: bool,
}

/// Whose count a total of iperf 3 is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Sender,
    Receiver,
}

impl Columns {
    fn keep(&mut self, name: &str, number: Number) {
        if let Some(value) = number.figure() {
            self.more.push((name.to_owned(), value));
        }
    }

    fn keep_all(&mut self, names: [&str; 4], numbers: [Number; 4]) {
        for (name, number) in names.into_iter().zip(numbers) {
            self.keep(name, number);
        }
    }
}

/// Reads the columns; `head` is the line of their names. `None` when something is left that is no column.
pub(super) fn columns(text: &str, head: &str) -> Option<Columns> {
    let mut out = Columns::default();
    let mut scan = Scan::new(text);
    loop {
        scan.blanks();
        if scan.rest.is_empty() {
            return Some(out);
        }
        if let Some(after) = word(&mut scan, &mut out) {
            if after {
                continue;
            }
            return Some(out);
        }
        column(&mut scan, &mut out, head)?;
    }
}

/// Words of iperf 3, and iperf 2's histograms, which end the line: `Some(false)`.
fn word(scan: &mut Scan<'_>, out: &mut Columns) -> Option<bool> {
    if scan.eat("sender") {
        out.whose = Some(Whose::Sender);
    } else if scan.eat("receiver") {
        out.whose = Some(Whose::Receiver);
    } else if scan.eat("(omitted)") {
        out.omitted = true;
    } else if scan.rest.contains("-PDF:") {
        out.more.extend(named_numbers(scan.rest));
        return Some(false);
    } else {
        return None;
    }
    Some(true)
}

const SPREAD: [&str; 4] = ["avg_ms", "min_ms", "max_ms", "stdev_ms"];

/// One column.
fn column(scan: &mut Scan<'_>, out: &mut Columns, head: &str) -> Option<()> {
    if scan.eat("(") {
        // Writes of `--trip-times`: how many bursts, and how large.
        let bursts = scan.number()?;
        let size = scan.eat("/").then(|| scan.number()).flatten()?;
        scan.eat(")").then_some(())?;
        out.keep("burst_count", bursts);
        out.keep("burst_size_bytes", size);
        return Some(());
    }
    let before = *scan;
    let first = scan.number()?;
    if scan.eat("=") {
        return counted(scan, out, first);
    }
    if scan.eat("K/") {
        out.cwnd_bytes = first.figure().map(|kilobytes| kilobytes * 1024.0);
        let rtt = scan.number()?;
        if scan.eat("(") {
            let variation = scan.number()?;
            scan.eat(")").then_some(())?;
            out.keep("rtt_variation_us", variation);
        }
        scan.then("us").then_some(())?;
        out.rtt_ms = rtt.figure().map(|microseconds| microseconds / 1e3);
        return Some(());
    }
    if scan.eat("/") {
        return fraction(scan, out, first);
    }
    if scan.then("ms") {
        out.jitter_ms = Some(first);
        return Some(());
    }
    for (unit, name) in [("pps", "packets_per_s"), ("rps", "requests_per_s")] {
        if scan.then(unit) {
            out.keep(name, first);
            return Some(());
        }
    }
    let mut volume = before;
    if let Some(bytes) = volume.bytes() {
        *scan = volume;
        if head.contains("Cwnd") {
            out.cwnd_bytes = bytes.figure();
        } else {
            out.keep("in_progress_bytes", bytes);
        }
        return Some(());
    }
    bare(out, first, head)
}

/// `10=0.045/0.017/0.282/0.083 ms` of a bounce back, or `25222=2307:3:2` of reads by size.
fn counted(scan: &mut Scan<'_>, out: &mut Columns, count: Number) -> Option<()> {
    let first = scan.number()?;
    if scan.eat("/") {
        let rest = spread(scan)?;
        out.keep("bounce_backs", count);
        out.keep_all(
            [
                "bounce_back_avg_ms",
                "bounce_back_min_ms",
                "bounce_back_max_ms",
                "bounce_back_stdev_ms",
            ],
            [first, rest[0], rest[1], rest[2]],
        );
        return scan.then("ms").then_some(());
    }
    out.keep("reads", count);
    out.keep("reads_bin_1", first);
    let mut bin = 2;
    while scan.eat(":") {
        let number = scan.number()?;
        out.keep(&format!("reads_bin_{bin}"), number);
        bin += 1;
    }
    Some(())
}

/// The last three of four numbers between strokes.
fn spread(scan: &mut Scan<'_>) -> Option<[Number; 3]> {
    let second = scan.number()?;
    let third = scan.eat("/").then(|| scan.number()).flatten()?;
    let fourth = scan.eat("/").then(|| scan.number()).flatten()?;
    Some([second, third, fourth])
}

/// What begins with two numbers and a stroke: lost of total, latencies, packets received, or writes and their errors.
fn fraction(scan: &mut Scan<'_>, out: &mut Columns, first: Number) -> Option<()> {
    let second = scan.number()?;
    if scan.eat("/") {
        let third = scan.number()?;
        let fourth = scan.eat("/").then(|| scan.number()).flatten()?;
        scan.then("ms").then_some(())?;
        let names = SPREAD.map(|name| format!("latency_{name}"));
        let names = [&*names[0], &*names[1], &*names[2], &*names[3]];
        out.keep_all(names, [first, second, third, fourth]);
        return Some(());
    }
    let mut ahead = *scan;
    if ahead.then("(") {
        let third = ahead.number()?;
        if ahead.eat("%)") {
            out.lost = Some((first, second));
            out.lost_percent = Some(third);
        } else {
            (ahead.eat(")") && ahead.then("pkts")).then_some(())?;
            out.keep("received_packets", first);
            out.keep("in_progress_packets", second);
            out.keep("in_progress_packets_now", third);
        }
        *scan = ahead;
        return Some(());
    }
    out.keep("writes", first);
    out.keep("write_errors", second);
    Some(())
}

/// A number alone: which column it is, the head and what was read before it say.
fn bare(out: &mut Columns, number: Number, head: &str) -> Option<()> {
    let known = |out: &Columns, name: &str| out.more.iter().any(|(known, _)| known == name);
    let retries = head.contains("Retr") || head.contains("Rtry");
    let after_writes = known(out, "writes") || known(out, "bounce_backs");
    if out.retransmits.is_none() && (retries || after_writes) && out.cwnd_bytes.is_none() {
        out.retransmits = Some(number);
    } else if head.contains("Datagrams") && out.datagrams.is_none() && out.lost.is_none() {
        out.datagrams = Some(number);
    } else if head.contains("NetPwr") && !known(out, "net_power") {
        out.keep("net_power", number);
    } else {
        return None;
    }
    Some(())
}
