//! Runs of the HTTP engine: from a plan in JSON to all its samples, with the invariant of every run checked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use tidemark::measure::outcome::Outcome;
use tidemark::measure::plan::{Caps, Plan};
use tidemark::measure::sample::{ConnectionSample, Ended, RequestSample};
use tidemark::measure::summary::Summary;
use tidemark::measure::summary::http::HttpFold;
use tidemark::runner::{Job, Naming, Stop, Target, run};

/// Everything that a run left behind.
pub struct Done {
    pub plan: Plan,
    pub requests: Vec<RequestSample>,
    pub connections: Vec<ConnectionSample>,
    pub ended: Ended,
    pub batches: usize,
    pub fold: HttpFold,
}

pub fn plan(value: &Value) -> Plan {
    Plan::from_json(value, &Caps::default()).unwrap()
}

pub fn job(plan: Plan) -> Job {
    let targets = plan
        .urls()
        .into_iter()
        .map(|url| {
            let all = url.socket_addrs(|| None).unwrap();
            Target {
                url: url.clone(),
                address: all[0],
                all,
                lookup: None,
            }
        })
        .collect();
    Job {
        plan,
        targets,
        identity: Naming::Header("X-Served-By".into()),
        region: Naming::Header("X-Region".into()),
        threads: None,
    }
}

/// Runs the plan to its end.
pub fn go(value: &Value) -> Done {
    finish(&job(plan(value)), &Stop::new())
}

/// Runs the plan with its only URL at `address`.
pub fn go_to(value: &Value, address: SocketAddr) -> Done {
    let plan = plan(value);
    let target = Target {
        url: plan.urls()[0].clone(),
        address,
        all: vec![address],
        lookup: None,
    };
    let job = Job {
        plan,
        targets: vec![target],
        identity: Naming::Header("X-Served-By".into()),
        region: Naming::Header("X-Region".into()),
        threads: None,
    };
    finish(&job, &Stop::new())
}

/// Runs the job; a run that does not end within a minute fails the test instead of hanging it.
pub fn finish(job: &Job, stop: &Stop) -> Done {
    let (sender, receiver) = mpsc::channel();
    let (running, stopping) = (job.clone(), stop.clone());
    std::thread::spawn(move || {
        let mut fold = HttpFold::new(&running.plan);
        let (mut requests, mut connections, mut batches) = (Vec::new(), Vec::new(), 0);
        let mut latest = Duration::ZERO;
        let ended = run(&running, &stopping, &mut |batch| {
            assert!(batch.until >= latest, "batches go back in time");
            latest = batch.until;
            batches += 1;
            fold.push(&batch);
            requests.extend(batch.requests);
            connections.extend(batch.connections);
        })
        .unwrap();
        fold.finish_seconds(ended.duration);
        let done = Done {
            plan: running.plan,
            requests,
            connections,
            ended,
            batches,
            fold,
        };
        let _ = sender.send(done);
    });
    let done = receiver
        .recv_timeout(Duration::from_mins(1))
        .expect("the run ends");
    done.check();
    done
}

impl Done {
    /// What holds for every run, whatever the server did.
    fn check(&self) {
        let ended = &self.ended;
        if let Some(planned) = ended.planned {
            assert_eq!(self.requests.len() as u64 + ended.unsent, planned);
            if !ended.stopped && ended.unsent == 0 {
                let mut numbers: Vec<u64> = self.requests.iter().map(|one| one.seq).collect();
                numbers.sort_unstable();
                assert!(numbers.into_iter().eq(0..planned), "each number once");
            }
        }
        for one in &self.requests {
            assert!(one.ended <= ended.duration);
            if let Some(started) = one.started {
                assert!(started >= one.scheduled, "{one:?}");
                assert!(one.ended >= started, "{one:?}");
            }
            let phases = [one.connect, one.wrote, one.first_byte];
            assert!(phases.iter().flatten().is_sorted(), "{one:?}");
            if !matches!(
                one.outcome,
                Outcome::Ok
                    | Outcome::Http4xx
                    | Outcome::Http5xx
                    | Outcome::HttpOther
                    | Outcome::AbortedAtStop
            ) {
                assert!(one.detail.is_some(), "{one:?}");
            }
        }
        assert!(ended.in_flight_seconds.is_finite());
        assert!(ended.same_host);
        let text = serde_json::to_string(&self.summary()).unwrap();
        assert!(!text.contains("NaN"), "{text}");
    }

    pub fn summary(&self) -> Summary {
        self.fold.summary(&self.ended)
    }

    /// The summary as the API shows it.
    pub fn json(&self) -> Value {
        serde_json::to_value(self.summary()).unwrap()
    }

    /// Outcomes and how often, such as `{"ok": 3}`.
    pub fn outcomes(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for one in &self.requests {
            *counts.entry(one.outcome.key()).or_insert(0) += 1;
        }
        counts
    }

    /// Asserts that every request ended so.
    pub fn all(&self, outcome: Outcome) -> &Self {
        assert!(!self.requests.is_empty());
        let first = self.requests.iter().find(|one| one.outcome != outcome);
        assert_eq!(first, None, "{:?}", self.outcomes());
        self
    }

    /// The latency that so much of the requests did not exceed.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut latencies: Vec<Duration> =
            self.requests.iter().map(RequestSample::latency).collect();
        latencies.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank"
        )]
        let rank = (latencies.len() as f64 * share).ceil() as usize;
        latencies[rank.max(1) - 1]
    }
}
