//! The launch form's fields for each kind of run: which, in which group, with which hint.

use crate::dashboard::fields::{Field, Input};
use crate::measure::plan::Kind;

/// Where the requests go.
pub fn target(kind: Kind) -> &'static [Field] {
    match kind {
        Kind::Rate | Kind::Users | Kind::Fetch => &[URL],
        Kind::Throughput => &THROUGHPUT_PEER,
        Kind::Ping | Kind::Path => &[HOST],
    }
}

/// How many, how fast, how long.
pub fn amount(kind: Kind) -> &'static [Field] {
    match kind {
        Kind::Rate => &RATE,
        Kind::Users => &USERS,
        Kind::Fetch => &FETCH,
        Kind::Throughput => &THROUGHPUT,
        Kind::Ping => &PING,
        Kind::Path => &PATH,
    }
}

/// Objectives, tags, note.
pub fn wanted(kind: Kind) -> &'static [Field] {
    match kind {
        Kind::Fetch | Kind::Path => &[TAGS, NOTE],
        Kind::Rate | Kind::Users => &[OBJECTIVE, TAGS, NOTE],
        Kind::Throughput => &[THROUGHPUT_OBJECTIVE, TAGS, NOTE],
        Kind::Ping => &[PING_OBJECTIVE, TAGS, NOTE],
    }
}

/// What is seldom needed.
pub fn advanced(kind: Kind) -> &'static [Field] {
    match kind {
        Kind::Rate => &[METHOD, HEADERS, BODY, MORE_URLS, CA, INSECURE, BIND, SEED],
        Kind::Users => &[METHOD, HEADERS, BODY, MORE_URLS, ORDER, CA, INSECURE, SEED],
        Kind::Fetch => &[HEADERS, BODY, CA, INSECURE],
        Kind::Throughput => &THROUGHPUT_MORE,
        Kind::Ping => &[SIZE, PROBE_TIMEOUT],
        Kind::Path => &[],
    }
}

/// What the closed part holds.
pub fn advanced_words(kind: Kind) -> &'static str {
    match kind {
        Kind::Rate => "Method, headers, body, more URLs, TLS, source address, seed",
        Kind::Users => "Method, headers, body, more URLs and their order, TLS, seed",
        Kind::Fetch => "Headers, body, TLS",
        Kind::Throughput => {
            "Block, window, segment size, service type, addresses, omitted start, offload"
        }
        Kind::Ping => "Payload, timeout",
        Kind::Path => "",
    }
}

/// Every field of this kind.
pub fn all(kind: Kind) -> Vec<Field> {
    [target(kind), amount(kind), wanted(kind), advanced(kind)].concat()
}

const fn text(
    name: &'static str,
    label: &'static str,
    hint: &'static str,
    unit: &'static str,
    mode: &'static str,
) -> Field {
    Field {
        name,
        label,
        hint,
        unit,
        class: "c2 h",
        input: Input::Text(mode),
        mono: false,
        list: "",
    }
}

