//! iperf 3 on the wire (3.1 to 3.19): control states, the two JSON exchanges, and the data streams' first bytes.
//!
//! Layouts were read in esnet/iperf 3.12 and checked against captures (`tests/it/fixtures/iperf`).

use serde_json::{Map, Value, json};

use super::iperf2::word;
use super::own::Own;

/// Length of the cookie that opens every connection of a test: 36 characters and a NUL.
pub const COOKIE_LENGTH: usize = 37;
/// The largest JSON text that is believed, in bytes.
pub const LARGEST_JSON: usize = 1 << 20;
/// Alphabet of the cookie.
const COOKIE_LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// One byte on the control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Server: the streams are up, get ready.
    TestStart,
    /// Server: send.
    TestRunning,
    /// Client: the time or amount is over.
    TestEnd,
    /// Server: send your parameters.
    ParamExchange,
    /// Server: open the data streams.
    CreateStreams,
    /// Server: it ends here.
    ServerTerminate,
    /// Client: it ends here.
    ClientTerminate,
    /// Server: send your results, then take mine.
    ExchangeResults,
    /// Server: done, print.
    DisplayResults,
    /// Client: over.
    Done,
    /// Server: busy with another test.
    AccessDenied,
    /// Server: two error words follow.
    ServerError,
}

impl State {
    /// The byte on the wire.
    pub const fn byte(self) -> u8 {
        match self {
            Self::TestStart => 1,
            Self::TestRunning => 2,
            Self::TestEnd => 4,
            Self::ParamExchange => 9,
            Self::CreateStreams => 10,
            Self::ServerTerminate => 11,
            Self::ClientTerminate => 12,
            Self::ExchangeResults => 13,
            Self::DisplayResults => 14,
            Self::Done => 16,
            Self::AccessDenied => 0xFF,
            Self::ServerError => 0xFE,
        }
    }

    /// The state with this byte; `None` for one that no known version sends.
    pub const fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::TestStart,
            2 => Self::TestRunning,
            4 => Self::TestEnd,
            9 => Self::ParamExchange,
            10 => Self::CreateStreams,
            11 => Self::ServerTerminate,
            12 => Self::ClientTerminate,
            13 => Self::ExchangeResults,
            14 => Self::DisplayResults,
            16 => Self::Done,
            0xFF => Self::AccessDenied,
            0xFE => Self::ServerError,
            _ => return None,
        })
    }
}

/// A cookie from random bytes.
///
/// An iperf 2 server takes its first letters for the flags of a client header. Any letters make 2.1.8 wait for the
/// rest of a header that never comes, and then end; these are a short header to it, which it answers at once.
pub fn cookie(random: &[u8; 36]) -> [u8; COOKIE_LENGTH] {
    let mut cookie = [0; COOKIE_LENGTH];
    for (letter, byte) in cookie.iter_mut().zip(random) {
        *letter = COOKIE_LETTERS[usize::from(byte & 31)];
    }
    for (place, letters) in HEADER_LETTERS.iter().enumerate() {
        cookie[place] = letters[usize::from(random[place]) % letters.len()];
    }
    cookie
}

/// Letters by place with which the first word is: extended, its length stated, and that 25 to 27 bytes.
const HEADER_LETTERS: [&[u8]; 4] = [b"abc", b"acegikmoqsuwy357", b"bdfhjlnprtvxz246", b"234567"];

/// Whether these 37 bytes are a cookie: printable letters with a NUL behind them.
pub fn is_cookie(bytes: &[u8]) -> bool {
    bytes.len() == COOKIE_LENGTH
        && bytes[COOKIE_LENGTH - 1] == 0
        && bytes[..COOKIE_LENGTH - 1]
            .iter()
            .all(u8::is_ascii_alphanumeric)
}

