//! iperf 2's line: every option of 2.1.8, as a throughput plan or as a receiver.

use super::iperf_fields::{
    UNLIMITED_UDP, bare_word, size, take_bind, take_count, take_format, take_interval,
    take_listening, take_port, take_rate,
};
use super::iperf_values::{self as values, Suffixes};
use super::options::Takes::{Nothing, Value};
use super::options::{Item, Spec, both, items, long};
use super::server_line::ServerLine;
use super::{Draft, Reading};
use crate::measure::plan::throughput::Dialect;

const OPTIONS: &[Spec] = &[
    both('b', "bandwidth", Value),
    both('c', "client", Value),
    both('d', "dualtest", Nothing),
    both('e', "enhanced", Nothing),
    both('f', "format", Value),
    both('h', "help", Nothing),
    both('i', "interval", Value),
    both('l', "len", Value),
    both('m', "print_mss", Nothing),
    both('n', "num", Value),
    both('o', "output", Value),
    both('p', "port", Value),
    both('r', "tradeoff", Nothing),
    both('s', "server", Nothing),
    both('t', "time", Value),
    both('u', "udp", Nothing),
    both('v', "version", Nothing),
    both('w', "window", Value),
    both('x', "reportexclude", Value),
    both('y', "reportstyle", Value),
    both('z', "realtime", Nothing),
    both('B', "bind", Value),
    both('C', "compatibility", Nothing),
    both('D', "daemon", Nothing),
    both('F', "fileinput", Value),
    both('H', "ssm-host", Value),
    both('I', "stdin", Nothing),
    both('L', "listenport", Value),
    both('M', "mss", Value),
    both('N', "nodelay", Nothing),
    both('P', "parallel", Value),
    both('R', "reverse", Nothing),
    both('S', "tos", Value),
    both('T', "ttl", Value),
    both('U', "single_udp", Nothing),
    both('V', "ipv6_domain", Nothing),
    both('W', "suggest_win_size", Nothing),
    both('X', "peer-detect", Nothing),
    both('Z', "tcp-congestion", Value),
    both('1', "singleclient", Nothing),
    both('4', "ipv4", Nothing),
    both('6', "ipv6", Nothing),
    long("linux-congestion", Value),
    long("full-duplex", Nothing),
    long("sum-only", Nothing),
    long("sum-dstip", Nothing),
    long("hide-ips", Nothing),
    long("trip-times", Nothing),
    long("histograms", Nothing),
    long("udp-histogram", Value),
    long("tcp-write-times", Nothing),
    long("tcp-quickack", Nothing),
    long("local-only", Nothing),
    long("no-connect-sync", Nothing),
    long("connect-retries", Value),
    long("bounceback", Nothing),
    long("bounceback-congest", Nothing),
    long("bounceback-hold", Value),
    long("bounceback-period", Value),
    long("bounceback-no-quickack", Nothing),
    long("connect-only", Nothing),
    long("fq-rate", Value),
    long("ipg", Value),
    long("isochronous", Value),
    long("incr-dstip", Nothing),
    long("incr-dstport", Nothing),
    long("incr-srcip", Nothing),
    long("incr-srcport", Nothing),
    long("near-congestion", Value),
    long("no-udp-fin", Nothing),
    long("permit-key", Value),
    long("permit-key-timeout", Value),
    long("tap-dev", Value),
    long("tcp-rx-window-clamp", Value),
    long("tcp-write-prefetch", Value),
    long("txdelay-time", Value),
    long("txstart-time", Value),
    // Options of iperf 3 that are often given to iperf 2, so that the answer can say what iperf 2 has instead.
    both('J', "json", Nothing),
    both('O', "omit", Value),
    both('k', "blockcount", Value),
    both('A', "affinity", Value),
    long("bidir", Nothing),
    long("get-server-output", Nothing),
    long("forceflush", Nothing),
    long("cport", Value),
];

pub(super) fn read(program: &str, arguments: &[String], mut draft: Draft) -> Reading {
    let items = items("iperf", arguments, OPTIONS);
    let has = |wanted: &str| {
        items
            .iter()
            .any(|item| matches!(item, Item::Option { name, .. } if *name == wanted))
    };
    match (has("client"), has("server")) {
        (true, true) => draft.refused("The line has both -c and -s: leave one of them out."),
        (false, false) => {
            draft.refused("Name the receiver with -c HOST, or wait for tests with -s.")
        }
        (true, false) => {
            let callback = has("dualtest") || has("tradeoff");
            read_client(program, items, callback, draft)
        }
        (false, true) => {
            draft.understood(program, "a receiver of iperf 2 clients");
            read_server(items, draft)
        }
    }
}

