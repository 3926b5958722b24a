//! A plan as the line of a known tool, and such a line as a plan: iperf, iperf3, httperf, siege, ping, tracepath and
//! curl, each way.
//!
//! A pasted line is read whole: each word gets a phrase that says what it means here, what is not needed is said to
//! be ignored, and anything that would change the test and cannot be honoured is a problem, so that no other test
//! is run than the one that was asked for.

use serde_json::{Map, Value};

use crate::measure::plan::{Caps, tidy};
use crate::measure::units::parse_number;

mod curl;
mod httperf;
mod iperf;
mod iperf3;
mod iperf_fields;
mod iperf_values;
mod iperf_write;
mod options;
mod path;
mod ping;
mod server_line;
mod shell;
mod siege;
#[cfg(test)]
mod tests;
mod written;

pub use server_line::ServerLine;
pub use written::{Written, write, written};

/// Longest line that is read.
const MAX_LINE: usize = 2 << 20;

/// The tool that a line is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Open loop.
    Httperf,
    /// Closed loop.
    Siege,
    /// One request.
    Curl,
    /// `tidemark run '{…}'`: a plan as JSON.
    Tidemark,
    /// Throughput, version 2.
    Iperf,
    /// Throughput, version 3.
    Iperf3,
    /// Round trips.
    Ping,
    /// Interfaces and path MTU: tracepath, `ifconfig`, `ip link`.
    Path,
    /// None of them.
    Unknown,
}

/// What became of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordNote {
    /// It does here what it does there.
    Understood,
    /// It changes nothing here; the meaning says why.
    Ignored,
    /// It cannot be honoured; one of the problems says why.
    NotUnderstood,
    /// It is not in the line: what holds because nothing else was said.
    Added,
}

/// A word of the line, with its value, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// As it was written, such as `--rate 13`.
    pub text: String,
    /// A short phrase.
    pub meaning: String,
    /// What became of it.
    pub note: WordNote,
}

/// What the line says about printing, for `tidemark run`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputOptions {
    /// siege's `-j`, iperf3's `-J`.
    pub json: bool,
    /// siege's `-q`, curl's `-s`, ping's `-q`.
    pub quiet: bool,
    /// `-v`.
    pub verbose: bool,
    /// curl's `-f`: the status from which on a reply is a failure.
    pub failing_status: Option<u16>,
    /// curl's `-w`.
    pub write_out: Option<String>,
    /// What iperf's line says.
    pub iperf: IperfOutput,
}

/// What a line of iperf 2 or 3 says about printing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IperfOutput {
    /// `-y C`.
    pub csv: bool,
    /// The letter of `-f`; `None` = each figure in the unit that suits it.
    pub unit: Option<char>,
    /// Whether `-i` asks for a line each interval; `None` = no `-i`: iperf 2 prints totals alone, iperf 3 each second.
    pub interval_lines: Option<bool>,
    /// `--sum-only`.
    pub sum_only: bool,
}

/// A line, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Whose line it is.
    pub tool: Tool,
    /// Its words in order, then what was added.
    pub words: Vec<Word>,
    /// The plan for [`Plan::from_json`](crate::measure::plan::Plan::from_json); `None` when there is any problem.
    pub plan: Option<Value>,
    /// What was understood of a line with problems, to fill a form with; not to be run.
    pub draft: Option<Value>,
    /// Sentences that say what to change.
    pub problems: Vec<String>,
    /// The receiver that the line starts; then there is no plan, and the problem says how to start it here.
    pub server: Option<ServerLine>,
    /// What it says about printing.
    pub output: OutputOptions,
}

/// Reads a pasted line.
pub fn read(line: &str) -> Reading {
    if line.len() > MAX_LINE {
        return Draft::default().refused("The line is longer than 2 MiB.");
    }
    let trimmed = line.trim();
    if trimmed.starts_with('{') {
        return read_json(trimmed);
    }
    let split = shell::split(trimmed);
    if let Some(problem) = split.problem {
        let draft = Draft {
            tool: tool_of_words(&split.words),
            ..Draft::default()
        };
        return draft.refused(problem);
    }
    let mut reading = read_words(&split.words);
    reading
        .words
        .extend(split.ignored.into_iter().map(|(text, meaning)| Word {
            text: cut(&text),
            meaning,
            note: WordNote::Ignored,
        }));
    reading
}

/// The plan's JSON that a pasted line means.
///
/// # Errors
/// Sentences that say what to change: each problem, and each word that was not understood.
pub fn plan_of(line: &str) -> Result<Value, Vec<String>> {
    let reading = read(line);
    if let Some(plan) = reading.plan
        && reading.problems.is_empty()
    {
        return Ok(plan);
    }
    let mut problems = reading.problems;
    for word in reading.words {
        let named = problems.iter().any(|problem| problem.contains(&word.text));
        if word.note == WordNote::NotUnderstood && !named {
            problems.push(format!("{}: {}.", word.text, word.meaning));
        }
    }
    if problems.is_empty() {
        problems.push("This line cannot be read.".to_owned());
    }
    Err(problems)
}