/// What a client asks of a server; absent keys have their defaults.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of the protocol's JSON"
)]
pub struct Params {
    /// UDP instead of TCP.
    pub udp: bool,
    /// Seconds at the start that do not count.
    pub omit_s: u64,
    /// Sending time in s; 0 when bounded by `bytes` or `blocks`.
    pub time_s: u64,
    /// Bytes to send in all; 0 when not bounded by them.
    pub bytes: u64,
    /// Blocks to send in all; 0 when not bounded by them.
    pub blocks: u64,
    /// Parallel streams.
    pub streams: u64,
    /// The server sends.
    pub reverse: bool,
    /// Both send, on streams of their own.
    pub bidirectional: bool,
    /// Block length in bytes.
    pub block_bytes: u64,
    /// Rate of each stream in bit/s; 0 = unlimited.
    pub rate_bits_per_s: u64,
    /// Maximum segment size.
    pub mss: Option<u64>,
    /// Socket buffer in bytes.
    pub window_bytes: Option<u64>,
    /// Type of service.
    pub tos: Option<u64>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// No Nagle delay.
    pub no_delay: bool,
    /// UDP counters are 64 bits wide.
    pub wide_counters: bool,
    /// The client wants the server's printed output in the results.
    pub wants_server_output: bool,
    /// The client's version.
    pub version: Option<String>,
    /// What only our own clients ask; `None` from all others.
    pub own: Option<Own>,
}

/// The key of [`Own`] in both JSON texts.
const OWN: &str = "tidemark";

fn read_own(object: &Map<String, Value>) -> Option<Own> {
    let own = object.get(OWN)?.as_object()?;
    Some(Own {
        discard: flag(own, "discard"),
        offload: flag(own, "offload"),
        ..Own::default()
    })
}

fn own_json(own: Own) -> Value {
    json!({"discard": own.discard, "offload": own.offload})
}

impl Params {
    /// Reads what a client sent; `None` where it is no JSON object.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        let object = value.as_object()?;
        Some(Self {
            udp: flag(object, "udp"),
            omit_s: number(object, "omit").unwrap_or(0),
            time_s: number(object, "time").unwrap_or(0),
            bytes: number(object, "num").unwrap_or(0),
            blocks: number(object, "blockcount").unwrap_or(0),
            streams: number(object, "parallel").unwrap_or(1).max(1),
            reverse: flag(object, "reverse"),
            bidirectional: flag(object, "bidirectional"),
            block_bytes: number(object, "len").unwrap_or(0),
            rate_bits_per_s: number(object, "bandwidth").unwrap_or(0),
            mss: number(object, "MSS").filter(|mss| *mss > 0),
            window_bytes: number(object, "window").filter(|window| *window > 0),
            tos: number(object, "TOS").filter(|tos| *tos > 0),
            congestion: text_of(object, "congestion"),
            no_delay: flag(object, "nodelay"),
            wide_counters: flag(object, "udp_counters_64bit"),
            wants_server_output: flag(object, "get_server_output"),
            version: text_of(object, "client_version"),
            own: read_own(object),
        })
    }

    /// The JSON text that a server reads.
    pub fn encode(&self) -> Vec<u8> {
        let mut object = Map::new();
        object.insert(if self.udp { "udp" } else { "tcp" }.into(), json!(true));
        object.insert("omit".into(), json!(self.omit_s));
        object.insert("time".into(), json!(self.time_s));
        object.insert("num".into(), json!(self.bytes));
        object.insert("blockcount".into(), json!(self.blocks));
        object.insert("parallel".into(), json!(self.streams));
        let flags = [
            ("reverse", self.reverse),
            ("bidirectional", self.bidirectional),
            ("nodelay", self.no_delay),
            ("get_server_output", self.wants_server_output),
        ];
        for (key, set) in flags {
            if set {
                object.insert(key.into(), json!(true));
            }
        }
        if self.wide_counters {
            object.insert("udp_counters_64bit".into(), json!(1));
        }
        for (key, value) in [
            ("MSS", self.mss),
            ("window", self.window_bytes),
            ("TOS", self.tos),
        ] {
            if let Some(value) = value {
                object.insert(key.into(), json!(value));
            }
        }
        object.insert("len".into(), json!(self.block_bytes));
        if self.rate_bits_per_s > 0 {
            object.insert("bandwidth".into(), json!(self.rate_bits_per_s));
        }
        object.insert("pacing_timer".into(), json!(1000));
        if let Some(congestion) = &self.congestion {
            object.insert("congestion".into(), json!(congestion));
        }
        object.insert(
            "client_version".into(),
            json!(self.version.as_deref().unwrap_or("3.12")),
        );
        if let Some(own) = self.own {
            object.insert(OWN.into(), own_json(own));
        }
        Value::Object(object).to_string().into_bytes()
    }
}

