//! The text of ping of iputils: packets one by one, and the statistics below them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::agree::{Agreement, exact};
use super::blocks::Block;
use super::finish::{self, Parts};
use super::flow::Unknown;
use super::httperf::put;
use super::scan::{LARGEST, Number, Scan, named_numbers};
use super::{Further, Import, ImportError, Line, template};
use crate::measure::flow::{Echo, FlowBatch};
use crate::measure::fold::{Closed, Series};
use crate::measure::plan::ping::PingMethod;
use crate::measure::plan::{ImportedPlan, Kind, PingPlan};
use crate::measure::run::Check;
use crate::measure::summary::Imported;
use crate::measure::summary::flow::EchoRow;
use crate::measure::summary::ping::PingFold;
use crate::measure::units::{ms_text, share_text};

/// Packets that are kept one by one.
const MOST_PACKETS: u64 = 200_000;

/// One answer.
#[derive(Clone, Copy, Debug)]
struct Answer {
    rtt: Option<Number>,
    ttl: Option<u8>,
    duplicates: u32,
}

/// Reads the block.
pub(super) fn read(block: &Block<'_>) -> Result<Import, ImportError> {
    let mut plan = ImportedPlan::new(Kind::Ping, "ping");
    let mut command = String::new();
    if let Some(line) = &block.command {
        line.line(None).clone_into(&mut command);
        line.note(&mut plan, None);
    }
    let mut reader = Reader {
        plan,
        summary: Imported::new(Kind::Ping),
        answers: BTreeMap::new(),
        last: 0,
        times: None,
        time_ms: None,
        further: Vec::new(),
        unknown: Unknown::default(),
        errors: Vec::new(),
        ours: Vec::new(),
    };
    for line in &block.lines {
        reader.line(*line)?;
    }
    reader.finish(block, command)
}

struct Reader {
    plan: ImportedPlan,
    summary: Imported,
    answers: BTreeMap<u32, Answer>,
    /// The last sequence number, counted on beyond 65535.
    last: u32,
    /// min, avg, max, mdev as printed.
    times: Option<[Number; 4]>,
    time_ms: Option<f64>,
    further: Vec<Further>,
    unknown: Unknown,
    errors: Vec<String>,
    ours: Vec<(String, f64)>,
}

impl Reader {
    fn line(&mut self, line: Line<'_>) -> Result<(), ImportError> {
        let text = line.text.trim();
        if text.is_empty()
            || super::command::find(text).is_some()
            || text.ends_with(" ping statistics ---")
        {
            return Ok(());
        }
        if text.starts_with("PING ") {
            self.head(line, text);
        } else if text.contains("icmp_seq=") && text.contains(" bytes from ") {
            self.answer(text).ok_or_else(|| unreadable(line))?;
        } else if text.contains(" packets transmitted, ") {
            self.counts(line, text).ok_or_else(|| unreadable(line))?;
        } else if text.starts_with("rtt min/avg/max/mdev = ")
            || text.starts_with("round-trip min/avg/max")
        {
            self.spread(line, text).ok_or_else(|| unreadable(line))?;
        } else if text.starts_with("From ")
            || text.starts_with("no answer yet")
            || text.starts_with("ping: ")
        {
            if self.errors.len() < 200 {
                self.errors.push(super::shown(text));
            }
            self.keep(line.number, "icmp", named_numbers(text));
        } else if let Some(found) = template::read("Median: {median} ms", text) {
            self.ours.push(("median".to_owned(), found[0].1.value));
        } else if text.starts_with("Verdict: ") {
            self.keep(line.number, "Verdict", named_numbers(text));
        } else {
            self.unknown.note(line);
        }
        Ok(())
    }

    fn keep(&mut self, line: usize, of: &str, figures: Vec<(String, f64)>) {
        if !figures.is_empty() && self.further.len() < 2_000 {
            self.further.push(Further::new(line, of, figures));
        }
    }

