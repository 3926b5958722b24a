//! What a shell would make of a pasted line, as far as one command goes: words, quoting, and what stands around it.

/// The first command of a line.
#[derive(Debug, Default)]
pub(super) struct Split {
    /// Its words, unquoted.
    pub(super) words: Vec<String>,
    /// What was left out, each with why.
    pub(super) ignored: Vec<(String, String)>,
    /// A sentence when the line needs a shell to be understood.
    pub(super) problem: Option<String>,
}

/// Splits a line into the words of one command.
///
/// Pipes and redirections are left out and said; loops, variables and second commands are problems.
/// Quotation marks and dashes that a word processor has made typographic are taken for plain ones.
pub(super) fn split(line: &str) -> Split {
    let mut scanner = Scanner {
        chars: line.chars().collect(),
        at: 0,
        raw: String::with_capacity(line.len()),
        ignored: Vec::new(),
    };
    let outcome = scanner.command();
    let words = shell_words::split(&scanner.raw);
    let is_loop = ["for ", "while ", "until ", "if "]
        .iter()
        .any(|word| scanner.raw.trim_start().starts_with(word));
    let problem = if is_loop {
        Some("A shell loop is not run here: paste one of its commands at a time.".to_owned())
    } else {
        match (&outcome, &words) {
            (Err(problem), _) => Some(problem.clone()),
            (Ok(()), Err(_)) => Some("A quotation mark is not closed.".to_owned()),
            (Ok(()), Ok(_)) => None,
        }
    };
    Split {
        words: words.unwrap_or_default(),
        ignored: scanner.ignored,
        problem,
    }
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    /// The command with its quoting, continuations joined.
    raw: String,
    ignored: Vec<(String, String)>,
}

impl Scanner {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn rest(&self) -> String {
        self.chars
            .get(self.at..)
            .unwrap_or_default()
            .iter()
            .collect()
    }

    fn at_word_start(&self) -> bool {
        self.raw
            .chars()
            .next_back()
            .is_none_or(|last| last.is_ascii_whitespace())
    }

    /// Copies one command into `raw`; an error is a sentence.
    fn command(&mut self) -> Result<(), String> {
        while let Some(c) = self.peek(0) {
            match c {
                '\\' => self.backslash(),
                '\'' | '‘' => self.quoted(c, '\''),
                '"' | '“' | '„' => self.double_quoted(c)?,
                '\n' | '\r' => {
                    if !self.raw.trim().is_empty() {
                        return self.nothing_follows();
                    }
                    self.raw.clear();
                    self.at += 1;
                }
                '|' if self.peek(1) != Some('|') => {
                    let rest = self.rest();
                    self.ignore(&rest, "what stands behind a pipe is not run here");
                    return Ok(());
                }
                '&' if self.peek(1) == Some('>') => self.redirection(),
                '&' | ';' if self.inside_word() => self.copy(),
                '&' | ';' | '|' => return self.nothing_follows(),
                '<' | '>' => self.redirection(),
                '#' if self.at_word_start() => self.comment(),
                '$' if self.at_word_start()
                    && self.raw.trim().is_empty()
                    && self.peek(1).is_none_or(char::is_whitespace) =>
                {
                    self.raw.clear();
                    self.at += 1;
                }
                '$' | '`' => {
                    self.refuse_expansion(c)?;
                    self.copy();
                }
                '–' | '—' | '−' | '‐' if self.dashes_so_far() => self.dash(),
                _ if c.is_whitespace() => {
                    self.raw.push(' ');
                    self.at += 1;
                }
                _ => self.copy(),
            }
        }
        Ok(())
    }

    fn copy(&mut self) {
        if let Some(c) = self.peek(0) {
            self.raw.push(c);
            self.at += 1;
        }
    }

    /// A character that joins two commands only where white space is beside it: pasted URLs are often unquoted.
    fn inside_word(&self) -> bool {
        !self.at_word_start()
            && self
                .peek(1)
                .is_some_and(|next| !next.is_whitespace() && !matches!(next, '&' | ';' | '|'))
    }

    fn backslash(&mut self) {
        let newline = match (self.peek(1), self.peek(2)) {
            (Some('\n'), _) => 2,
            (Some('\r'), Some('\n')) => 3,
            _ => 0,
        };
        if newline > 0 {
            self.at += newline;
            return;
        }
        // A backslash before trailing blanks was meant to continue the line.
        let blanks = self
            .chars
            .iter()
            .skip(self.at + 1)
            .take_while(|c| matches!(c, ' ' | '\t' | '\r'))
            .count();
        match self.peek(1 + blanks) {
            None => self.at = self.chars.len(),
            Some('\n') => self.at += blanks + 2,
            Some(_) => {
                self.copy();
                self.copy();
            }
        }
    }

