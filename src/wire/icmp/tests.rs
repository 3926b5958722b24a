//! Known messages, every truncation, every flipped byte.

use super::*;

/// What `ping -c 1 -s 12 -p a5c3 127.0.0.1` sent and got, as tcpdump shows it with the IP header.
const REQUEST_V4: [u8; 40] = [
    0x45, 0x00, 0x00, 0x28, 0xf4, 0x78, 0x40, 0x00, 0x40, 0x01, 0x48, 0x5a, 0x7f, 0x00, 0x00, 0x01,
    0x7f, 0x00, 0x00, 0x01, 0x08, 0x00, 0xc9, 0x7a, 0x4b, 0xee, 0x00, 0x01, 0xa5, 0xc3, 0xa5, 0xc3,
    0xa5, 0xc3, 0xa5, 0xc3, 0xa5, 0xc3, 0xa5, 0xc3,
];
const REPLY_V4: [u8; 40] = [
    0x45, 0x00, 0x00, 0x28, 0xf4, 0x79, 0x00, 0x00, 0x40, 0x01, 0x88, 0x59, 0x7f, 0x00, 0x00, 0x01,
    0x7f, 0x00, 0x00, 0x01, 0x00, 0x00, 0xd1, 0x7a, 0x4b, 0xee, 0x00, 0x01, 0xa5, 0xc3, 0xa5, 0xc3,
    0xa5, 0xc3, 0xa5, 0xc3, 0xa5, 0xc3, 0xa5, 0xc3,
];

/// A router's "fragmentation needed" for a UDP datagram from port 40000 to 5001, next hop 1460.
fn fragmentation_needed() -> Vec<u8> {
    let mut message = vec![3, 4, 0, 0, 0, 0, 0x05, 0xb4];
    message.extend([
        0x45, 0x00, 0x05, 0xdc, 0x00, 0x01, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 10, 0, 1, 2, 10, 0,
        2, 2, 0x9c, 0x40, 0x13, 0x89, 0x05, 0xc8, 0x00, 0x00,
    ]);
    let sum = checksum(&message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    message
}

/// A router's "packet too big" for an echo request with id 7 and number 9, next hop 1280.
fn too_big_v6() -> Vec<u8> {
    let mut message = vec![
        2, 0, 0, 0, 0, 0, 0x05, 0x00, 0x60, 0, 0, 0, 0x05, 0xb4, 58, 64,
    ];
    message.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets());
    message.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).octets());
    message.extend([128, 0, 0xab, 0xcd, 0, 7, 0, 9, 1, 2, 3]);
    message
}

#[test]
fn the_checksum_is_the_internets() {
    // RFC 1071, 3: the sum of these is ddf2.
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(checksum(&bytes), !0xddf2);
    assert_eq!(checksum(&[]), 0xFFFF);
    assert_eq!(checksum(&[0xAB]), !0xAB00);
}

#[test]
fn requests_are_what_ping_sends() {
    let mut message = Vec::new();
    write_request(Version::V4, 0x4bee, 1, &REQUEST_V4[28..], &mut message);
    assert_eq!(message, &REQUEST_V4[20..]);
    assert_eq!(checksum(&message), 0);
    write_request(Version::V6, 0x1234, 0xFFFF, b"", &mut message);
    assert_eq!(message, [128, 0, 0, 0, 0x12, 0x34, 0xFF, 0xFF]);
    for version in [Version::V4, Version::V6] {
        for payload in [&b""[..], b"x", &[0xFF; 1_473]] {
            write_request(version, 0xBEEF, 77, payload, &mut message);
            let echo = Echo {
                id: 0xBEEF,
                seq: 77,
                payload,
            };
            assert_eq!(read(version, &message), Some(Message::Request(echo)));
        }
    }
}

#[test]
fn the_checksum_of_ipv6_covers_the_addresses() {
    // By hand: 1 + 1 (addresses) + 3a (protocol) + 8 (length) + 8000 + 1 (type, number) = 8045.
    let message = [128, 0, 0, 0, 0, 0, 0, 1];
    let loopback = Ipv6Addr::LOCALHOST;
    assert_eq!(checksum_v6(loopback, loopback, &message), !0x8045);
    let mut whole = message;
    whole[2..4].copy_from_slice(&(!0x8045_u16).to_be_bytes());
    assert_eq!(checksum_v6(loopback, loopback, &whole), 0);
}

#[test]
fn a_reply_is_read_with_its_ip_header_and_without() {
    let echo = Echo {
        id: 0x4bee,
        seq: 1,
        payload: &REPLY_V4[28..],
    };
    assert_eq!(
        read_packet(&REPLY_V4),
        Some(Packet {
            source: Ipv4Addr::LOCALHOST,
            ttl: 64,
            message: Message::Reply(echo),
        })
    );
    assert_eq!(
        read(Version::V4, &REPLY_V4[20..]),
        Some(Message::Reply(echo))
    );
    // Ethernet pads short packets: what follows the stated length is not the message's.
    let padded = [&REPLY_V4[..], &[0xEE; 10]].concat();
    assert_eq!(
        read_packet(&padded).map(|packet| packet.message),
        Some(Message::Reply(echo))
    );
    let mut with_options = vec![0x46, 0, 0, 44];
    with_options.extend(&REPLY_V4[4..20]);
    with_options.extend([1, 1, 1, 0]);
    with_options.extend(&REPLY_V4[20..]);
    assert_eq!(
        read_packet(&with_options).map(|packet| packet.message),
        Some(Message::Reply(echo))
    );
    let mut fragment = REPLY_V4;
    fragment[6] = 0x20;
    assert_eq!(read_packet(&fragment), None);
    let mut udp = REPLY_V4;
    udp[9] = 17;
    assert_eq!(read_packet(&udp), None);
}

