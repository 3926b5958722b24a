//! httperf's line, both ways: every option of 0.9.0's manual and of its current source.

use serde_json::json;

use super::options::Takes::{Maybe, Nothing, Value};
use super::options::{Item, Spec, both, items, long};
use super::{Draft, Reading, name_and_value, whole};

mod escapes;
mod period;
mod write;

use period::Pace;
pub(super) use write::write;

const OPTIONS: &[Spec] = &[
    long("add-header", Value),
    long("add-header-file", Value),
    long("burst-length", Value),
    long("client", Value),
    long("close-with-reset", Nothing),
    both('d', "debug", Value),
    long("failure-status", Value),
    both('h', "help", Nothing),
    long("hog", Nothing),
    long("http-version", Value),
    long("max-connections", Value),
    long("max-piped-calls", Value),
    long("method", Value),
    long("myaddr", Value),
    long("no-host-hdr", Nothing),
    long("num-calls", Value),
    long("num-conns", Value),
    long("period", Value),
    both('n', "periodic-stats", Nothing),
    long("port", Value),
    long("print-reply", Maybe),
    long("print-request", Maybe),
    long("rate", Value),
    long("recv-buffer", Value),
    long("retry-on-failure", Nothing),
    long("runtime", Value),
    long("send-buffer", Value),
    long("server", Value),
    long("server-name", Value),
    long("servers", Value),
    long("session-cookies", Nothing),
    long("ssl", Nothing),
    long("ssl-ca-file", Value),
    long("ssl-ca-path", Value),
    long("ssl-certificate", Value),
    long("ssl-ciphers", Value),
    long("ssl-key", Value),
    long("ssl-no-reuse", Nothing),
    long("ssl-protocol", Value),
    long("ssl-verify", Maybe),
    long("think-timeout", Value),
    long("timeout", Value),
    long("uri", Value),
    long("use-timer-cache", Nothing),
    both('v', "verbose", Nothing),
    both('V', "version", Nothing),
    long("wlog", Value),
    long("wsess", Value),
    long("wsesslog", Value),
    long("wsesspage", Value),
    long("wset", Value),
];

/// What the options add up to.
#[derive(Default)]
struct Asked {
    server: Option<String>,
    port: Option<String>,
    uri: Option<String>,
    ssl: bool,
    rate: Option<Pace>,
    num_conns: Option<u64>,
    runtime: Option<f64>,
    timeout: Option<f64>,
    think_timeout: Option<f64>,
}

pub(super) fn read(program: &str, arguments: &[String], mut draft: Draft) -> Reading {
    let place = draft.words.len();
    draft.set("kind", "rate");
    let mut asked = Asked::default();
    for item in items("httperf", arguments, OPTIONS) {
        match item {
            Item::Option { name, text, value } => asked.take(&mut draft, name, &text, &value),
            Item::Operand(word) => draft.problem(
                &word,
                format!(
                    "httperf takes no bare word such as {}: name the server with --server.",
                    super::cut(&word)
                ),
            ),
            Item::Fault { text, sentence } => draft.problem(&text, sentence),
        }
    }
    let meaning = asked.finish(&mut draft);
    draft.words.insert(
        place,
        super::Word {
            text: super::cut(program),
            meaning: meaning.to_owned(),
            note: super::WordNote::Understood,
        },
    );
    draft.finish()
}

impl Asked {
    fn take(&mut self, draft: &mut Draft, name: &str, text: &str, value: &str) {
        match name {
            "num-conns" => {
                if let Some(connections) = draft.count(text, value) {
                    self.num_conns = Some(connections);
                    draft.understood(text, format!("{connections} connections in all"));
                }
            }
            "num-calls" => {
                if let Some(calls) = draft.count(text, value) {
                    draft.set("num_calls", calls);
                    let meaning = if calls == 1 {
                        "one call each".to_owned()
                    } else {
                        format!("{calls} calls on each connection, one after another")
                    };
                    draft.understood(text, meaning);
                }
            }
            "runtime" => {
                if let Some(seconds) = draft.number(text, value) {
                    self.runtime = Some(seconds);
                    draft.understood(text, "sending ends after this many seconds");
                }
            }
            "rate" => {
                if let Some(rate) = draft.number(text, value) {
                    self.rate = Some(Pace::Even(rate.max(0.0)));
                    let meaning = if rate > 0.0 {
                        format!("{rate} connections begun per second, whatever the server does")
                    } else {
                        "one connection after another".to_owned()
                    };
                    draft.understood(text, meaning);
                }
            }
            "period" => match period::read(value) {
                Ok((pace, meaning)) => {
                    self.rate = Some(pace);
                    draft.understood(text, meaning);
                }
                Err(sentence) => draft.problem(text, sentence),
            },
            "timeout" => {
                if let Some(seconds) = draft.number(text, value) {
                    self.timeout = Some(seconds);
                    draft.understood(text, "counted from the actual send to the end of the reply");
                }
            }
            "think-timeout" => {
                if let Some(seconds) = draft.number(text, value) {
                    self.think_timeout = Some(seconds);
                    draft.understood(text, "added to the timeout");
                }
            }
            "burst-length" if whole(value) == Some(1) => {
                draft.understood(text, "one call at a time");
            }
            "verbose" => {
                draft.output.verbose = true;
                draft.understood(text, "the report holds every figure anyway");
            }
            _ => self.take_target(draft, name, text, value),
        }
    }

