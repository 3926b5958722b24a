//! The throughput plan (iperf 2 and 3): its fields, their defaults and their limits.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::fields::{Fields, Range, tidy};
use super::rate::duration;
use super::{Caps, FieldError, host};

/// Transport of a throughput test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A byte stream.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Who sends, seen from this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// This node sends.
    Send,
    /// The peer sends (iperf `-R`).
    Receive,
    /// Both at once (`--full-duplex`, `-d`, `--bidir`).
    Both,
    /// First this node, then the peer (`-r`).
    InTurn,
}

/// Whose protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// iperf 2.
    Iperf2,
    /// iperf 3.
    Iperf3,
}

/// What the receiver does with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// Copies them into its memory, as a program that uses them does.
    Copy,
    /// Lets the kernel throw them away (`MSG_TRUNC`): said on every figure.
    Discard,
}

/// A throughput plan.
#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputPlan {
    /// Name or address of the peer; an IPv6 link-local address with its zone.
    pub host: String,
    /// Port of the receiver.
    pub port: u16,
    /// Transport.
    pub protocol: Protocol,
    /// Parallel streams.
    pub streams: u32,
    /// Sending time in s; `None` when bounded by `bytes`.
    pub duration_s: Option<f64>,
    /// Bytes to send: of each stream in iperf 2, of all together in iperf 3; `None` when bounded by time.
    pub bytes: Option<u64>,
    /// Seconds at the start that do not count.
    pub omit_s: f64,
    /// Length of an interval in s.
    pub interval_s: f64,
    /// Bytes handed to the kernel at once; for UDP the payload of a datagram.
    pub length_bytes: u32,
    /// Socket buffer asked for; `None` = the system's.
    pub window_bytes: Option<u64>,
    /// Rate of each stream in bit/s; `None` = unlimited.
    pub bandwidth_bits_per_second: Option<f64>,
    /// Who sends.
    pub direction: Direction,
    /// TCP congestion control; `None` = the system's.
    pub congestion: Option<String>,
    /// TCP maximum segment size.
    pub mss_bytes: Option<u32>,
    /// Type of service byte.
    pub tos: Option<u8>,
    /// 4 or 6; `None` = whichever the name has first.
    pub ip_version: Option<u8>,
    /// Local address to send from.
    pub bind: Option<IpAddr>,
    /// The first stream's source port, each further stream has the next one; `None` = the system chooses them.
    pub cport: Option<u16>,
    /// Whose protocol is spoken.
    pub dialect: Dialect,
    /// What a receiver on this node does with the bytes, and what ours at the other end is asked to do.
    pub receive: Receive,
    /// UDP segmentation offload; said on every figure.
    pub offload: bool,
}

/// Block of a TCP test in bytes where none is given.
pub const TCP_BLOCK: u32 = 1 << 20;
/// Datagram of a UDP test in bytes where none is given.
pub const UDP_DATAGRAM: u32 = 1470;
/// Rate of a UDP test in bit/s where none is given (2²⁰, as iperf has it).
pub const UDP_RATE: f64 = 1_048_576.0;

impl ThroughputPlan {
    /// Whether both ends begin to count when the omitted time is over, as those of an iperf 3 test do (`-O`); iperf 2
    /// has no such time, so its server counts from the first byte.
    pub fn peer_omits(&self) -> bool {
        self.dialect == Dialect::Iperf3 && self.omit_s > 0.0
    }

    /// How many flows of each direction there are, in the order send, receive.
    pub const fn flows(&self) -> (u32, u32) {
        match self.direction {
            Direction::Send => (self.streams, 0),
            Direction::Receive => (0, self.streams),
            Direction::Both | Direction::InTurn => (self.streams, self.streams),
        }
    }

    /// Source port of the flow that is opened as the `place`-th, from 0; `None` where the system chooses it.
    pub fn source_port(&self, place: u32) -> Option<u16> {
        let place = u16::try_from(place).ok()?;
        self.cport?.checked_add(place)
    }

    /// How long it sends in s, both directions of an in-turn test together; `None` when bytes bound it.
    pub fn sending_s(&self) -> Option<f64> {
        let turns = if self.direction == Direction::InTurn {
            2.0
        } else {
            1.0
        };
        self.duration_s
            .map(|duration| (duration + self.omit_s) * turns)
    }
}