    /// Copies a text in single quotation marks; a typographic pair becomes a plain one.
    fn quoted(&mut self, opened: char, plain: char) {
        self.raw.push(plain);
        self.at += 1;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            if c == plain || (opened != plain && c == '’') {
                self.raw.push(plain);
                return;
            }
            self.raw.push(c);
        }
    }

    fn double_quoted(&mut self, opened: char) -> Result<(), String> {
        self.raw.push('"');
        self.at += 1;
        while let Some(c) = self.peek(0) {
            if c == '"' || (opened != '"' && matches!(c, '”' | '“')) {
                self.raw.push('"');
                self.at += 1;
                return Ok(());
            }
            if matches!(c, '$' | '`') {
                self.refuse_expansion(c)?;
            }
            if c == '\\' {
                self.copy();
            }
            self.copy();
        }
        Ok(())
    }

    fn refuse_expansion(&self, c: char) -> Result<(), String> {
        let next = self.peek(1);
        let expands = c == '`'
            || next.is_some_and(|next| {
                next.is_ascii_alphanumeric() || matches!(next, '_' | '{' | '(' | '@' | '*')
            });
        if !expands {
            return Ok(());
        }
        let name: String = self
            .chars
            .iter()
            .skip(self.at + 1)
            .take_while(|c| c.is_ascii_alphanumeric() || **c == '_')
            .take(30)
            .collect();
        Err(if c == '`' || name.is_empty() {
            "The line holds a command for the shell, in $( ) or backquotes: write its result instead.".to_owned()
        } else {
            format!("${name} is a variable of the shell: write its value instead.")
        })
    }

    /// Steps over a separator; whatever command follows it is one too many.
    fn nothing_follows(&mut self) -> Result<(), String> {
        let rest = self.rest();
        let more = rest
            .lines()
            .map(|line| line.trim().trim_start_matches([';', '&', '|', ' ']))
            .any(|line| !line.is_empty() && !line.starts_with('#'));
        if more {
            return Err(
                "The line holds more than one command: paste one at a time (and put a URL with & or ; in quotation marks)."
                    .to_owned(),
            );
        }
        if rest.trim_start().starts_with('&') {
            self.ignore("&", "runs wait in the queue here");
        }
        self.at = self.chars.len();
        Ok(())
    }

    /// Leaves out `2>&1`, `> file`, `< file` and the like.
    fn redirection(&mut self) {
        let mut text = String::new();
        let digits = self.raw.len()
            - self
                .raw
                .trim_end_matches(|c: char| c.is_ascii_digit())
                .len();
        let before = self.raw.len() - digits;
        let is_descriptor = self
            .raw
            .get(..before)
            .is_some_and(|raw| raw.is_empty() || raw.ends_with(' '));
        if digits > 0 && is_descriptor {
            text = self.raw.split_off(before);
        }
        while let Some(c) = self.peek(0).filter(|c| matches!(c, '<' | '>' | '&' | '|')) {
            text.push(c);
            self.at += 1;
        }
        while let Some(c) = self.peek(0).filter(|c| matches!(c, ' ' | '\t')) {
            text.push(c);
            self.at += 1;
        }
        while let Some(c) = self
            .peek(0)
            .filter(|c| !c.is_whitespace() && !matches!(c, '|' | ';' | '&' | '<' | '>'))
        {
            text.push(c);
            self.at += 1;
        }
        self.raw.push(' ');
        self.ignore(&text, "not needed: the report is kept here");
    }

    /// A comment; or the prompt of the superuser, where a command stands behind it.
    fn comment(&mut self) {
        let line: String = self
            .chars
            .iter()
            .skip(self.at)
            .take_while(|c| !matches!(c, '\n' | '\r'))
            .collect();
        let next = line.trim_start_matches('#').split_whitespace().next();
        let is_prompt = self.raw.trim().is_empty()
            && next.is_some_and(|word| super::tool_of(word) != super::Tool::Unknown);
        if is_prompt {
            self.at += 1;
            return;
        }
        self.ignore(&line, "a comment");
        self.at += line.chars().count();
    }

    /// Whether the word so far is empty or a single dash.
    fn dashes_so_far(&self) -> bool {
        let before = self.raw.strip_suffix('-').unwrap_or(&self.raw);
        before.is_empty() || before.ends_with(' ')
    }

    /// A typographic dash before an option: one stands for two before a long name.
    fn dash(&mut self) {
        let lonely = self.at_word_start()
            && !self
                .peek(1)
                .is_some_and(|next| matches!(next, '-' | '–' | '—' | '−' | '‐'));
        let long = self.peek(1).is_some_and(|c| c.is_ascii_alphabetic())
            && self.peek(2).is_some_and(|c| c.is_ascii_alphabetic());
        self.raw.push_str(if lonely && long { "--" } else { "-" });
        self.at += 1;
    }

    fn ignore(&mut self, text: &str, why: &str) {
        self.ignored.push((text.trim().to_owned(), why.to_owned()));
    }
}
