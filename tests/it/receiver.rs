//! The receivers against the real `iperf` and `iperf3`, captured bytes of old ones, and clients that misbehave.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidemark::measure::flow::Way;
use tidemark::measure::plan::throughput::{Dialect, Direction, Protocol};
use tidemark::receiver::{Receiver, ReceiverEvent};

use crate::iperf2_wire::capture;
use crate::support::throughput::{PATIENCE, Served, client, config, free_port, has};

/// The byte counts of `iperf -y C`, a row for each stream and way.
fn iperf(served: &Served, arguments: &[&str]) -> Vec<u64> {
    let port = served.port();
    let mut all = vec!["-p", &port, "-y", "C"];
    if !arguments.contains(&"-c") {
        all.extend(["-c", "127.0.0.1"]);
    }
    all.extend(arguments);
    let output = client("iperf", &all);
    let rows = output.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells.len() >= 9).then(|| cells[7].parse().unwrap())
    });
    rows.collect()
}

#[test]
fn plain_tcp_from_a_real_iperf_has_the_same_bytes_at_both_ends() {
    if !has("iperf") {
        return;
    }
    let served = Served::iperf2();
    for (number, arguments) in [
        &["-t", "0.5"][..],
        &["-n", "3M"],
        &["-n", "1000001", "-l", "1000"],
        &["-t", "0.3", "-X"],
        &["-t", "0.3", "-e", "--trip-times"],
        &["-t", "0.3", "-C"],
        &["-t", "0.4", "-b", "20m"],
    ]
    .into_iter()
    .enumerate()
    {
        let rows = iperf(&served, arguments);
        let test = served.test(number as u64 + 1);
        test.is_sane();
        println!("{arguments:?} {rows:?} {:?}", test.plan);
        assert_eq!(test.plan.direction, Direction::Receive);
        assert_eq!(test.plan.protocol, Protocol::Tcp);
        assert_eq!(rows, [test.bytes(Way::Receive)], "{arguments:?}");
    }
    assert_eq!(served.refusals(), Vec::<String>::new());
}

#[test]
fn parallel_streams_of_a_real_iperf_are_one_test() {
    if !has("iperf") {
        return;
    }
    let served = Served::iperf2();
    let mut rows = iperf(&served, &["-P", "4", "-t", "0.5"]);
    let test = served.test(1);
    test.is_sane();
    assert_eq!(test.plan.streams, 4);
    let mut ours: Vec<u64> = test.end.streams.iter().map(|end| end.bytes).collect();
    println!("{rows:?} {ours:?}");
    rows.retain(|bytes| *bytes > 0);
    rows.sort_unstable();
    ours.sort_unstable();
    assert_eq!(rows, ours);
    let numbers: Vec<u32> = test.end.streams.iter().map(|end| end.stream).collect();
    assert_eq!(numbers.len(), 4);
}

#[test]
fn reverse_tcp_of_a_real_iperf_is_served() {
    if !has("iperf") {
        return;
    }
    let served = Served::iperf2();
    for (number, arguments) in [
        &["-R", "-t", "0.5"][..],
        &["-R", "-n", "2M"],
        &["-R", "-t", "0.5", "-P", "2"],
        &["-R", "-t", "0.5", "-b", "8m"],
    ]
    .into_iter()
    .enumerate()
    {
        let rows = iperf(&served, arguments);
        let test = served.test(number as u64 + 1);
        println!("{arguments:?} {rows:?} {:?} {:?}", test.plan, test.end);
        test.is_sane();
        assert_eq!(test.plan.direction, Direction::Send);
        assert_eq!(rows.iter().sum::<u64>(), test.bytes(Way::Send));
        for stream in &test.end.streams {
            assert_eq!(stream.acked_bytes, Some(stream.bytes));
            assert!(stream.retransmits.is_some() && stream.rtt.unwrap() > Duration::ZERO);
        }
    }
}