/// Reads the plan from its JSON object: defaults filled in, unknown fields refused, all errors at once.
///
/// # Errors
///
/// One entry for each field that is at fault; never empty.
#[expect(clippy::too_many_lines, reason = "a field after the other")]
pub fn from_json(
    object: &Map<String, Value>,
    caps: &Caps,
) -> Result<ThroughputPlan, Vec<FieldError>> {
    let mut fields = Fields::new(object);
    let host = host::take(&mut fields);
    let dialect = fields
        .word(
            "dialect",
            "The dialect",
            &[("iperf2", Dialect::Iperf2), ("iperf3", Dialect::Iperf3)],
        )
        .unwrap_or(Dialect::Iperf2);
    let default_port = if dialect == Dialect::Iperf3 {
        5201
    } else {
        5001
    };
    let port = host::take_port(&mut fields).unwrap_or(default_port);
    let protocol = fields
        .word(
            "protocol",
            "The protocol",
            &[("tcp", Protocol::Tcp), ("udp", Protocol::Udp)],
        )
        .unwrap_or(Protocol::Tcp);
    let udp = protocol == Protocol::Udp;
    let streams = fields
        .whole(
            "streams",
            &Range {
                name: "Streams",
                min: 1.0,
                max: f64::from(caps.max_streams),
                unit: "",
                set_by: Some("--max-streams"),
            },
        )
        .unwrap_or(1);
    let given_duration = fields.number("duration_s", &duration(caps));
    let bytes = fields.whole("bytes", &range("The amount", 1.0, 1e15, " bytes"));
    let omit_s = fields
        .number("omit_s", &range("Omitted time", 0.0, 60.0, " s"))
        .unwrap_or(0.0);
    let interval_s = fields
        .number("interval_s", &range("The interval", 0.1, 3_600.0, " s"))
        .unwrap_or(1.0);
    let length = if udp {
        range("The datagram", 18.0, 65_507.0, " bytes")
    } else {
        range("The block", 1.0, 67_108_864.0, " bytes")
    };
    let length_bytes = fields.whole("length_bytes", &length);
    let window_bytes = fields.whole(
        "window_bytes",
        &range("The window", 1_024.0, 2_147_483_647.0, " bytes"),
    );
    let bandwidth = fields.number(
        "bandwidth_bits_per_second",
        &range("The bandwidth", 1.0, 1e13, " bit/s"),
    );
    let direction = fields
        .word(
            "direction",
            "The direction",
            &[
                ("send", Direction::Send),
                ("receive", Direction::Receive),
                ("both", Direction::Both),
                ("in_turn", Direction::InTurn),
            ],
        )
        .unwrap_or(Direction::Send);
    let congestion = take_congestion(&mut fields);
    let mss_bytes = fields.whole(
        "mss_bytes",
        &range("The segment size", 88.0, 65_495.0, " bytes"),
    );
    let tos = fields.whole("tos", &range("The type of service", 0.0, 255.0, ""));
    let ip_version = fields.whole("ip_version", &range("The IP version", 4.0, 6.0, ""));
    if ip_version == Some(5) {
        fields.refuse("ip_version", "The IP version is 4 or 6.");
    }
    let bind = host::take_bind(&mut fields);
    let cport = fields.whole("cport", &range("The source port", 1.0, 65_535.0, ""));
    let receive = fields
        .word(
            "receive",
            "What the receiver does",
            &[("copy", Receive::Copy), ("discard", Receive::Discard)],
        )
        .unwrap_or(Receive::Copy);
    let offload = fields.flag("offload", "offload");

    let shape = Shape {
        udp,
        offload,
        discards: receive == Receive::Discard,
        in_turn_3: dialect == Dialect::Iperf3 && direction == Direction::InTurn,
        omits: omit_s > 0.0,
    };
    // iperf 3 has connections of their own for each direction.
    let ports = if dialect == Dialect::Iperf3 && direction == Direction::Both {
        streams * 2
    } else {
        streams
    };
    if let Some(first) = cport.filter(|first| first + ports > 65_536) {
        fields.refuse(
            "cport",
            format!(
                "The streams need {ports} source ports from {first} on, and 65535 is the last: set cport to {} or less.",
                65_536 - ports
            ),
        );
    }
    refuse_contradictions(&mut fields, object, &shape);
    let errors = fields.finish("throughput");
    let Some(host) = host.filter(|_| errors.is_empty()) else {
        return Err(errors);
    };
    Ok(ThroughputPlan {
        host,
        port,
        protocol,
        streams: u32::try_from(streams).unwrap_or(1),
        duration_s: given_duration.or_else(|| bytes.is_none().then_some(10.0)),
        bytes,
        omit_s,
        interval_s,
        length_bytes: length_bytes
            .and_then(|length| u32::try_from(length).ok())
            .unwrap_or(if udp { UDP_DATAGRAM } else { TCP_BLOCK }),
        window_bytes,
        bandwidth_bits_per_second: bandwidth.or_else(|| (udp && !offload).then_some(UDP_RATE)),
        direction,
        congestion,
        mss_bytes: mss_bytes.and_then(|mss| u32::try_from(mss).ok()),
        tos: tos.and_then(|tos| u8::try_from(tos).ok()),
        ip_version: ip_version.and_then(|version| u8::try_from(version).ok()),
        bind,
        cport: cport.and_then(|port| u16::try_from(port).ok()),
        dialect,
        receive,
        offload,
    })
}