fn read_client(program: &str, items: Vec<Item>, callback: bool, mut draft: Draft) -> Reading {
    let place = draft.words.len();
    draft.set("kind", "throughput");
    draft.set("dialect", "iperf2");
    let mut asked = Asked::default();
    for item in items {
        match item {
            Item::Option { name, text, value } => {
                if name == "listenport" && callback {
                    draft.problem(&text, "-L is not supported: with -r the system chooses the port on which the receiver calls back, and --full-duplex needs none; leave it out.");
                } else {
                    asked.take(&mut draft, name, &text, &value);
                }
            }
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
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says whether one option is there"
)]
struct Asked {
    udp: bool,
    ipv6: bool,
    length: bool,
    rate: bool,
    direction: Option<&'static str>,
    /// The option that bounds the test, as it was written.
    end: Option<String>,
}

impl Asked {
    fn take(&mut self, draft: &mut Draft, name: &str, text: &str, value: &str) {
        match name {
            "client" => match values::client_host(value) {
                Ok(host) => {
                    self.ipv6 |= host.contains(':');
                    draft.set("host", host);
                    draft.understood(text, "the receiver");
                }
                Err(sentence) => draft.problem(text, sentence),
            },
            "time" => self.take_time(draft, text, value),
            "num" => {
                if let Some(bytes) = size(draft, text, value, Suffixes::ByCase) {
                    self.ends(draft, text);
                    draft.plan.remove("duration_s");
                    draft.set("bytes", bytes);
                    draft.understood(text, format!("{bytes} bytes on each stream"));
                }
            }
            "udp" => {
                self.udp = true;
                draft.set("protocol", "udp");
                draft.understood(text, "datagrams instead of a byte stream");
            }
            "bandwidth" => {
                self.rate = true;
                take_rate(draft, text, value, Suffixes::ByCase);
            }
            "len" => {
                if let Some(bytes) = size(draft, text, value, Suffixes::ByCase) {
                    self.length = true;
                    draft.set("length_bytes", bytes);
                    draft.understood(text, format!("{bytes} bytes written at once"));
                }
            }
            "dualtest" | "full-duplex" => {
                let meaning = if name == "dualtest" {
                    "both directions at once, here on one connection for each stream as with --full-duplex"
                } else {
                    "both directions at once on the same connections"
                };
                self.goes(draft, text, "both", meaning);
            }
            "tradeoff" => self.goes(
                draft,
                text,
                "in_turn",
                "first this node sends, then the receiver",
            ),
            "reverse" => self.goes(draft, text, "receive", "the other end sends"),
            "ipv6_domain" | "ipv6" => {
                self.ipv6 = true;
                draft.set("ip_version", 6);
                draft.understood(text, "over IPv6");
            }
            "ipv4" => {
                draft.set("ip_version", 4);
                draft.understood(text, "over IPv4");
            }
            "tcp-congestion" | "linux-congestion" => {
                draft.set("congestion", value);
                draft.understood(text, "the TCP congestion control (iperf 2's -Z)");
            }
            "tos" => match values::tos(value) {
                Some(byte) => {
                    draft.set("tos", byte);
                    draft.understood(text, format!("type of service 0x{byte:02x}"));
                }
                None => draft.problem(
                    text,
                    "-S takes a byte such as 0x10 or 184, or a name such as ef, af11 or cs5.",
                ),
            },
            _ => take_common(draft, name, text, value),
        }
    }

    fn take_time(&mut self, draft: &mut Draft, text: &str, value: &str) {
        let Some(seconds) = draft.number(text, value) else {
            return;
        };
        if seconds <= 0.0 {
            draft.problem(
                text,
                "A test here is bounded: give -t the seconds that it sends.",
            );
            return;
        }
        self.ends(draft, text);
        draft.plan.remove("bytes");
        draft.set("duration_s", seconds);
        draft.understood(text, format!("sends for {seconds} s"));
    }

    /// The last of -t and -n counts, as in iperf 2.
    fn ends(&mut self, draft: &mut Draft, text: &str) {
        if let Some(before) = self.end.replace(text.to_owned()) {
            let by = super::cut(text);
            for word in &mut draft.words {
                if word.text == super::cut(&before) {
                    word.note = super::WordNote::Ignored;
                    word.meaning = format!("{by} comes later and counts instead");
                }
            }
        }
    }

    fn goes(&mut self, draft: &mut Draft, text: &str, direction: &'static str, meaning: &str) {
        if self.direction.is_some_and(|before| before != direction) {
            draft.problem(
                text,
                "The line asks for several directions: keep one of -R, -r, -d and --full-duplex.",
            );
            return;
        }
        self.direction = Some(direction);
        draft.set("direction", direction);
        draft.understood(text, meaning);
    }

    /// Adds what iperf 2 does when nothing was said; gives the phrase for the program's own word.
    fn finish(self, draft: &mut Draft) -> String {
        if self.end.is_none() {
            draft.added("no -t", "sends for 10 s");
        }
        if !draft.plan.contains_key("streams") {
            draft.added("no -P", "one stream");
        }
        if !draft.plan.contains_key("port") {
            draft.added("no -p", "port 5001");
        }
        if !self.length {
            let length = match (self.udp, self.ipv6) {
                (true, true) => 1_450,
                (true, false) => 1_470,
                (false, _) => 131_072,
            };
            draft.set("length_bytes", length);
            draft.added(
                "no -l",
                format!("{length} bytes written at once, iperf 2's default"),
            );
        }
        if self.udp && !self.rate {
            draft.added("no -b", "1.05 Mbit/s for each stream, iperf 2's default");
        }
        if self.udp && draft.plan.get("bandwidth_bits_per_second").is_none() && self.rate {
            draft.problems.push(UNLIMITED_UDP.to_owned());
        }
        let kind = if self.udp { "UDP" } else { "TCP" };
        format!("{kind} throughput, spoken as iperf 2 does")
    }
}

/// Options whose value goes into the plan or the output as it is.
fn take_common(draft: &mut Draft, name: &str, text: &str, value: &str) {
    match name {
        "port" => take_port(draft, text, value),
        "parallel" => take_count(draft, text, value, "streams", "streams at once"),
        "interval" => take_interval(draft, text, value),
        "window" => {
            if let Some(bytes) = size(draft, text, value, Suffixes::ByCase) {
                draft.set("window_bytes", bytes);
                draft.understood(text, "socket buffer to ask the system for");
            }
        }
        "mss" => {
            if let Some(bytes) = size(draft, text, value, Suffixes::ByCase) {
                draft.set("mss_bytes", bytes);
                draft.understood(text, "TCP maximum segment size");
            }
        }
        "bind" => take_bind(draft, text, value),
        "incr-srcport" => draft.understood(text, "each stream has the next source port"),
        "format" => take_format(draft, text, value, "bkmgaBKMGA"),
        "reportstyle" if value.eq_ignore_ascii_case("c") => {
            draft.output.iperf.csv = true;
            draft.understood(text, "prints comma-separated values");
        }
        "reportstyle" => draft.problem(text, "-y takes C, for comma-separated values."),
        "sum-only" => {
            draft.output.iperf.sum_only = true;
            draft.understood(text, "prints the sum alone");
        }
        _ => take_others(draft, name, text),
    }
}

/// Options that are ignored or refused whatever their value.
fn take_others(draft: &mut Draft, name: &str, text: &str) {
    let ignored = match name {
        "enhanced" => "not needed: retransmits, round trips and windows are kept of every run",
        "print_mss" => "not printed",
        "output" => "not needed: the report is kept here",
        "reportexclude" => "every part is printed",
        "hide-ips" => "addresses are printed",
        "histograms" | "udp-histogram" | "tcp-write-times" => "not measured; the rest is the same",
        "trip-times" => {
            "one-way times need synchronised clocks; round trips are measured beside the run instead"
        }
        "realtime" => "not needed: datagrams are paced by an absolute schedule",
        "compatibility" => "not needed: receivers of every age take the header that is sent",
        "peer-detect" => "not needed: the other end is named where it says what it is",
        "nodelay" => {
            "not needed: full segments never wait, and the last one goes out when the stream ends"
        }
        "listenport" => "no port is needed here to be called back on",
        "ttl" => "means something for multicast only",
        "suggest_win_size" | "single_udp" => "does nothing in today's iperf 2 either",
        "daemon" | "singleclient" | "sum-dstip" | "permit-key-timeout" => {
            "means something for a receiver only"
        }
        "connect-retries" => "a connection that fails is shown as failed",
        "no-connect-sync" => "all streams begin together here",
        "local-only" => {
            "not needed: the system's routes are followed, and the report shows both addresses"
        }
        "tcp-quickack" => "acknowledgements are left to the system",
        "get-server-output" | "forceflush" => {
            "iperf 3's; both ends' figures are shown, as they come"
        }
        _ => "",
    };
    if !ignored.is_empty() {
        draft.ignored(text, ignored);
        return;
    }
    draft.problem(text, refusal(name));
}

/// Why an option of iperf 2 cannot be honoured, and what comes nearest.
fn refusal(name: &str) -> String {
    let sentence = match name {
        "fileinput" | "stdin" => {
            "Data from a file (-F, -I) are not supported: iperf's own digits are sent; leave it out."
        }
        "bounceback"
        | "bounceback-congest"
        | "bounceback-hold"
        | "bounceback-period"
        | "bounceback-no-quickack" => {
            "--bounceback is not supported: round trips are measured beside every run; ping -c 20 HOST measures them alone."
        }
        "connect-only" => {
            "--connect-only is not supported: a ping by TCP connect measures that ({\"kind\": \"ping\", \"method\": \"tcp\", \"host\": …, \"port\": 5001})."
        }
        "isochronous" | "ipg" => {
            "Traffic in frames (--isochronous, --ipg) is not supported: -b sends evenly spaced."
        }
        "fq-rate" => "--fq-rate is not supported: limit the rate of each stream with -b instead.",
        "near-congestion" | "tcp-write-prefetch" => {
            "Writing by the state of the connection (--near-congestion, --tcp-write-prefetch) is not supported: a small -w keeps queues short."
        }
        "incr-dstip" | "incr-dstport" | "incr-srcip" => {
            "Addresses or ports that differ by stream are not supported: run one test for each."
        }
        "no-udp-fin" => {
            "--no-udp-fin is not supported: without the receiver's report nobody knows what was lost; leave it out."
        }
        "permit-key" => {
            "--permit-key is not supported: start the receiver without a key, and limit who may reach it with a firewall."
        }
        "ssm-host" => "Multicast (-H) is not supported.",
        "tap-dev" => "A tap device is not supported.",
        "tcp-rx-window-clamp" => {
            "--tcp-rx-window-clamp is not supported: ask for a smaller buffer with -w."
        }
        "txdelay-time" | "txstart-time" => {
            "A delayed start is not supported: runs begin when their turn comes."
        }
        "json" => "iperf 2 prints no JSON: use tidemark run --format json, or an iperf3 line.",
        "omit" => {
            "iperf 2 has no -O: write an iperf3 line, or set omit_s in a plan (dialect iperf2 takes it)."
        }
        "blockcount" => "iperf 2 has no -k: give the bytes with -n, which are blocks × length.",
        "affinity" => "-A is not supported: the system places the threads; leave it out.",
        "bidir" => "iperf 2 has no --bidir: write --full-duplex.",
        "cport" => "--cport is iperf 3's: write -B ADDRESS:PORT, such as -B 0.0.0.0:6001.",
        "help" | "version" => "This line starts no test: it asks iperf for its own text.",
        _ => "This option is not supported here: leave it out.",
    };
    sentence.to_owned()
}

fn read_server(items: Vec<Item>, mut draft: Draft) -> Reading {
    let mut server = ServerLine::new(Dialect::Iperf2);
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
        "server" => draft.understood(text, "waits for clients"),
        "udp" => {
            server.udp = true;
            draft.understood(text, "UDP; TCP is served on the same port too");
        }
        "ipv6_domain" | "ipv6" => {
            server.ipv6 = true;
            draft.understood(text, "listens on IPv6 and IPv4");
        }
        "ipv4" => draft.understood(text, "listens on IPv4"),
        "parallel" => {
            if let Some(tests) = draft.count(text, value) {
                server.tests = Some(tests).filter(|tests| *tests > 0);
                let meaning = format!("ends after {tests} connections; 0 = never");
                draft.understood(text, meaning);
            }
        }
        "time" => {
            if let Some(seconds) = draft.number(text, value) {
                server.listen_s = Some(seconds).filter(|seconds| *seconds > 0.0);
                draft.understood(
                    text,
                    format!("listens for {seconds} s; 0 = until it is stopped"),
                );
            }
        }
        "singleclient" => draft.ignored(text, "clients are served side by side here"),
        "daemon" => {
            server.background = true;
            draft.ignored(
                text,
                "not needed: the built-in receiver serves beside the pages",
            );
        }
        "len" | "window" | "mss" | "nodelay" => {
            draft.ignored(text, "not needed: the receiver's buffers are sized here");
        }
        "bandwidth" | "tos" | "tcp-congestion" | "linux-congestion" => {
            draft.ignored(
                text,
                "a client's reverse test brings its own rate and settings",
            );
        }
        "permit-key" => draft.problem(text, refusal("permit-key")),
        "tap-dev" | "ssm-host" | "tcp-rx-window-clamp" | "help" | "version" => {
            draft.problem(text, refusal(name));
        }
        "enhanced" => draft.ignored(text, "not needed: what was found is printed of every test"),
        "output" => draft.problem(
            text,
            "-o is not supported: send the output to a file with > FILE.",
        ),
        "format" | "reportstyle" | "sum-only" => take_common(draft, name, text, value),
        _ => take_listening(server, draft, name, text, value),
    }
}

#[cfg(test)]
mod tests;
