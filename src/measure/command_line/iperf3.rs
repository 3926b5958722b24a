//! iperf 3's line: every option of 3.12, as a throughput plan or as a receiver.

use super::iperf_fields::{
    UNLIMITED_UDP, bare_word, size, take_bind, take_count, take_format, take_interval,
    take_listening, take_port, take_rate,
};
use super::iperf_values::{self as values, Suffixes};
use super::options::Takes::{Maybe, Nothing, Value};
use super::options::{Item, Spec, both, items, long};
use super::server_line::ServerLine;
use super::{Draft, Reading};
use crate::measure::plan::throughput::Dialect;

const OPTIONS: &[Spec] = &[
    both('p', "port", Value),
    both('f', "format", Value),
    both('i', "interval", Value),
    both('I', "pidfile", Value),
    both('F', "file", Value),
    both('A', "affinity", Value),
    both('B', "bind", Value),
    long("bind-dev", Value),
    both('V', "verbose", Nothing),
    both('J', "json", Nothing),
    long("json-stream", Nothing),
    long("logfile", Value),
    long("forceflush", Nothing),
    long("timestamps", Maybe),
    long("rcv-timeout", Value),
    long("snd-timeout", Value),
    both('d', "debug", Maybe),
    both('v', "version", Nothing),
    both('h', "help", Nothing),
    both('s', "server", Nothing),
    both('D', "daemon", Nothing),
    both('1', "one-off", Nothing),
    long("server-bitrate-limit", Value),
    long("idle-timeout", Value),
    long("rsa-private-key-path", Value),
    long("authorized-users-path", Value),
    long("time-skew-threshold", Value),
    both('c', "client", Value),
    long("sctp", Nothing),
    both('X', "xbind", Value),
    long("nstreams", Value),
    both('u', "udp", Nothing),
    long("connect-timeout", Value),
    both('b', "bitrate", Value),
    long("bandwidth", Value),
    long("pacing-timer", Value),
    long("fq-rate", Value),
    both('t', "time", Value),
    both('n', "bytes", Value),
    both('k', "blockcount", Value),
    both('l', "length", Value),
    long("len", Value),
    long("cport", Value),
    both('P', "parallel", Value),
    both('R', "reverse", Nothing),
    long("bidir", Nothing),
    both('w', "window", Value),
    both('C', "congestion", Value),
    long("linux-congestion", Value),
    both('M', "set-mss", Value),
    both('N', "no-delay", Nothing),
    both('4', "version4", Nothing),
    both('6', "version6", Nothing),
    both('S', "tos", Value),
    long("dscp", Value),
    both('L', "flowlabel", Value),
    both('Z', "zerocopy", Nothing),
    both('O', "omit", Value),
    both('T', "title", Value),
    long("extra-data", Value),
    long("get-server-output", Nothing),
    long("udp-counters-64bit", Nothing),
    long("repeating-payload", Nothing),
    long("dont-fragment", Nothing),
    long("username", Value),
    long("rsa-public-key-path", Value),
    // Options of iperf 2 that are often given to iperf 3, so that the answer can say what iperf 3 has instead.
    both('r', "tradeoff", Nothing),
    both('e', "enhanced", Nothing),
    both('m', "print_mss", Nothing),
    both('y', "reportstyle", Value),
    long("full-duplex", Nothing),
    long("dualtest", Nothing),
    long("trip-times", Nothing),
];

pub(super) fn read(program: &str, arguments: &[String], mut draft: Draft) -> Reading {
    let items = items("iperf3", arguments, OPTIONS);
    let has = |wanted: &str| {
        items
            .iter()
            .any(|item| matches!(item, Item::Option { name, .. } if *name == wanted))
    };
    match (has("client"), has("server")) {
        (true, true) => draft.refused("The line has both -c and -s: leave one of them out."),
        (false, false) => draft.refused("Name the server with -c HOST, or wait for tests with -s."),
        (true, false) => read_client(program, items, draft),
        (false, true) => {
            draft.understood(program, "a receiver of iperf 3 clients");
            read_server(items, draft)
        }
    }
}