const fn range(name: &'static str, min: f64, max: f64, unit: &'static str) -> Range {
    Range {
        name,
        min,
        max,
        unit,
        set_by: None,
    }
}

fn take_congestion(fields: &mut Fields<'_>) -> Option<String> {
    let name = fields.text("congestion", "The congestion control")?;
    let good = (1..=15).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if !good {
        fields.refuse(
            "congestion",
            "A congestion control is a short name such as cubic or bbr.",
        );
        return None;
    }
    Some(name.to_owned())
}

/// What decides whether fields fit together.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one of the plan's fields"
)]
struct Shape {
    udp: bool,
    offload: bool,
    discards: bool,
    in_turn_3: bool,
    omits: bool,
}

fn refuse_contradictions(fields: &mut Fields<'_>, object: &Map<String, Value>, shape: &Shape) {
    let given = |key: &str| object.get(key).is_some_and(|value| !value.is_null());
    if given("duration_s") && given("bytes") {
        fields.refuse("bytes", "Give duration_s or bytes, not both.");
    }
    if shape.udp {
        for (key, name) in [
            ("congestion", "congestion control"),
            ("mss_bytes", "segment size"),
        ] {
            if given(key) {
                fields.refuse(
                    key,
                    format!("UDP has no {name}: leave {key} out, or set protocol to tcp."),
                );
            }
        }
        if shape.offload && given("bandwidth_bits_per_second") {
            fields.refuse("offload", "Segmentation offload sends whole trains of datagrams, which no bandwidth can space: leave out offload or bandwidth_bits_per_second.");
        }
        if shape.discards {
            fields.refuse(
                "receive",
                "Datagrams are read to be counted: discard is for TCP only.",
            );
        }
    } else if shape.offload {
        fields.refuse(
            "offload",
            "offload is for UDP; TCP is segmented by the kernel anyway.",
        );
    }
    if shape.in_turn_3 {
        fields.refuse("direction", "iperf 3 has no test in turn: run send and receive one after the other, or set dialect to iperf2.");
    }
    if shape.omits && given("bytes") {
        fields.refuse(
            "omit_s",
            "Omitted time needs a test by time: set duration_s instead of bytes.",
        );
    }
}

/// Writes the plan's fields, defaults included, as [`from_json`] reads them.
pub fn fill_json(plan: &ThroughputPlan, object: &mut Map<String, Value>) {
    let mut put = |key: &str, value: Value| {
        object.insert(key.to_owned(), value);
    };
    put("host", json!(plan.host));
    put("port", json!(plan.port));
    put(
        "protocol",
        json!(if plan.protocol == Protocol::Udp {
            "udp"
        } else {
            "tcp"
        }),
    );
    put("streams", json!(plan.streams));
    if let Some(duration) = plan.duration_s {
        put("duration_s", tidy(duration));
    }
    if let Some(bytes) = plan.bytes {
        put("bytes", json!(bytes));
    }
    put("omit_s", tidy(plan.omit_s));
    put("interval_s", tidy(plan.interval_s));
    put("length_bytes", json!(plan.length_bytes));
    if let Some(window) = plan.window_bytes {
        put("window_bytes", json!(window));
    }
    if let Some(bandwidth) = plan.bandwidth_bits_per_second {
        put("bandwidth_bits_per_second", tidy(bandwidth));
    }
    put("direction", json!(plan.direction.word()));
    if let Some(congestion) = &plan.congestion {
        put("congestion", json!(congestion));
    }
    if let Some(mss) = plan.mss_bytes {
        put("mss_bytes", json!(mss));
    }
    if let Some(tos) = plan.tos {
        put("tos", json!(tos));
    }
    if let Some(version) = plan.ip_version {
        put("ip_version", json!(version));
    }
    if let Some(bind) = plan.bind {
        put("bind", json!(bind));
    }
    if let Some(port) = plan.cport {
        put("cport", json!(port));
    }
    put("dialect", json!(plan.dialect.word()));
    put(
        "receive",
        json!(if plan.receive == Receive::Discard {
            "discard"
        } else {
            "copy"
        }),
    );
    put("offload", json!(plan.offload));
}