/// What one end counted of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamResult {
    /// The stream's id: 1, 3, 4, 5, … (see [`stream_id`]).
    pub id: u64,
    /// Bytes sent or received since the omitted time.
    pub bytes: u64,
    /// TCP retransmissions since then; `None` where that end does not know.
    pub retransmits: Option<u64>,
    /// Jitter in s.
    pub jitter_s: f64,
    /// Datagrams lost, those of the omitted time included.
    pub lost: u64,
    /// Those of the omitted time; `None` from versions before 3.13, whose reader is to know them itself.
    pub omitted_lost: Option<u64>,
    /// Datagrams sent or expected, those of the omitted time included.
    pub datagrams: u64,
    /// Those of the omitted time, as above.
    pub omitted_datagrams: Option<u64>,
    /// Start of the stream since the start of the test, in s.
    pub start_s: f64,
    /// Its end, in s.
    pub end_s: f64,
}

/// What one end counted in all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// CPU use in per cent of one core: total, user, system.
    pub cpu_percent: [f64; 3],
    /// Whether `retransmits` means something.
    pub has_retransmits: bool,
    /// Congestion control that was used.
    pub congestion: Option<String>,
    /// By stream.
    pub streams: Vec<StreamResult>,
    /// What one of our own servers did; `None` from all others.
    pub own: Option<Own>,
}

impl Results {
    /// Reads the other end's results; `None` where they are no such JSON.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        let object = value.as_object()?;
        let real = |key| object.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        let has_retransmits = matches!(object.get("sender_has_retransmits"), Some(Value::Number(n)) if n.as_i64() == Some(1));
        let streams = object.get("streams")?.as_array()?;
        let streams = streams.iter().filter_map(Value::as_object).map(|stream| {
            let real = |key| stream.get(key).and_then(Value::as_f64).unwrap_or(0.0);
            let count = |key| number(stream, key).unwrap_or(0);
            StreamResult {
                id: count("id"),
                bytes: count("bytes"),
                retransmits: number(stream, "retransmits").filter(|_| has_retransmits),
                jitter_s: real("jitter"),
                lost: count("errors"),
                omitted_lost: number(stream, "omitted_errors"),
                datagrams: count("packets"),
                omitted_datagrams: number(stream, "omitted_packets"),
                start_s: real("start_time"),
                end_s: real("end_time"),
            }
        });
        Some(Self {
            cpu_percent: [
                real("cpu_util_total"),
                real("cpu_util_user"),
                real("cpu_util_system"),
            ],
            has_retransmits,
            congestion: text_of(object, "congestion_used"),
            streams: streams.collect(),
            own: read_own(object),
        })
    }

    /// The JSON text; every key that the other end insists on is there.
    pub fn encode(&self) -> Vec<u8> {
        let streams: Vec<Value> = self
            .streams
            .iter()
            .map(|stream| {
                let mut object = json!({
                    "id": stream.id,
                    "bytes": stream.bytes,
                    // Unknown is −1, which the original writes as an unsigned number and reads back as such.
                    "retransmits": stream.retransmits.unwrap_or(u64::MAX),
                    "jitter": stream.jitter_s,
                    "errors": stream.lost,
                    "packets": stream.datagrams,
                    "start_time": stream.start_s,
                    "end_time": stream.end_s,
                });
                for (key, value) in [
                    ("omitted_errors", stream.omitted_lost),
                    ("omitted_packets", stream.omitted_datagrams),
                ] {
                    if let Some(value) = value {
                        object[key] = json!(value);
                    }
                }
                object
            })
            .collect();
        let mut object = json!({
            "cpu_util_total": self.cpu_percent[0],
            "cpu_util_user": self.cpu_percent[1],
            "cpu_util_system": self.cpu_percent[2],
            "sender_has_retransmits": i32::from(self.has_retransmits),
        });
        if let Some(congestion) = &self.congestion {
            object["congestion_used"] = json!(congestion);
        }
        object["streams"] = Value::Array(streams);
        if let Some(own) = self.own {
            object[OWN] = own_json(own);
        }
        object.to_string().into_bytes()
    }
}

