//! siege's line, both ways.

use super::options::Takes::{Maybe, Nothing, Value};
use super::options::{Item, Spec, both, items, long};
use super::{Draft, Reading, name_and_value, number, push_option, whole, with_scheme};
use crate::measure::plan::{Order, Plan, UsersPlan};

const OPTIONS: &[Spec] = &[
    both('V', "version", Nothing),
    both('h', "help", Nothing),
    both('C', "config", Nothing),
    both('v', "verbose", Nothing),
    both('q', "quiet", Nothing),
    both('g', "get", Maybe),
    both('p', "print", Maybe),
    both('c', "concurrent", Value),
    both('r', "reps", Value),
    both('t', "time", Value),
    both('d', "delay", Value),
    both('b', "benchmark", Nothing),
    both('i', "internet", Nothing),
    both('f', "file", Value),
    both('R', "rc", Value),
    both('l', "log", Maybe),
    both('m', "mark", Value),
    both('H', "header", Value),
    both('A', "user-agent", Value),
    both('T', "content-type", Value),
    both('j', "json-output", Nothing),
    both('D', "debug", Nothing),
    long("no-parser", Nothing),
    long("no-follow", Nothing),
];

/// What siege calls the type of a body when nobody says.
const FORM: &str = "application/x-www-form-urlencoded";
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

#[derive(Default)]
struct Asked {
    operands: Vec<String>,
    /// Whether -r or -t is there, readable or not.
    bounded: bool,
    no_parser: bool,
    single: bool,
}

pub(super) fn read(program: &str, arguments: &[String], mut draft: Draft) -> Reading {
    let place = draft.words.len();
    draft.set("kind", "users");
    let mut asked = Asked::default();
    for item in items("siege", arguments, OPTIONS) {
        match item {
            Item::Option { name, text, value } => asked.take(&mut draft, name, &text, &value),
            Item::Operand(word) => asked.operands.push(word),
            Item::Fault { text, sentence } => draft.problem(&text, sentence),
        }
    }
    asked.take_url(&mut draft);
    asked.finish(&mut draft);
    draft.words.insert(
        place,
        super::Word {
            text: super::cut(program),
            meaning: if asked.single {
                "one request"
            } else {
                "closed loop: each user sends its next request when its reply has come"
            }
            .to_owned(),
            note: super::WordNote::Understood,
        },
    );
    draft.finish()
}

