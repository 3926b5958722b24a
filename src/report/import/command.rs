//! The command line above a tool's text: found behind a shell's prompt, and read for what it says of the test.

use serde_json::Value;

use super::Tool;
use crate::measure::command_line;
use crate::measure::plan::{ImportedPlan, Kind};

/// A command line, as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// From the tool's name on.
    line: String,
    /// What follows ` /// `: the other end's line, where one line of the text shows both.
    other: Option<String>,
}

const TOOLS: [&str; 6] = ["iperf3", "iperf", "httperf", "siege", "ping6", "ping"];

/// The command line that this line of the text is; `None` when it is none of a known tool.
pub(super) fn find(text: &str) -> Option<Command> {
    let text = text.trim();
    if text.len() > 65_536 {
        return None;
    }
    let prompted = prompt(text);
    let typed = prompted.unwrap_or(text);
    let (first, other) = match typed.split_once(" /// ") {
        Some((first, other)) => (first.trim(), Some(other.trim().to_owned())),
        None => (typed, None),
    };
    let words: Vec<&str> = first.split_whitespace().take(12).collect();
    let at = words.iter().position(|word| tool(word).is_some())?;
    // Without a prompt only the tool itself, with an option, is a line that somebody typed.
    let typed_here = prompted.is_some() || (at == 0 && words.get(1)?.starts_with('-'));
    if !typed_here {
        return None;
    }
    let start = first.find(words[at])?;
    Some(Command {
        line: first[start..].to_owned(),
        other,
    })
}

/// What stands behind a prompt such as `$ ` or `user@host:~$ `.
fn prompt(text: &str) -> Option<&str> {
    let at = text.find(['$', '#', '%', '>'])?;
    let before = &text[..at];
    let after = text[at + 1..].strip_prefix(' ')?;
    (!before.contains(char::is_whitespace) && before.len() < 80).then(|| after.trim())
}

/// The tool that a word names: `/usr/bin/iperf`, `iperf-2.0.13a`.
fn tool(word: &str) -> Option<&'static str> {
    let name = word.rsplit('/').next()?;
    TOOLS.into_iter().find(|tool| {
        name.strip_prefix(tool).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with("-2.") || rest.starts_with("-3.")
        })
    })
}

impl Command {
    /// The line of the end that printed the text.
    pub(super) fn line(&self, is_server: Option<bool>) -> &str {
        let both = [Some(&self.line), self.other.as_ref()];
        let wanted = |line: &&String| {
            line.split_whitespace()
                .any(|word| word == if is_server == Some(true) { "-s" } else { "-c" })
        };
        both.into_iter()
            .flatten()
            .find(wanted)
            .unwrap_or(&self.line)
    }

    /// The form of text that the tool prints unless told otherwise.
    pub(super) fn tool_text(&self) -> Option<Tool> {
        let name = tool(self.line.split_whitespace().next()?)?;
        Some(match name {
            "iperf3" => Tool::Iperf3,
            "iperf" => Tool::Iperf,
            "httperf" => Tool::Httperf,
            "siege" => Tool::Siege,
            _ => Tool::Ping,
        })
    }

    /// Whether the line starts a server.
    pub(super) fn is_server(&self) -> Option<bool> {
        let mut words = self.line.split_whitespace();
        let found = words.find_map(|word| match word {
            "-s" | "--server" => Some(true),
            "-c" | "--client" => Some(false),
            _ => None,
        });
        found.filter(|_| self.other.is_none())
    }

    /// Whether one of these words stands in the line of this end.
    pub(super) fn has(&self, is_server: Option<bool>, words: &[&str]) -> bool {
        self.line(is_server)
            .split_whitespace()
            .any(|word| words.contains(&word))
    }

    /// Notes what the line says: the fields of a plan of this kind, without their defaults where the line is not
    /// one that could be run here.
    pub(super) fn note(&self, plan: &mut ImportedPlan, is_server: Option<bool>) {
        let line = self.line(is_server);
        let mut words = line.split_whitespace();
        let Some(name) = words.next().and_then(tool) else {
            return;
        };
        // A remark in brackets behind the line is none of its words.
        let rest = line.split_once(' ').map_or("", |(_, rest)| rest);
        let rest = rest.split("   (").next().unwrap_or(rest);
        let reading = command_line::read(&format!("{} {rest}", name.trim_end_matches('6')));
        let Some(Value::Object(fields)) = reading.plan.or(reading.draft) else {
            return;
        };
        let kind = plan.kind();
        if fields.get("kind").and_then(Value::as_str) != Some(kind.word()) {
            return;
        }
        for (name, value) in fields {
            let figure_of_the_text = kind == Kind::Throughput && name == "protocol";
            if name != "kind" && !figure_of_the_text && !value.is_null() {
                plan.note(&name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_behind_any_prompt() {
        for (text, line) in [
            ("$ iperf -c 127.0.0.1 -t 3", "iperf -c 127.0.0.1 -t 3"),
            ("me@vm-1:~$ sudo ping -c 5 10.0.0.2", "ping -c 5 10.0.0.2"),
            ("# /usr/bin/iperf3 -c h", "/usr/bin/iperf3 -c h"),
            (
                "httperf --client=0/1 --server=a",
                "httperf --client=0/1 --server=a",
            ),
            ("$ iperf-2.0.13a -c 127.0.0.1", "iperf-2.0.13a -c 127.0.0.1"),
        ] {
            assert_eq!(find(text).unwrap().line(None), line);
        }
        for none in [
            "iperf Done.",
            "$ ls",
            "PING 1 > 0 ping",
            "ping statistics",
            "",
        ] {
            assert_eq!(find(none), None, "{none}");
        }
        let both = find("$ iperf -s -p 5602  /// iperf -c 127.0.0.1 -p 5602").unwrap();
        assert_eq!(both.line(Some(true)), "iperf -s -p 5602");
        assert_eq!(both.line(Some(false)), "iperf -c 127.0.0.1 -p 5602");
        assert_eq!(both.is_server(), None);
    }

    #[test]
    fn what_the_line_says_is_known_of_the_test() {
        let mut plan = ImportedPlan::new(Kind::Throughput, "iperf");
        find("$ iperf -c 127.0.0.1 -p 5999 -t 1   (no listener)")
            .unwrap()
            .note(&mut plan, None);
        assert_eq!(plan.facts().get("port").and_then(Value::as_u64), Some(5999));
        assert_eq!(plan.text("host"), Some("127.0.0.1"));
    }
}
