//! The iperf 3 codec against bytes of the real program, cut anywhere and damaged anywhere.

use tidemark::wire::iperf3::{
    COOKIE_LENGTH, DatagramHead, Params, Results, State, StreamResult, cookie, framed_length,
    hello, is_cookie, stream_id,
};
use tidemark::wire::own::Own;

/// The blocks of a capture: connection (`conn1`, `udp1`), direction and bytes.
fn capture(name: &str) -> Vec<(String, String, Vec<u8>)> {
    let path = format!(
        "{}/tests/it/fixtures/iperf/{name}.hex",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut blocks: Vec<(String, String, Vec<u8>)> = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        if let Some(head) = line.strip_prefix("## ") {
            let words: Vec<&str> = head.split_whitespace().collect();
            if words.len() >= 5 {
                blocks.push((words[1].to_owned(), words[2].to_owned(), Vec::new()));
            }
        } else if let Some(rest) = line.get(6..) {
            let hex = rest.get(..47).unwrap_or(rest);
            let bytes = hex
                .split_whitespace()
                .map_while(|two| u8::from_str_radix(two, 16).ok());
            blocks.last_mut().unwrap().2.extend(bytes);
        }
    }
    blocks
}

fn control(name: &str) -> Vec<(String, Vec<u8>)> {
    capture(name)
        .into_iter()
        .filter(|(connection, ..)| connection == "conn1")
        .map(|(_, way, bytes)| (way, bytes))
        .collect()
}

#[test]
fn a_real_session_is_read_message_by_message() {
    let session = control("iperf3_tcp_P2");
    assert!(is_cookie(&session[0].1));
    assert_eq!(State::of(session[1].1[0]), Some(State::ParamExchange));
    let text = &session[2].1;
    assert_eq!(
        framed_length(text[..4].try_into().unwrap()),
        Some(text.len() - 4)
    );
    let params = Params::parse(&text[4..]).unwrap();
    assert_eq!(
        (
            params.streams,
            params.time_s,
            params.block_bytes,
            params.udp
        ),
        (2, 1, 10240, false)
    );
    assert_eq!(params.version.as_deref(), Some("3.12"));
    assert_eq!(State::of(session[3].1[0]), Some(State::CreateStreams));
    let states: Vec<_> = session[4].1.iter().map(|byte| State::of(*byte)).collect();
    assert_eq!(states, [Some(State::TestStart), Some(State::TestRunning)]);
    let results: Vec<Results> = session
        .iter()
        .filter(|(_, bytes)| bytes.len() > 200)
        .map(|(_, bytes)| {
            Results::parse(&bytes[4..4 + framed_length(bytes[..4].try_into().unwrap()).unwrap()])
                .unwrap()
        })
        .collect();
    assert_eq!(results.len(), 2);
    let ids: Vec<u64> = results[0].streams.iter().map(|stream| stream.id).collect();
    assert_eq!(ids, [1, 3]);
    assert_eq!(results[0].streams[0].bytes, 133_120);
    assert_eq!(results[0].streams[0].retransmits, Some(0));
    // The receiver does not know the retransmissions, and says so as 2⁶⁴ − 1.
    assert_eq!(results[1].streams[0].retransmits, None);
}

