//! The printed text of a real iperf, iperf3, httperf, siege or ping, read back into figures.
//!
//! What a text does not hold is absent in what is read from it. A line that begins as one of figures and cannot be
//! read whole refuses the text, with its number; a line that is none of the tool's own is told in a check. Texts that
//! contradict themselves are read, and their contradictions are checks that failed.

mod agree;
mod blocks;
mod command;
mod finish;
mod flow;
mod flow_checks;
mod flow_figures;
mod httperf;
mod httperf_checks;
mod iperf3_json;
mod iperf_csv;
mod iperf_line;
mod iperf_row;
mod iperf_settings;
mod iperf_text;
mod ping;
mod scan;
mod siege;
mod template;
#[cfg(test)]
mod tests;

pub use crate::measure::import::Import;

/// Longest text that is read, in bytes.
pub const LONGEST: usize = 8 << 20;
/// Most reports that are read from one text.
const MOST_REPORTS: usize = 200;

/// Why a text was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// The line, from 1; `None` when the fault is none of a line.
    pub line: Option<usize>,
    /// A sentence that names the line.
    pub message: String,
}

impl std::fmt::Display for ImportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl ImportError {
    fn whole(message: impl Into<String>) -> Self {
        Self {
            line: None,
            message: message.into(),
        }
    }

    fn at(line: Line<'_>, why: &str) -> Self {
        Self {
            line: Some(line.number),
            message: format!("Line {} {why}: {}.", line.number, shown(line.text)),
        }
    }
}

/// A line of the text with its number from 1.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    number: usize,
    text: &'a str,
}

/// The tools whose texts are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Iperf,
    IperfCsv,
    Iperf3,
    Iperf3Json,
    Httperf,
    Siege,
    SiegeJson,
    Ping,
}

/// Figures that our own summaries have no place for, as the tool named them.
#[derive(Clone, Debug, PartialEq)]
struct Further {
    /// The line that they stand on.
    line: usize,
    /// What they are of: a stream, `SUM`, or the words that the line begins with.
    of: String,
    /// Each by its name.
    figures: serde_json::Map<String, serde_json::Value>,
}

impl Further {
    fn new(line: usize, of: &str, figures: Vec<(String, f64)>) -> Self {
        Self {
            line,
            of: of.chars().take(60).collect(),
            figures: figures
                .into_iter()
                .map(|(name, value)| (name, value.into()))
                .collect(),
        }
    }

    /// As it stands in a summary.
    fn value(&self) -> serde_json::Value {
        serde_json::json!({"line": self.line, "of": self.of, "figures": self.figures})
    }
}

/// The text of these bytes.
///
/// # Errors
/// When they are not UTF-8.
pub fn text_of(bytes: Vec<u8>) -> Result<String, ImportError> {
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good]
            .split(|byte| *byte == b'\n')
            .count();
        ImportError {
            line: Some(line),
            message: format!(
                "The text is not UTF-8: line {line} holds a byte that is none of a character."
            ),
        }
    })
}

/// Reads every report of a text, in its order; never none.
///
/// # Errors
/// When the text is too long, holds no report, or a line of figures cannot be read.
pub fn read(text: &str) -> Result<Vec<Import>, ImportError> {
    if text.len() > LONGEST {
        return Err(ImportError::whole(format!(
            "The text is longer than {} MiB.",
            LONGEST >> 20
        )));
    }
    let plain = blocks::plain(text);
    let blocks = blocks::split(&plain)?;
    if blocks.len() > MOST_REPORTS {
        return Err(ImportError::whole(format!(
            "The text holds {} reports; at most {MOST_REPORTS} are read at once.",
            blocks.len()
        )));
    }
    let mut imports = Vec::new();
    for block in &blocks {
        let mut import = match block.tool {
            Tool::Iperf | Tool::Iperf3 => iperf_text::read(block),
            Tool::IperfCsv => iperf_csv::read(block),
            Tool::Iperf3Json => iperf3_json::read(block),
            Tool::Httperf => httperf::read(block),
            Tool::Siege | Tool::SiegeJson => siege::read(block),
            Tool::Ping => ping::read(block),
        }?;
        import.text = block.text();
        imports.push(import);
    }
    Ok(imports)
}

/// The beginning of a line as it can stand in a sentence.
fn shown(text: &str) -> String {
    let clean: String = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if clean.chars().count() > 100 {
        let start: String = clean.chars().take(100).collect();
        format!("{start}…")
    } else {
        clean
    }
}