impl Asked {
    fn take(&mut self, draft: &mut Draft, name: &str, text: &str, value: &str) {
        self.bounded |= matches!(name, "reps" | "time");
        match name {
            "concurrent" => {
                if let Some(users) = draft.count(text, value) {
                    draft.set("concurrent", users);
                    draft.understood(text, format!("{users} users at once"));
                }
            }
            "reps" if value.eq_ignore_ascii_case("once") => {
                draft.set("reps", 1);
                draft.understood(text, "each user goes through the URLs once");
            }
            "reps" => {
                if let Some(reps) = draft.count(text, value) {
                    draft.set("reps", reps);
                    draft.understood(text, format!("{reps} requests of each user"));
                }
            }
            "time" => match read_time(value) {
                Some(seconds) => {
                        draft.set("duration_s", seconds);
                    let unit = if value.ends_with(|c: char| c.is_ascii_digit()) {
                        " (a bare number counts minutes in siege)"
                    } else {
                        ""
                    };
                    draft.understood(text, format!("for {seconds} s{unit}"));
                }
                None => draft.problem(
                    text,
                    "-t takes a whole number with S, M or H, such as 30S, 5M or 1H.",
                ),
            },
            "delay" => {
                if let Some(seconds) = draft.number(text, value) {
                    draft.set("delay_s", seconds);
                    draft.understood(
                        text,
                        format!("a random pause of 0 to {seconds} s after each reply"),
                    );
                }
            }
            "benchmark" => {
                draft.set("delay_s", 0);
                draft.understood(text, "no pause between requests");
            }
            "internet" => {
                draft.set("order", "random");
                draft.understood(text, "URLs in random order");
            }
            "header" => match name_and_value(value) {
                Some((name, value)) => {
                    draft.set_header(name, value);
                    draft.understood(text, format!("sends {}", super::cut(name)));
                }
                None => draft.problem(text, "-H takes a header such as \"Name: value\"."),
            },
            "user-agent" => {
                draft.set_header("User-Agent", value);
                draft.understood(text, "sends User-Agent");
            }
            "content-type" => {
                draft.set_header("Content-Type", value);
                draft.understood(text, "sends Content-Type");
            }
            "json-output" => {
                draft.output.json = true;
                draft.understood(text, "prints the figures as JSON");
            }
            "verbose" => {
                draft.output.verbose = true;
                draft.ignored(text, "not printed line by line; the report lists every request");
            }
            "quiet" => {
                draft.output.quiet = true;
                draft.understood(text, "prints less");
            }
            "get" | "print" => {
                self.single = true;
                if !value.is_empty() {
                    self.operands.push(value.to_owned());
                }
                draft.understood(text, "one request alone");
            }
            "no-parser" => {
                self.no_parser = true;
                draft.understood(text, "page elements are never fetched here");
            }
            "no-follow" => draft.understood(text, "redirects are never followed here"),
            "log" | "mark" => draft.ignored(text, "not needed: every run is kept here"),
            "rc" => draft.ignored(text, "siege's settings file is not read here"),
            "debug" => draft.ignored(text, "no debug output here"),
            "file" => draft.problem(text, "-f is not supported: a file cannot be read from a pasted line; put the URL into the line, or list several in a plan's urls."),
            _ => draft.problem(text, "This line starts no test: it asks siege for its own text."),
        }
    }

    /// `URL`, `"URL POST body"` or the three as words of their own.
    fn take_url(&mut self, draft: &mut Draft) {
        let Some(first) = self.operands.first() else {
            draft
                .problems
                .push("The URL is missing: put it at the end of the line.".to_owned());
            return;
        };
        let text = self.operands.join(" ");
        let (url, rest) = first
            .split_once(char::is_whitespace)
            .unwrap_or((first.as_str(), ""));
        let mut rest = vec![rest.trim_start().to_owned()];
        rest.extend(self.operands.iter().skip(1).cloned());
        let rest = rest.join(" ");
        let rest = rest.trim_start();
        draft.set("url", with_scheme(url));
        if rest.is_empty() {
            draft.understood(&text, "the URL asked for");
            return;
        }
        let (method, body) = rest.split_once(' ').unwrap_or((rest, ""));
        if !METHODS.contains(&method) {
            draft.problem(&text, "One URL is asked for: with a method and a body it is written \"URL POST body\"; several URLs go into a plan's urls.");
            return;
        }
        if body.starts_with('<') {
            draft.problem(&text, "A body from a file (<) is not supported: a file cannot be read from a pasted line.");
            return;
        }
        draft.set("method", method);
        if body.is_empty() {
            draft.understood(&text, format!("{method} to this URL"));
            return;
        }
        draft.set("body", body);
        draft.understood(&text, format!("{method} to this URL, with a body"));
        if !draft.has_header("content-type") {
            draft.set_header("Content-Type", FORM);
            draft.added("no -T", format!("Content-Type: {FORM}"));
        }
    }

