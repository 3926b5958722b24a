//! curl's line, both ways: one request, taken apart.

use super::options::Takes::{Nothing, Value};
use super::options::{Item, Spec, both, items, long};
use super::{Draft, Reading, name_and_value, number, push_option, with_scheme};
use crate::measure::plan::{FetchPlan, Plan};

const OPTIONS: &[Spec] = &[
    both('w', "write-out", Value),
    both('o', "output", Value),
    both('O', "remote-name", Nothing),
    both('s', "silent", Nothing),
    both('S', "show-error", Nothing),
    both('f', "fail", Nothing),
    both('v', "verbose", Nothing),
    both('i', "include", Nothing),
    both('k', "insecure", Nothing),
    long("cacert", Value),
    both('X', "request", Value),
    both('H', "header", Value),
    both('d', "data", Value),
    long("data-raw", Value),
    long("data-ascii", Value),
    long("data-binary", Value),
    long("data-urlencode", Value),
    long("json", Value),
    both('G', "get", Nothing),
    both('I', "head", Nothing),
    both('m', "max-time", Value),
    long("connect-timeout", Value),
    both('4', "ipv4", Nothing),
    both('6', "ipv6", Nothing),
    both('A', "user-agent", Value),
    both('e', "referer", Value),
    both('b', "cookie", Value),
    both('c', "cookie-jar", Value),
    both('u', "user", Value),
    both('r', "range", Value),
    both('0', "http1.0", Nothing),
    long("http1.1", Nothing),
    long("http2", Nothing),
    long("http2-prior-knowledge", Nothing),
    long("http3", Nothing),
    both('L', "location", Nothing),
    long("max-redirs", Value),
    long("compressed", Nothing),
    both('g', "globoff", Nothing),
    both('N', "no-buffer", Nothing),
    long("no-keepalive", Nothing),
    long("no-progress-meter", Nothing),
    long("tcp-nodelay", Nothing),
    long("path-as-is", Nothing),
    both('#', "progress-bar", Nothing),
    both('q', "disable", Nothing),
    both('D', "dump-header", Value),
    long("stderr", Value),
    long("trace", Value),
    long("trace-ascii", Value),
    long("url", Value),
    long("retry", Value),
    both('x', "proxy", Value),
    long("noproxy", Value),
    both('F', "form", Value),
    both('T', "upload-file", Value),
    both('E', "cert", Value),
    long("key", Value),
    long("capath", Value),
    long("interface", Value),
    long("resolve", Value),
    long("connect-to", Value),
    long("unix-socket", Value),
    long("limit-rate", Value),
    both('K', "config", Value),
    both('Z', "parallel", Nothing),
    long("tlsv1.2", Nothing),
    long("tlsv1.3", Nothing),
    both('h', "help", Nothing),
    both('V', "version", Nothing),
];

/// What curl calls the type of `-d` when nobody says.
const FORM: &str = "application/x-www-form-urlencoded";

#[derive(Default)]
struct Asked {
    urls: Vec<(String, String)>,
    method: Option<String>,
    head: bool,
    body: Option<String>,
    no_content_type: bool,
}

pub(super) fn read(program: &str, arguments: &[String], mut draft: Draft) -> Reading {
    draft.set("kind", "fetch");
    draft.understood(program, "one request, taken apart");
    let mut asked = Asked::default();
    for item in items("curl", arguments, OPTIONS) {
        match item {
            Item::Option { name, text, value } => asked.take(&mut draft, name, &text, &value),
            Item::Operand(word) => asked.urls.push((word.clone(), word)),
            Item::Fault { text, sentence } => draft.problem(&text, sentence),
        }
    }
    asked.finish(&mut draft);
    draft.finish()
}