    fn take_target(&mut self, draft: &mut Draft, name: &str, text: &str, value: &str) {
        match name {
            "server" => {
                let bad = value.is_empty()
                    || value
                        .chars()
                        .any(|c| c.is_whitespace() || "/?#@\\[]".contains(c));
                if bad {
                    draft.problem(text, "--server takes a host name or an address, without http:// and path: these go into --port, --ssl and --uri.");
                } else {
                    self.server = Some(value.to_owned());
                    draft.understood(text, "the target");
                }
            }
            "port" => match whole(value).filter(|port| (1..=65_535).contains(port)) {
                Some(port) => {
                    self.port = Some(port.to_string());
                    draft.understood(text, format!("port {port}"));
                }
                None => draft.problem(text, "--port takes a number from 1 to 65535."),
            },
            "uri" if value.starts_with('/') => {
                self.uri = Some(value.to_owned());
                draft.understood(text, "the path asked for");
            }
            "uri" => draft.problem(text, "--uri takes a path that begins with /."),
            "ssl" => {
                self.ssl = true;
                draft.understood(
                    text,
                    "https; the certificate is checked here, unlike httperf's default",
                );
            }
            "ssl-ca-file" => {
                draft.set("ca", value);
                draft.understood(text, "the certificate authority to trust");
            }
            "ssl-verify" => {
                let no = value.to_ascii_lowercase().starts_with(['n', '0', 'f']);
                draft.set("insecure", no);
                let meaning = if no {
                    "any certificate is accepted, and the report says so"
                } else {
                    "the certificate is checked"
                };
                draft.understood(text, meaning);
            }
            "method" => {
                draft.set("method", value);
                draft.understood(text, "the request method");
            }
            "server-name" => {
                draft.set_header("Host", value);
                draft.understood(text, "sent as the Host header");
            }
            "myaddr" => {
                draft.set("bind", value);
                draft.understood(text, "the address to send from");
            }
            "add-header" => take_headers(draft, text, value),
            "http-version" if value == "1.1" => draft.understood(text, "HTTP/1.1"),
            _ => take_others(draft, name, text),
        }
    }

    /// Puts the parts together; gives the phrase for the program's own word.
    fn finish(self, draft: &mut Draft) -> &'static str {
        let (scheme, default_port) = if self.ssl {
            ("https", "443")
        } else {
            ("http", "80")
        };
        let server = match &self.server {
            Some(server) if server.contains(':') => format!("[{server}]"),
            Some(server) => server.clone(),
            None => {
                draft.added("no --server", "localhost, as httperf does");
                "localhost".to_owned()
            }
        };
        let port = self.port.as_deref().unwrap_or_else(|| {
            draft.added("no --port", format!("port {default_port}"));
            default_port
        });
        let uri = self.uri.as_deref().unwrap_or_else(|| {
            draft.added("no --uri", "path /");
            "/"
        });
        draft.set("url", format!("{scheme}://{server}:{port}{uri}"));

