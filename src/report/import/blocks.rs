//! A text cut into the reports that it holds, each with the tool that printed it and the command line above it.

use std::borrow::Cow;

use super::command::{self, Command};
use super::{ImportError, Line, Tool, shown};

/// The lines of one report.
#[derive(Clone, Debug)]
pub(super) struct Block<'a> {
    pub(super) tool: Tool,
    pub(super) command: Option<Command>,
    /// Which end printed it, where a line before it says so.
    pub(super) is_server: Option<bool>,
    pub(super) lines: Vec<Line<'a>>,
}

impl Block<'_> {
    /// The block's own text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            text.push_str(line.text);
            text.push('\n');
        }
        text
    }
}

/// The text without a byte-order mark and without the colours of a terminal.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        clean.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let sequence = after.strip_prefix('[').map(|codes| {
            codes.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ';' | '?'))
        });
        // The letter that ends a sequence goes with it.
        rest = match sequence.and_then(|tail| tail.chars().next().map(|end| (tail, end))) {
            Some((tail, end)) if end.is_ascii_alphabetic() => &tail[1..],
            _ => after,
        };
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// A report under way.
struct Open<'a> {
    tool: Option<Tool>,
    block: Block<'a>,
    /// Whether a line of figures was seen.
    has_figures: bool,
    /// Whether the report is that of a client.
    is_client: bool,
    /// Whether it is inside JSON.
    json: bool,
}

impl Open<'_> {
    const fn new() -> Self {
        Self {
            tool: None,
            block: Block {
                tool: Tool::Iperf,
                command: None,
                is_server: None,
                lines: Vec::new(),
            },
            has_figures: false,
            is_client: false,
            json: false,
        }
    }
}

/// What a line says about where reports begin.
struct Sign {
    tool: Tool,
    /// It begins a report wherever it stands.
    begins: bool,
    /// It begins one where the report before it has figures.
    begins_after_figures: bool,
    figures: bool,
}

/// Cuts the text.
pub(super) fn split(text: &str) -> Result<Vec<Block<'_>>, ImportError> {
    let mut done = Vec::new();
    let mut open = Open::new();
    let mut first_words = None;
    for (index, text) in text.lines().enumerate() {
        let line = Line {
            number: index + 1,
            text: text.trim_end_matches('\r'),
        };
        let trimmed = line.text.trim();
        if first_words.is_none() && !trimmed.is_empty() {
            first_words = Some(line);
        }
        if open.json {
            open.block.lines.push(line);
            // The closing brace of the whole object stands alone at the start of its line.
            open.json = line.text.trim_end() != "}";
            continue;
        }
        if let Some(is_server) = side(trimmed) {
            let command = open.block.command.clone();
            let earlier = done
                .last()
                .and_then(|block: &Block<'_>| block.command.clone());
            close(&mut done, &mut open);
            open.block.command = command.or(earlier);
            open.block.is_server = Some(is_server);
            open.tool = open.block.command.as_ref().and_then(Command::tool_text);
            open.block.lines.push(line);
            continue;
        }
        let sign = sign(line, &open);
        if let Some(command) = command::find(line.text) {
            let echo = sign.is_some() && open.block.command.is_some() && !open.has_figures;
            if !echo {
                close(&mut done, &mut open);
                open.tool = command.tool_text();
                open.block.command = Some(command);
            }
            open.block.lines.push(line);
            continue;
        }
        if let Some(sign) = sign {
            let other = open.tool.is_some_and(|tool| !same(tool, sign.tool));
            if sign.begins && (open.has_figures || other)
                || sign.begins_after_figures && open.has_figures
                || other && open.has_figures
            {
                let command = open.block.command.clone().filter(|_| !open.has_figures);
                close(&mut done, &mut open);
                open.block.command = command;
            }
            if open.tool.is_none() || other || !open.has_figures {
                open.tool = Some(sign.tool);
            }
            open.has_figures |= sign.figures;
            open.is_client |= trimmed.starts_with("Client connecting to");
            open.json =
                matches!(sign.tool, Tool::Iperf3Json | Tool::SiegeJson) && !trimmed.ends_with('}');
        }
        open.block.lines.push(line);
    }
    close(&mut done, &mut open);
    if done.is_empty() {
        return Err(match first_words {
            Some(line) => ImportError {
                line: Some(line.number),
                message: format!(
                    "No line is known from iperf, iperf3, httperf, siege or ping; line {} is the first: {}.",
                    line.number,
                    shown(line.text)
                ),
            },
            None => ImportError::whole(
                "The text is empty: paste what iperf, iperf3, httperf, siege or ping printed.",
            ),
        });
    }
    Ok(done)
}

/// Ends the report under way, where it is one.
fn close<'a>(done: &mut Vec<Block<'a>>, open: &mut Open<'a>) {
    let ended = std::mem::replace(open, Open::new());
    let worth = ended.block.lines.iter().any(|line| {
        !line.text.trim().is_empty()
            && command::find(line.text).is_none()
            && side(line.text.trim()).is_none()
    });
    if let Some(tool) = ended.tool.filter(|_| worth) {
        done.push(Block {
            tool,
            ..ended.block
        });
    } else if let Some(last) = done.last_mut() {
        // Words behind a report that are none themselves.
        last.lines.extend(ended.block.lines);
    } else {
        open.block.lines = ended.block.lines;
    }
}