impl Asked {
    fn take(&mut self, draft: &mut Draft, name: &str, text: &str, value: &str) {
        match name {
            "url" => self.urls.push((text.to_owned(), value.to_owned())),
            "write-out" => {
                draft.output.write_out = Some(value.to_owned());
                draft.understood(text, "what to print; the report shows every phase anyway");
            }
            "fail" => {
                draft.output.failing_status = Some(400);
                draft.understood(text, "in a shell, a reply of 400 or above ends with status 1");
            }
            "silent" => {
                draft.output.quiet = true;
                draft.understood(text, "prints less");
            }
            "verbose" => {
                draft.output.verbose = true;
                draft.ignored(text, "the report shows every phase");
            }
            "insecure" => {
                draft.set("insecure", true);
                draft.understood(text, "any certificate is accepted, and the report says so");
            }
            "cacert" => {
                draft.set("ca", value);
                draft.understood(text, "the certificate authority to trust");
            }
            "request" => {
                self.method = Some(value.to_owned());
                draft.understood(text, "the request method");
            }
            "head" => {
                self.head = true;
                draft.understood(text, "HEAD: the reply has no body");
            }
            "header" => self.take_header(draft, text, value),
            "user-agent" => header(draft, text, "User-Agent", value),
            "referer" => header(draft, text, "Referer", value),
            "range" => header(draft, text, "Range", &format!("bytes={value}")),
            "compressed" => header(draft, text, "Accept-Encoding", "deflate, gzip"),
            "cookie" if value.contains('=') => header(draft, text, "Cookie", value),
            "cookie" => draft.problem(
                text,
                "-b names a file, which cannot be read from a pasted line: write the cookie as name=value.",
            ),
            "user" if value.contains(':') => {
                let token = format!("Basic {}", base64(value.as_bytes()));
                header(draft, text, "Authorization", &token);
            }
            "user" => draft.problem(text, "-u without a password would ask for it: write user:password."),
            "data" | "data-ascii" | "data-binary" if value.starts_with('@') => draft.problem(
                text,
                "A body from a file (@) is not supported: a file cannot be read from a pasted line.",
            ),
            "data" | "data-ascii" | "data-raw" | "data-binary" => self.take_body(draft, text, value),
            "json" if !value.starts_with('@') => {
                for (name, value) in [("Content-Type", "application/json"), ("Accept", "application/json")] {
                    if !draft.has_header(name) {
                        draft.set_header(name, value);
                    }
                }
                self.take_body(draft, text, value);
            }
            "max-time" => {
                if let Some(seconds) = draft.number(text, value) {
                    draft.set("timeout_s", seconds);
                    draft.understood(text, "from the send to the end of the reply");
                }
            }
            "http1.1" => draft.understood(text, "HTTP/1.1"),
            _ => take_others(draft, name, text),
        }
    }

    fn take_header(&mut self, draft: &mut Draft, text: &str, value: &str) {
        if let Some(name) = value.strip_suffix(';').filter(|name| !name.contains(':')) {
            header(draft, text, name, "");
            return;
        }
        match name_and_value(value) {
            Some((name, "")) if name.eq_ignore_ascii_case("content-type") => {
                self.no_content_type = true;
                draft.understood(text, "no Content-Type is sent");
            }
            Some((_, "")) => draft.ignored(text, "curl leaves this header out; here it is not sent by default, or HTTP/1.1 asks for it"),
            Some((name, value)) => header(draft, text, name, value),
            None => draft.problem(text, "-H takes a header such as \"Name: value\"."),
        }
    }

    fn take_body(&mut self, draft: &mut Draft, text: &str, value: &str) {
        match &mut self.body {
            Some(body) => {
                body.push('&');
                body.push_str(value);
            }
            None => self.body = Some(value.to_owned()),
        }
        draft.understood(text, "the request body");
    }

    fn finish(self, draft: &mut Draft) {
        match self.urls.as_slice() {
            [] => draft
                .problems
                .push("The URL is missing: put it at the end of the line.".to_owned()),
            [(text, url)] => {
                draft.set("url", with_scheme(url));
                draft.understood(text, "the URL asked for");
            }
            [_, more, ..] => draft.problem(
                &more.0,
                "One request is measured: give one URL (and put a URL with & or spaces in quotation marks).",
            ),
        }
        let method = match (self.method, self.head, self.body.is_some()) {
            (Some(method), _, _) => Some(method),
            (None, true, _) => Some("HEAD".to_owned()),
            (None, false, true) => Some("POST".to_owned()),
            (None, false, false) => None,
        };
        if let Some(method) = method {
            draft.set("method", method);
        }
        if let Some(body) = self.body {
            draft.set("body", body);
            if !draft.has_header("content-type") && !self.no_content_type {
                draft.set_header("Content-Type", FORM);
                draft.added("no Content-Type", format!("Content-Type: {FORM}"));
            }
        }
        if !draft.plan.contains_key("timeout_s") {
            draft.set("timeout_s", 30);
            draft.added("no --max-time", "30 s");
        }
    }
}

fn header(draft: &mut Draft, text: &str, name: &str, value: &str) {
    draft.set_header(name, value);
    draft.understood(text, format!("sends {}", super::cut(name)));
}

