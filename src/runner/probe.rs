//! The light probe of round trips beside a throughput run: on the idle path before the load, then under it.
//!
//! It runs on a thread of its own. Where ICMP is not permitted, or the peer does not answer it, it half connects to
//! the receiver's port, of which the receiver notices nothing; should one be noticed all the same, since this machine
//! is too busy, it stops. An iperf 3 server would take a connect for its only test, so there none is tried.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Stop;
use super::echo::{Connects, IcmpEchoes, Prober, Round, Timetable, Transport};
use super::throughput::Beside;
use crate::measure::flow::Echo;
use crate::measure::plan::throughput::{Dialect, ThroughputPlan};
use crate::net::clock::{self, Epoch};

/// From one ICMP echo to the next.
const ECHO_INTERVAL: Duration = Duration::from_millis(50);
/// From one TCP connect to the next: each is work for the receiver.
const CONNECT_INTERVAL: Duration = Duration::from_millis(100);
/// Queues may hold a probe for long; more than this is a loss.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Payload of an echo in bytes, ping's default.
const PAYLOAD: usize = 56;
/// A peer is silent that answered none of so many probes for so long.
const ENOUGH: (u32, Duration) = (8, Duration::from_millis(500));
/// Fewer idle round trips than this say too little.
const FEW: usize = 5;
/// The thread looks at least so often whether it is to end.
const TURN: Duration = Duration::from_millis(20);

/// Round trips to the peer of a throughput run, from the moment it is made until it is dropped.
#[derive(Debug)]
pub struct RttProbe {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    load: Option<Epoch>,
}

#[derive(Debug, Default)]
struct Shared {
    ended: AtomicBool,
    settled: Mutex<Settled>,
}

#[derive(Debug, Default)]
struct Settled {
    rounds: Vec<Round>,
    /// Why there are none.
    why: Option<String>,
}

impl RttProbe {
    /// Begins to probe the peer of this plan; otherwise says in a sentence why no round trips can be had.
    pub fn start(plan: &ThroughputPlan, address: SocketAddr) -> Result<Self, String> {
        let ways = Ways {
            address,
            bind: plan.bind,
            may_connect: plan.dialect == Dialect::Iperf2,
        };
        let first = ways.icmp().or_else(|why| ways.tcp(&why))?;
        let shared = Arc::new(Shared::default());
        let on = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("round-trips".into())
            .stack_size(256 * 1024)
            .spawn(move || probe(&ways, first, &on))
            .map_err(|error| format!("No round trips: the system gave no thread ({error})."))?;
        Ok(Self {
            shared,
            thread: Some(thread),
            load: None,
        })
    }

    /// Waits while the path is idle, for so long; on a machine so busy that hardly a probe was sent meanwhile, up
    /// to three times as long. A stop ends it, and a peer that is silent.
    pub fn idle(&self, time: Duration, stop: &Stop) {
        let begun = clock::now();
        while !stop.is_stopped() {
            let passed = clock::now().saturating_duration_since(begun);
            let settled = self.settled();
            let answered = settled.rounds.iter().filter(|round| round.rtt.is_some());
            let is_enough = answered.count() >= FEW;
            if settled.why.is_some() || passed >= time && (is_enough || passed >= time * 3) {
                return;
            }
            drop(settled);
            std::thread::sleep(TURN);
        }
    }

    /// Why there are no round trips, where there are none.
    pub fn remark(&self) -> Option<String> {
        self.settled().why.clone()
    }

    fn settled(&self) -> std::sync::MutexGuard<'_, Settled> {
        let settled = self.shared.settled.lock();
        settled.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Beside for RttProbe {
    fn begin(&mut self, load: Epoch) {
        self.load = Some(load);
    }

    fn take(&mut self) -> Vec<Echo> {
        // Before the load begins nobody knows how long before it an echo was sent.
        let Some(load) = self.load else {
            return Vec::new();
        };
        let rounds = std::mem::take(&mut self.settled().rounds);
        rounds.iter().map(|round| echo(round, load)).collect()
    }
}

impl Drop for RttProbe {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It has nothing left to say.
            let _ = thread.join();
        }
    }
}