#[test]
fn both_ways_of_a_real_iperf_are_served() {
    if !has("iperf") {
        return;
    }
    let served = Served::iperf2();
    let listen = free_port("127.0.0.1").port().to_string();
    for (number, arguments) in [
        &["--full-duplex", "-t", "0.5"][..],
        &["-d", "-t", "0.5", "-L", &listen],
        &["-r", "-t", "0.5", "-L", &listen],
    ]
    .into_iter()
    .enumerate()
    {
        let rows = iperf(&served, arguments);
        let test = served.test(number as u64 + 1);
        println!("{arguments:?} {rows:?} {:?} {:?}", test.plan, test.end);
        test.is_sane();
        let expected = if arguments.contains(&"-r") {
            Direction::InTurn
        } else {
            Direction::Both
        };
        assert_eq!(test.plan.direction, expected);
        for way in [Way::Receive, Way::Send] {
            assert!(rows.contains(&test.bytes(way)), "{way:?}");
        }
    }
}

#[test]
fn ipv6_clients_are_served() {
    if !has("iperf") {
        return;
    }
    let served = Served::new(config(Dialect::Iperf2, "[::1]:0"));
    let rows = iperf(&served, &["-V", "-c", "::1", "-n", "1M"]);
    let test = served.test(1);
    test.is_sane();
    assert_eq!(rows, [test.bytes(Way::Receive)]);
    assert_eq!(
        (test.plan.host.as_str(), test.plan.ip_version),
        ("::1", Some(6))
    );
    iperf(
        &served,
        &["-V", "-c", "::1", "-u", "-n", "100K", "-b", "50m"],
    );
    served.test(2).is_sane();
}

#[test]
fn datagrams_of_a_real_iperf_are_counted_and_reported() {
    if !has("iperf") {
        return;
    }
    let served = Served::iperf2();
    for (number, (arguments, streams)) in [
        (&["-u", "-t", "0.5"][..], 1),
        (&["-u", "-b", "100m", "-P", "2", "-t", "0.5"], 2),
        (&["-u", "-n", "200K", "-b", "20m", "-l", "100"], 1),
        (&["-u", "-e", "--trip-times", "-t", "0.3"], 1),
    ]
    .into_iter()
    .enumerate()
    {
        let port = served.port();
        let mut all = vec!["-c", "127.0.0.1", "-p", &port];
        all.extend(arguments);
        let output = client("iperf", &all);
        let test = served.test(number as u64 + 1);
        println!("{arguments:?} {output} {:?} {:?}", test.plan, test.end);
        test.is_sane();
        assert_eq!(test.plan.protocol, Protocol::Udp);
        assert_eq!(
            (test.plan.streams, test.end.streams.len()),
            (streams, streams as usize)
        );
        assert!(!output.contains("WARNING"), "{output}");
        assert_eq!(output.matches("Server Report").count(), streams as usize);
        for stream in &test.end.streams {
            let udp = stream.udp.unwrap();
            assert_eq!(udp.lost, udp.dropped_by_receiver.unwrap());
            assert!(output.contains(&format!("{}/{}", udp.lost, udp.datagrams)));
            assert!(udp.jitter.unwrap() < Duration::from_millis(100));
        }
    }
}