/// Reads a line that is split into words already, as the arguments of `tidemark run` are.
pub fn read_words(words: &[String]) -> Reading {
    let mut draft = Draft::default();
    let rest = draft.skip_wrappers(words);
    let Some((program, arguments)) = rest.split_first() else {
        return draft
            .refused("There is no command: write one such as iperf -c 127.0.0.1 -t 10 -P 4.");
    };
    if program.starts_with('{') {
        return read_json(&rest.join(" "));
    }
    draft.tool = tool_of(program);
    match draft.tool {
        Tool::Httperf => httperf::read(program, arguments, draft),
        Tool::Siege => siege::read(program, arguments, draft),
        Tool::Curl => curl::read(program, arguments, draft),
        Tool::Iperf => iperf::read(program, arguments, draft),
        Tool::Iperf3 => iperf3::read(program, arguments, draft),
        Tool::Ping => ping::read(program, arguments, draft),
        Tool::Path => path::read(program, arguments, draft),
        Tool::Tidemark | Tool::Unknown => draft.refused(format!(
            "{} is not understood here; iperf, iperf3, httperf, siege, ping, tracepath and curl lines are.",
            cut(program)
        )),
    }
}

/// No limits, for a plan that exists already.
const UNLIMITED: Caps = Caps {
    max_rate: f64::MAX,
    max_users: u32::MAX,
    max_streams: u32::MAX,
    max_duration_s: f64::MAX,
    max_connections: 1 << 53,
};

fn read_json(text: &str) -> Reading {
    let mut draft = Draft {
        tool: Tool::Tidemark,
        ..Draft::default()
    };
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(plan)) => {
            draft.understood("{…}", "a plan as JSON");
            draft.plan = plan;
            draft.finish()
        }
        Ok(_) => draft.refused("A plan is a JSON object."),
        Err(why) => draft.refused(format!("The plan is not JSON: {why}.")),
    }
}

fn tool_of_words(words: &[String]) -> Tool {
    let mut draft = Draft::default();
    draft
        .skip_wrappers(words)
        .first()
        .map_or(Tool::Unknown, |program| tool_of(program))
}

fn tool_of(program: &str) -> Tool {
    match base(program) {
        "httperf" => Tool::Httperf,
        "siege" => Tool::Siege,
        "curl" => Tool::Curl,
        "iperf" | "iperf2" => Tool::Iperf,
        "iperf3" => Tool::Iperf3,
        "ping" | "ping6" => Tool::Ping,
        "tracepath" | "tracepath6" | "ifconfig" | "ip" => Tool::Path,
        _ => Tool::Unknown,
    }
}

/// The program's name without its folder.
fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// A text that is short enough to show.
fn cut(text: &str) -> String {
    let mut short: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(120)
        .collect();
    if text.chars().nth(120).is_some() {
        short.push('…');
    }
    short
}

/// A reading under way.
struct Draft {
    tool: Tool,
    words: Vec<Word>,
    problems: Vec<String>,
    plan: Map<String, Value>,
    headers: Map<String, Value>,
    output: OutputOptions,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            tool: Tool::Unknown,
            words: Vec::new(),
            problems: Vec::new(),
            plan: Map::new(),
            headers: Map::new(),
            output: OutputOptions::default(),
        }
    }
}

impl Draft {
    fn word(&mut self, text: &str, meaning: impl Into<String>, note: WordNote) {
        self.words.push(Word {
            text: cut(text),
            meaning: meaning.into(),
            note,
        });
    }

    fn understood(&mut self, text: &str, meaning: impl Into<String>) {
        self.word(text, meaning, WordNote::Understood);
    }

    fn ignored(&mut self, text: &str, why: impl Into<String>) {
        self.word(text, why, WordNote::Ignored);
    }

    fn added(&mut self, text: &str, meaning: impl Into<String>) {
        self.word(text, meaning, WordNote::Added);
    }

    /// A word that stands in the way; the sentence goes to the problems, the word gets a short remark.
    fn problem(&mut self, text: &str, sentence: impl Into<String>) {
        self.word(text, "not understood", WordNote::NotUnderstood);
        self.problems.push(sentence.into());
    }

    /// The number behind an option; anything else is a problem.
    fn number(&mut self, text: &str, value: &str) -> Option<f64> {
        match parse_number(value) {
            Ok(number) => Some(number),
            Err(why) => {
                self.problem(text, format!("{} needs a number: {why}", cut(text)));
                None
            }
        }
    }

    /// The whole number behind an option; anything else is a problem.
    fn count(&mut self, text: &str, value: &str) -> Option<u64> {
        let count = whole(value);
        if count.is_none() {
            self.problem(text, format!("{} needs a whole number.", cut(text)));
        }
        count
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        let mut value = value.into();
        if let Some(number) = value.as_f64().filter(|_| value.is_f64()) {
            value = tidy(number);
        }
        self.plan.insert(key.to_owned(), value);
    }