fn read_client(program: &str, items: Vec<Item>, mut draft: Draft) -> Reading {
    let place = draft.words.len();
    draft.set("kind", "throughput");
    draft.set("dialect", "iperf3");
    let mut asked = Asked::default();
    for item in items {
        match item {
            Item::Option { name, text, value } => asked.take(&mut draft, name, &text, &value),
            Item::Operand(word) => draft.problem(&word, bare_word(&word)),
            Item::Fault { text, sentence } => draft.problem(&text, sentence),
        }
    }
    let meaning = asked.finish(&mut draft);
    draft.words.insert(
        place,
        super::Word {
            text: super::cut(program),
            meaning,
            note: super::WordNote::Understood,
        },
    );
    draft.finish()
}

/// What the options add up to.
#[derive(Default)]
struct Asked {
    udp: bool,
    rate: bool,
    length: Option<u64>,
    blocks: Option<u64>,
    direction: Option<&'static str>,
    /// How many of -t, -n and -k there are.
    ends: u32,
}

impl Asked {
    fn take(&mut self, draft: &mut Draft, name: &str, text: &str, value: &str) {
        match name {
            "client" => match values::client_host(value) {
                Ok(host) => {
                    draft.set("host", host);
                    draft.understood(text, "the server");
                }
                Err(sentence) => draft.problem(text, sentence),
            },
            "time" => {
                self.ends += 1;
                match super::whole(value).filter(|seconds| *seconds > 0) {
                    Some(seconds) => {
                        draft.set("duration_s", seconds);
                        draft.understood(text, format!("sends for {seconds} s"));
                    }
                    None => draft.problem(text, "A test here is bounded: give -t whole seconds, as iperf 3 counts them, such as -t 10."),
                }
            }
            "bytes" => {
                self.ends += 1;
                if let Some(bytes) = size(draft, text, value, Suffixes::Binary) {
                    draft.set("bytes", bytes);
                    draft.understood(text, format!("{bytes} bytes, all streams together"));
                }
            }
            "blockcount" => {
                self.ends += 1;
                if let Some(blocks) = size(draft, text, value, Suffixes::Binary) {
                    self.blocks = Some(blocks);
                    draft.understood(text, format!("{blocks} blocks, all streams together"));
                }
            }
            "omit" => match super::whole(value) {
                Some(seconds) => {
                    draft.set("omit_s", seconds);
                    draft.understood(
                        text,
                        format!("the first {seconds} s are left out of the figures"),
                    );
                }
                None => draft.problem(text, "-O takes whole seconds, as iperf 3 counts them."),
            },
            "udp" => {
                self.udp = true;
                draft.set("protocol", "udp");
                draft.understood(text, "datagrams instead of a byte stream");
            }
            "bitrate" | "bandwidth" => {
                self.rate = true;
                take_rate(draft, text, value, Suffixes::Decimal);
            }
            "length" | "len" => {
                if let Some(bytes) = size(draft, text, value, Suffixes::Binary) {
                    self.length = Some(bytes);
                    draft.set("length_bytes", bytes);
                    draft.understood(text, format!("{bytes} bytes written at once"));
                }
            }
            "reverse" => self.goes(draft, text, "receive", "the server sends"),
            "bidir" => self.goes(
                draft,
                text,
                "both",
                "both directions at once, on connections of their own",
            ),
            "version4" => {
                draft.set("ip_version", 4);
                draft.understood(text, "over IPv4");
            }
            "version6" => {
                draft.set("ip_version", 6);
                draft.understood(text, "over IPv6");
            }
            "congestion" | "linux-congestion" => {
                draft.set("congestion", value);
                draft.understood(text, "the TCP congestion control (iperf 3's -C)");
            }
            "tos" | "dscp" => {
                let byte = if name == "tos" {
                    values::tos(value)
                } else {
                    values::dscp(value)
                };
                match byte {
                    Some(byte) => {
                        draft.set("tos", byte);
                        draft.understood(text, format!("type of service 0x{byte:02x}"));
                    }
                    None if name == "tos" => {
                        draft.problem(text, "-S takes a byte such as 0x10 or 184.");
                    }
                    None => draft.problem(
                        text,
                        "--dscp takes a number from 0 to 63, or a name such as ef, af11 or cs5.",
                    ),
                }
            }
            _ => take_common(draft, name, text, value),
        }
    }

    fn goes(&mut self, draft: &mut Draft, text: &str, direction: &'static str, meaning: &str) {
        if self.direction.is_some_and(|before| before != direction) {
            draft.problem(
                text,
                "The line has both -R and --bidir: leave one of them out.",
            );
            return;
        }
        self.direction = Some(direction);
        draft.set("direction", direction);
        draft.understood(text, meaning);
    }