#[test]
fn datagrams_both_ways_of_a_real_iperf_are_served() {
    if !has("iperf") {
        return;
    }
    let served = Served::iperf2();
    let listen = free_port("127.0.0.1").port().to_string();
    for (number, (arguments, ways)) in [
        (&["-u", "-R", "-t", "0.5"][..], &[Way::Send][..]),
        (
            &["-u", "--full-duplex", "-t", "0.5"],
            &[Way::Send, Way::Receive],
        ),
        (
            &["-u", "-d", "-t", "0.5", "-L", &listen],
            &[Way::Send, Way::Receive],
        ),
        (
            &["-u", "-r", "-t", "0.5", "-L", &listen],
            &[Way::Send, Way::Receive],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let port = served.port();
        let mut all = vec!["-c", "127.0.0.1", "-p", &port];
        all.extend(arguments);
        let output = client("iperf", &all);
        let test = served.test(number as u64 + 1);
        println!("{arguments:?} {output} {:?} {:?}", test.plan, test.end);
        test.is_sane();
        for way in ways {
            let streams = test.streams(*way);
            assert_eq!(streams.len(), 1);
            // 2^20 bit/s for half a second in datagrams of 1,470 bytes: 45 and an end, fewer where the machine let
            // the sender wait.
            let datagrams = streams[0].bytes / 1_470;
            assert!((1..=50).contains(&datagrams), "{datagrams}");
        }
    }
}

/// Replays the datagrams of a capture that a client sent, with those between made up by `fill`.
fn replay(served: &Served, name: &str, last: u32, fill: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    let blocks = capture(name);
    let sent: Vec<_> = blocks.iter().filter(|(way, ..)| way == "C>S").collect();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(served.receiver.local_addr()).unwrap();
    let pad = |bytes: &[u8], length: usize| {
        let mut all = bytes.to_vec();
        all.resize(length, b'0');
        all
    };
    let (_, length, first) = sent[0];
    for id in 0..=last {
        let mut datagram = pad(first, *length);
        datagram[..12].copy_from_slice(&fill(id)[..12]);
        socket.send(&datagram).unwrap();
    }
    let (_, length, end) = sent.last().unwrap();
    let mut answer = vec![0; 2_000];
    // The end and two repetitions of it: each gets the report, once it is counted.
    for _ in 0..3 {
        socket.send(&pad(end, *length)).unwrap();
        let size = socket.recv(&mut answer).unwrap();
        answer.truncate(size.max(1_470));
    }
    answer
}

#[test]
fn datagrams_of_old_iperfs_lose_nothing() {
    let served = Served::iperf2();
    let head = |id: u32| {
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend(1_796_000_000_u32.to_be_bytes());
        bytes.extend((id * 1_000).to_be_bytes());
        bytes
    };
    for (number, (name, last, report_at)) in [
        ("205_udp", 43, 12),
        ("2013_udp", 42, 16),
        ("2013_udp_e", 42, 16),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = replay(&served, name, last, head);
        let test = served.test(number as u64 + 1);
        println!("{name} {:?} {:?}", test.plan, test.end);
        let udp = test.end.streams[0].udp.unwrap();
        assert_eq!(
            (udp.lost, udp.out_of_order, udp.duplicated),
            (0, 0, Some(0)),
            "{name}"
        );
        assert_eq!(udp.datagrams, u64::from(last) + 2);
        assert_eq!(
            answer[report_at] & 0x80,
            0x80,
            "{name}: the layout of its time"
        );
        let word = |at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().unwrap());
        // bytes, lost, out of order, datagrams
        assert_eq!(word(report_at + 8), (last + 2) * 1_470, "{name}");
        assert_eq!(word(report_at + 20), 0);
        assert_eq!(word(report_at + 24), 0);
        assert_eq!(word(report_at + 28), last + 1);
    }
}

#[test]
fn openings_of_captured_tcp_clients_are_understood() {
    let served = Served::iperf2();
    let mut number = 0;
    for (name, direction) in [
        ("205_tcp_plain", Direction::Receive),
        ("2013_tcp_plain", Direction::Receive),
        ("2013_tcp_e", Direction::Receive),
        ("2013_tcp_X", Direction::Receive),
        ("218_tcp_plain", Direction::Receive),
        ("218_tcp_compat", Direction::Receive),
        ("218_tcp_S", Direction::Receive),
        ("218_tcp_X_trip", Direction::Receive),
    ] {
        let blocks = capture(name);
        let (_, length, first) = blocks.iter().find(|(way, ..)| way == "C>S").unwrap();
        let mut bytes = first.clone();
        bytes.resize(*length, b'0');
        // Whole, and split after every few bytes of the header.
        for cut in [bytes.len(), 1, 7, 59] {
            number += 1;
            let mut stream = served.connect();
            for part in bytes[..bytes.len().min(200)].chunks(cut.max(1)) {
                stream.write_all(part).unwrap();
            }
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert!(matches!(answer.len(), 0 | 28 | 52), "{name}: {answer:?}");
            let test = served.test(number);
            assert_eq!(test.plan.direction, direction, "{name}");
            assert_eq!(
                test.bytes(Way::Receive),
                bytes.len().min(200) as u64,
                "{name}"
            );
        }
    }
}