const URL: Field = Field {
    class: "c6",
    mono: true,
    ..text(
        "url",
        "URL",
        "http or https; this machine, a registered peer, or what --allow names",
        "",
        "url",
    )
};
const TIMEOUT: Field = text(
    "timeout_s",
    "Timeout",
    "from the actual send; a timeout counts at its age",
    "s",
    "decimal",
);
const HOST: Field = Field {
    class: "c4",
    mono: true,
    list: "hosts",
    ..text(
        "host",
        "Host",
        "a name or an address; this machine, a registered peer, or what --allow names",
        "",
        "text",
    )
};
const THROUGHPUT_PEER: [Field; 3] = [
    Field {
        class: "c2",
        ..HOST
    },
    text(
        "port",
        "Port",
        "iperf 2: 5001, iperf 3: 5201",
        "",
        "numeric",
    ),
    Field {
        input: Input::Select(&[("iperf2", "iperf 2"), ("iperf3", "iperf 3")]),
        ..text("dialect", "Dialect", "what listens there", "", "")
    },
];
const THROUGHPUT: [Field; 7] = [
    Field {
        input: Input::Select(&[("tcp", "TCP"), ("udp", "UDP")]),
        ..text(
            "protocol",
            "Protocol",
            "a byte stream, or datagrams",
            "",
            "",
        )
    },
    Field {
        input: Input::Select(&[
            ("send", "send"),
            ("receive", "receive (-R)"),
            ("both", "both at once"),
            ("in_turn", "one after the other"),
        ]),
        ..text("direction", "Direction", "seen from this node", "", "")
    },
    text("streams", "Streams", "in parallel (-P)", "", "numeric"),
    text(
        "duration_s",
        "Time",
        "or bytes, not both (-t); 30, 5m",
        "s",
        "text",
    ),
    text(
        "bytes",
        "Bytes",
        "each stream’s (-n), iperf 3: of all; 100M, 1G",
        "B",
        "text",
    ),
    text(
        "bandwidth_bits_per_second",
        "Rate",
        "each stream’s (-b), such as 100M; empty = TCP unlimited, UDP 1 Mbit/s",
        "bit/s",
        "text",
    ),
    text(
        "interval_s",
        "Interval",
        "of the rows and charts",
        "s",
        "decimal",
    ),
];
const THROUGHPUT_MORE: [Field; 11] = [
    text(
        "length_bytes",
        "Block",
        "such as 128K; TCP 1M, UDP 1470 where empty (-l)",
        "B",
        "text",
    ),
    text(
        "window_bytes",
        "Window",
        "socket buffer, such as 4M; empty = the system’s (-w)",
        "B",
        "text",
    ),
    text(
        "mss_bytes",
        "Segment size",
        "TCP only; empty = the path's (-M)",
        "B",
        "numeric",
    ),
    text(
        "congestion",
        "Congestion control",
        "empty = the system's, such as cubic",
        "",
        "text",
    ),
    text("tos", "Service type", "0 to 255 (-S)", "", "numeric"),
    text(
        "omit_s",
        "Omitted start",
        "seconds that do not count (iperf 3)",
        "s",
        "decimal",
    ),
    Field {
        input: Input::Select(&[("", "either"), ("4", "IPv4"), ("6", "IPv6")]),
        ..text(
            "ip_version",
            "IP version",
            "of a name that has both",
            "",
            "",
        )
    },
    Field {
        mono: true,
        ..text("bind", "Send from", "a local address", "", "text")
    },
    text(
        "cport",
        "Source port",
        "of the first stream, the next ones follow; empty = the system’s choice",
        "",
        "numeric",
    ),
    Field {
        input: Input::Select(&[("copy", "copy"), ("discard", "discard")]),
        ..text(
            "receive",
            "Receiver",
            "discard: not copied out of the kernel",
            "",
            "",
        )
    },
    Field {
        input: Input::Check,
        ..text(
            "offload",
            "Segmentation offload",
            "UDP: the kernel or the card cuts the datagrams; said on every figure",
            "",
            "",
        )
    },
];
const PING: [Field; 4] = [
    text("count", "Packets", "in all (-c)", "", "numeric"),
    text(
        "interval_s",
        "Interval",
        "from one to the next (-i)",
        "s",
        "decimal",
    ),
    Field {
        input: Input::Select(&[("icmp", "ICMP echo"), ("tcp", "TCP connect")]),
        ..text(
            "method",
            "Method",
            "TCP works where ICMP is not permitted",
            "",
            "",
        )
    },
    text(
        "port",
        "Port",
        "TCP only; open or closed, both answer",
        "",
        "numeric",
    ),
];
const SIZE: Field = text("size_bytes", "Payload", "ICMP only (-s)", "B", "numeric");
const PROBE_TIMEOUT: Field = text(
    "timeout_s",
    "Timeout",
    "then a packet is lost (-W)",
    "s",
    "decimal",
);
const PATH: [Field; 1] = [text(
    "expect_mtu",
    "Expected MTU",
    "such as 8896, 1500 or 1460; empty = just tell",
    "B",
    "numeric",
)];
const THROUGHPUT_OBJECTIVE: Field = Field {
    hint: "throughput > rate, loss < share; such as throughput>70Gbit/s, loss<0.1%",
    ..OBJECTIVE
};
const PING_OBJECTIVE: Field = Field {
    hint: "p50, p90, p95, p99, max or avg < duration; loss < share; such as p99<2ms, loss<1%",
    ..OBJECTIVE
};
const OBJECTIVE: Field = Field {
    class: "c4",
    mono: true,
    ..text(
        "objective",
        "Objectives",
        "p50, p90, p95, p99, p99.9, max or avg < duration; errors < share; rate > per s",
        "",
        "text",
    )
};
const TAGS: Field = Field {
    class: "c2",
    ..text("tags", "Tags", "separated by commas", "", "text")
};
const NOTE: Field = Field {
    class: "c6",
    ..text(
        "note",
        "Note",
        "for whoever reads the report later",
        "",
        "text",
    )
};
const METHOD: Field = text("method", "Method", "GET, HEAD, POST …", "", "text");
const HEADERS: Field = Field {
    class: "c6",
    input: Input::Area,
    mono: true,
    ..text("headers", "Headers", "one a line, Name: value", "", "")
};
const BODY: Field = Field {
    class: "c6",
    input: Input::Area,
    mono: true,
    ..text("body", "Body", "sent as it stands; empty = none", "", "")
};
const MORE_URLS: Field = Field {
    class: "c6",
    input: Input::Area,
    mono: true,
    ..text(
        "more_urls",
        "Further URLs",
        "one a line; a weight may follow, as in http://127.0.0.1:8000/?work=light 3",
        "",
        "",
    )
};
const ORDER: Field = Field {
    input: Input::Select(&[("in_turn", "in turn"), ("random", "at random")]),
    ..text("order", "Order of URLs", "for each user", "", "")
};
const CA: Field = Field {
    class: "c4",
    mono: true,
    ..text(
        "ca",
        "Certificate authority",
        "PEM file on this node; empty = the built-in ones",
        "",
        "text",
    )
};
const INSECURE: Field = Field {
    input: Input::Check,
    class: "c2",
    ..text(
        "insecure",
        "Accept any certificate",
        "the report says so",
        "",
        "",
    )
};
const BIND: Field = Field {
    mono: true,
    ..text(
        "bind",
        "Source address",
        "empty = the system's choice",
        "",
        "text",
    )
};
const SEED: Field = text(
    "seed",
    "Seed",
    "of random arrivals and choices",
    "",
    "numeric",
);