    /// Adds what iperf 3 does when nothing was said; gives the phrase for the program's own word.
    fn finish(self, draft: &mut Draft) -> String {
        if self.ends > 1 {
            draft
                .problems
                .push("The line has more than one of -t, -n and -k: keep one.".to_owned());
        }
        if self.ends == 0 {
            draft.added("no -t", "sends for 10 s");
        }
        if !draft.plan.contains_key("streams") {
            draft.added("no -P", "one stream");
        }
        if !draft.plan.contains_key("port") {
            draft.added("no -p", "port 5201");
        }
        let length = self
            .length
            .unwrap_or(if self.udp { 1_460 } else { 131_072 });
        if self.length.is_none() {
            draft.set("length_bytes", length);
            let meaning = if self.udp {
                "1460 bytes in a datagram; iperf 3 itself asks the connection for what fits, so -l makes tests comparable".to_owned()
            } else {
                format!("{length} bytes written at once, iperf 3's default")
            };
            draft.added("no -l", meaning);
        }
        if let Some(blocks) = self.blocks {
            draft.set("bytes", blocks.saturating_mul(length));
        }
        if self.udp && !self.rate {
            draft.added("no -b", "1.05 Mbit/s for each stream, iperf 3's default");
        }
        if self.udp && self.rate && !draft.plan.contains_key("bandwidth_bits_per_second") {
            draft.problems.push(UNLIMITED_UDP.to_owned());
        }
        let kind = if self.udp { "UDP" } else { "TCP" };
        format!("{kind} throughput, spoken as iperf 3 does")
    }
}

fn take_common(draft: &mut Draft, name: &str, text: &str, value: &str) {
    match name {
        "port" => take_port(draft, text, value),
        "parallel" => take_count(draft, text, value, "streams", "streams at once"),
        "interval" => take_interval(draft, text, value),
        "window" => {
            if let Some(bytes) = size(draft, text, value, Suffixes::Binary) {
                draft.set("window_bytes", bytes);
                draft.understood(text, "socket buffer to ask the system for");
            }
        }
        "set-mss" => take_count(
            draft,
            text,
            value,
            "mss_bytes",
            "bytes in a TCP segment at most",
        ),
        "bind" if matches!(values::bind_place(value), Ok((_, Some(_)))) => {
            draft.problem(
                text,
                "-B of iperf 3 takes an address alone: give the source port with --cport.",
            );
        }
        "bind" => take_bind(draft, text, value),
        "cport" => match value.parse::<u16>() {
            Ok(port) if port > 0 => {
                draft.set("cport", port);
                draft.understood(
                    text,
                    format!("sends from port {port}, each further stream from the next one"),
                );
            }
            _ => draft.problem(text, "--cport takes a port, 1 to 65535."),
        },
        "format" => take_format(draft, text, value, "kmgtKMGT"),
        "json" => {
            draft.output.json = true;
            draft.understood(text, "prints the figures as JSON");
        }
        _ => take_others(draft, name, text),
    }
}

/// Options that are ignored or refused whatever their value.
fn take_others(draft: &mut Draft, name: &str, text: &str) {
    let ignored = match name {
        "verbose" => "not needed: the report holds every figure (in iperf 2, -V asks for IPv6)",
        "debug" => {
            "no debug output here (in iperf 2, -d asks for both directions; here that is --bidir)"
        }
        "get-server-output" => "not needed: both ends' figures are shown",
        "forceflush" => "every line is flushed anyway",
        "json-stream" => "not needed: intervals are kept and shown as they come",
        "logfile" | "pidfile" => "not needed: the report is kept here",
        "timestamps" | "title" => "not printed at the start of lines",
        "extra-data" => "not sent",
        "rcv-timeout" | "snd-timeout" | "connect-timeout" | "idle-timeout" => {
            "a connection or a test without progress ends after 10 s here"
        }
        "no-delay" => {
            "not needed: full segments never wait, and the last one goes out when the stream ends"
        }
        "udp-counters-64bit" => "not needed: counters do not overflow within a test's length",
        "repeating-payload" => "iperf's digits are sent anyway",
        "pacing-timer" => "not needed: sends are paced by an absolute schedule",
        "daemon" | "one-off" | "time-skew-threshold" => "means something for a server only",
        "enhanced" | "print_mss" => {
            "iperf 2's; retransmits, round trips and windows are kept of every run"
        }
        "trip-times" => "iperf 2's; round trips are measured beside the run instead",
        _ => "",
    };
    if ignored.is_empty() {
        draft.problem(text, refusal(name));
    } else {
        draft.ignored(text, ignored);
    }
}