#[test]
fn silent_connections_keep_nobody_waiting_and_are_closed() {
    let served = Served::iperf2();
    let mut silent: Vec<TcpStream> = (0..5).map(|_| served.connect()).collect();
    // Every prefix of a header, left at that.
    let header = &capture("218_tcp_plain")[0].2[..60];
    for length in (1..60).step_by(6) {
        let mut stream = served.connect();
        stream.write_all(&header[..length]).unwrap();
        silent.push(stream);
    }
    if has("iperf") {
        let rows = iperf(&served, &["-n", "20K"]);
        assert_eq!(rows, [20_480]);
        served.test(1).is_sane();
        assert!(
            served.receiver.status().connections > 0,
            "they are still there"
        );
    }
    for mut stream in silent {
        let mut rest = Vec::new();
        // Closed or reset, without a byte.
        let _ = stream.read_to_end(&mut rest);
        assert_eq!(rest, b"");
    }
    served.refused("said nothing");
    served.refused("began a header");
    assert_eq!(served.settled().running, 0);
}

#[test]
fn clients_of_other_protocols_are_named_and_closed() {
    let served = Served::iperf2();
    let hellos: [(&[u8], &str); 5] = [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "an HTTP client"),
        (&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3, 9], "a TLS client"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "an SSH client"),
        (
            b"abcdefghijklmnopqrstuvwxyz234567abcd\0",
            "an iperf 3 client",
        ),
        (b"\x05\x01\x00hello, is it me", "no iperf 2 client"),
    ];
    for (hello, what) in hellos {
        let mut stream = served.connect();
        stream.write_all(hello).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert_eq!(rest, b"", "{what}");
        served.refused(what);
    }
    // A connection without a byte is a test of connecting.
    let before = served.refusals();
    drop(served.connect());
    let status = served.settled();
    assert_eq!(served.refusals(), before);
    assert_eq!((status.begun, status.refused), (0, 5));
}

#[test]
fn permit_keys_are_refused_with_a_reset() {
    let served = Served::iperf2();
    let blocks = capture("218_tcp_permitkey");
    let (_, _, bytes) = blocks.iter().find(|(way, ..)| way == "C>S").unwrap();
    let mut stream = served.connect();
    stream.write_all(&bytes[..bytes.len().min(72)]).unwrap();
    let mut rest = Vec::new();
    let error = stream.read_to_end(&mut rest).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    served.refused("permit key");
}

#[test]
fn nobody_outside_accept_from_gets_a_byte() {
    for dialect in [Dialect::Iperf2, Dialect::Iperf3] {
        let mut config = config(dialect, "127.0.0.1:0");
        config.accept_from = Arc::new(|ip| ip != IpAddr::V4(Ipv4Addr::LOCALHOST));
        let served = Served::new(config);
        let mut stream = served.connect();
        let header = &capture("218_tcp_plain")[0].2[..60];
        let _ = stream.write_all(header);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert_eq!(rest, b"");
        // Every reverse flag from a source that may not: nothing comes back.
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(served.receiver.local_addr()).unwrap();
        let datagram = &capture("218_udp_R")[0].2;
        for flags in 0..64_u8 {
            let mut datagram = datagram.clone();
            datagram.resize(1_470, b'0');
            datagram[16] ^= flags << 2;
            datagram[48] ^= flags >> 2;
            socket.send(&datagram).unwrap();
            socket.send(b"9876").unwrap();
        }
        served.refused("not among those");
        socket.set_nonblocking(true).unwrap();
        let mut answer = [0; 2_000];
        assert!(socket.recv(&mut answer).is_err());
        let status = served.settled();
        assert_eq!(
            (status.begun, status.bytes_received, status.bytes_sent),
            (0, 0, 0)
        );
    }
}

