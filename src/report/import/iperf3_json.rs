//! iperf 3's `-J`.

use std::collections::HashMap;

use serde_json::Value;

use super::agree::exact;
use super::blocks::Block;
use super::flow::{Draft, FlowRow, Of};
use super::iperf_row::Whose;
use super::scan::{LARGEST, Number, whole};
use super::{Import, ImportError, Line, finish};
use crate::measure::flow::Way;

/// Reads the block.
pub(super) fn read(block: &Block<'_>) -> Result<Import, ImportError> {
    let opens = block
        .lines
        .iter()
        .position(|line| line.text.trim_start().starts_with('{'));
    let first = opens.unwrap_or(0);
    let closes = block
        .lines
        .iter()
        .rposition(|line| line.text.trim_end().ends_with('}'));
    let last = closes
        .filter(|last| *last >= first)
        .unwrap_or(block.lines.len() - 1);
    let text: Vec<&str> = block.lines[first..=last]
        .iter()
        .map(|line| line.text)
        .collect();
    let root: Value = serde_json::from_str(&text.join("\n")).map_err(|error| {
        let at = first + error.line().saturating_sub(1);
        let line = block.lines.get(at).or(block.lines.last()).copied();
        let line = line.unwrap_or(Line {
            number: 1,
            text: "",
        });
        ImportError {
            line: Some(line.number),
            message: format!(
                "Line {} is no JSON of iperf3 ({error}): {}.",
                line.number,
                super::shown(line.text)
            ),
        }
    })?;
    let opening = block.lines[first];
    let mut draft = Draft::new("iperf3");
    for line in block.lines[..first].iter().chain(&block.lines[last + 1..]) {
        let text = line.text.trim();
        if !text.is_empty() && super::command::find(text).is_none() {
            draft.unknown.note(*line);
        }
    }
    let mut reader = Reader {
        draft,
        line: opening,
        by_socket: HashMap::new(),
        sums: 0,
    };
    reader.start(&root["start"], &root["end"]);
    let told = block
        .command
        .as_ref()
        .and_then(super::command::Command::is_server);
    reader.draft.is_server = told.unwrap_or(
        root["start"].get("connecting_to").is_none()
            && root["start"].get("accepted_connection").is_some(),
    );
    reader.connections(&root)?;
    for interval in root["intervals"].as_array().into_iter().flatten() {
        reader.interval(interval)?;
    }
    reader.end(&root["end"])?;
    if let Some(error) = root.get("error").and_then(Value::as_str) {
        reader.draft.errors.push(super::shown(error));
    }
    let mut draft = reader.draft;
    if let Some(command) = &block.command {
        command.line(told).clone_into(&mut draft.command);
        command.note(&mut draft.plan, told);
    }
    finish::flow(draft, block)
}

struct Reader<'a> {
    draft: Draft,
    /// The line on which the JSON begins.
    line: Line<'a>,
    by_socket: HashMap<u64, usize>,
    sums: usize,
}