/// Options that are ignored or refused whatever their value.
fn take_others(draft: &mut Draft, name: &str, text: &str) {
    let ignored = match name {
        "output" | "remote-name" => "not needed: the body is counted, not kept",
        "show-error" | "include" | "no-progress-meter" | "progress-bar" | "dump-header"
        | "stderr" | "trace" | "trace-ascii" | "no-buffer" => "printing only",
        "location" | "max-redirs" => "redirects are never followed: a 3xx reply is the result",
        "connect-timeout" => "--max-time holds for the whole request here",
        "ipv4" | "ipv6" => "the first address that the name resolves to is used, and shown",
        "globoff" => "URLs are never expanded here",
        "no-keepalive" | "tcp-nodelay" | "disable" | "noproxy" => "not needed here",
        "tlsv1.2" | "tlsv1.3" => "TLS 1.2 and 1.3 are spoken; the peer chooses",
        "path-as-is" => "dot segments of the path are resolved here",
        "cookie-jar" => "cookies are not kept",
        "retry" => "one request is measured, failed or not",
        _ => "",
    };
    if !ignored.is_empty() {
        draft.ignored(text, ignored);
        return;
    }
    let reason = match name {
        "http1.0" | "http2" | "http2-prior-knowledge" | "http3" => {
            "Only HTTP/1.1 is sent here: leave the option out.".to_owned()
        }
        "get" => "-G is not supported: write the query into the URL.".to_owned(),
        "data-urlencode" => {
            "--data-urlencode is not supported: write the encoded text with -d.".to_owned()
        }
        "json" => {
            "A body from a file (@) is not supported: a file cannot be read from a pasted line."
                .to_owned()
        }
        "form" | "upload-file" | "config" => {
            format!("--{name} is not supported: a file cannot be read from a pasted line.")
        }
        "cert" | "key" => "Client certificates are not supported.".to_owned(),
        "capath" => "--capath is not supported: name one PEM file with --cacert.".to_owned(),
        "proxy" => "Proxies are not supported: the target itself is measured.".to_owned(),
        "resolve" | "connect-to" => {
            format!(
                "--{name} is not supported: put the address into the URL and the name into -H \"Host: …\"."
            )
        }
        "parallel" => "One request is measured: leave -Z out.".to_owned(),
        "help" | "version" => "This line starts no test: it asks curl for its own text.".to_owned(),
        _ => format!("--{name} is not supported here: leave it out."),
    };
    draft.problem(text, reason);
}

/// RFC 4648 base64, for `-u`.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = 0_u32;
        for index in 0..3 {
            group = group << 8 | u32::from(chunk.get(index).copied().unwrap_or(0));
        }
        for index in 0..4 {
            if index <= chunk.len() {
                let letter = group >> (18 - 6 * index) & 63;
                text.push(char::from(LETTERS[letter as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// The curl line, and what it cannot say.
pub(super) fn write(plan: &FetchPlan) -> (String, Vec<String>, Option<Plan>) {
    let mut words: Vec<String> = ["curl", "-sS", "-o", "/dev/null", "-w", "'%{time_total}\\n'"]
        .map(str::to_owned)
        .to_vec();
    push_option(&mut words, "--max-time", &number(plan.timeout_s));
    let default_method = if plan.body.is_some() { "POST" } else { "GET" };
    if plan.method == "HEAD" && plan.body.is_none() {
        words.push("-I".to_owned());
    } else if plan.method != default_method {
        push_option(&mut words, "-X", &plan.method);
    }
    for (name, value) in &plan.headers {
        if value.is_empty() {
            push_option(&mut words, "-H", &format!("{name};"));
        } else {
            push_option(&mut words, "-H", &format!("{name}: {value}"));
        }
    }
    if let Some(body) = &plan.body {
        let has_type = plan
            .headers
            .keys()
            .any(|name| name.eq_ignore_ascii_case("content-type"));
        if !has_type {
            push_option(&mut words, "-H", "Content-Type:");
        }
        push_option(&mut words, "--data-raw", body);
    }
    if let Some(ca) = &plan.tls.ca {
        push_option(&mut words, "--cacert", ca);
    }
    if plan.tls.insecure {
        words.push("-k".to_owned());
    }
    words.push(shell_words::quote(plan.url.as_str()).into_owned());
    (words.join(" "), Vec::new(), None)
}
