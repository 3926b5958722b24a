//! Options as GNU `getopt_long` reads them: long ones by any unique beginning, short ones in groups.

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// Nothing.
    Nothing,
    /// A value: `--name value`, `--name=value`, `-n value`, `-nvalue`.
    Value,
    /// A value only when it is attached: `--name=value`.
    Maybe,
}

/// One option of a tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spec {
    /// Its long name, without dashes; empty where there is none.
    pub(super) long: &'static str,
    /// Its letter.
    pub(super) short: Option<char>,
    /// What it takes.
    pub(super) takes: Takes,
}

/// An option with only a long name.
pub(super) const fn long(long: &'static str, takes: Takes) -> Spec {
    Spec {
        long,
        short: None,
        takes,
    }
}

/// An option with a letter and a long name.
pub(super) const fn both(short: char, long: &'static str, takes: Takes) -> Spec {
    Spec {
        long,
        short: Some(short),
        takes,
    }
}

/// A piece of the line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A known option.
    Option {
        /// Its name: the long one, or the letter where there is no long one.
        name: &'static str,
        /// As it was written, with its value.
        text: String,
        /// Its value; empty for one that takes none.
        value: String,
    },
    /// A word that is no option.
    Operand(String),
    /// An option that cannot be read, with a sentence.
    Fault {
        /// As it was written.
        text: String,
        /// What is wrong.
        sentence: String,
    },
}

/// Sorts the words of a line into options and operands.
pub(super) fn items(tool: &str, words: &[String], table: &'static [Spec]) -> Vec<Item> {
    let mut items = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            items.extend(words.by_ref().cloned().map(Item::Operand));
        } else if let Some(body) = word.strip_prefix("--") {
            let (name, attached) = match body.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (body, None),
            };
            items.push(match find(tool, name, table) {
                Ok(spec) => read_value(spec, word, attached, &mut words),
                Err(sentence) => Item::Fault {
                    text: word.clone(),
                    sentence,
                },
            });
        } else if word.len() > 1 && word.starts_with('-') {
            letters(tool, word, &mut words, table, &mut items);
        } else {
            items.push(Item::Operand(word.clone()));
        }
    }
    items
}

/// The option with this name, or the only one that begins so.
fn find(tool: &str, name: &str, table: &'static [Spec]) -> Result<&'static Spec, String> {
    if name.is_empty() {
        return Err("-- followed by = is no option.".to_owned());
    }
    if let Some(spec) = table.iter().find(|spec| spec.long == name) {
        return Ok(spec);
    }
    let candidates: Vec<&Spec> = table
        .iter()
        .filter(|spec| spec.long.starts_with(name))
        .collect();
    match candidates.as_slice() {
        [spec] => Ok(spec),
        [] => Err(format!(
            "{tool} has no option --{}: check its spelling.",
            super::cut(name)
        )),
        several => {
            let names: Vec<String> = several.iter().map(|s| format!("--{}", s.long)).collect();
            Err(format!(
                "--{name} can mean {}: write it out.",
                names.join(" or ")
            ))
        }
    }
}

/// Options of one letter, several in a word; the last may carry a value.
fn letters(
    tool: &str,
    word: &str,
    words: &mut std::slice::Iter<'_, String>,
    table: &'static [Spec],
    items: &mut Vec<Item>,
) {
    let mut rest = word.strip_prefix('-').unwrap_or(word).chars();
    while let Some(letter) = rest.next() {
        let Some(spec) = table.iter().find(|spec| spec.short == Some(letter)) else {
            items.push(Item::Fault {
                text: word.to_owned(),
                sentence: format!("{tool} has no option -{letter}: check its spelling."),
            });
            return;
        };
        let text = format!("-{letter}");
        if spec.takes == Takes::Nothing {
            items.push(read_value(spec, &text, None, words));
            continue;
        }
        let attached = rest.as_str();
        let attached = (!attached.is_empty()).then(|| attached.to_owned());
        let text = match &attached {
            Some(value) => format!("{text}{value}"),
            None => text,
        };
        items.push(read_value(spec, &text, attached, words));
        return;
    }
}

fn read_value(
    spec: &'static Spec,
    text: &str,
    attached: Option<String>,
    words: &mut std::slice::Iter<'_, String>,
) -> Item {
    let name = spec.long;
    let text = text.to_owned();
    match (spec.takes, attached) {
        (Takes::Nothing, Some(_)) => Item::Fault {
            sentence: format!("--{name} takes no value."),
            text,
        },
        (Takes::Nothing | Takes::Maybe, None) => Item::Option {
            name,
            text,
            value: String::new(),
        },
        (_, Some(value)) => Item::Option { name, text, value },
        (Takes::Value, None) => match words.next() {
            Some(value) => Item::Option {
                name,
                text: format!("{text} {}", shell_words::quote(value)),
                value: value.clone(),
            },
            None => Item::Fault {
                sentence: format!("{} needs a value.", super::cut(&text)),
                text,
            },
        },
    }
}