/// The id of the stream at this place, from 0: 1, 3, 4, 5, …; 2 is never used.
pub const fn stream_id(place: u64) -> u64 {
    if place == 0 { 1 } else { place + 2 }
}

/// A JSON text with its length before it.
pub fn frame(json: &[u8]) -> Vec<u8> {
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(json);
    bytes
}

/// Length of the JSON text that these four bytes announce; `None` for one that is not believed.
pub fn framed_length(four: [u8; 4]) -> Option<usize> {
    let length = u32::from_be_bytes(four) as usize;
    (length <= LARGEST_JSON).then_some(length)
}

/// The first datagram of a UDP stream, and the server's answer.
pub mod hello {
    /// What a client sends.
    pub const REQUEST: [u8; 4] = *b"9876";
    /// What a server answers.
    pub const REPLY: [u8; 4] = *b"6789";
    /// What clients before 3.10 send, and what they wait for.
    const OLD_REQUEST: u32 = 123_456_789;
    const OLD_REPLY: u32 = 987_654_321;

    /// The answer to a first datagram of any version and byte order; `None` for anything else.
    pub fn reply_to(datagram: &[u8]) -> Option<[u8; 4]> {
        let four: [u8; 4] = datagram.try_into().ok()?;
        if four == REQUEST {
            return Some(REPLY);
        }
        if four == [b'6', b'7', b'8', b'9'] {
            return Some([b'9', b'8', b'7', b'6']);
        }
        if u32::from_be_bytes(four) == OLD_REQUEST {
            return Some(OLD_REPLY.to_be_bytes());
        }
        (u32::from_le_bytes(four) == OLD_REQUEST).then_some(OLD_REPLY.to_le_bytes())
    }
}

/// Send time and counter of a UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHead {
    /// Seconds of the sender's clock.
    pub seconds: u32,
    /// Microseconds of it.
    pub micros: u32,
    /// Counter from 1.
    pub counter: u64,
}

impl DatagramHead {
    /// Reads the head; `None` for a datagram too short to be one.
    pub fn parse(datagram: &[u8], wide: bool) -> Option<Self> {
        let upper = word(datagram, 8)?;
        let counter = if wide {
            u64::from(upper) << 32 | u64::from(word(datagram, 12)?)
        } else {
            u64::from(upper)
        };
        Some(Self {
            seconds: word(datagram, 0)?,
            micros: word(datagram, 4)?,
            counter,
        })
    }

    /// Writes the head into a datagram of at least 16 bytes (12 with narrow counters).
    pub fn write(&self, datagram: &mut [u8], wide: bool) {
        datagram[0..4].copy_from_slice(&self.seconds.to_be_bytes());
        datagram[4..8].copy_from_slice(&self.micros.to_be_bytes());
        if wide {
            datagram[8..16].copy_from_slice(&self.counter.to_be_bytes());
        } else {
            let low = (self.counter & 0xFFFF_FFFF) as u32;
            datagram[8..12].copy_from_slice(&low.to_be_bytes());
        }
    }

    /// Send time in microseconds; the difference of two is what counts.
    pub fn sent_micros(&self) -> i64 {
        i64::from(self.seconds) * 1_000_000 + i64::from(self.micros)
    }
}

/// A whole number however it is spelled; −1, which some versions write as 2⁶⁴ − 1, is no number.
fn number(object: &Map<String, Value>, key: &str) -> Option<u64> {
    let value = object.get(key)?;
    if let Some(number) = value.as_u64() {
        return (number != u64::MAX).then_some(number);
    }
    let real = value.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked before"
    )]
    (0.0..1.8e19).contains(&real).then_some(real as u64)
}

fn flag(object: &Map<String, Value>, key: &str) -> bool {
    match object.get(key) {
        Some(Value::Bool(set)) => *set,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        _ => false,
    }
}

fn text_of(object: &Map<String, Value>, key: &str) -> Option<String> {
    let text: String = object.get(key)?.as_str()?.chars().take(64).collect();
    (!text.is_empty()).then_some(text)
}
