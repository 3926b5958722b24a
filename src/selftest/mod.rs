//! The self-test: this machine's own generator, held against truths that it makes itself on loopback.

mod server;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::measure::fold::{End, Fold, Measured};
use crate::measure::plan::throughput::{Dialect, ThroughputPlan};
use crate::measure::plan::{Caps, Plan};
use crate::measure::selftest::{
    Delay, LoopbackTcp, Search, SelfTest, Strength, StrengthStep, Timer,
};
use crate::measure::summary::{RateSummary, Summary};
use crate::net::{clock, environment};
use crate::receiver::{Receiver, ReceiverConfig};
use crate::runner::probe::RttProbe;
use crate::runner::throughput::{self, Beside, FlowJob};
use crate::runner::{self, Job, Naming, Stop, Target};
use server::Server;

/// How far a self-test is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// What it does now, in a few words.
    pub doing: &'static str,
    /// Share done, 0 to 1.
    pub done: f64,
    /// Seconds still to go at most.
    pub left_s: f64,
}

/// Why there is no result.
#[derive(Debug)]
pub enum SelfTestError {
    /// Somebody stopped it.
    Stopped,
    /// The server of known delays could not be started.
    Server(std::io::Error),
}

impl std::fmt::Display for SelfTestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => {
                f.write_str("The self-test was stopped before its end; nothing was kept.")
            }
            Self::Server(error) => write!(
                f,
                "The self-test's own server could not be started on 127.0.0.1 ({error})."
            ),
        }
    }
}

impl std::error::Error for SelfTestError {}

/// How long each part takes.
struct Lengths {
    timer_s: f64,
    /// One step of a search, and all of them at most.
    step_s: f64,
    search_s: f64,
    /// Bounds nearer than this ratio end a search.
    fine: f64,
    delay_s: f64,
    idle_s: f64,
    tcp_s: f64,
}

const WHOLE: Lengths = Lengths {
    timer_s: 3.0,
    step_s: 0.5,
    search_s: 7.0,
    fine: 1.15,
    delay_s: 1.0,
    idle_s: 1.0,
    tcp_s: 3.0,
};

const QUICK: Lengths = Lengths {
    timer_s: 0.5,
    step_s: 0.15,
    search_s: 1.5,
    fine: 1.5,
    delay_s: 0.3,
    idle_s: 0.3,
    tcp_s: 0.6,
};

impl Lengths {
    const fn of(quick: bool) -> Self {
        if quick { QUICK } else { WHOLE }
    }

    /// Seconds of each part at most, in their order.
    fn parts(&self) -> [f64; 5] {
        [
            self.timer_s,
            self.search_s,
            self.search_s,
            self.delay_s * DELAYS.len() as f64,
            self.idle_s + self.tcp_s,
        ]
    }
}

/// How long a self-test takes at most, about, in s.
pub fn expected_s(quick: bool) -> f64 {
    Lengths::of(quick).parts().iter().sum()
}

/// Points of the timer's grid per s.
const GRID_PER_S: f64 = 1_000.0;
/// Delays in ms and how many replies a second are asked for.
const DELAYS: [(u32, f64); 3] = [(1, 200.0), (10, 100.0), (100, 50.0)];
/// Rates between which the search looks, per s: its start, the lowest, the highest.
const NEW: (f64, f64, f64) = (1_000.0, 125.0, 64_000.0);
const KEPT: (f64, f64, f64) = (1_000.0, 125.0, 128_000.0);

/// Makes a self-test on the calling thread and those that it starts; tells how far it is.
///
/// # Errors
/// It was stopped, or its server could not be started. A part that fails leaves a remark instead.
pub fn run(
    quick: bool,
    stop: &Stop,
    tell: &mut dyn FnMut(Step),
) -> Result<SelfTest, SelfTestError> {
    let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
    let mut course = Course {
        lengths: Lengths::of(quick),
        server: Server::start().map_err(SelfTestError::Server)?,
        stop,
        tell,
        passed_s: 0.0,
        whole_s: expected_s(quick),
        test: SelfTest {
            quick,
            environment: environment::environment(Some(loopback)),
            ..SelfTest::default()
        },
    };
    for (part, seconds) in course.lengths.parts().into_iter().enumerate() {
        match part {
            0 => course.timer(),
            1 => course.new_connections(),
            2 => course.kept_connections(),
            3 => course.delays(),
            _ => course.tcp(),
        }
        if stop.is_stopped() {
            return Err(SelfTestError::Stopped);
        }
        course.passed_s += seconds;
    }
    course.say_if_busy();
    course.tell("done", 0.0);
    Ok(course.test)
}