/// The round trip as a run tells it that begins with its load.
fn echo(round: &Round, load: Epoch) -> Echo {
    let before = load.before(round.sent);
    // An answer that the load may have met on its way is not an idle one.
    let idle = !before.is_zero() && round.rtt.is_none_or(|rtt| rtt <= before);
    Echo {
        seq: round.number,
        at: if idle { before } else { load.since(round.sent) },
        rtt: round.rtt,
        ttl: round.ttl,
        duplicates: round.duplicates,
        loaded: !idle,
    }
}

/// How the peer may be probed.
struct Ways {
    address: SocketAddr,
    bind: Option<IpAddr>,
    may_connect: bool,
}

impl Ways {
    fn icmp(&self) -> Result<(Prober, bool), String> {
        let echoes = IcmpEchoes::open(self.address, self.bind, PAYLOAD)
            .map_err(|error| error.to_string())?;
        Ok((prober(Box::new(echoes), ECHO_INTERVAL), true))
    }

    /// Connects, after what went before did not work for this reason.
    fn tcp(&self, why: &str) -> Result<(Prober, bool), String> {
        if !self.may_connect {
            return Err(format!(
                "No round trips were measured beside it: a TCP connect would take an iperf 3 server's only place. {why}"
            ));
        }
        let connects = Connects::new(self.address, self.bind);
        Ok((prober(Box::new(connects), CONNECT_INTERVAL), false))
    }
}

fn prober(transport: Box<dyn Transport + Send>, interval: Duration) -> Prober {
    Prober::new(
        transport,
        Timetable {
            first: clock::now(),
            interval,
            count: None,
            timeout: TIMEOUT,
        },
    )
}

/// Probes until it is told to end; a peer that is silent one way is tried the other way, and then left alone.
fn probe(ways: &Ways, first: (Prober, bool), shared: &Shared) {
    let (mut prober, mut by_icmp) = first;
    let mut silent_since = None;
    let mut is_heard = false;
    while !shared.ended.load(Ordering::Acquire) {
        if let Err(error) = prober.turn(clock::now() + TURN) {
            shared.fall_silent(format!("No round trips were measured beside it: {error}."));
            return;
        }
        if prober.is_seen() {
            shared.add(prober.take());
            shared.fall_silent(
                "Round trips were measured for a part of the run only: this machine is too busy to keep its probes from the receiver's notice.".to_owned(),
            );
            return;
        }
        let (sent, answered) = prober.counts();
        is_heard |= answered > 0;
        if is_heard {
            shared.add(prober.take());
            continue;
        }
        if sent < ENOUGH.0 {
            continue;
        }
        let since = *silent_since.get_or_insert_with(clock::now);
        if clock::now().saturating_duration_since(since) < ENOUGH.1 {
            continue;
        }
        let why = if by_icmp {
            "The peer answers no ICMP echoes."
        } else {
            "The peer answers neither ICMP echoes nor TCP connects."
        };
        let next = if by_icmp {
            ways.tcp(why)
        } else {
            Err(format!("No round trips were measured beside it. {why}"))
        };
        match next {
            Ok(other) => {
                (prober, by_icmp) = other;
                silent_since = None;
            }
            Err(why) => {
                shared.fall_silent(why);
                return;
            }
        }
    }
}

impl Shared {
    fn add(&self, rounds: Vec<Round>) {
        if !rounds.is_empty() {
            let settled = self.settled.lock();
            let mut settled = settled.unwrap_or_else(PoisonError::into_inner);
            settled.rounds.extend(rounds);
        }
    }

    fn fall_silent(&self, why: String) {
        let settled = self.settled.lock();
        settled.unwrap_or_else(PoisonError::into_inner).why = Some(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_before_the_load_are_idle_unless_it_overtook_them() {
        let load = Epoch::after(Duration::from_hours(1));
        let start = load.start();
        let ms = Duration::from_millis;
        let before = |millis| start.checked_sub(ms(millis)).unwrap();
        let round = |sent, rtt| Round {
            number: 1,
            sent,
            rtt,
            ttl: None,
            duplicates: 0,
        };
        for (sent, rtt, at, loaded) in [
            (before(1_500), Some(ms(3)), ms(1_500), false),
            (before(100), None, ms(100), false),
            (before(2), Some(ms(30)), ms(0), true),
            (start, Some(ms(1)), ms(0), true),
            (start + ms(700), None, ms(700), true),
        ] {
            let echo = echo(&round(sent, rtt), load);
            assert_eq!((echo.at, echo.loaded, echo.rtt), (at, loaded, rtt));
        }
    }
}
