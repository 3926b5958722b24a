//! The report with the keys of iperf 3.12's `-J`, and what it does not have under `tidemark`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::measure::plan::ThroughputPlan;
use crate::measure::plan::throughput::{Direction, Protocol};
use crate::measure::run::Run;
use crate::measure::summary::flow::{FlowInterval, StreamFigures, ThroughputSummary};
use crate::report::flow_tail::address_and_port;
use crate::report::iperf::rate;
use crate::report::iperf3::socket;

/// `start`, `intervals` and `end` of a run that has ended; a figure that does not exist has no key.
pub fn iperf3_json(
    run: &Run,
    plan: &ThroughputPlan,
    summary: &ThroughputSummary,
    intervals: &[FlowInterval],
) -> String {
    let writer = Writer { run, plan, summary };
    let mut report = json!({
        "start": writer.start(),
        "intervals": writer.intervals(intervals),
        "end": writer.end(),
        "tidemark": writer.findings(),
    });
    if let (Some(error), Value::Object(report)) = (&run.error, &mut report) {
        report.insert("error".to_owned(), json!(error));
    }
    // Keys and values of a report are texts and finite numbers.
    serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"
}

struct Writer<'r> {
    run: &'r Run,
    plan: &'r ThroughputPlan,
    summary: &'r ThroughputSummary,
}

/// Adds a value under its key where there is one.
fn put(object: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), value.into());
    }
}

