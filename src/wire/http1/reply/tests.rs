//! Every framing rule, every split, every cut, and seeded damage.

use super::*;
use crate::wire::http1::Naming;

/// How a reply ended, whatever the split of its bytes.
#[derive(Clone, Debug, PartialEq)]
struct Result {
    step: Step,
    cut: Cut,
    status: Option<u16>,
    header: u32,
    content: u64,
    footer: u32,
    kept: bool,
    said: Said,
}

fn names() -> Names {
    Names::new(
        Naming::Header("X-Served-By".into()),
        Naming::Header("X-Region".into()),
    )
}

/// Reads pieces until the reply is over; `Done` holds the count over all pieces.
fn read(method: &str, pieces: &[&[u8]]) -> Result {
    let mut decoder = Decoder::new(method);
    let mut names = names();
    let mut before = 0;
    let mut step = Step::More;
    for piece in pieces {
        step = decoder.read(piece, &mut names);
        if let Step::Done(used) = step {
            step = Step::Done(before + used);
        }
        if step != Step::More {
            break;
        }
        before += piece.len();
    }
    Result {
        step,
        cut: decoder.end(),
        status: decoder.status(),
        header: decoder.header_bytes(),
        content: decoder.content_bytes(),
        footer: decoder.footer_bytes(),
        kept: decoder.keep_alive(),
        said: decoder.said,
    }
}

fn check(method: &str, reply: &str, step: Step, cut: Cut, content: u64) -> Result {
    let whole = read(method, &[reply.as_bytes()]);
    assert_eq!(
        (whole.step, whole.cut, whole.content),
        (step, cut, content),
        "{reply:?}"
    );
    whole
}

const CORPUS: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Served-By: a\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.0 200 OK\r\n\r\nuntil the end",
    "HTTP/1.1 204 No Content\r\nServer-Timing: queue;dur=1\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n",
    "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 101 Switching\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "HTTP/2 200\r\n\r\n",
    "SSH-2.0-OpenSSH_9.2\r\n",
    "\r\nHTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 2x0 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nBad Header: 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\r\n\n",
];

#[test]
fn content_ends_where_the_head_says() {
    let whole = check(
        "GET",
        CORPUS[0],
        Step::Done(CORPUS[0].len()),
        Cut::Complete,
        5,
    );
    assert_eq!(whole.said.served_by.as_deref(), Some("a"));
    assert!(whole.kept);
    let more = check("GET", CORPUS[1], Step::Done(43), Cut::Complete, 5);
    assert_eq!(more.header, 38);
    assert!(!check("GET", CORPUS[2], Step::More, Cut::Complete, 13).kept);
    let chunked = check(
        "GET",
        CORPUS[6],
        Step::Done(CORPUS[6].len()),
        Cut::Complete,
        5,
    );
    assert_eq!(chunked.footer, 6);
    check(
        "GET",
        CORPUS[13],
        Step::Done(CORPUS[13].len()),
        Cut::Complete,
        5,
    );
}

#[test]
fn replies_without_content_do_not_wait_for_any() {
    check(
        "GET",
        CORPUS[3],
        Step::Done(CORPUS[3].len()),
        Cut::Complete,
        0,
    );
    check(
        "GET",
        CORPUS[4],
        Step::Done(CORPUS[4].len()),
        Cut::Complete,
        0,
    );
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n";
    check("HEAD", head, Step::Done(head.len()), Cut::Complete, 0);
    check("GET", head, Step::More, Cut::InContent(Some(500)), 0);
}

#[test]
fn interim_replies_are_skipped_and_counted_as_head() {
    let whole = check(
        "GET",
        CORPUS[5],
        Step::Done(CORPUS[5].len()),
        Cut::Complete,
        2,
    );
    assert_eq!(whole.status, Some(200));
    assert_eq!(whole.header as usize, CORPUS[5].len() - 2);
    let endless = "HTTP/1.1 100 Continue\r\n\r\n".repeat(11);
    let step = read("GET", &[endless.as_bytes()]).step;
    assert_eq!(step, Step::Invalid("more than 10 interim replies"));
}