    /// Sets a header; a second value for the same name is joined as HTTP allows.
    fn set_header(&mut self, name: &str, value: &str) {
        let (name, value) = (name.trim(), value.trim());
        let existing = self
            .headers
            .iter_mut()
            .find(|(other, _)| other.eq_ignore_ascii_case(name));
        match existing {
            Some((_, Value::String(before))) if !before.is_empty() => {
                let separator = if name.eq_ignore_ascii_case("cookie") {
                    "; "
                } else {
                    ", "
                };
                before.push_str(separator);
                before.push_str(value);
            }
            Some((_, before)) => *before = value.into(),
            None => {
                self.headers.insert(name.to_owned(), value.into());
            }
        }
    }

    fn has_header(&self, name: &str) -> bool {
        self.headers
            .keys()
            .any(|other| other.eq_ignore_ascii_case(name))
    }

    fn refused(mut self, sentence: impl Into<String>) -> Reading {
        self.problems.push(sentence.into());
        self.finish()
    }

    fn finish(mut self) -> Reading {
        if !self.headers.is_empty() {
            let headers = std::mem::take(&mut self.headers);
            self.set("headers", headers);
        }
        let plan = (!self.plan.is_empty()).then_some(Value::Object(self.plan));
        let (plan, draft) = if self.problems.is_empty() {
            (plan, None)
        } else {
            (None, plan)
        };
        Reading {
            tool: self.tool,
            words: self.words,
            plan,
            draft,
            problems: self.problems,
            server: None,
            output: self.output,
        }
    }

    /// A line that starts a receiver: no plan, and where nothing else is wrong the sentence says so.
    fn finish_server(mut self, server: ServerLine) -> Reading {
        self.plan.clear();
        if !self.problems.is_empty() {
            return self.finish();
        }
        self.problems.push(server.sentence());
        Reading {
            server: Some(server),
            ..self.finish()
        }
    }

    /// Steps over what people paste before the tool: a prompt, settings of variables, `time`, `sudo`, `tidemark run`.
    fn skip_wrappers<'a>(&mut self, words: &'a [String]) -> &'a [String] {
        let mut rest = words;
        while let Some((first, after)) = rest.split_first() {
            let first = first.as_str();
            let is_prompt = matches!(first, "$" | "#" | "%" | ">" | "❯")
                || (first.contains(['@', ':']) && first.ends_with(['$', '#', '%']));
            if is_prompt {
                self.ignored(first, "a prompt");
                rest = after;
            } else if is_assignment(first) {
                self.ignored(first, "a variable of the shell");
                rest = after;
            } else if matches!(
                first,
                "time" | "sudo" | "nohup" | "exec" | "command" | "env" | "stdbuf" | "nice"
            ) {
                self.ignored(first, "not needed here");
                rest = after;
                if first == "time" && rest.first().is_some_and(|word| word == "-p") {
                    rest = &rest[1..];
                }
            } else if base(first) == "tidemark" && after.first().is_some_and(|word| word == "run") {
                self.understood("tidemark run", "this program");
                rest = self.skip_own_options(&after[1..]);
            } else {
                break;
            }
        }
        rest
    }

    /// Steps over the options of `tidemark run` itself.
    fn skip_own_options<'a>(&mut self, words: &'a [String]) -> &'a [String] {
        let mut rest = words;
        while let Some((first, after)) = rest.split_first() {
            let takes_value = OWN_OPTIONS.contains(&first.as_str());
            let carries_value = first
                .split_once('=')
                .is_some_and(|(option, _)| OWN_OPTIONS.contains(&option));
            if takes_value {
                self.ignored(first, "an option of tidemark run, not of the plan");
                rest = after.get(1..).unwrap_or_default();
            } else if carries_value || first == "--save" || first == "--" {
                self.ignored(first, "an option of tidemark run, not of the plan");
                rest = after;
            } else {
                break;
            }
        }
        rest
    }
}

/// Options of `tidemark run` itself that take a value.
const OWN_OPTIONS: [&str; 12] = [
    "--format",
    "--objective",
    "--data",
    "--name",
    "--accept-from",
    "--max-rate",
    "--max-users",
    "--max-streams",
    "--max-duration",
    "--max-connections",
    "--identity-header",
    "--region-header",
];

/// `NAME=value` before a command.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// Splits `Name: value`.
fn name_and_value(header: &str) -> Option<(&str, &str)> {
    header
        .split_once(':')
        .map(|(name, value)| (name.trim(), value.trim()))
        .filter(|(name, _)| !name.is_empty())
}

/// A URL as these tools take it: `http://` where it names no scheme.
fn with_scheme(url: &str) -> String {
    if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    }
}

/// Adds an option and its value, quoted where a shell needs it.
fn push_option(words: &mut Vec<String>, option: &str, value: &str) {
    words.push(option.to_owned());
    words.push(shell_words::quote(value).into_owned());
}

/// A number as a line shows it: the shortest text that reads back to it.
fn number(value: f64) -> String {
    value.to_string()
}

/// A whole number as these tools take it: digits alone.
fn whole(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}