/// Why an option of iperf 3 cannot be honoured, and what comes nearest.
fn refusal(name: &str) -> String {
    let sentence = match name {
        "file" => {
            "Data from a file (-F) are not supported: iperf's own digits are sent; leave it out."
        }
        "affinity" => "-A is not supported: the system places the threads; leave it out.",
        "bind-dev" => "--bind-dev is not supported: give an address of the device with -B.",
        "sctp" | "xbind" | "nstreams" => "SCTP is not supported: TCP and UDP are.",
        "fq-rate" => "--fq-rate is not supported: limit the rate of each stream with -b instead.",
        "zerocopy" => {
            "-Z (zero copy) is not supported: data are copied to the kernel, as most programs do, and the report shows the CPU time; leave it out (in iperf 2, -Z names the congestion control; here that is -C)."
        }
        "flowlabel" => "-L (IPv6 flow label) is not supported: leave it out.",
        "dont-fragment" => {
            "--dont-fragment is not supported: tracepath HOST finds the largest packet that passes whole."
        }
        "username" | "rsa-public-key-path" | "rsa-private-key-path" | "authorized-users-path" => {
            "iperf 3's login is not supported: limit who may reach the server with a firewall."
        }
        "server-bitrate-limit" => {
            "--server-bitrate-limit is not supported: limit the rate with the client's -b."
        }
        "tradeoff" => {
            "iperf 3 has no -r: run the line once as it is and once with -R, or write an iperf line, whose -r runs both in turn."
        }
        "full-duplex" | "dualtest" => "iperf 3 has no such option: write --bidir.",
        "reportstyle" => "iperf 3 has no -y: use tidemark run --format csv, or -J for JSON.",
        "help" | "version" => "This line starts no test: it asks iperf3 for its own text.",
        _ => "This option is not supported here: leave it out.",
    };
    sentence.to_owned()
}

fn read_server(items: Vec<Item>, mut draft: Draft) -> Reading {
    let mut server = ServerLine::new(Dialect::Iperf3);
    for item in items {
        match item {
            Item::Option { name, text, value } => {
                take_server(&mut server, &mut draft, name, &text, &value);
            }
            Item::Operand(word) => draft.problem(&word, bare_word(&word)),
            Item::Fault { text, sentence } => draft.problem(&text, sentence),
        }
    }
    draft.finish_server(server)
}

fn take_server(server: &mut ServerLine, draft: &mut Draft, name: &str, text: &str, value: &str) {
    match name {
        "server" => draft.understood(text, "waits for clients, one test at a time"),
        "udp" => {
            server.udp = true;
            draft.ignored(text, "the client says whether it is UDP");
        }
        "one-off" => {
            server.tests = Some(1);
            draft.understood(text, "ends after one test");
        }
        "version4" => {
            server.ipv6 = false;
            draft.understood(text, "listens on IPv4");
        }
        "version6" => draft.understood(text, "listens on IPv6 (and IPv4)"),
        "daemon" => {
            server.background = true;
            draft.ignored(
                text,
                "not needed: the built-in receiver serves beside the pages",
            );
        }
        "json" => {
            draft.output.json = true;
            draft.understood(text, "prints each test as JSON");
        }
        "format" => take_format(draft, text, value, "kmgtKMGT"),
        "logfile" => draft.problem(
            text,
            "--logfile is not supported: send the output to a file with > FILE.",
        ),
        "pidfile" => draft.problem(
            text,
            "-I is not supported: the shell knows the number of the process ($!).",
        ),
        "json-stream" => draft.problem(
            text,
            "--json-stream is not supported: -J prints each test as JSON at its end.",
        ),
        "verbose"
        | "debug"
        | "timestamps"
        | "forceflush"
        | "rcv-timeout"
        | "idle-timeout"
        | "time-skew-threshold" => take_others(draft, name, text),
        "port" | "bind" | "interval" => take_listening(server, draft, name, text, value),
        "bind-dev"
        | "rsa-private-key-path"
        | "authorized-users-path"
        | "server-bitrate-limit"
        | "affinity"
        | "file"
        | "help"
        | "version"
        | "reportstyle" => {
            draft.problem(text, refusal(name));
        }
        _ => draft.problem(
            text,
            format!("{} belongs to a client: leave it out.", super::cut(text)),
        ),
    }
}
