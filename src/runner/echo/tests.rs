//! The account of probes, with a network that does as it is told.

use super::*;

/// What the network does with a probe; times count from its sending.
#[derive(Clone, Copy)]
enum Does {
    Answer(Duration),
    AnswerThrice,
    Nothing,
    Report,
    NotSend,
}

struct Script {
    does: Vec<Does>,
    heard: Vec<Heard>,
}

impl Transport for Script {
    fn send(&mut self, seq: u16) -> io::Result<()> {
        let answer = |took: Duration| Heard::Answer {
            seq,
            at: clock::now() + took,
            took: None,
            ttl: Some(64),
        };
        match self.does[usize::from(seq) - 1] {
            Does::Answer(took) => self.heard.push(answer(took)),
            Does::AnswerThrice => self.heard.extend([
                answer(Duration::ZERO),
                answer(Duration::ZERO),
                answer(Duration::ZERO),
            ]),
            Does::Nothing => {}
            Does::Report => self.heard.push(Heard::Trouble {
                seq,
                trouble: Some(Trouble::Host),
                sentence: "10.0.0.9 reports: host unreachable".into(),
            }),
            Does::NotSend => return Err(io::Error::from_raw_os_error(libc::EPERM)),
        }
        Ok(())
    }

    fn wait(&self, most: Duration) -> io::Result<()> {
        std::thread::sleep(most);
        Ok(())
    }

    fn hear(&mut self, heard: &mut Vec<Heard>) -> io::Result<()> {
        heard.append(&mut self.heard);
        Ok(())
    }

    fn give_up(&mut self, _seq: u16) {}
}

const TIMEOUT: Duration = Duration::from_millis(20);

fn prober(does: &[Does]) -> Prober {
    let script = Script {
        does: does.to_vec(),
        heard: Vec::new(),
    };
    Prober::new(
        Box::new(script),
        Timetable {
            first: clock::now(),
            interval: Duration::from_millis(1),
            count: Some(u32::try_from(does.len()).unwrap()),
            timeout: TIMEOUT,
        },
    )
}

fn finish(prober: &mut Prober) -> Vec<Round> {
    let mut rounds = Vec::new();
    while !prober.is_done() {
        prober.turn(clock::now() + TIMEOUT).unwrap();
        rounds.extend(prober.take());
    }
    rounds.sort_by_key(|round| round.number);
    rounds
}

#[test]
fn every_probe_has_one_result() {
    let millis = Duration::from_millis;
    let mut prober = prober(&[
        Does::Answer(millis(9)),
        Does::Nothing,
        Does::AnswerThrice,
        Does::Report,
        Does::Answer(TIMEOUT * 2),
        Does::NotSend,
        Does::Answer(millis(1)),
    ]);
    let rounds = finish(&mut prober);
    let numbers: Vec<u32> = rounds.iter().map(|round| round.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    let answered: Vec<bool> = rounds.iter().map(|round| round.rtt.is_some()).collect();
    assert_eq!(answered, [true, false, true, false, false, false, true]);
    assert_eq!(prober.counts(), (7, 3));
    assert!(rounds[0].rtt.unwrap() >= millis(9));
    assert_eq!(rounds[2].duplicates, 2);
    let remarks = prober.remarks().join(" ");
    for words in [
        "10.0.0.9 reports: host unreachable.",
        "This machine did not send (EPERM",
        "1 answer came after the timeout of 0.02 s and counts as lost",
    ] {
        assert!(remarks.contains(words), "{remarks}");
    }
}

#[test]
fn what_comes_after_a_probe_was_taken_changes_no_figure() {
    let mut prober = prober(&[Does::Nothing, Does::Answer(Duration::ZERO)]);
    finish(&mut prober);
    for seq in [1, 1, 2, 2, 3, 0, u16::MAX] {
        prober.answer(seq, clock::now(), None, None);
    }
    assert_eq!(prober.take(), []);
    assert_eq!(prober.counts(), (2, 1));
    assert_eq!((prober.late, prober.late_duplicates()), (1, 2));
}

#[test]
fn the_kernels_own_measure_counts_where_it_is_shorter() {
    let mut prober = prober(&[Does::Nothing, Does::Nothing]);
    prober.turn(clock::now()).unwrap();
    let at = clock::now() + Duration::from_millis(5);
    prober.answer(1, at, Some(Duration::from_micros(70)), None);
    assert_eq!(prober.take()[0].rtt, Some(Duration::from_micros(70)));
}

#[test]
fn numbers_beyond_sixteen_bits_are_told_apart() {
    let mut prober = prober(&[Does::Nothing]);
    prober.sent = 0x1_0005;
    prober.slot = 1;
    for _ in 0..10 {
        prober.entries.push_back(Entry {
            sent: clock::now(),
            state: State::Waiting,
            rtt: None,
            ttl: None,
            duplicates: 0,
            taken: false,
        });
    }
    prober.open = 10;
    assert_eq!(prober.latest(5).map(|(number, _)| number), Some(0x1_0005));
    assert_eq!(prober.latest(0).map(|(number, _)| number), Some(0x1_0000));
    assert_eq!(
        prober.latest(0xFFFF).map(|(number, _)| number),
        Some(0xFFFF)
    );
    assert_eq!(
        prober.latest(0xFFFC).map(|(number, _)| number),
        Some(0xFFFC)
    );
    assert!(prober.latest(0xFFFB).is_none());
    assert!(prober.latest(6).is_none());
}