const RATE: [Field; 7] = [
    text(
        "rate",
        "Rate",
        "or steps of rate:seconds, such as 5:20 10:20",
        "per s",
        "decimal",
    ),
    text(
        "num_conns",
        "Connections",
        "or a duration instead; neither with steps",
        "in all",
        "numeric",
    ),
    text(
        "duration_s",
        "Duration",
        "instead of a number of connections",
        "s",
        "decimal",
    ),
    text(
        "num_calls",
        "Calls per connection",
        "1 = a new connection each",
        "",
        "numeric",
    ),
    Field {
        input: Input::Select(&[
            ("deterministic", "evenly spaced"),
            ("exponential", "random (exponential)"),
        ]),
        ..text("schedule", "Arrivals", "random needs more headroom", "", "")
    },
    TIMEOUT,
    text(
        "max_in_flight",
        "In flight at most",
        "above it: unsent, and said so",
        "",
        "numeric",
    ),
];

const USERS: [Field; 6] = [
    text(
        "concurrent",
        "Users at once",
        "each waits for its reply before it asks again",
        "",
        "numeric",
    ),
    text(
        "reps",
        "Requests of each",
        "or a duration instead",
        "",
        "numeric",
    ),
    text(
        "duration_s",
        "Duration",
        "instead of a number of requests",
        "s",
        "decimal",
    ),
    text(
        "delay_s",
        "Delay",
        "each user waits 0 to this long after a reply",
        "s",
        "decimal",
    ),
    TIMEOUT,
    Field {
        input: Input::Check,
        ..text(
            "keep_alive",
            "Keep connections",
            "otherwise a new connection for each request",
            "",
            "",
        )
    },
];

const FETCH: [Field; 2] = [
    METHOD,
    Field {
        hint: "for the whole request",
        ..TIMEOUT
    },
];