#[test]
fn what_is_not_http_is_invalid_at_once() {
    for index in [11, 12, 15, 16, 17, 18, 19, 20, 22] {
        let step = read("GET", &[CORPUS[index].as_bytes()]).step;
        assert!(matches!(step, Step::Invalid(_)), "{:?}", CORPUS[index]);
    }
    assert_eq!(read("GET", &[CORPUS[21].as_bytes()]).step, Step::TooBig);
    assert!(matches!(read("GET", &[b"X"]).step, Step::Invalid(_)));
}

#[test]
fn heads_are_bounded() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(HEAD_LIMIT));
    assert!(matches!(
        read("GET", &[long.as_bytes()]).step,
        Step::Invalid(_)
    ));
    let never = format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(HEAD_LIMIT));
    assert!(matches!(
        read("GET", &[never.as_bytes()]).step,
        Step::Invalid(_)
    ));
    let head = |lines: usize| format!("HTTP/1.1 204 No\r\n{}\r\n", "A: b\r\n".repeat(lines));
    assert!(matches!(
        read("GET", &[head(100).as_bytes()]).step,
        Step::Done(_)
    ));
    assert!(matches!(
        read("GET", &[head(101).as_bytes()]).step,
        Step::Invalid(_)
    ));
}

#[test]
fn content_without_end_stops_at_its_limit() {
    let mut decoder = Decoder::new("GET");
    let mut names = names();
    assert_eq!(
        decoder.read(b"HTTP/1.1 200 OK\r\n\r\n", &mut names),
        Step::More
    );
    let piece = vec![0; 1024 * 1024];
    for _ in 0..64 {
        assert_eq!(decoder.read(&piece, &mut names), Step::More);
    }
    assert_eq!(decoder.read(b"x", &mut names), Step::TooBig);
}

#[test]
fn every_split_gives_the_same_result() {
    for reply in CORPUS {
        let bytes = reply.as_bytes();
        let whole = read("GET", &[bytes]);
        for first in 0..=bytes.len() {
            let split = read("GET", &[&bytes[..first], &bytes[first..]]);
            same(&whole, &split, reply);
            for second in first..=bytes.len() {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                same(&whole, &read("GET", &pieces), reply);
            }
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        same(&whole, &read("GET", &single), reply);
    }
}

/// Equal, but that an invalid one may be noticed before or after its last counted byte.
fn same(whole: &Result, split: &Result, reply: &str) {
    if matches!(whole.step, Step::Invalid(_)) {
        assert_eq!(whole.step, split.step, "{reply:?}");
    } else {
        assert_eq!(whole, split, "{reply:?}");
    }
}

#[test]
fn every_cut_is_told_apart() {
    for reply in &CORPUS[..11] {
        let bytes = reply.as_bytes();
        for length in 0..bytes.len() {
            let cut = read("GET", &[&bytes[..length]]);
            if length == 0 {
                assert_eq!(cut.cut, Cut::Nothing);
            } else {
                assert_ne!(cut.cut, Cut::Nothing);
                assert!(!matches!(cut.step, Step::Invalid(_)), "{reply:?} {length}");
            }
        }
    }
}

#[test]
fn damaged_replies_never_panic_and_every_split_agrees() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for _ in 0..100_000 {
        let mut bytes = CORPUS[random(CORPUS.len())].as_bytes().to_vec();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            match random(4) {
                0 => bytes[at] = u8::try_from(random(256)).unwrap(),
                1 => bytes[at] ^= 1 << random(8),
                2 => {
                    bytes.remove(at);
                }
                _ => bytes.insert(at, b"\r\n:; 0f,"[random(8)]),
            }
            if bytes.is_empty() {
                bytes.push(b'H');
            }
        }
        let whole = read("GET", &[&bytes]);
        let at = random(bytes.len());
        let split = read("GET", &[&bytes[..at], &bytes[at..]]);
        same(&whole, &split, &String::from_utf8_lossy(&bytes));
    }
}