#[test]
fn reports_say_why_and_about_what() {
    assert_eq!(
        read(Version::V4, &fragmentation_needed()),
        Some(Message::Report {
            trouble: Trouble::TooBig { mtu: Some(1_460) },
            about: Some(Quoted {
                protocol: 17,
                source: [10, 0, 1, 2].into(),
                destination: [10, 0, 2, 2].into(),
                echo: None,
                ports: Some((40_000, 5_001)),
            }),
        })
    );
    let Some(Message::Report { trouble, about }) = read(Version::V6, &too_big_v6()) else {
        panic!("a report");
    };
    assert_eq!(trouble, Trouble::TooBig { mtu: Some(1_280) });
    let about = about.unwrap();
    assert_eq!(
        (about.protocol, about.echo, about.ports),
        (58, Some((7, 9)), None)
    );
}

#[test]
fn types_and_codes_have_their_meaning() {
    let of = |version, kind, code| trouble(version, kind, code, 0);
    for (kind, code, expected) in [
        (3, 0, Some(Trouble::Network)),
        (3, 1, Some(Trouble::Host)),
        (3, 2, Some(Trouble::Protocol)),
        (3, 3, Some(Trouble::Port)),
        (3, 4, Some(Trouble::TooBig { mtu: None })),
        (3, 13, Some(Trouble::Prohibited)),
        (3, 5, Some(Trouble::Other { kind: 3, code: 5 })),
        (11, 0, Some(Trouble::TimeExceeded)),
        (5, 0, None),
        (0, 0, None),
    ] {
        assert_eq!(of(Version::V4, kind, code), expected, "{kind}/{code}");
    }
    for (kind, code, expected) in [
        (1, 0, Some(Trouble::Network)),
        (1, 3, Some(Trouble::Host)),
        (1, 4, Some(Trouble::Port)),
        (1, 1, Some(Trouble::Prohibited)),
        (2, 0, Some(Trouble::TooBig { mtu: None })),
        (3, 0, Some(Trouble::TimeExceeded)),
        (4, 1, Some(Trouble::Protocol)),
        (136, 0, None),
        (129, 0, None),
    ] {
        assert_eq!(of(Version::V6, kind, code), expected, "{kind}/{code}");
    }
    // The upper half of the word is no part of the MTU on IPv4.
    assert_eq!(
        trouble(Version::V4, 3, 4, 0x0009_05B4),
        Some(Trouble::TooBig { mtu: Some(1_460) })
    );
    for (trouble, words) in [
        (Trouble::TooBig { mtu: Some(1_460) }, "takes 1460 bytes"),
        (Trouble::Host, "host unreachable"),
        (Trouble::Other { kind: 3, code: 5 }, "type 3, code 5"),
    ] {
        assert!(trouble.to_string().contains(words));
    }
}

#[test]
fn nothing_that_is_cut_short_or_damaged_is_misread() {
    let report = fragmentation_needed();
    let mut packet = vec![
        0x45, 0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 1, 2,
    ];
    packet.extend(&report);
    assert!(read_packet(&packet).is_some());
    for whole in [&REPLY_V4[..], &packet] {
        for cut in 0..whole.len() {
            assert_eq!(read_packet(&whole[..cut]), None, "{cut}");
        }
        for place in 20..whole.len() {
            for mask in 1..=255 {
                let mut bytes = whole.to_vec();
                bytes[place] ^= mask;
                assert_eq!(read_packet(&bytes), None, "{place} ^ {mask}");
            }
        }
        // The IP header has a checksum of its own, which the kernel checks: only nothing bad may happen here.
        for place in 0..20 {
            for mask in 1..=255 {
                let mut bytes = whole.to_vec();
                bytes[place] ^= mask;
                let _ = read_packet(&bytes);
            }
        }
    }
    for (version, whole) in [
        (Version::V4, &REPLY_V4[20..]),
        (Version::V4, &report),
        (Version::V6, &too_big_v6()),
    ] {
        for cut in 0..whole.len() {
            let read = read(version, &whole[..cut]);
            assert_eq!(read.is_none(), cut < ECHO_HEADER, "{cut}");
            let _ = quoted_echo(version, &whole[..cut]);
        }
        for place in 0..whole.len() {
            for mask in 1..=255 {
                let mut bytes = whole.to_vec();
                bytes[place] ^= mask;
                let _ = (read(version, &bytes), quoted_echo(version, &bytes));
            }
        }
    }
    // A report that quotes too little still says why.
    assert_eq!(
        read(Version::V4, &report[..20]),
        Some(Message::Report {
            trouble: Trouble::TooBig { mtu: Some(1_460) },
            about: None,
        })
    );
}
