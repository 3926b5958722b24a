//! A path check: the interface towards a peer, and the largest packet that reaches the peer whole.
//!
//! Probes must not be cut into fragments and are tried in sizes until the boundary is known to the byte: as ICMP
//! echoes where they are permitted and answered, otherwise as datagrams to a port where nothing listens, which the
//! peer reports. Who says "too big", and what would fit, tells a smaller MTU from a black hole.

mod datagrams;
mod search;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::echo::{Heard, IcmpEchoes, Transport};
use super::{RunError, Stop};
use crate::measure::plan::path::PathPlan;
use crate::measure::summary::flow::{InterfaceFigures, PathProbe, PathSummary};
use crate::net::clock;
use crate::net::connect::{self, describe};
use crate::net::icmp::ProbeError;
use crate::net::interfaces::{self, Interface};
use crate::wire::icmp::{ECHO_HEADER, Trouble, Version};
use datagrams::Datagrams;
use search::{Found, Outcome, Search};

/// A path check to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathJob {
    /// What to do.
    pub plan: PathPlan,
    /// The peer: resolved once, checked once. Its port does not matter.
    pub address: SocketAddr,
}

/// How often a size is sent before it counts as unanswered.
const TRIES: u32 = 4;
/// The longest wait for an answer.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// A stop is seen within this time.
const TURN: Duration = Duration::from_millis(50);
/// MTUs that are often met: Ethernet, Google Cloud, DSL, tunnels, jumbo frames.
const USUAL: [u32; 9] = [
    1_500, 1_460, 8_896, 9_000, 1_492, 1_480, 1_420, 1_400, 1_280,
];

/// Makes the check and returns once the boundary is known; `sink` gets each size with its result, on this thread.
///
/// A stop leaves the path MTU unknown.
pub fn run(
    job: &PathJob,
    stop: &Stop,
    sink: &mut dyn FnMut(PathProbe),
) -> Result<PathSummary, RunError> {
    let own = interfaces::interface_to(job.address);
    let own_mtu = own.as_ref().and_then(|own| own.mtu);
    let mut summary = PathSummary {
        interface: own.map(|own| own.name),
        interface_mtu: own_mtu,
        expected_mtu: job.plan.expect_mtu,
        address: Some(job.address.ip().to_string()),
        interfaces: interfaces::interfaces().into_iter().map(figures).collect(),
        ..PathSummary::default()
    };
    let mut found = Found::Nothing;
    match IcmpEchoes::open_whole(job.address) {
        Ok(echoes) => {
            summary.method = Some("icmp".to_owned());
            found = Check::new(job, own_mtu, stop, echoes).run(&mut summary, sink)?;
        }
        Err(ProbeError::NotPermitted { .. }) => {}
        Err(error) => return Err(RunError::Probe(error)),
    }
    if found == Found::Nothing && !stop.is_stopped() {
        let datagrams = Datagrams::open(job.address).map_err(RunError::Probe)?;
        found = Check::new(job, own_mtu, stop, datagrams).run(&mut summary, sink)?;
        summary.method = Some("udp".to_owned());
    }
    settle(&mut summary, found, stop.is_stopped());
    Ok(summary)
}

/// Writes what was found into the figures.
fn settle(summary: &mut PathSummary, found: Found, stopped: bool) {
    match found {
        _ if stopped => summary
            .remarks
            .push("It was stopped before the boundary was known.".to_owned()),
        Found::Nothing => {}
        Found::Mtu { bytes, black_hole } => {
            summary.path_mtu = Some(bytes);
            summary.black_hole = Some(black_hole);
        }
        Found::Vanished(bytes) => summary.remarks.push(format!(
            "Sizes up to {bytes} bytes were answered, and then none any more: the peer or the path went away."
        )),
    }
    summary.ok = summary
        .expected_mtu
        .zip(summary.path_mtu)
        .map(|(expected, found)| expected == found);
}