    /// `PING host (10.0.0.2) 56(84) bytes of data.`, `PING ::1(::1) 56 data bytes`
    fn head(&mut self, line: Line<'_>, text: &str) {
        let rest = text.trim_start_matches("PING ");
        let name = rest.split([' ', '(']).next().unwrap_or_default();
        if !name.is_empty() {
            self.plan.note("host", name);
        }
        if let Some((_, address)) = rest.split_once('(')
            && let Some((address, after)) = address.split_once(')')
        {
            self.summary.set("address", super::shown(address));
            let sizes = after.rsplit_once(": ").map_or(after, |(_, sizes)| sizes);
            let mut scan = Scan::new(sizes);
            if let Some(size) = scan.number().and_then(Number::count) {
                self.plan.set("size_bytes", size);
                if scan.eat("(")
                    && let Some(packet) = scan.number()
                {
                    let figures = vec![
                        ("packet_bytes".to_owned(), packet.value),
                        ("size_bytes".to_owned(), size as f64),
                    ];
                    self.keep(line.number, "packet", figures);
                }
            }
        }
        self.summary.set("method", "icmp");
    }

    /// `64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.025 ms (DUP!)`
    fn answer(&mut self, text: &str) -> Option<()> {
        let (before, after) = text.split_once("icmp_seq=")?;
        let mut scan = Scan::new(after);
        let printed = u32::try_from(scan.number()?.count()?).ok()?;
        let ttl = if scan.then("ttl=") {
            Some(u8::try_from(scan.number()?.count()?).ok()?)
        } else {
            None
        };
        let rtt = if scan.then("time=") {
            let rtt = scan.number()?;
            scan.then("ms").then_some(())?;
            Some(rtt)
        } else {
            None
        };
        let bytes = before
            .rsplit(']')
            .next()
            .and_then(|before| Scan::new(before).number())?
            .count()?;
        self.summary.set("reply_bytes", bytes);
        // The number on the wire has 16 bits.
        let turns = self.last / 65_536;
        let mut seq = turns.checked_mul(65_536)?.checked_add(printed)?;
        if printed < 65_536 && seq + 32_768 < self.last {
            seq = seq.checked_add(65_536)?;
        }
        self.last = self.last.max(seq);
        if scan.then("(DUP!)")
            && let Some(known) = self.answers.get_mut(&seq)
        {
            known.duplicates += 1;
            return Some(());
        }
        self.answers.insert(
            seq,
            Answer {
                rtt,
                ttl,
                duplicates: 0,
            },
        );
        Some(())
    }

    /// `5 packets transmitted, 5 received, +1 duplicates, 0% packet loss, time 4001ms`
    fn counts(&mut self, line: Line<'_>, text: &str) -> Option<()> {
        for part in text.split(", ") {
            let mut scan = Scan::new(part.trim_start_matches("time "));
            let number = scan.number()?;
            match scan.rest.trim() {
                "packets transmitted" => self.summary.set("transmitted", number.count()?),
                "received" | "packets received" => self.summary.set("received", number.count()?),
                "duplicates" => self.summary.set("duplicates", number.count()?),
                "% packet loss" => put(&mut self.summary, "loss_percent", number),
                "ms" => {
                    self.time_ms = number.figure();
                    self.summary.set("duration_s", number.figure()? / 1e3);
                }
                other => self.keep(
                    line.number,
                    "statistics",
                    vec![(other.replace(' ', "_"), number.figure()?)],
                ),
            }
        }
        Some(())
    }

    /// `rtt min/avg/max/mdev = 0.025/0.035/0.044/0.007 ms, pipe 2, ipg/ewma 200.1/0.03 ms`
    fn spread(&mut self, line: Line<'_>, text: &str) -> Option<()> {
        let (_, values) = text.split_once("= ")?;
        let mut scan = Scan::new(values);
        let mut found = vec![scan.number()?];
        while scan.eat("/") {
            found.push(scan.number()?);
        }
        scan.then("ms").then_some(())?;
        for (name, number) in ["min", "avg", "max", "mdev"].iter().zip(&found) {
            self.summary
                .set(&format!("rtt_ms.{name}"), number.figure()?);
        }
        self.times = <[Number; 4]>::try_from(found).ok();
        // A row of names is a row of numbers too.
        let rest = scan.rest.replace("ipg/ewma ", "ipg/ewma=");
        self.keep(line.number, "statistics", named_numbers(&rest));
        Some(())
    }