    fn finish(&mut self, draft: &mut Draft) {
        if self.single {
            draft.set("kind", "fetch");
            for key in ["concurrent", "reps", "duration_s", "delay_s", "order"] {
                draft.plan.remove(key);
            }
            return;
        }
        if draft.plan.contains_key("reps") && draft.plan.contains_key("duration_s") {
            draft
                .problems
                .push("The line has both -r and -t: leave one of them out.".to_owned());
        } else if !self.bounded {
            draft.problems.push(
                "Without -r or -t this would never end: add -r 20 (requests of each user) or -t 30S (time)."
                    .to_owned(),
            );
        }
        if !draft.plan.contains_key("concurrent") {
            draft.set("concurrent", 25);
            draft.added("no -c", "25 users at once");
        }
        if !draft.plan.contains_key("delay_s") {
            draft.set("delay_s", 0);
            draft.added("no -d", "no pause between requests");
        }
        if !self.no_parser {
            draft.added(
                "no --no-parser",
                "all the same neither page elements nor redirects are fetched here",
            );
        }
        draft.set("timeout_s", 30);
        draft.added("timeout", "30 s, siege's default");
    }
}

/// `30S`, `5M`, `1H`, in either case; a bare number is minutes.
fn read_time(text: &str) -> Option<u64> {
    let (digits, factor) = match text.char_indices().next_back()? {
        (at, 's' | 'S') => (&text[..at], 1),
        (at, 'm' | 'M') => (&text[..at], 60),
        (at, 'h' | 'H') => (&text[..at], 3_600),
        _ => (text, 60),
    };
    whole(digits)?.checked_mul(factor)
}

/// The nearest siege line, and what it cannot say.
pub(super) fn write(plan: &UsersPlan) -> (String, Vec<String>, Option<Plan>) {
    let mut differs = Vec::new();
    let mut words = vec![
        "siege".to_owned(),
        "-c".to_owned(),
        plan.concurrent.to_string(),
    ];
    if let Some(reps) = plan.reps {
        push_option(&mut words, "-r", &reps.to_string());
    }
    if let Some(seconds) = plan.duration_s {
        push_option(&mut words, "-t", &format!("{}S", number(seconds)));
        if seconds.fract() != 0.0 {
            differs.push("siege counts whole seconds.".to_owned());
        }
    }
    if plan.delay_s > 0.0 {
        push_option(&mut words, "-d", &number(plan.delay_s));
    } else {
        words.push("-b".to_owned());
    }
    if plan.order == Order::Random {
        words.push("-i".to_owned());
    }
    words.push("--no-parser".to_owned());
    words.push("--no-follow".to_owned());
    let is_default_type = |value: &str| plan.body.is_some() && value == FORM;
    for (name, value) in &plan.headers {
        match name.as_str() {
            "Content-Type" if is_default_type(value) => {}
            "Content-Type" => {
                push_option(&mut words, "-T", value);
            }
            "User-Agent" => {
                push_option(&mut words, "-A", value);
            }
            _ => {
                push_option(&mut words, "-H", &format!("{name}: {value}"));
            }
        }
    }
    if let Some(first) = plan.urls.first() {
        let url = first.url.as_str();
        let target = match (&plan.body, plan.method.as_str()) {
            (Some(body), method) => format!("{url} {method} {body}"),
            (None, "GET") => url.to_owned(),
            (None, method) => format!("{url} {method}"),
        };
        words.push(shell_words::quote(&target).into_owned());
        if first.url.scheme() == "https" {
            differs.push("siege itself does not check the certificate.".to_owned());
        }
    }
    if plan.urls.len() > 1 {
        differs.push("siege reads several URLs from a file only.".to_owned());
    }
    if plan.keep_alive {
        differs.push("siege keeps connections only by a setting of its siege.conf.".to_owned());
    }
    if plan.timeout_s.to_bits() != 30_f64.to_bits() {
        differs.push(format!(
            "siege takes its timeout from siege.conf; this plan has {} s.",
            number(plan.timeout_s)
        ));
    }
    if plan.seed != 1 {
        differs.push(format!("siege has no seed; this plan has {}.", plan.seed));
    }
    if plan.tls.ca.is_some() {
        differs.push("siege takes no certificate authority from its line.".to_owned());
    }
    (words.join(" "), differs, None)
}