#[test]
fn streams_and_time_above_the_caps_are_cut_and_reported() {
    let mut config = config(Dialect::Iperf2, "127.0.0.1:0");
    config.max_streams = 2;
    config.max_duration = Duration::from_millis(300);
    let served = Served::new(config);
    let mut header = capture("218_tcp_plain")[0].2[..60].to_vec();
    header[7] = 3;
    let mut streams: Vec<TcpStream> = (0..2).map(|_| served.connect()).collect();
    for stream in &mut streams {
        stream.write_all(&header).unwrap();
    }
    let deadline = Instant::now() + PATIENCE;
    while served.receiver.status().streams < 2 {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    let mut third = served.connect();
    third.write_all(&header).unwrap();
    let mut rest = Vec::new();
    let _ = third.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    served.refused("2 streams at most");
    for mut stream in streams {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert_eq!(rest.len(), 28, "its ack, then the cut");
    }
    let test = served.test(1);
    assert_eq!(test.plan.streams, 2);
    assert!(
        test.end.remarks[0].contains("0.3 s at most"),
        "{:?}",
        test.end.remarks
    );
}

#[test]
fn vanished_datagram_client_ends_its_test_and_random_ids_get_no_answer() {
    let served = Served::iperf2();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(served.receiver.local_addr()).unwrap();
    let mut seed = 7_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u32
    };
    // A good first datagram, then noise that pretends to be of its flow.
    let first = &capture("218_udp_b1m")[0].2;
    for turn in 0..20_000_u32 {
        let mut datagram = first.clone();
        datagram.resize(200, b'0');
        if turn > 0 {
            datagram[..4].copy_from_slice(&(random() << 1 | turn & 1).to_be_bytes());
            datagram[12..16].copy_from_slice(&(random() << 1).to_be_bytes());
        }
        let _ = socket.send(&datagram);
    }
    // The end of a flow that nobody began.
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let end = &capture("218_udp_b1m")
        .iter()
        .rfind(|(way, ..)| way == "C>S")
        .unwrap()
        .2
        .clone();
    stranger.send_to(end, served.receiver.local_addr()).unwrap();
    let test = served.test(1);
    assert!(
        test.end.remarks[0].contains("vanished"),
        "{:?}",
        test.end.remarks
    );
    for socket in [socket, stranger] {
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut [0; 2_000]).is_err());
    }
    assert_eq!(served.settled().begun, 1);
}

#[test]
fn damaged_headers_harm_nobody() {
    let served = Served::iperf2();
    let names = [
        "218_tcp_plain",
        "218_tcp_R",
        "218_tcp_fulldup",
        "2013_tcp_X",
        "218_tcp_permitkey",
    ];
    let mut seed = 11_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for turn in 0..300 {
        let mut bytes = capture(names[turn % names.len()])[0].2.clone();
        bytes.truncate(80);
        let extremes = [0_u32, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF];
        let at = random(15) * 4;
        if at + 4 <= bytes.len() {
            let value = extremes[random(extremes.len())];
            bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
        }
        let at = random(bytes.len());
        bytes[at] = u8::try_from(random(256)).unwrap();
        let mut stream = served.connect();
        let _ = stream.write_all(&bytes);
        let mut datagram = vec![0; 16];
        datagram.extend(&bytes);
        datagram[3] = 1;
        let _ = socket.send_to(&datagram, served.receiver.local_addr());
        drop(stream);
    }
    // It still serves.
    if has("iperf") {
        assert_eq!(iperf(&served, &["-n", "1M"]), [1 << 20]);
    }
    let begun = Instant::now();
    served.receiver.stop();
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "stop() waits for nobody"
    );
}

#[test]
fn stopping_ends_tests_and_frees_the_port() {
    let served = Served::iperf2();
    let address: SocketAddr = served.receiver.local_addr();
    let mut stream = served.connect();
    stream
        .write_all(&capture("218_tcp_plain")[0].2[..60])
        .unwrap();
    let Served { receiver, told } = served;
    while receiver.status().streams == 0 {
        std::thread::yield_now();
    }
    receiver.stop();
    let ended = told.0.lock().unwrap().iter().any(|event| {
        matches!(event, ReceiverEvent::TestEnded { end, .. } if end.stopped && end.streams[0].bytes == 60)
    });
    assert!(ended, "{told:?}");
    let again = config(Dialect::Iperf2, &address.to_string());
    Receiver::start(again, Arc::new(|_| {})).unwrap().stop();
}

/// Runs `iperf3 -J`; its output.
fn iperf3(served: &Served, arguments: &[&str]) -> Value {
    let port = served.port();
    let mut all = vec!["-c", "127.0.0.1", "-J", "-p", &port];
    all.extend(arguments);
    serde_json::from_str(&client("iperf3", &all)).unwrap()
}