impl Direction {
    /// The word in JSON and CSV.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Both => "both",
            Self::InTurn => "in_turn",
        }
    }
}

impl Dialect {
    /// The word in JSON and CSV.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Iperf2 => "iperf2",
            Self::Iperf3 => "iperf3",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Result<ThroughputPlan, Vec<FieldError>> {
        from_json(value.as_object().expect("an object"), &Caps::default())
    }

    fn refused(value: &Value, field: &str) {
        let errors = read(value).expect_err(&value.to_string());
        assert!(
            errors.iter().any(|error| error.field == field),
            "{value}: {errors:?}"
        );
    }

    fn round_trips(value: &Value) -> ThroughputPlan {
        let plan = read(value).expect("a good plan");
        let mut object = Map::new();
        fill_json(&plan, &mut object);
        assert_eq!(from_json(&object, &Caps::default()), Ok(plan.clone()));
        plan
    }

    #[test]
    fn defaults_are_iperfs_but_for_the_block() {
        let plan = round_trips(&json!({"host": "127.0.0.1"}));
        assert_eq!(
            (plan.port, plan.streams, plan.duration_s),
            (5001, 1, Some(10.0))
        );
        assert_eq!(
            (plan.length_bytes, plan.bandwidth_bits_per_second),
            (TCP_BLOCK, None)
        );
        let plan = round_trips(&json!({"host": "::1", "protocol": "udp", "dialect": "iperf3"}));
        assert_eq!((plan.port, plan.length_bytes), (5201, UDP_DATAGRAM));
        assert_eq!(plan.bandwidth_bits_per_second, Some(UDP_RATE));
        let plan = round_trips(&json!({"host": "h", "protocol": "udp", "offload": true}));
        assert_eq!(plan.bandwidth_bits_per_second, None);
        let plan = round_trips(
            &json!({"host": "h", "bytes": 1_000_000, "direction": "both", "streams": 4}),
        );
        assert_eq!((plan.duration_s, plan.flows()), (None, (4, 4)));
        let plan = round_trips(&json!({"host": "h", "cport": 65_528, "streams": 8}));
        assert_eq!(plan.source_port(7), Some(65_535));
        assert_eq!(plan.source_port(8), None);
    }

    #[test]
    fn what_cannot_be_is_refused_on_its_field() {
        for (value, field) in [
            (json!({}), "host"),
            (json!({"host": "127.1"}), "host"),
            (json!({"host": "h", "port": 0}), "port"),
            (json!({"host": "h", "streams": 257}), "streams"),
            (json!({"host": "h", "streams": 0}), "streams"),
            (json!({"host": "h", "duration_s": 0}), "duration_s"),
            (json!({"host": "h", "duration_s": -1}), "duration_s"),
            (json!({"host": "h", "duration_s": 1, "bytes": 1}), "bytes"),
            (
                json!({"host": "h", "protocol": "udp", "length_bytes": 17}),
                "length_bytes",
            ),
            (
                json!({"host": "h", "protocol": "udp", "mss_bytes": 1000}),
                "mss_bytes",
            ),
            (
                json!({"host": "h", "protocol": "udp", "offload": true, "bandwidth_bits_per_second": 1e6}),
                "offload",
            ),
            (json!({"host": "h", "offload": true}), "offload"),
            (
                json!({"host": "h", "dialect": "iperf3", "direction": "in_turn"}),
                "direction",
            ),
            (json!({"host": "h", "ip_version": 5}), "ip_version"),
            (json!({"host": "h", "congestion": "a b"}), "congestion"),
            (json!({"host": "h", "omit_s": 1, "bytes": 5}), "omit_s"),
            (json!({"host": "h", "cport": 0}), "cport"),
            (json!({"host": "h", "cport": 65_536}), "cport"),
            (json!({"host": "h", "cport": 65_529, "streams": 8}), "cport"),
            (
                json!({"host": "h", "cport": 65_525, "streams": 6, "direction": "both", "dialect": "iperf3"}),
                "cport",
            ),
            (json!({"host": "h", "sterams": 2}), "sterams"),
        ] {
            refused(&value, field);
        }
    }
}
