//! The iperf 2 codec against bytes of real programs, cut anywhere and damaged anywhere.

use std::time::Duration;

use tidemark::wire::iperf2::ack;
use tidemark::wire::iperf2::datagram::{DatagramHead, Generation, Id, recognise};
use tidemark::wire::iperf2::header::{Amount, ClientHeader, Mode, Parsed, flag};
use tidemark::wire::iperf2::report::UdpReport;

/// The blocks of a capture: direction (`C>S`, `S>C`), the length on the wire, and the bytes that were kept.
pub fn capture(name: &str) -> Vec<(String, usize, Vec<u8>)> {
    let path = format!(
        "{}/tests/it/fixtures/iperf/{name}.hex",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    let mut blocks: Vec<(String, usize, Vec<u8>)> = Vec::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("## ") {
            let direction = ["C>S", "S>C"].into_iter().find(|way| head.contains(way));
            let length = head
                .split("len=")
                .nth(1)
                .and_then(|rest| rest.trim().parse().ok());
            match (direction, length) {
                (Some(direction), Some(length)) => {
                    blocks.push((direction.to_owned(), length, Vec::new()));
                }
                _ => blocks.push((String::new(), 0, Vec::new())),
            }
        } else if let Some((_, hex)) = line.split_once("  ") {
            let bytes = hex
                .split_whitespace()
                .filter_map(|two| u8::from_str_radix(two, 16).ok());
            blocks.last_mut().unwrap().2.extend(bytes);
        }
    }
    blocks.retain(|(direction, ..)| !direction.is_empty());
    blocks
}

fn first(name: &str, way: &str) -> Vec<u8> {
    capture(name)
        .into_iter()
        .find(|(direction, ..)| direction == way)
        .unwrap()
        .2
}

