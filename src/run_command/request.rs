//! From the words of the command line to a plan, with siege's file of URLs read where one is named.

use serde_json::{Value, json};

use crate::measure::command_line::{self, OutputOptions, Tool, WordNote};
use crate::measure::plan::{Caps, Plan};
use crate::run_command::{Refused, USAGE, urls};

/// What is to be run and how it is to be printed.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) plan: Plan,
    pub(super) output: OutputOptions,
    /// Sentences about words that change nothing here.
    pub(super) remarks: Vec<String>,
}

impl Request {
    pub(super) fn read(words: &[String], caps: &Caps) -> Result<Self, Refused> {
        let (words, urls) = urls::from_file(words).map_err(Refused::usage)?;
        let reading = command_line::read_words(&words);
        let Some(mut value) = reading.plan else {
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
        let told = reading.tool != Tool::Tidemark && !reading.output.quiet;
        let remarks = reading
            .words
            .iter()
            .filter(|word| told && word.note == WordNote::Ignored)
            .map(|word| format!("{} is ignored ({}).", word.text, word.meaning))
            .collect();
        Ok(Self {
            plan,
            output: reading.output,
            remarks,
        })
    }
}