#[test]
fn a_real_iperf3_is_served_in_every_direction() {
    if !has("iperf3") {
        return;
    }
    let served = Served::iperf3();
    for (number, (arguments, direction, sent, received)) in [
        (&["-t", "1"][..], Direction::Receive, 0, 1),
        (&["-n", "5M", "-P", "4"], Direction::Receive, 0, 4),
        (&["-t", "1", "-R"], Direction::Send, 1, 0),
        (&["-n", "3M", "-R"], Direction::Send, 1, 0),
        (&["-t", "1", "--bidir", "-P", "2"], Direction::Both, 2, 2),
        (&["-k", "50"], Direction::Receive, 0, 1),
        (
            &["-t", "1", "-O", "1", "-b", "20M", "--get-server-output"],
            Direction::Receive,
            0,
            1,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let json = iperf3(&served, arguments);
        let test = served.test(number as u64 + 1);
        println!(
            "{arguments:?} {} {:?} {:?}",
            json["end"], test.plan, test.end
        );
        test.is_sane();
        assert_eq!(json["error"], Value::Null);
        assert_eq!(test.plan.direction, direction);
        assert_eq!(
            (
                test.streams(Way::Send).len(),
                test.streams(Way::Receive).len()
            ),
            (sent, received)
        );
        for stream in &test.end.streams {
            assert_eq!(stream.retransmits.is_some(), stream.way == Some(Way::Send));
            // iperf 3 stops counting at the end of the test: what is under way then is counted at one end only.
            let peer = stream.peer_bytes.unwrap();
            assert!(
                peer.abs_diff(stream.bytes) <= stream.bytes / 2 + (16 << 20),
                "{stream:?}"
            );
        }
        if direction == Direction::Receive && !arguments.contains(&"-O") {
            let ours = json["end"]["sum_received"]["bytes"].as_u64().unwrap();
            assert_eq!(ours, test.bytes(Way::Receive));
        }
    }
    assert_eq!(served.refusals(), Vec::<String>::new());
}

#[test]
fn datagrams_of_a_real_iperf3_are_counted_both_ways() {
    if !has("iperf3") {
        return;
    }
    let served = Served::iperf3();
    for (number, (arguments, way)) in [
        (&["-u", "-t", "1"][..], Way::Receive),
        (&["-u", "-t", "1", "-R", "-l", "1000"], Way::Send),
        (
            &["-u", "-t", "1", "-P", "2", "-b", "10M", "-l", "1200"],
            Way::Receive,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let json = iperf3(&served, arguments);
        let test = served.test(number as u64 + 1);
        println!(
            "{arguments:?} {} {:?} {:?}",
            json["end"], test.plan, test.end
        );
        test.is_sane();
        assert_eq!(test.plan.protocol, Protocol::Udp);
        assert!(test.bytes(way) > 0);
        // A busy machine may lose one; both ends say the same.
        let lost = json["end"]["sum"]["lost_packets"].as_u64().unwrap();
        let streams = test.end.streams.iter();
        assert_eq!(streams.map(|end| end.udp.unwrap().lost).sum::<u64>(), lost);
        assert!(lost <= 1, "{lost}");
    }
}

#[test]
fn a_real_iperf3_prints_sane_figures_of_a_test_with_an_omitted_start() {
    if !has("iperf3") {
        return;
    }
    let served = Served::iperf3();
    for (number, more) in [&[][..], &["-R"], &["-u"], &["-u", "-R"], &["--bidir"]]
        .into_iter()
        .enumerate()
    {
        let arguments = [&["-t", "1", "-O", "1", "-b", "8M", "-l", "1000"], more].concat();
        let json = iperf3(&served, &arguments);
        let test = served.test(number as u64 + 1);
        println!("{arguments:?} {} {:?}", json["end"], test.end);
        test.is_sane();
        assert_eq!(test.plan.omit_s.to_bits(), 1.0_f64.to_bits());
        for stream in &test.end.streams {
            // Neither has the start, which lasted as long as the rest.
            assert!(
                stream.bytes > 0 && stream.first >= Some(Duration::from_secs(1)),
                "{stream:?}"
            );
            assert!(stream.peer_bytes.unwrap() > 0, "{stream:?}");
            assert!(test.ticked(stream) > stream.bytes, "{stream:?}");
        }
        if more.contains(&"-u") {
            let udp = &json["end"]["streams"][0]["udp"];
            let packets = udp["packets"].as_u64().unwrap();
            let lost = udp["lost_packets"].as_u64().unwrap();
            // What came after the start, not all of it nor nothing: a busy machine sends late ones at once.
            let whole = test.ticked(&test.end.streams[0]) / 1_000;
            assert!(packets > 0 && packets < whole && lost <= packets, "{udp}");
        } else {
            let whole: u64 = test
                .end
                .streams
                .iter()
                .map(|stream| test.ticked(stream))
                .sum();
            for side in ["sum_sent", "sum_received"] {
                let bytes = json["end"][side]["bytes"].as_u64().unwrap();
                assert!(bytes > 0 && bytes < whole, "{side}: {bytes}");
            }
        }
    }
}

#[test]
fn a_killed_client_leaves_nothing_behind() {
    if !has("iperf") {
        return;
    }
    let served = Served::iperf2();
    let port = served.port();
    for (number, more) in [&["-u"][..], &["-b", "8m"]].into_iter().enumerate() {
        let mut child = std::process::Command::new("iperf")
            .args(["-c", "127.0.0.1", "-p", &port, "-t", "600"])
            .args(more)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        while served.receiver.status().streams == 0 {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let test = served.test(number as u64 + 1);
        assert_eq!(test.end.streams.len(), 1);
        if more.contains(&"-u") {
            assert!(test.end.remarks[0].contains("vanished"), "{:?}", test.end);
        }
        served.settled();
    }
}

#[test]
fn one_iperf3_test_at_a_time_and_a_vanished_one_frees_its_place() {
    let served = Served::iperf3();
    let cookie = |letter: u8| {
        let mut cookie = [letter; 37];
        cookie[36] = 0;
        cookie
    };
    let byte = |stream: &mut TcpStream| {
        let mut byte = [0];
        stream.read_exact(&mut byte).map(|()| byte[0])
    };
    let mut first = served.connect();
    first.write_all(&cookie(b'a')).unwrap();
    assert_eq!(byte(&mut first).unwrap(), 9);
    let mut second = served.connect();
    second.write_all(&cookie(b'b')).unwrap();
    assert_eq!(byte(&mut second).unwrap(), 0xFF);
    served.refused("one at a time");
    // It never sends the rest of its parameters.
    first.write_all(&[0, 0, 1, 0, b'{']).unwrap();
    assert!(byte(&mut first).is_err());
    served.refused("parameters did not come");
    // It claims more than is believed.
    let mut third = served.connect();
    third.write_all(&cookie(b'c')).unwrap();
    assert_eq!(byte(&mut third).unwrap(), 9);
    third.write_all(&[0xFF; 4]).unwrap();
    assert!(byte(&mut third).is_err());
    served.refused("too long");
    // It leaves in the middle of a test.
    served.settled();
    let mut fourth = served.connect();
    fourth.write_all(&cookie(b'd')).unwrap();
    assert_eq!(byte(&mut fourth).unwrap(), 9);
    let params = br#"{"tcp":true,"time":5,"parallel":1,"len":1000}"#;
    fourth
        .write_all(&u32::try_from(params.len()).unwrap().to_be_bytes())
        .unwrap();
    fourth.write_all(params).unwrap();
    assert_eq!(byte(&mut fourth).unwrap(), 10);
    let mut data = served.connect();
    data.write_all(&cookie(b'd')).unwrap();
    assert_eq!(
        (byte(&mut fourth).unwrap(), byte(&mut fourth).unwrap()),
        (1, 2)
    );
    data.write_all(&[b'0'; 5_000]).unwrap();
    drop(fourth);
    let test = served.test(1);
    assert!(
        test.end.remarks[0].contains("vanished"),
        "{:?}",
        test.end.remarks
    );
    served.settled();
    if has("iperf3") {
        iperf3(&served, &["-n", "1M"]);
    }
}