/// `[client]` or `[server]` alone on a line.
fn side(trimmed: &str) -> Option<bool> {
    match trimmed {
        "[client]" => Some(false),
        "[server]" => Some(true),
        _ => None,
    }
}

/// Whether two forms can be one report.
const fn same(a: Tool, b: Tool) -> bool {
    use Tool::{Httperf, Iperf, Iperf3, Iperf3Json, IperfCsv, Ping, Siege, SiegeJson};
    matches!(
        (a, b),
        (Iperf | IperfCsv, Iperf | IperfCsv)
            | (Iperf3 | Iperf3Json, Iperf3 | Iperf3Json)
            | (Siege | SiegeJson, Siege | SiegeJson)
            | (Httperf, Httperf)
            | (Ping, Ping)
    )
}

/// What this line is a sign of, after what was seen before it.
fn sign(line: Line<'_>, open: &Open<'_>) -> Option<Sign> {
    let text = line.text.trim();
    let plain = |tool| Sign {
        tool,
        begins: false,
        begins_after_figures: false,
        figures: false,
    };
    let begins = |tool| Sign {
        begins: true,
        ..plain(tool)
    };
    let figures = |tool| Sign {
        figures: true,
        ..plain(tool)
    };
    if text.starts_with('{') {
        let tool = if text.contains("transactions") {
            Tool::SiegeJson
        } else {
            Tool::Iperf3Json
        };
        return Some(Sign {
            begins: true,
            ..figures(tool)
        });
    }
    if text.starts_with("PING ") {
        return Some(begins(Tool::Ping));
    }
    if text.ends_with(" ping statistics ---")
        || text.starts_with("rtt min/avg/max/mdev")
        || (text.contains(" bytes from ") && text.contains("icmp_seq="))
    {
        return Some(figures(Tool::Ping));
    }
    if text.starts_with("** SIEGE") {
        return Some(begins(Tool::Siege));
    }
    if text.starts_with("Transactions:") && text.ends_with("hits") {
        return Some(Sign {
            begins_after_figures: true,
            ..figures(Tool::Siege)
        });
    }
    if text.starts_with("** Preparing ") {
        return Some(plain(Tool::Siege));
    }
    if super::siege::is_figure(text) {
        return Some(figures(Tool::Siege));
    }
    if text.starts_with("httperf --") || text.starts_with("httperf: ") {
        return Some(plain(Tool::Httperf));
    }
    if let Some(label) = super::httperf::label(text) {
        return Some(Sign {
            begins_after_figures: label == "Connection time [ms]: min"
                && open
                    .block
                    .lines
                    .iter()
                    .any(|line| line.text.trim_start().starts_with(label)),
            ..figures(Tool::Httperf)
        });
    }
    sign_of_iperf(text, open, plain, figures)
}

fn sign_of_iperf(
    text: &str,
    open: &Open<'_>,
    plain: impl Fn(Tool) -> Sign,
    figures: impl Fn(Tool) -> Sign,
) -> Option<Sign> {
    if text.starts_with("Connecting to host ") {
        return Some(Sign {
            begins: true,
            ..plain(Tool::Iperf3)
        });
    }
    if text.starts_with("iperf3: ") || text.starts_with("iperf Done.") {
        return Some(plain(Tool::Iperf3));
    }
    if let Some(rest) = text.strip_prefix("Server listening on ") {
        let tool = if rest.starts_with(|c: char| c.is_ascii_digit()) {
            Tool::Iperf3
        } else {
            Tool::Iperf
        };
        return Some(Sign {
            begins_after_figures: true,
            ..plain(tool)
        });
    }
    if text.starts_with("Accepted connection from ") {
        return Some(plain(Tool::Iperf3));
    }
    if text.starts_with("Client connecting to ") {
        return Some(Sign {
            begins_after_figures: open.is_client,
            ..plain(Tool::Iperf)
        });
    }
    if super::iperf_csv::is_row(text) {
        return Some(figures(Tool::IperfCsv));
    }
    if text.starts_with('[') || text.starts_with("(null)local ") {
        let is_3 =
            text.contains("Bitrate") || text.contains("connected to ") || text.contains("   sec ");
        let tool = match open.tool {
            Some(tool @ (Tool::Iperf | Tool::Iperf3)) => tool,
            _ if is_3 => Tool::Iperf3,
            _ => Tool::Iperf,
        };
        let known = text.contains(" sec ")
            || text.contains(" local ")
            || text.contains("]local ")
            || text.contains("Interval ")
            || text.contains(")local ")
            || text.contains("datagrams");
        return known.then(|| {
            if text.contains(" sec ") {
                figures(tool)
            } else {
                plain(tool)
            }
        });
    }
    None
}