fn figures(interface: Interface) -> InterfaceFigures {
    InterfaceFigures {
        name: interface.name,
        mtu: interface.mtu,
        addresses: interface
            .addresses
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

/// What sends probes of any size, told apart by their numbers.
trait Probes {
    /// Sends one whose payload has so many bytes.
    fn send(&mut self, seq: u16, payload: usize) -> std::io::Result<()>;
    /// Waits until something may have come, at most so long.
    fn wait(&self, most: Duration) -> std::io::Result<()>;
    /// Everything that has come.
    fn hear(&mut self, heard: &mut Vec<Heard>) -> std::io::Result<()>;
    /// The shortest wait for an answer that makes sense.
    fn patience(&self) -> Duration;
}

impl Probes for IcmpEchoes {
    fn send(&mut self, seq: u16, payload: usize) -> std::io::Result<()> {
        self.send_sized(seq, payload)
    }

    fn wait(&self, most: Duration) -> std::io::Result<()> {
        Transport::wait(self, most)
    }

    fn hear(&mut self, heard: &mut Vec<Heard>) -> std::io::Result<()> {
        Transport::hear(self, heard)
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(150)
    }
}

/// The search, carried out by one kind of probes.
struct Check<'c, T> {
    probes: T,
    stop: &'c Stop,
    search: Search,
    /// Bytes of the headers before a probe's payload.
    headers: u32,
    own_mtu: Option<u32>,
    seq: u16,
    /// Size and time of what was sent, by number.
    sent: HashMap<u16, (u32, Instant)>,
    wait: Duration,
    remarks: Vec<String>,
}

impl<'c, T: Probes> Check<'c, T> {
    fn new(job: &PathJob, own_mtu: Option<u32>, stop: &'c Stop, probes: T) -> Self {
        let version = Version::towards(job.address.ip());
        let (least, largest) = match version {
            Version::V4 => (68, 65_535),
            Version::V6 => (1_280, 65_575),
        };
        let guesses: Vec<u32> = job.plan.expect_mtu.into_iter().chain(USUAL).collect();
        Self {
            probes,
            stop,
            search: Search::new(least, own_mtu.unwrap_or(largest).min(largest), &guesses),
            headers: u32::try_from(version.ip_header() + ECHO_HEADER).unwrap_or(0),
            own_mtu,
            seq: 0,
            sent: HashMap::new(),
            wait: LONGEST_WAIT,
            remarks: Vec::new(),
        }
    }

    fn run(
        mut self,
        summary: &mut PathSummary,
        sink: &mut dyn FnMut(PathProbe),
    ) -> Result<Found, RunError> {
        while let Some(size) = self.search.next() {
            let outcome = self.attempt(size).map_err(RunError::System)?;
            if self.stop.is_stopped() {
                break;
            }
            sink(figure(size, outcome));
            self.search.learn(size, outcome);
        }
        let tried = self.search.tried();
        summary.probes = tried.map(|(size, outcome)| figure(size, outcome)).collect();
        for remark in self.remarks {
            if !summary.remarks.contains(&remark) {
                summary.remarks.push(remark);
            }
        }
        Ok(self.search.found())
    }

    /// Sends a size until something is known of it.
    fn attempt(&mut self, size: u32) -> std::io::Result<Outcome> {
        let payload = size.saturating_sub(self.headers) as usize;
        for _ in 0..TRIES {
            self.seq = self.seq.wrapping_add(1);
            self.sent.insert(self.seq, (size, clock::now()));
            match self.probes.send(self.seq, payload) {
                Ok(()) => {}
                Err(error) if connect::is_too_large(&error) => {
                    return Ok(Outcome::TooBig {
                        named: self.own_mtu.filter(|own| *own < size),
                    });
                }
                Err(error) => {
                    self.remark(format!("This machine did not send ({}).", describe(&error)));
                    continue;
                }
            }
            if let Some(outcome) = self.listen(size)? {
                return Ok(outcome);
            }
            if self.stop.is_stopped() {
                break;
            }
        }
        Ok(Outcome::NoAnswer)
    }

    /// Waits for what comes of a size; `None` when nothing does in time.
    fn listen(&mut self, size: u32) -> std::io::Result<Option<Outcome>> {
        let end = clock::now() + self.wait.max(self.probes.patience());
        let mut heard = Vec::new();
        loop {
            let left = end.saturating_duration_since(clock::now());
            self.probes.wait(left.min(TURN))?;
            // Read before listening, so that nothing is missed that is there in time.
            let now = clock::now();
            self.probes.hear(&mut heard)?;
            let mut outcome = None;
            let mut is_refused = false;
            for one in heard.drain(..) {
                match self.understand(one) {
                    Some((of, told)) if of == size => outcome = outcome.or(Some(told)),
                    // Late, but true.
                    Some((of, told)) => self.search.learn(of, told),
                    None => is_refused = true,
                }
            }
            if outcome.is_some() || is_refused || now >= end || self.stop.is_stopped() {
                return Ok(outcome);
            }
        }
    }

    /// Which size was heard of, and what; `None` for trouble that says nothing of sizes.
    fn understand(&mut self, heard: Heard) -> Option<(u32, Outcome)> {
        match heard {
            Heard::Answer { seq, at, .. } => {
                let (size, sent) = *self.sent.get(&seq)?;
                let rtt = at.saturating_duration_since(sent);
                self.wait = (rtt * 8).min(LONGEST_WAIT);
                let rtt_ms = rtt.as_secs_f64() * 1e3;
                Some((size, Outcome::Answered { rtt_ms }))
            }
            Heard::Trouble {
                seq,
                trouble: Some(Trouble::TooBig { mtu }),
                ..
            } => {
                let (size, _) = *self.sent.get(&seq)?;
                Some((size, Outcome::TooBig { named: mtu }))
            }
            Heard::Trouble { sentence, .. } => {
                self.remark(format!("{sentence}."));
                None
            }
        }
    }

    fn remark(&mut self, sentence: String) {
        if !self.remarks.contains(&sentence) {
            self.remarks.push(sentence);
        }
    }
}

fn figure(size: u32, outcome: Outcome) -> PathProbe {
    let (result, rtt_ms, named_mtu) = match outcome {
        Outcome::Answered { rtt_ms } => ("answered", Some(rtt_ms), None),
        Outcome::TooBig { named } => ("too_big", None, named),
        Outcome::NoAnswer => ("no_answer", None, None),
    };
    PathProbe {
        size_bytes: size,
        result: result.to_owned(),
        rtt_ms,
        named_mtu,
    }
}