/// A self-test under way.
struct Course<'a> {
    lengths: Lengths,
    server: Server,
    stop: &'a Stop,
    tell: &'a mut dyn FnMut(Step),
    /// Planned seconds of the parts that are over.
    passed_s: f64,
    whole_s: f64,
    test: SelfTest,
}

impl Course<'_> {
    /// Tells where it is, `into_s` seconds into a part.
    fn tell(&mut self, doing: &'static str, into_s: f64) {
        let at = (self.passed_s + into_s).min(self.whole_s);
        (self.tell)(Step {
            doing,
            done: at / self.whole_s,
            left_s: self.whole_s - at,
        });
    }

    /// Says that other programs had the CPUs before it began: the figures are those of a busy machine.
    fn say_if_busy(&mut self) {
        let environment = &self.test.environment;
        if let (Some(load), Some(cpus)) = (environment.load_before, environment.cpus)
            && load > f64::from(cpus) / 2.0
        {
            let why = format!(
                "a load of {load:.1} on {cpus} CPUs before it began; on an idle one it may be more exact and stronger"
            );
            self.remark("The machine was busy", &why);
        }
    }

    fn remark(&mut self, what: &str, why: &str) {
        self.test.remarks.push(format!("{what}: {why}"));
    }

    fn timer(&mut self) {
        self.tell("timer on a perfect grid", 0.0);
        match self.send(0, GRID_PER_S, self.lengths.timer_s, Connections::Kept) {
            Ok(summary) => {
                self.test.timer = Some(Timer {
                    rate_per_s: GRID_PER_S,
                    lateness_ms: summary.lateness_ms,
                });
            }
            Err(why) => self.remark("Timer", &why),
        }
    }

    fn new_connections(&mut self) {
        self.test.new_connections =
            self.search("highest rate of new connections", NEW, Connections::New);
    }

    fn kept_connections(&mut self) {
        self.test.kept_connections = self.search(
            "highest rate over kept connections",
            KEPT,
            Connections::Kept,
        );
    }

    fn search(
        &mut self,
        doing: &'static str,
        (start, least, most): (f64, f64, f64),
        connections: Connections,
    ) -> Option<Strength> {
        let begun = clock::now();
        let mut search = Search::new(start, least, most, self.lengths.fine);
        let mut steps = Vec::new();
        while let Some(rate) = search.next() {
            let passed = clock::now().saturating_duration_since(begun).as_secs_f64();
            if self.stop.is_stopped() || passed + self.lengths.step_s > self.lengths.search_s {
                break;
            }
            self.tell(doing, passed);
            match self.send(0, rate, self.lengths.step_s, connections) {
                Ok(summary) => {
                    let step = StrengthStep::judge(rate, &summary);
                    search.record(step.passed);
                    steps.push(step);
                }
                Err(why) => {
                    self.remark("Search", &why);
                    return None;
                }
            }
        }
        Some(Strength {
            highest_per_s: search.highest(),
            ended_by: search.bound(),
            steps,
        })
    }

    fn delays(&mut self) {
        for (number, (delay_ms, rate)) in DELAYS.into_iter().enumerate() {
            if self.stop.is_stopped() {
                return;
            }
            let into_s = self.lengths.delay_s * number as f64;
            self.tell("servers of known delay", into_s);
            // A reply on a connection that is kept: no connect is in its time.
            match self.send(delay_ms, rate, self.lengths.delay_s, Connections::Kept) {
                Ok(summary) => {
                    let held = self.server.take_held(delay_ms);
                    self.test.delays.push(Delay {
                        asked_ms: delay_ms.into(),
                        held_ms: median(held),
                        measured_ms: summary.latency_ms.median,
                        replies: summary.replies,
                    });
                }
                Err(why) => self.remark("Known delay", &why),
            }
        }
    }

    fn tcp(&mut self) {
        self.tell("throughput over loopback", 0.0);
        match self.stream() {
            Ok(found) => self.test.tcp = Some(found),
            Err(why) => self.remark("Loopback TCP", &why),
        }
    }

    /// Sends requests to the server at an even rate; their figures.
    fn send(
        &self,
        delay_ms: u32,
        rate: f64,
        seconds: f64,
        connections: Connections,
    ) -> Result<RateSummary, String> {
        let address = self.server.address();
        let plan = plan(&json!({
            "kind": "rate",
            "url": format!("http://{address}/{delay_ms}"),
            "rate": rate,
            "num_conns": whole(rate * seconds),
            "reuse": connections == Connections::Kept,
            "timeout_s": TIMEOUT_S,
        }))?;
        let url = plan.urls().first().map(|url| (*url).clone());
        let job = Job {
            targets: url
                .into_iter()
                .map(|url| Target {
                    url,
                    address,
                    all: vec![address],
                    lookup: None,
                })
                .collect(),
            plan,
            identity: Naming::Address,
            region: Naming::Address,
            threads: None,
        };
        let mut fold = Fold::new(&job.plan);
        let ended = runner::run(&job, self.stop, &mut |batch| {
            fold.push(&Measured::Http(batch));
        })
        .map_err(|error| error.to_string())?;
        let end = End::Http(ended);
        fold.finish(&end);
        match fold.summary(&end) {
            Some(Summary::Rate(summary)) => Ok(*summary),
            _ => Err("nothing was measured".to_owned()),
        }
    }

    /// One stream to a receiver of its own, with round trips before and beside it.
    fn stream(&self) -> Result<LoopbackTcp, String> {
        let receiver = Receiver::start(
            ReceiverConfig {
                dialect: Dialect::Iperf2,
                listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                accept_from: Arc::new(|from| from.is_loopback()),
                max_streams: 4,
                max_duration: Duration::from_mins(1),
                interval: crate::receiver::INTERVAL,
                name: "self-test".to_owned(),
            },
            Arc::new(|_| {}),
        )
        .map_err(|error| format!("its receiver could not be started ({error})"))?;
        let address = receiver.local_addr();
        let Plan::Throughput(plan) = plan(&json!({
            "kind": "throughput",
            "host": address.ip().to_string(),
            "port": address.port(),
            "duration_s": self.lengths.tcp_s,
        }))?
        else {
            return Err("the plan is of another kind".to_owned());
        };
        let found = self.move_bytes(&plan, address);
        receiver.stop();
        found
    }

    fn move_bytes(
        &self,
        plan: &ThroughputPlan,
        address: SocketAddr,
    ) -> Result<LoopbackTcp, String> {
        let mut probe = RttProbe::start(plan, address);
        if let Ok(probe) = &probe {
            probe.idle(Duration::from_secs_f64(self.lengths.idle_s), self.stop);
        }
        let job = FlowJob {
            plan: plan.clone(),
            address,
            egress_cap: None,
        };
        let wrapped = Plan::Throughput(plan.clone());
        let mut fold = Fold::new(&wrapped);
        let beside = probe.as_mut().ok().map(|probe| probe as &mut dyn Beside);
        let end = throughput::run_beside(&job, self.stop, beside, &mut |batch| {
            fold.push(&Measured::Flow(batch));
        })
        .map_err(|error| error.to_string())?;
        let end = End::Flow(end);
        fold.finish(&end);
        match fold.summary(&end) {
            Some(Summary::Throughput(summary)) => Ok(LoopbackTcp {
                bits_per_second: summary.bits_per_second,
                rtt_idle_ms: summary.rtt_ms.idle,
                rtt_loaded_ms: summary.rtt_ms.loaded,
            }),
            _ => Err("nothing was measured".to_owned()),
        }
    }
}

/// Whether each request has a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connections {
    New,
    Kept,
}

/// A server that does not answer for so long has failed its step.
const TIMEOUT_S: f64 = 2.0;

/// The plan of this record; the self-test's own are within these caps.
fn plan(record: &Value) -> Result<Plan, String> {
    let caps = Caps {
        max_rate: 1e6,
        ..Caps::default()
    };
    Plan::from_json(record, &caps).map_err(|errors| {
        let messages: Vec<String> = errors.into_iter().map(|error| error.message).collect();
        messages.join(" ")
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small count"
)]
fn whole(count: f64) -> u64 {
    (count.round() as u64).max(1)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 {
        upper
    } else {
        f64::midpoint(values[middle - 1], upper)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_nothing_is_nothing() {
        assert_eq!(median(Vec::new()), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn the_whole_test_takes_half_a_minute_at_most() {
        assert!(expected_s(false) <= 30.0 && expected_s(true) <= 6.0);
    }

    #[test]
    fn a_stopped_self_test_has_no_result() {
        let stop = Stop::new();
        stop.stop();
        let result = run(true, &stop, &mut |_| {});
        assert!(matches!(result, Err(SelfTestError::Stopped)));
    }
}