impl Reader<'_> {
    fn start(&mut self, start: &Value, end: &Value) {
        let test = &start["test_start"];
        self.draft.is_udp = test["protocol"].as_str() == Some("UDP");
        self.draft.version = start["version"].as_str().map(super::shown);
        for (name, value) in [
            ("host", &start["connecting_to"]["host"]),
            ("port", &start["connecting_to"]["port"]),
        ] {
            if !value.is_null() {
                self.draft.plan.set(name, value.clone());
            }
        }
        let facts = [
            ("length_bytes", &test["blksize"]),
            ("omit_s", &test["omit"]),
            ("duration_s", &test["duration"]),
            ("tos", &test["tos"]),
        ];
        for (name, value) in facts {
            if value.as_f64().is_some_and(|value| value > 0.0) {
                self.draft.plan.set(name, value.clone());
            }
        }
        self.draft.started_at = start["timestamp"]["timesecs"]
            .as_i64()
            .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
        self.draft.congestion = end["sender_tcp_congestion"].as_str().map(super::shown);
        self.draft.window_got = start["sndbuf_actual"].as_u64().filter(|size| *size > 0);
        self.draft.window_asked = start["sock_bufsize"].as_u64().filter(|size| *size > 0);
        let cpu = &end["cpu_utilization_percent"];
        let shares = ["host_user", "host_system", "host_total"].map(|name| cpu[name].as_f64());
        self.draft.cpu = shares.iter().any(Option::is_some).then_some(shares);
        self.keep_all("start", start);
        self.keep_all("end", cpu);
    }

    /// Every number below, under its own path.
    fn keep_all(&mut self, of: &str, value: &Value) {
        let mut figures = Vec::new();
        walk("", value, &mut figures);
        self.draft.keep(self.line.number, of, figures);
    }

    fn connections(&mut self, root: &Value) -> Result<(), ImportError> {
        for connected in root["start"]["connected"].as_array().into_iter().flatten() {
            let Some(socket) = connected["socket"].as_u64() else {
                continue;
            };
            let way = self.way_of(root, socket);
            let stream = self.draft.connect(self.line, &socket.to_string(), way)?;
            let end = |side: &str| {
                let host = connected[format!("{side}_host")].as_str()?;
                let port = connected[format!("{side}_port")].as_u64()?;
                Some(super::shown(&format!("{host}:{port}")))
            };
            (
                self.draft.streams[stream].local,
                self.draft.streams[stream].remote,
            ) = (end("local"), end("remote"));
            self.by_socket.insert(socket, stream);
        }
        Ok(())
    }

    /// Which way a socket's bytes go: the first place that says whether this end is its sender.
    fn way_of(&self, root: &Value, socket: u64) -> Way {
        let intervals = root["intervals"].get(0).map(|first| &first["streams"]);
        let ends = root["end"]["streams"].as_array().into_iter().flatten();
        let first = intervals.and_then(Value::as_array).into_iter().flatten();
        let said = first
            .chain(ends.filter_map(|end| end.get("sender").or(end.get("udp"))))
            .find(|stream| stream["socket"].as_u64() == Some(socket))
            .and_then(|stream| stream["sender"].as_bool());
        match said {
            Some(true) => Way::Send,
            Some(false) => Way::Receive,
            None if root["start"]["test_start"]["reverse"].as_u64() == Some(1) => Way::Receive,
            None => self.draft.plain_way(),
        }
    }

    fn interval(&mut self, interval: &Value) -> Result<(), ImportError> {
        for stream in interval["streams"].as_array().into_iter().flatten() {
            let Some(of) = stream["socket"]
                .as_u64()
                .and_then(|socket| self.by_socket.get(&socket))
                .copied()
            else {
                continue;
            };
            let way = self.draft.streams[of].way;
            self.row(stream, Of::Stream(of), way, None)?;
        }
        for name in ["sum", "sum_bidir_reverse"] {
            if let Some(sum) = interval.get(name) {
                let way = self.sum_way(sum, name);
                self.row(sum, Of::Sum, Some(way), None)?;
            }
        }
        Ok(())
    }

    fn sum_way(&self, sum: &Value, name: &str) -> Way {
        match sum["sender"].as_bool() {
            Some(true) => Way::Send,
            Some(false) => Way::Receive,
            None => {
                let first = self
                    .draft
                    .streams
                    .first()
                    .and_then(|stream| stream.way)
                    .unwrap_or(Way::Send);
                match (name.ends_with("_reverse"), first) {
                    (false, way) => way,
                    (true, Way::Send) => Way::Receive,
                    (true, Way::Receive) => Way::Send,
                }
            }
        }
    }

    fn end(&mut self, end: &Value) -> Result<(), ImportError> {
        for stream in end["streams"].as_array().into_iter().flatten() {
            for (name, whose) in [
                ("sender", Whose::Sender),
                ("udp", Whose::Sender),
                ("receiver", Whose::Receiver),
            ] {
                let Some(total) = stream.get(name) else {
                    continue;
                };
                let Some(of) = total["socket"]
                    .as_u64()
                    .and_then(|socket| self.by_socket.get(&socket))
                    .copied()
                else {
                    continue;
                };
                let way = self.draft.streams[of].way;
                self.row(total, Of::Stream(of), way, Some(whose))?;
            }
        }
        // What a sum says of itself is whose test it is, so its way is that of the first streams.
        let first = self
            .draft
            .streams
            .first()
            .and_then(|stream| stream.way)
            .unwrap_or(Way::Send);
        let back = match first {
            Way::Send => Way::Receive,
            Way::Receive => Way::Send,
        };
        let sums = [
            ("sum_sent", Whose::Sender, first),
            ("sum_received", Whose::Receiver, first),
            ("sum_sent_bidir_reverse", Whose::Sender, back),
            ("sum_received_bidir_reverse", Whose::Receiver, back),
        ];
        for (name, whose, way) in sums {
            if let Some(sum) = end.get(name) {
                self.row(sum, Of::Sum, Some(way), Some(whose))?;
                self.sums += 1;
            }
        }
        if let Some(sum) = end.get("sum") {
            self.keep_all("end.sum", sum);
        }
        Ok(())
    }

    fn row(
        &mut self,
        value: &Value,
        of: Of,
        way: Option<Way>,
        whose: Option<Whose>,
    ) -> Result<(), ImportError> {
        let number = |name: &str| {
            value[name]
                .as_f64()
                .filter(|number| number.abs() <= LARGEST)
                .map(exact)
        };
        let count = |name: &str| value[name].as_f64().and_then(whole);
        let (Some(start_s), Some(end_s)) = (number("start"), number("end")) else {
            return Err(ImportError {
                line: Some(self.line.number),
                message: format!(
                    "The JSON of iperf3 that begins on line {} has an interval without start or end.",
                    self.line.number
                ),
            });
        };
        let lost = count("lost_packets")
            .and_then(|lost| i64::try_from(lost).ok())
            .zip(count("packets"));
        self.draft.rows.push(FlowRow {
            bytes: number("bytes"),
            rate: number("bits_per_second"),
            retransmits: count("retransmits"),
            rtt_ms: number("rtt")
                .or(number("mean_rtt"))
                .and_then(Number::figure)
                .map(|us| us / 1e3),
            cwnd_bytes: count("snd_cwnd").or_else(|| count("max_snd_cwnd")),
            jitter_ms: number("jitter_ms").and_then(Number::figure),
            lost,
            lost_percent: number("lost_percent"),
            datagrams: count("packets"),
            out_of_order: count("out_of_order"),
            whose,
            omitted: value["omitted"].as_bool() == Some(true),
            ..FlowRow::new(self.line.number, of, way, start_s, end_s)
        });
        let others = [
            "seconds",
            "snd_wnd",
            "rttvar",
            "pmtu",
            "max_snd_wnd",
            "max_rtt",
            "min_rtt",
            "mean_rtt",
            "rtt",
            "lost_percent",
            "out_of_order",
        ];
        let others = others
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), number(name)?.figure()?)));
        let label = value["socket"]
            .as_u64()
            .map_or_else(|| "SUM".to_owned(), |socket| socket.to_string());
        self.draft.keep(self.line.number, &label, others.collect());
        Ok(())
    }
}

fn walk(path: &str, value: &Value, figures: &mut Vec<(String, f64)>) {
    let below = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}_{name}")
        }
    };
    match value {
        Value::Number(number) => {
            if let Some(number) = number.as_f64().filter(|number| number.abs() <= LARGEST)
                && figures.len() < 500
            {
                figures.push((path.to_owned(), number));
            }
        }
        Value::Object(parts) => parts
            .iter()
            .for_each(|(name, part)| walk(&below(name), part, figures)),
        Value::Array(parts) => {
            for (index, part) in parts.iter().enumerate() {
                walk(&below(&(index + 1).to_string()), part, figures);
            }
        }
        _ => {}
    }
}