        if let Some(timeout) = self.timeout {
            draft.set("timeout_s", timeout + self.think_timeout.unwrap_or(0.0));
        } else {
            draft.set("timeout_s", 120);
            draft.added(
                "no --timeout",
                "120 s, so that a server that never answers cannot hold the run for ever",
            );
        }
        if !draft.plan.contains_key("num_calls") {
            draft.added("no --num-calls", "one call each");
        }
        let (pace, meaning) = match self.rate {
            Some(Pace::Even(rate)) if rate > 0.0 => (json!(rate), "open loop, evenly spaced"),
            Some(Pace::Exponential(rate)) if rate > 0.0 => {
                draft.set("schedule", "exponential");
                (json!(rate), "open loop, random (exponential) gaps")
            }
            Some(Pace::Steps(steps)) => {
                draft.set("rate", json!(steps));
                if self.num_conns.is_some() {
                    draft.added(
                        "--period v with --num-conns",
                        "the steps end the run here, not the count",
                    );
                }
                return "open loop, a rate in steps";
            }
            Some(_) => (json!(0), "one connection after another"),
            None => {
                draft.added("no --rate", "one connection after another");
                (json!(0), "one connection after another")
            }
        };
        let rate = pace.as_f64().unwrap_or(0.0);
        draft.set("rate", pace);
        match (self.runtime, self.num_conns) {
            (Some(seconds), None) => draft.set("duration_s", seconds),
            (Some(seconds), Some(connections)) if seconds * rate < connections as f64 => {
                draft.set("duration_s", seconds);
                draft.added("--runtime with --num-conns", "the time ends the run");
            }
            (_, Some(connections)) => draft.set("num_conns", connections),
            (None, None) => {
                draft.set("num_conns", 1);
                draft.added("no --num-conns", "one connection");
            }
        }
        meaning
    }
}

/// Options that are ignored or refused whatever their value.
fn take_others(draft: &mut Draft, name: &str, text: &str) {
    let ignored = match name {
        "hog" => "not needed: ports are chosen here",
        "client" => "not needed: it only shifts random sequences",
        "send-buffer" | "recv-buffer" => "not needed: the system sizes the buffers",
        "debug" => "no debug output here",
        "print-reply" | "print-request" => "not printed; the report lists every request",
        "periodic-stats" => "every second is shown anyway",
        "use-timer-cache" => "not needed: the clock is read each time",
        "close-with-reset" => "connections are closed in order here",
        "no-host-hdr" => "HTTP/1.1 asks for the Host header, so it is sent",
        "max-connections" | "max-piped-calls" | "failure-status" | "retry-on-failure"
        | "session-cookies" | "ssl-no-reuse" => "means something for sessions only",
        _ => "",
    };
    if !ignored.is_empty() {
        draft.ignored(text, ignored);
        return;
    }
    let reason = match name {
        "burst-length" => {
            "--burst-length is not supported: calls are not pipelined here, one follows another; leave it out."
        }
        "http-version" => "--http-version can only be 1.1: no other is sent here; leave it out.",
        "wsess" | "wsesslog" | "wsesspage" => {
            "Sessions (--wsess, --wsesslog, --wsesspage) are not supported: use --num-conns with --num-calls, or siege for users who wait."
        }
        "wlog" => {
            "--wlog is not supported: a file cannot be read from a pasted line; a plan can list its URLs in urls."
        }
        "wset" => "--wset is not supported: a plan can list its URLs in urls.",
        "servers" => {
            "--servers is not supported: a file cannot be read from a pasted line; a plan can list its URLs in urls."
        }
        "add-header-file" => {
            "--add-header-file is not supported: a file cannot be read from a pasted line; use --add-header."
        }
        "ssl-certificate" | "ssl-key" => "Client certificates are not supported.",
        "ssl-ca-path" => "--ssl-ca-path is not supported: name one PEM file with --ssl-ca-file.",
        "ssl-ciphers" | "ssl-protocol" => {
            "Ciphers and protocol of TLS cannot be chosen here: leave --ssl-ciphers and --ssl-protocol out."
        }
        "help" | "version" => "This line starts no test: it asks httperf for its own text.",
        _ => "This option of httperf is not supported.",
    };
    draft.problem(text, reason);
}

/// `--add-header "A: b\nC: d\n"`, with httperf's escapes.
fn take_headers(draft: &mut Draft, text: &str, value: &str) {
    let plain = escapes::unescaped(value);
    let mut names = Vec::new();
    for line in plain.split('\n') {
        let line = line.trim_matches(['\r', ' ', '\t']);
        if line.is_empty() {
            continue;
        }
        let Some((name, value)) = name_and_value(line) else {
            draft.problem(text, "--add-header takes lines such as \"Name: value\\n\".");
            return;
        };
        draft.set_header(name, value);
        names.push(super::cut(name));
    }
    draft.understood(text, format!("sends {}", names.join(", ")));
}