    fn finish(mut self, block: &Block<'_>, command: String) -> Result<Import, ImportError> {
        let transmitted = self.summary.count("transmitted");
        if transmitted.is_none() && self.answers.is_empty() && self.errors.is_empty() {
            return Err(finish::nothing(block, &self.unknown, "ping"));
        }
        let interval_s = self
            .plan
            .facts()
            .get("interval_s")
            .and_then(serde_json::Value::as_f64)
            .or_else(|| {
                let gaps = transmitted?.checked_sub(1).filter(|gaps| *gaps > 0)?;
                Some(self.time_ms? / 1e3 / gaps as f64)
            })
            .filter(|s| (0.0..=86_400.0).contains(s))
            .unwrap_or(1.0);
        let echoes = self.echoes(transmitted, interval_s);
        let checks = self.checks();
        let (series, rows) = if self.answers.is_empty() {
            (None, Vec::new())
        } else {
            self.over_time(&echoes, interval_s)
        };
        for (name, value) in std::mem::take(&mut self.ours) {
            self.summary.set(&format!("rtt_ms.{name}"), value);
        }
        let said = self.said();
        let parts = Parts {
            plan: self.plan,
            command,
            summary: self.summary,
            checks,
            said,
            errors: self.errors,
            further: self.further,
            further_left_out: 0,
            unknown: self.unknown,
            started_at: None,
        };
        Ok(Import {
            series,
            rows,
            ..parts.import()
        })
    }

    /// Every packet, those without an answer too; the text tells no times, so they are an interval apart.
    fn echoes(&self, transmitted: Option<u64>, interval_s: f64) -> Vec<Echo> {
        let Some((first, _)) = self.answers.first_key_value() else {
            return Vec::new();
        };
        // ping counts from 1, some from 0.
        let first = (*first).min(1);
        let sent = transmitted
            .filter(|sent| *sent <= MOST_PACKETS)
            .and_then(|sent| u32::try_from(sent).ok())
            .unwrap_or(0);
        let end = self.last.max(first.saturating_add(sent).saturating_sub(1));
        let whole = u64::from(end - first) < MOST_PACKETS;
        let numbers: Vec<u32> = if whole {
            (first..=end).collect()
        } else {
            self.answers.keys().copied().collect()
        };
        let ms = |number: Number| {
            Duration::try_from_secs_f64(number.value.clamp(0.0, LARGEST) / 1e3).unwrap_or_default()
        };
        numbers
            .into_iter()
            .map(|number| {
                let answer = self.answers.get(&number);
                Echo {
                    seq: number.saturating_add(1 - first),
                    at: Duration::try_from_secs_f64(f64::from(number - first) * interval_s)
                        .unwrap_or_default(),
                    rtt: answer.and_then(|answer| answer.rtt).map(ms),
                    ttl: answer.and_then(|answer| answer.ttl),
                    duplicates: answer.map_or(0, |answer| answer.duplicates),
                    loaded: false,
                }
            })
            .collect()
    }

    fn over_time(&mut self, echoes: &[Echo], interval_s: f64) -> (Option<Series>, Vec<Closed>) {
        let plan = PingPlan {
            host: self.plan.text("host").unwrap_or_default().to_owned(),
            count: u32::try_from(echoes.len()).unwrap_or(u32::MAX),
            interval_s,
            size_bytes: 56,
            timeout_s: 1.0,
            method: PingMethod::Icmp,
            port: None,
        };
        let mut fold = PingFold::new(&plan);
        fold.push(&FlowBatch {
            until: echoes.last().map(|echo| echo.at).unwrap_or_default(),
            echoes: echoes.to_vec(),
            ..FlowBatch::default()
        });
        let end = fold.so_far();
        let figures = fold.summary(&end).rtt_ms.figures;
        let worked = [
            ("median", figures.median),
            ("stddev", figures.stddev),
            ("p50", figures.p50),
            ("p90", figures.p90),
            ("p95", figures.p95),
            ("p99", figures.p99),
            ("p99_9", figures.p99_9),
        ];
        for (name, value) in worked {
            if let Some(value) = value {
                self.summary.set(&format!("rtt_ms.{name}"), value);
            }
        }
        self.summary.set("rtt_ms.count", figures.count);
        if let Some(ttl) = self.answers.values().rev().find_map(|answer| answer.ttl) {
            self.summary.set("ttl", ttl);
        }
        let rows = echoes.iter().map(|echo| {
            let number = if self.answers.contains_key(&0) {
                echo.seq - 1
            } else {
                echo.seq
            };
            Closed::Echo(EchoRow {
                run: 0,
                seq: echo.seq,
                sent_s: echo.at.as_secs_f64(),
                // As it was printed, without what a duration rounds.
                rtt_ms: self
                    .answers
                    .get(&number)
                    .and_then(|answer| answer.rtt)
                    .and_then(Number::figure),
                ttl: echo.ttl,
                duplicates: echo.duplicates,
                loaded: false,
            })
        });
        (Some(Series::Flow(fold.series(&end))), rows.collect())
    }