#[test]
fn parameters_are_written_as_the_real_client_writes_them() {
    for name in [
        "iperf3_tcp",
        "iperf3_tcp_P2",
        "iperf3_udp",
        "iperf3_udp_R",
        "iperf3_tcp_bidir",
    ] {
        let session = control(name);
        let text = &session
            .iter()
            .find(|(_, bytes)| bytes.get(4) == Some(&b'{'))
            .unwrap()
            .1[4..];
        let params = Params::parse(text).unwrap();
        let ours: serde_json::Value = serde_json::from_slice(&params.encode()).unwrap();
        let theirs: serde_json::Value = serde_json::from_slice(text).unwrap();
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn results_round_trip() {
    let results = Results {
        cpu_percent: [12.5, 2.5, 10.0],
        has_retransmits: true,
        congestion: Some("cubic".into()),
        streams: (0..4)
            .map(|place| StreamResult {
                id: stream_id(place),
                bytes: u64::MAX / 4,
                retransmits: Some(place),
                jitter_s: 0.000_123,
                lost: 1,
                omitted_lost: (place > 1).then_some(1),
                datagrams: 99,
                omitted_datagrams: (place > 1).then_some(9),
                start_s: 0.0,
                end_s: 10.000_1,
            })
            .collect(),
        own: Some(Own {
            discard: true,
            ..Own::default()
        }),
    };
    assert_eq!(Results::parse(&results.encode()), Some(results));
    assert_eq!((0..5).map(stream_id).collect::<Vec<_>>(), [1, 3, 4, 5, 6]);
}

#[test]
fn greetings_of_all_versions_are_answered_in_kind() {
    let udp: Vec<_> = capture("iperf3_udp")
        .into_iter()
        .filter(|(connection, ..)| connection == "udp1")
        .collect();
    assert_eq!(udp[0].2, hello::REQUEST);
    assert_eq!(hello::reply_to(&udp[0].2).unwrap().to_vec(), udp[1].2);
    assert_eq!(
        hello::reply_to(&123_456_789_u32.to_le_bytes()),
        Some(987_654_321_u32.to_le_bytes())
    );
    assert_eq!(
        hello::reply_to(&123_456_789_u32.to_be_bytes()),
        Some(987_654_321_u32.to_be_bytes())
    );
    assert_eq!(hello::reply_to(b"98765"), None);
    let head = DatagramHead::parse(&udp[2].2, false).unwrap();
    assert_eq!(head.counter, 1);
    for wide in [false, true] {
        let mut datagram = [0; 16];
        head.write(&mut datagram, wide);
        assert_eq!(DatagramHead::parse(&datagram, wide), Some(head));
    }
}

#[test]
fn cookies_are_told_from_other_first_bytes() {
    let ours = cookie(&[7; 36]);
    assert!(is_cookie(&ours) && ours.len() == COOKIE_LENGTH);
    // An iperf 2 server reads a whole header in any of them, and asks for no more than there is.
    for byte in 0..=255 {
        let ours = cookie(&[byte; 36]);
        let flags = u32::from_be_bytes([ours[0], ours[1], ours[2], ours[3]]);
        assert_eq!(flags & 0x4001_0000, 0x4001_0000, "{flags:x}");
        assert_eq!(flags & 0x9480_0000, 0, "{flags:x}");
        assert!((24..=COOKIE_LENGTH).contains(&(((flags & 0x1FE) >> 1) as usize)));
    }
    assert!(!is_cookie(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"));
    assert!(!is_cookie(&ours[..36]));
}

#[test]
fn cut_and_damaged_messages_never_break_the_readers() {
    for name in [
        "iperf3_tcp",
        "iperf3_tcp_P2",
        "iperf3_udp",
        "iperf3_udp_R",
        "iperf3_tcp_bidir",
    ] {
        for (_, _, bytes) in capture(name) {
            for end in 0..bytes.len() {
                let _ = Params::parse(&bytes[..end]);
                let _ = Results::parse(&bytes[..end]);
                let _ = DatagramHead::parse(&bytes[..end], true);
                let _ = hello::reply_to(&bytes[..end]);
            }
            let mut damaged = bytes.clone();
            for at in 0..bytes.len() {
                for value in [0, b'"', b'-', b'9', b'\\', 0xFF] {
                    damaged[at] = value;
                    let _ = Params::parse(damaged.get(4..).unwrap_or_default());
                    let _ = Results::parse(damaged.get(4..).unwrap_or_default());
                }
                damaged[at] = bytes[at];
            }
        }
    }
    assert_eq!(framed_length([0xFF; 4]), None);
    for text in [
        "{}",
        "[]",
        "null",
        "{\"streams\":{}}",
        "{\"parallel\":1e308,\"time\":-1}",
        "\"\\u",
        "{\"len\":\"x\"}",
    ] {
        let _ = Params::parse(text.as_bytes());
        let _ = Results::parse(text.as_bytes());
    }
    assert_eq!(Params::parse(b"{}").unwrap().streams, 1);
}