fn header(name: &str) -> (ClientHeader, usize) {
    match ClientHeader::parse_tcp(&first(name, "C>S")) {
        Parsed::Header(header, length) => (header, length),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn tcp_headers_of_real_clients_are_read() {
    let second = Amount::Time(Duration::from_secs(1));
    // name, length, mode, streams, amount, ack
    let cases = [
        ("218_tcp_plain", 60, Mode::Plain, 1, second, true),
        ("218_tcp_P2", 60, Mode::Plain, 2, second, true),
        ("218_tcp_R", 60, Mode::Reverse, 1, second, false),
        ("218_tcp_fulldup", 60, Mode::FullDuplex, 1, second, false),
        ("218_tcp_X", 60, Mode::Plain, 1, second, true),
        ("218_tcp_e_trip", 80, Mode::Plain, 1, second, true),
        ("205_tcp_d", 24, Mode::Dual, 1, second, false),
        ("205_tcp_r", 24, Mode::Tradeoff, 1, second, false),
        ("218_tcp_d", 60, Mode::Dual, 1, second, true),
        ("218_tcp_r", 60, Mode::Tradeoff, 1, second, true),
    ];
    for (name, length, mode, streams, amount, wants_ack) in cases {
        if !std::path::Path::new(&format!(
            "{}/tests/it/fixtures/iperf/{name}.hex",
            env!("CARGO_MANIFEST_DIR")
        ))
        .exists()
        {
            continue;
        }
        let (header, got) = header(name);
        assert_eq!(
            (got, header.mode(), header.streams),
            (length, mode, streams),
            "{name}"
        );
        assert_eq!(
            (header.amount, header.wants_ack()),
            (amount, wants_ack),
            "{name}"
        );
    }
    assert!(matches!(header("218_tcp_n").0.amount, Amount::Bytes(bytes) if bytes > 0));
    assert_eq!(header("218_tcp_S").0.tos, 0x20);
    assert_eq!(header("2013_tcp_X").1, 60);
    assert!(header("2013_tcp_X").0.wants_ack());
    let (keyed, length) = header("218_tcp_permitkey");
    assert_eq!((length, keyed.key.unwrap().len()), (72, 10));
}

#[test]
fn clients_without_a_header_are_payload_from_the_first_byte() {
    for name in [
        "218_tcp_compat",
        "2013_tcp_plain",
        "2013_tcp_e",
        "205_tcp_plain",
    ] {
        let bytes = first(name, "C>S");
        // 2.0.5 sends its 24 bytes with no flag set at all.
        assert_eq!(ClientHeader::parse_tcp(&bytes), Parsed::NoHeader, "{name}");
    }
}

#[test]
fn other_protocols_are_not_taken_for_a_header() {
    for text in [
        "GET / HTTP/1.1\r\nHost: example\r\n\r\n".as_bytes(),
        b"POST /x HTTP/1.1\r\nContent-Length: 9\r\n\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n...............................",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        // The cookie of iperf 3.
        b"abcdefghijklmnopqrstuvwxyz234567abcd\0xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ] {
        assert_eq!(ClientHeader::parse_tcp(text), Parsed::NoHeader, "{text:?}");
    }
}

#[test]
fn what_we_write_is_what_the_real_client_writes() {
    for name in [
        "218_tcp_plain",
        "218_tcp_P2",
        "218_tcp_R",
        "218_tcp_fulldup",
        "218_tcp_e_trip",
        "218_tcp_permitkey",
    ] {
        let bytes = first(name, "C>S");
        let (header, length) = header(name);
        assert_eq!(header.encode_tcp(), bytes[..length], "{name}");
    }
    let made =
        ClientHeader::plain(2, 5001, Amount::Time(Duration::from_secs(1))).with_mode(Mode::Reverse);
    assert_eq!(made.flags & 0xFFFF_0000, 0x4401_0000);
    let Parsed::Header(read, 60) = ClientHeader::parse_tcp(&made.encode_tcp()) else {
        panic!()
    };
    assert_eq!(read.mode(), Mode::Reverse);
}

#[test]
fn acks_of_real_servers_are_recognised_and_ours_are_the_same() {
    for (name, length) in [
        ("218_tcp_X", 28),
        ("218_tcp_plain", 28),
        ("218_tcp_X_trip", 52),
    ] {
        let answer = capture(name)
            .into_iter()
            .find(|(way, ..)| way == "S>C")
            .unwrap()
            .2;
        assert_eq!(ack::recognise(&answer), Some(length), "{name}");
        if length == 28 {
            assert_eq!(answer[..28], ack::encode());
        }
    }
    assert_eq!(
        ack::recognise(&ack::encode_with_stamps((1, 2), (3, 4), (5, 6))),
        Some(52)
    );
}

#[test]
fn ids_of_every_generation_are_read_to_the_end() {
    for (name, generation, first_id, last) in [
        ("205_udp", Generation::Old, 0, 44),
        ("2013_udp", Generation::Middle, 0, 43),
        ("218_udp_b1m", Generation::New, 1, 89),
    ] {
        let datagrams: Vec<Vec<u8>> = capture(name)
            .into_iter()
            .filter(|(way, ..)| way == "C>S")
            .map(|(.., bytes)| bytes)
            .collect();
        let (found, _) = recognise(&datagrams[0]);
        assert_eq!(found, generation, "{name}");
        let head = |bytes: &[u8]| DatagramHead::parse(bytes).unwrap();
        assert_eq!(
            head(&datagrams[0]).id(generation, None),
            Id::Data(first_id),
            "{name}"
        );
        let end = datagrams.last().unwrap();
        assert_eq!(
            head(end).id(generation, Some(last - 1)),
            Id::End(last),
            "{name}"
        );
    }
}

#[test]
fn reports_of_real_servers_are_read_and_ours_round_trip_in_every_layout() {
    let answer = capture("218_udp_b1m")
        .into_iter()
        .find(|(way, ..)| way == "S>C")
        .unwrap()
        .2;
    let report = UdpReport::parse(&answer).unwrap();
    assert_eq!(
        (report.bytes, report.datagrams, report.lost),
        (0x1_ff0e, 89, 0)
    );
    assert_eq!(report.jitter, Duration::from_micros(60));

    let report = UdpReport {
        bytes: 5_000_000_000,
        duration: Duration::from_micros(10_000_123),
        lost: 7,
        out_of_order: 2,
        datagrams: 3_400_000,
        jitter: Duration::from_micros(188),
    };
    let last = vec![0x36; 1470];
    for generation in [Generation::Old, Generation::Middle, Generation::New] {
        let bytes = report.encode(generation, &last);
        assert_eq!(UdpReport::parse(&bytes), Some(report), "{generation:?}");
    }
    assert!(report.is_plausible(5_000_000_000, 3_400_000, Duration::from_secs(10)));
    assert!(!report.is_plausible(1_000, 3, Duration::from_secs(10)));
}

#[test]
fn an_early_ack_is_not_a_report() {
    let answers: Vec<_> = capture("218_to_2013srv_udp")
        .into_iter()
        .filter(|(way, ..)| way == "S>C")
        .collect();
    let (_, length, early) = &answers[0];
    assert_eq!(*length, 28);
    assert_eq!(UdpReport::parse(early), None);
    let real = answers
        .iter()
        .find_map(|(.., bytes)| UdpReport::parse(bytes))
        .unwrap();
    // The client marked its end in a way that this server misreads: such a report is recognised as impossible.
    assert!(
        !real.is_plausible(66_150, 46, Duration::from_secs(2)),
        "{real:?}"
    );
}

#[test]
fn the_old_server_puts_its_report_four_bytes_earlier() {
    let answers = capture("218_to_205srv_udp");
    let report = answers
        .iter()
        .filter(|(way, ..)| way == "S>C")
        .find_map(|(.., bytes)| UdpReport::parse(bytes))
        .unwrap();
    assert!(report.duration < Duration::from_secs(3), "{report:?}");
    assert!(report.bytes < 1_000_000, "{report:?}");
}

/// Every capture cut at every place and damaged in every byte: no panic, and lengths stay small.
#[test]
fn cut_and_damaged_bytes_never_break_the_readers() {
    let folder = format!("{}/tests/it/fixtures/iperf", env!("CARGO_MANIFEST_DIR"));
    let mut seed = 0x9E37_79B9_u32;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed
    };
    let mut tried = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".hex") else {
            continue;
        };
        for (.., bytes) in capture(name) {
            let all = |bytes: &[u8]| {
                if let Parsed::Header(header, length) = ClientHeader::parse_tcp(bytes) {
                    assert!(length <= bytes.len() && header.key.is_none_or(|key| key.len() <= 256));
                }
                if let Parsed::NeedMore(length) = ClientHeader::parse_tcp(bytes) {
                    assert!(length > bytes.len() && length <= 512 + 256);
                }
                let (generation, _) = recognise(bytes);
                if let Some(head) = DatagramHead::parse(bytes) {
                    let _ = head.id(generation, Some(u64::from(random())));
                }
                let _ = UdpReport::parse(bytes);
                let _ = ack::version(bytes);
            };
            let mut all = all;
            for end in 0..bytes.len().min(160) {
                all(&bytes[..end]);
            }
            let mut damaged = bytes.clone();
            for at in 0..bytes.len().min(160) {
                for value in [0, 1, 0x7F, 0x80, 0xFF, bytes[at] ^ 0x55] {
                    damaged[at] = value;
                    all(&damaged);
                    tried += 1;
                }
                damaged[at] = bytes[at];
            }
        }
    }
    assert!(tried > 10_000, "{tried}");
    // Every length field at its extremes.
    for value in [0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF_u32] {
        let mut bytes = ClientHeader::plain(1, 5001, Amount::Bytes(1)).encode_tcp();
        for at in (0..60).step_by(4) {
            let kept: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
            bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
            let _ = ClientHeader::parse_tcp(&bytes);
            bytes[at..at + 4].copy_from_slice(&kept);
        }
    }
    let _ = flag::KEY_CHECK;
}