impl Writer<'_> {
    fn udp(&self) -> bool {
        self.plan.protocol == Protocol::Udp
    }

    fn start(&self) -> Value {
        let (run, plan) = (self.run, self.plan);
        let connected: Vec<Value> = self
            .summary
            .streams
            .iter()
            .filter_map(|stream| {
                let local = address_and_port(stream.local.as_deref()?)?;
                let remote = address_and_port(stream.remote.as_deref()?)?;
                Some(json!({
                    "socket": socket(plan, &stream.direction, stream.id),
                    "local_host": local.0,
                    "local_port": local.1,
                    "remote_host": remote.0,
                    "remote_port": remote.1,
                }))
            })
            .collect();
        let at = run.started_at.unwrap_or(run.created_at);
        let rate = plan.bandwidth_bits_per_second.unwrap_or(0.0);
        let mut start = Map::new();
        put(&mut start, "connected", Some(connected));
        put(
            &mut start,
            "version",
            Some(format!("tidemark {}", run.environment.version)),
        );
        put(
            &mut start,
            "system_info",
            run.environment
                .kernel
                .as_ref()
                .map(|kernel| format!("Linux {} {kernel}", run.node)),
        );
        put(
            &mut start,
            "timestamp",
            Some(json!({
                "time": at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
                "timesecs": at.as_second(),
            })),
        );
        put(
            &mut start,
            "connecting_to",
            Some(json!({"host": plan.host, "port": plan.port})),
        );
        put(&mut start, "tcp_mss", plan.mss_bytes);
        put(&mut start, "target_bitrate", Some(whole(rate)));
        put(
            &mut start,
            "sock_bufsize",
            Some(plan.window_bytes.unwrap_or(0)),
        );
        let window = |way: &str| {
            let part = self.summary.directions.get(way);
            part.unwrap_or(self.summary).window_bytes.got
        };
        let sends = plan.direction != Direction::Receive;
        let receives = plan.direction != Direction::Send;
        put(
            &mut start,
            "sndbuf_actual",
            window("send").filter(|_| sends),
        );
        put(
            &mut start,
            "rcvbuf_actual",
            window("receive").filter(|_| receives),
        );
        put(
            &mut start,
            "test_start",
            Some(json!({
                "protocol": if self.udp() { "UDP" } else { "TCP" },
                "num_streams": plan.streams,
                "blksize": plan.length_bytes,
                "omit": whole(plan.omit_s),
                "duration": plan.duration_s.map_or(json!(0), whole),
                "bytes": plan.bytes.unwrap_or(0),
                "blocks": 0,
                "reverse": u8::from(plan.direction == Direction::Receive),
                "tos": plan.tos.unwrap_or(0),
                "target_bitrate": whole(rate),
            })),
        );
        Value::Object(start)
    }

    fn intervals(&self, rows: &[FlowInterval]) -> Vec<Value> {
        let mut origins: BTreeMap<&str, f64> = BTreeMap::new();
        let mut steps: Vec<(u64, Vec<&FlowInterval>)> = Vec::new();
        for row in rows {
            let origin = *origins.entry(&row.direction).or_insert(row.start_s);
            let step = index((row.start_s - origin) / self.plan.interval_s.max(1e-3));
            match steps.iter_mut().rev().find(|(known, _)| *known == step) {
                Some((_, rows)) => rows.push(row),
                None => steps.push((step, vec![row])),
            }
        }
        let origin_of = |row: &FlowInterval| origins.get(row.direction.as_str()).copied();
        steps
            .iter()
            .map(|(_, rows)| {
                let mut step = Map::new();
                let (sums, streams): (Vec<&FlowInterval>, Vec<&FlowInterval>) =
                    rows.iter().partition(|row| row.stream == "SUM");
                let streams: Vec<Value> = streams
                    .iter()
                    .map(|row| self.interval(row, origin_of(row)))
                    .collect();
                put(&mut step, "streams", Some(streams));
                for sum in sums {
                    let both = self.plan.direction == Direction::Both;
                    let key = if both && sum.direction == "receive" {
                        "sum_bidir_reverse"
                    } else {
                        "sum"
                    };
                    put(&mut step, key, Some(self.interval(sum, origin_of(sum))));
                }
                Value::Object(step)
            })
            .collect()
    }

    fn interval(&self, row: &FlowInterval, origin: Option<f64>) -> Value {
        let origin = origin.unwrap_or(0.0);
        let omit_s = self.plan.omit_s;
        let omitted = row.start_s - origin < omit_s - 1e-6;
        let counted = if omitted { origin } else { origin + omit_s };
        let mut out = Map::new();
        if let Ok(stream) = row.stream.parse() {
            put(
                &mut out,
                "socket",
                Some(socket(self.plan, &row.direction, stream)),
            );
        }
        put(&mut out, "start", number(row.start_s - counted));
        put(&mut out, "end", number(row.end_s - counted));
        put(&mut out, "seconds", number(row.end_s - row.start_s));
        put(&mut out, "bytes", Some(row.bytes));
        put(
            &mut out,
            "bits_per_second",
            row.bits_per_second.and_then(number),
        );
        put(&mut out, "retransmits", row.retransmits);
        put(&mut out, "snd_cwnd", row.cwnd_bytes);
        put(&mut out, "rtt", row.rtt_ms.map(|ms| whole(ms * 1e3)));
        if self.udp() {
            put(&mut out, "jitter_ms", row.jitter_ms.and_then(number));
            put(&mut out, "lost_packets", row.lost);
            put(&mut out, "packets", row.datagrams);
            let share = row
                .lost
                .zip(row.datagrams)
                .and_then(|(lost, all)| (all > 0).then(|| lost as f64 / all as f64 * 100.0));
            put(&mut out, "lost_percent", share.and_then(number));
        }
        put(&mut out, "omitted", Some(omitted));
        put(&mut out, "sender", Some(row.direction == "send"));
        Value::Object(out)
    }

    fn end(&self) -> Value {
        let summary = self.summary;
        let mut end = Map::new();
        let good = summary.streams.iter().filter(|s| s.failed.is_none());
        let streams: Vec<Value> = good.map(|stream| self.stream(stream)).collect();
        put(&mut end, "streams", Some(streams));
        let both = !summary.directions.is_empty();
        let ahead = summary.directions.get("send").unwrap_or(summary);
        if self.udp() {
            let figures = self.sum(ahead, ahead.bytes_received.or(ahead.bytes_sent), true);
            put(&mut end, "sum", Some(figures));
        }
        self.sums(&mut end, ahead, "");
        if both && let Some(back) = summary.directions.get("receive") {
            self.sums(&mut end, back, "_bidir_reverse");
        }
        let share = |s: f64| (summary.duration_s > 0.0).then(|| s / summary.duration_s * 100.0);
        let (user, system) = (summary.cpu.user_s, summary.cpu.system_s);
        let mut cpu = Map::new();
        put(
            &mut cpu,
            "host_total",
            share(user + system).and_then(number),
        );
        put(&mut cpu, "host_user", share(user).and_then(number));
        put(&mut cpu, "host_system", share(system).and_then(number));
        put(&mut end, "cpu_utilization_percent", Some(cpu));
        if !self.udp() {
            let key = if self.plan.direction == Direction::Receive {
                "receiver_tcp_congestion"
            } else {
                "sender_tcp_congestion"
            };
            put(&mut end, key, summary.congestion.clone());
        }
        Value::Object(end)
    }

    fn stream(&self, stream: &StreamFigures) -> Value {
        let id = socket(self.plan, &stream.direction, stream.id);
        let sends = stream.direction == "send";
        let base = |bytes: u64| {
            let mut out = Map::new();
            put(&mut out, "socket", Some(id));
            put(&mut out, "start", Some(0));
            put(&mut out, "end", number(stream.duration_s));
            put(&mut out, "seconds", number(stream.duration_s));
            put(&mut out, "bytes", Some(bytes));
            let rate = rate(Some(bytes), stream.duration_s);
            put(&mut out, "bits_per_second", rate.and_then(number));
            out
        };
        if let Some(datagrams) = &stream.datagrams {
            let bytes = stream.bytes_received.or(stream.bytes_sent).unwrap_or(0);
            let mut udp = base(bytes);
            put(&mut udp, "jitter_ms", datagrams.jitter_ms.and_then(number));
            put(&mut udp, "lost_packets", datagrams.lost);
            let all = datagrams
                .received
                .zip(datagrams.lost)
                .map(|(a, b)| a.saturating_add(b));
            put(&mut udp, "packets", all.or(datagrams.sent));
            put(&mut udp, "lost_percent", lost_percent(datagrams.lost, all));
            put(&mut udp, "out_of_order", datagrams.out_of_order);
            put(&mut udp, "sender", Some(sends));
            return json!({"udp": udp});
        }
        let mut out = Map::new();
        for (key, bytes) in [
            ("sender", stream.bytes_sent),
            ("receiver", stream.bytes_received),
        ] {
            let Some(bytes) = bytes else {
                continue;
            };
            let mut end = base(bytes);
            if key == "sender" {
                put(&mut end, "retransmits", stream.retransmits);
                put(
                    &mut end,
                    "mean_rtt",
                    stream.rtt_ms.map(|ms| whole(ms * 1e3)),
                );
            }
            put(&mut end, "sender", Some(sends));
            out.insert(key.to_owned(), Value::Object(end));
        }
        Value::Object(out)
    }

    /// `sum_sent` and `sum_received`, each where its count is known.
    fn sums(&self, end: &mut Map<String, Value>, part: &ThroughputSummary, suffix: &str) {
        for (key, bytes, received) in [
            ("sum_sent", part.bytes_sent, false),
            ("sum_received", part.bytes_received, true),
        ] {
            if bytes.is_some() {
                let figures = self.sum(part, bytes, received);
                put(end, &format!("{key}{suffix}"), Some(figures));
            }
        }
    }

    fn sum(&self, part: &ThroughputSummary, bytes: Option<u64>, received: bool) -> Value {
        let mut out = Map::new();
        put(&mut out, "start", Some(0));
        put(&mut out, "end", number(part.duration_s));
        put(&mut out, "seconds", number(part.duration_s));
        put(&mut out, "bytes", bytes);
        let rate = rate(bytes, part.duration_s);
        put(&mut out, "bits_per_second", rate.and_then(number));
        match part.udp.as_ref().filter(|_| self.udp()) {
            Some(udp) if received => {
                put(&mut out, "jitter_ms", udp.jitter_ms.and_then(number));
                put(&mut out, "lost_packets", udp.datagrams_lost);
                let all = udp
                    .datagrams_received
                    .zip(udp.datagrams_lost)
                    .map(|(a, b)| a.saturating_add(b));
                put(&mut out, "packets", all.or(udp.datagrams_sent));
                put(
                    &mut out,
                    "lost_percent",
                    lost_percent(udp.datagrams_lost, all),
                );
            }
            Some(udp) => put(&mut out, "packets", udp.datagrams_sent),
            None if !received => put(&mut out, "retransmits", part.retransmits),
            None => {}
        }
        let sends = part.streams.iter().all(|stream| stream.direction == "send");
        put(&mut out, "sender", Some(sends));
        Value::Object(out)
    }

    fn findings(&self) -> Value {
        json!({
            "run": self.run.id,
            "bits_per_second": self.summary.bits_per_second.and_then(number),
            "limited_by": self.summary.limited_by,
            "limits": self.run.limits,
            "checks": self.run.checks,
            "verdict": self.run.verdict,
            "receive": self.summary.receive,
            "offload": self.summary.offload,
        })
    }
}

fn lost_percent(lost: Option<u64>, of: Option<u64>) -> Option<f64> {
    let (lost, of) = lost.zip(of).filter(|(_, of)| *of > 0)?;
    Some(lost as f64 / of as f64 * 100.0)
}

/// JSON has no number that is not finite.
fn number(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Without a decimal point where it needs none, as iperf 3 writes its settings.
fn whole(value: f64) -> Value {
    crate::measure::plan::tidy(value)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and no run has so many intervals"
)]
fn index(steps: f64) -> u64 {
    steps.round().max(0.0) as u64
}