    fn said(&self) -> String {
        let mut text = match self.summary.number("rtt_ms.avg") {
            Some(avg) => format!("ping said {} on average", ms_text(avg)),
            None => "ping got no answer".to_owned(),
        };
        if let (Some(percent), Some(sent)) = (
            self.summary.number("loss_percent"),
            self.summary.count("transmitted"),
        ) {
            // Writing to a string does not fail.
            let _ = write!(text, ", {} of {sent} lost", share_text(percent / 100.0));
        }
        text
    }

    fn checks(&self) -> Vec<Check> {
        let count = |name: &str| self.summary.count(name);
        let mut counts = Agreement::default();
        if let (Some(sent), Some(received)) = (count("transmitted"), count("received")) {
            counts.holds(received <= sent, || {
                format!("{received} answers to {sent} packets")
            });
            if let Some(percent) = self.summary.number("loss_percent").filter(|_| sent > 0) {
                let worked = 100.0 - received as f64 / sent as f64 * 100.0;
                // iputils cuts or rounds, by version.
                counts.same(
                    exact(worked),
                    Number {
                        value: percent,
                        half: 1.0,
                    },
                    0.0,
                    || format!("{received} of {sent} are a loss of {worked:.1} %, not {percent} %"),
                );
            }
            let listed = self.answers.len() as u64;
            if listed > 0 {
                counts.holds(listed == received, || {
                    format!("{received} answers are counted and {listed} are listed")
                });
            }
        }
        let mut times = Agreement::default();
        let listed: Vec<f64> = self
            .answers
            .values()
            .filter_map(|answer| answer.rtt?.figure())
            .collect();
        let largest_half = self
            .answers
            .values()
            .filter_map(|answer| Some(answer.rtt?.half))
            .fold(0.0, f64::max);
        if let (Some([min, avg, max, mdev]), false) = (self.times, listed.is_empty())
            && self.answers.len() as u64 == count("received").unwrap_or(0)
        {
            let n = listed.len() as f64;
            let mean = listed.iter().sum::<f64>() / n;
            let square = listed.iter().map(|rtt| rtt * rtt).sum::<f64>() / n;
            let spread = (square - mean * mean).max(0.0).sqrt();
            let smallest = listed.iter().copied().fold(f64::INFINITY, f64::min);
            let largest = listed.iter().copied().fold(0.0, f64::max);
            // Round trips are printed with three digits, the statistics in microseconds, cut.
            for (name, printed, worked) in [
                ("min", min, smallest),
                ("avg", avg, mean),
                ("max", max, largest),
                ("mdev", mdev, spread),
            ] {
                let worked = Number {
                    value: worked,
                    half: largest_half + 0.001,
                };
                times.same(worked, printed, 0.005, || {
                    format!(
                        "{name} is {} ms, that of the packets listed {:.3} ms",
                        printed.value, worked.value
                    )
                });
            }
        }
        [
            counts.check(
                "counts_agree",
                "Packets listed, sent, received and lost agree.",
            ),
            times.check(
                "times_agree",
                "Minimum, average, maximum and deviation are those of the packets listed.",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn unreadable(line: Line<'_>) -> ImportError {
    ImportError::at(line, "begins as one of ping's and cannot be read")
}
