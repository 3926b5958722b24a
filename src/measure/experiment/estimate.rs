//! What an experiment will take, before it starts.

use serde::Serialize;

use super::design::Spec;
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::{Dialect, Direction, ThroughputPlan};

/// Measuring the idle path before the load of a throughput run, in s.
const IDLE_PROBE_S: f64 = 2.0;

/// What it takes, as far as it can be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// Runs in all.
    pub runs: usize,
    /// Runs whose length the target's speed decides.
    pub runs_of_unknown_length: usize,
    /// Sending time of the others and all pauses, in s.
    pub time_s: f64,
    /// Requests, connections or probes at most; `None` where only time bounds them.
    pub requests_at_most: Option<u64>,
    /// Bytes of throughput runs; `None` where the path's or the target's speed decides.
    pub bytes: Option<f64>,
}

/// What the experiment takes: Σ over its runs, and (runs − 1) pauses.
pub fn estimate(spec: &Spec) -> Estimate {
    let repeat = f64::from(spec.repeat());
    let mut out = Estimate {
        runs: spec.runs(),
        time_s: spec.pause_s() * (spec.runs() as f64 - 1.0).max(0.0),
        requests_at_most: Some(0),
        bytes: Some(0.0),
        ..Estimate::default()
    };
    for arm in spec.arms() {
        match length_s(&arm.plan) {
            Some(seconds) => out.time_s += seconds * repeat,
            None => out.runs_of_unknown_length += spec.repeat() as usize,
        }
        out.requests_at_most = match (&arm.plan, out.requests_at_most) {
            (Plan::Throughput(_) | Plan::Path(_), so_far) => so_far,
            (plan, Some(so_far)) => plan.planned_requests().map(|requests| {
                so_far.saturating_add(requests.saturating_mul(spec.repeat().into()))
            }),
            (_, None) => None,
        };
        out.bytes = match (&arm.plan, out.bytes) {
            (Plan::Throughput(plan), Some(so_far)) => {
                planned_bytes(plan).map(|bytes| so_far + bytes * repeat)
            }
            (Plan::Ping(plan), Some(so_far)) => {
                Some(so_far + f64::from(plan.count) * f64::from(plan.size_bytes) * repeat)
            }
            _ => None,
        };
    }
    out.requests_at_most = out.requests_at_most.filter(|requests| *requests > 0);
    out.bytes = out.bytes.filter(|bytes| *bytes > 0.0);
    out
}

/// How long a run of this plan takes, in s; `None` where the target's speed decides.
pub(super) fn length_s(plan: &Plan) -> Option<f64> {
    let sending = plan.expected_duration_s()?;
    let ahead = if matches!(plan, Plan::Throughput(_)) {
        IDLE_PROBE_S
    } else {
        0.0
    };
    Some(sending + ahead)
}

/// What a throughput run will move, both directions together; `None` where the path's speed decides.
pub fn planned_bytes(plan: &ThroughputPlan) -> Option<f64> {
    let ways = match plan.direction {
        Direction::Both | Direction::InTurn => 2.0,
        Direction::Send | Direction::Receive => 1.0,
    };
    let streams = f64::from(plan.streams);
    let rate = plan.bandwidth_bits_per_second.map(|each| each * streams);
    match (plan.bytes, rate, plan.duration_s) {
        (Some(bytes), ..) => {
            let each = if plan.dialect == Dialect::Iperf2 {
                streams
            } else {
                1.0
            };
            Some(bytes as f64 * each * ways)
        }
        (None, Some(rate), Some(seconds)) => Some(rate * seconds / 8.0 * ways),
        _ => None,
    }
}

/// How long the runs after the first `done` take with the pauses before them, in s; `None` where the target's speed
/// decides about one of them.
pub(super) fn remaining_s(spec: &Spec, done: u64) -> Option<f64> {
    let first = usize::try_from(done).unwrap_or(usize::MAX);
    (first..spec.runs())
        .map(|number| {
            let (arm, _) = spec.place(number)?;
            let pause = if number > 0 { spec.pause_s() } else { 0.0 };
            Some(length_s(&spec.arms()[arm].plan)? + pause)
        })
        .sum()
}
