//! From the words of the command line to what is to be done, with siege's file of URLs read where one is named.

use serde_json::{Value, json};

use crate::measure::command_line::{self, OutputOptions, Reading, ServerLine, Tool, WordNote};
use crate::measure::plan::{Caps, Plan};
use crate::run_command::{Refused, USAGE, urls};

/// What the line asks for.
#[derive(Debug)]
pub(super) enum Asked {
    /// A test.
    Test(Box<Request>),
    /// A receiver that waits for tests.
    Receiver(ReceiverRequest),
}

/// What is to be run and how it is to be printed.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) tool: Tool,
    pub(super) plan: Plan,
    pub(super) output: OutputOptions,
    /// Sentences about words that change nothing here.
    pub(super) remarks: Vec<String>,
}

/// What is to wait for tests and how they are to be printed.
#[derive(Debug)]
pub(super) struct ReceiverRequest {
    pub(super) line: ServerLine,
    pub(super) output: OutputOptions,
    /// Sentences about words that change nothing here.
    pub(super) remarks: Vec<String>,
}

/// Reads the words.
pub(super) fn read(words: &[String], caps: &Caps) -> Result<Asked, Refused> {
    let (words, urls) = urls::from_file(words).map_err(Refused::usage)?;
    let mut reading = command_line::read_words(&words);
    let remarks = remarks(&reading);
    if let Some(line) = reading.server {
        if line.background {
            return Err(Refused::usage(
                "-D is not supported: it stays in the foreground here; leave it out, and put & behind the line.",
            ));
        }
        return Ok(Asked::Receiver(ReceiverRequest {
            line,
            output: reading.output,
            remarks,
        }));
    }
    let Some(mut value) = reading.plan.take() else {
        return Err(Refused {
            sentences: reading.problems,
            status: USAGE,
        });
    };
    if let (Some(urls), Value::Object(fields)) = (urls, &mut value) {
        fields.remove("url");
        let listed = urls.into_iter().map(|url| json!({"url": url, "weight": 1}));
        fields.insert("urls".to_owned(), listed.collect());
    }
    let plan = Plan::from_json(&value, caps).map_err(|errors| Refused {
        sentences: errors.into_iter().map(|error| error.message).collect(),
        status: USAGE,
    })?;
    Ok(Asked::Test(Box::new(Request {
        tool: reading.tool,
        plan,
        output: reading.output,
        remarks,
    })))
}

/// What is to be said of words that change nothing.
fn remarks(reading: &Reading) -> Vec<String> {
    let told = reading.tool != Tool::Tidemark && !reading.output.quiet;
    reading
        .words
        .iter()
        .filter(|word| told && word.note == WordNote::Ignored)
        .map(|word| format!("{} is ignored ({}).", word.text, word.meaning))
        .collect()
}
