//! A cause put to the proof: the run itself against one that must come out otherwise if the cause is the cause.
//!
//! What a report names as the limit is inferred from what was seen during the run. Here one thing is changed that
//! lifts just that limit, both plans take turns, and the ratio of their figures answers: confirmed or refuted.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::design::Paired;
use super::figure::figure;
use super::paired::{Ratio, ratio_by};
use super::record::Point;
use crate::measure::plan::Plan;
use crate::measure::plan::throughput::{Protocol, ThroughputPlan};
use crate::measure::run::Run;
use crate::measure::summary::Summary;
use crate::measure::units;

/// Pairs that run where none are asked for.
const PAIRS: u32 = 5;
/// Pairs below which nothing is answered.
const FEWEST: u32 = 3;
/// Longest run of a proof, in s: longer ones are cut to this.
const LONGEST_S: f64 = 10.0;
/// A ratio beyond this is a change, within it (and its inverse) there is none.
const CHANGE: f64 = 1.1;
/// Lateness that falls to less than this share of what it was has fallen with the load.
const FALLS: f64 = 0.5;

/// A cause of a run, and the two plans that put it to the proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Proving {
    /// The run whose limits name the cause.
    pub run: i64,
    /// The cause, as `limits` has it.
    pub cause: String,
    /// `a` is the run again, `b` the same with one thing changed.
    pub pair: Paired,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// b came out as it must if the cause is the cause.
    Confirmed,
    /// b came out as it cannot if the cause is the cause.
    Refuted,
    /// Too few pairs, or an interval that holds both answers.
    Undecided,
}

impl Answer {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Refuted => "refuted",
            Self::Undecided => "undecided",
        }
    }
}

/// An answered question, as the API shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proof {
    /// The run whose cause it is.
    pub run: i64,
    /// The cause.
    pub cause: String,
    /// What was changed in `b`.
    pub change: String,
    /// What must happen if the cause is the cause.
    pub expected: &'static str,
    /// The answer; `undecided` while too few pairs are complete.
    pub answer: Answer,
    /// What is compared: `throughput`, `median latency` or `lateness p99`.
    pub figure: &'static str,
    /// b over a with its interval; `None` before the first pair.
    pub ratio: Option<Ratio>,
}

/// What must happen to `b` if the cause is the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// More throughput than before.
    More,
    /// Neither more nor less throughput.
    Same,
    /// Another throughput, in whichever direction.
    Other,
    /// A shorter median latency.
    Sooner,
    /// Much less lateness.
    Punctual,
}

impl Expected {
    /// For a cause; `None` where no experiment would tell.
    fn of(cause: &str) -> Option<Self> {
        Some(match cause {
            "sender_cpu" | "receiver_cpu" | "receiver_window" | "send_buffer"
            | "bandwidth_asked" => Self::More,
            "egress_cap" | "shaper" => Self::Same,
            "congestion" => Self::Other,
            "target_queue" => Self::Sooner,
            "generator" | "lateness" => Self::Punctual,
            _ => return None,
        })
    }

    const fn sentence(self) -> &'static str {
        match self {
            Self::More => "b moves at least a tenth more than a",
            Self::Same => "b moves as much as a, within a tenth",
            Self::Other => "b moves at least a tenth more or less than a",
            Self::Sooner => "b is answered at least a tenth sooner than a",
            Self::Punctual => "b is sent with less than half of a's lateness",
        }
    }

    const fn figure_name(self) -> &'static str {
        match self {
            Self::More | Self::Same | Self::Other => "throughput",
            Self::Sooner => "median latency",
            Self::Punctual => "lateness p99",
        }
    }

    fn figure(self, summary: &Summary) -> Option<f64> {
        match (self, summary) {
            (Self::Punctual, Summary::Rate(rate)) => rate.lateness_ms.p99,
            (Self::Punctual, _) => None,
            _ => figure(summary),
        }
    }

    fn answer(self, ratio: Option<Ratio>) -> Answer {
        let Some((low, high)) = ratio
            .filter(|ratio| ratio.pairs >= FEWEST)
            .and_then(|ratio| Some((ratio.low?, ratio.high?)))
        else {
            return Answer::Undecided;
        };
        let same = low >= 1.0 / CHANGE && high <= CHANGE;
        let (confirmed, refuted) = match self {
            Self::More => (low > CHANGE, high < CHANGE),
            // Much slower with more streams is another trouble, and says nothing of a cap.
            Self::Same => (same, low > CHANGE),
            Self::Other => (low > CHANGE || high < 1.0 / CHANGE, same),
            Self::Sooner => (high < 1.0 / CHANGE, low > 1.0 / CHANGE),
            Self::Punctual => (high < FALLS, low > FALLS),
        };
        match (confirmed, refuted) {
            (true, _) => Answer::Confirmed,
            (false, true) => Answer::Refuted,
            (false, false) => Answer::Undecided,
        }
    }
}

/// Every cause that an experiment would tell of.
const CAUSES: [&str; 11] = [
    "sender_cpu",
    "receiver_cpu",
    "receiver_window",
    "send_buffer",
    "egress_cap",
    "shaper",
    "congestion",
    "bandwidth_asked",
    "generator",
    "lateness",
    "target_queue",
];

/// What is asked for in `{"prove": …}` before the run is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The run.
    pub run: i64,
    /// The cause.
    pub cause: String,
}

impl Question {
    /// Reads `{"run": 12, "cause": "sender_cpu"}`.
    ///
    /// # Errors
    /// Field and sentence.
    pub fn read(value: &Value) -> Result<Self, (&'static str, String)> {
        let Some(object) = value.as_object() else {
            return Err((
                "prove",
                "prove is an object: {\"run\": 12, \"cause\": \"sender_cpu\"}.".to_owned(),
            ));
        };
        if let Some(other) = object.keys().find(|key| *key != "run" && *key != "cause") {
            let shown: String = other.chars().take(64).collect();
            let message = format!("prove has no field {shown}: it has run and cause.");
            return Err(("prove", message));
        }
        let Some(run) = object
            .get("run")
            .and_then(Value::as_i64)
            .filter(|run| *run > 0)
        else {
            let message = "The number of the run whose cause is to be proved is missing.";
            return Err(("prove.run", message.to_owned()));
        };
        let Some(cause) = object.get("cause").and_then(Value::as_str) else {
            let message = "The cause is missing: give one that the run's limits name.";
            return Err(("prove.cause", message.to_owned()));
        };
        Ok(Self {
            run,
            cause: cause.to_owned(),
        })
    }
}

/// The experiment that puts this cause of the run to the proof, as JSON for [`Spec::from_json`](super::Spec::from_json).
/// The cause need not stand in the run's limits: a suspicion is put to the proof just so.
/// `controls` are the congestion controls that the kernel offers.
///
/// # Errors
/// A sentence that says why none can be run, and what can be done.
pub fn question(run: &Run, cause: &str, controls: &[String]) -> Result<Value, String> {
    if Expected::of(cause).is_none() {
        return Err(why_not(cause));
    }
    if !run.state.is_final() {
        return Err("The run has not ended: its causes are known when it has.".to_owned());
    }
    let of_flow = !matches!(cause, "generator" | "lateness" | "target_queue");
    let a = shortened(&run.plan)?;
    let b = match &run.plan {
        Plan::Throughput(_) | Plan::Rate(_) | Plan::Users(_)
            if of_flow != matches!(run.plan, Plan::Throughput(_)) =>
        {
            return Err(format!(
                "{cause} cannot limit a run of this kind: it is one of {} that can.",
                if of_flow {
                    "throughput"
                } else {
                    "rate and users"
                }
            ));
        }
        Plan::Throughput(plan) => changed_flow(run, plan, cause, controls, a.clone())?,
        Plan::Rate(_) | Plan::Users(_) => halved(a.clone())?,
        _ => return Err(why_not(cause)),
    };
    Ok(json!({
        "prove": {"run": run.id, "cause": cause, "a": a, "b": b},
        "repeat": PAIRS,
        "pause_s": 1,
    }))
}

/// The causes that can be put to the proof on this run, as far as the run tells.
pub fn provable(run: &Run) -> Vec<&'static str> {
    let any = ["bbr".to_owned(), "cubic".to_owned()];
    CAUSES
        .into_iter()
        .filter(|cause| question(run, cause, &any).is_ok())
        .collect()
}

/// Why no experiment from here would tell.
fn why_not(cause: &str) -> String {
    match cause {
        "cgroup" | "receiver_drops" | "loss" | "descriptors" | "local_ports" => format!(
            "{cause} is counted by the kernel, not inferred, so there is nothing to prove: raise the limit and run it again."
        ),
        "receiver_application" | "application" => format!(
            "{cause} is the doing of the program at the other end or here, which nothing in a plan changes: run it with another program."
        ),
        "target_compute" | "connect" | "transfer" | "network" => format!(
            "{cause} is a measured part of each request, not an inference, so there is nothing to prove."
        ),
        "unknown" => {
            "No cause was found, so there is none to prove: repeat the run with one thing changed."
                .to_owned()
        }
        other => format!("{other} was counted in the run itself, so there is nothing to prove."),
    }
}

/// The run's plan again, no longer than it has to be.
fn shortened(plan: &Plan) -> Result<Value, String> {
    let mut value = plan.to_json();
    let object = value
        .as_object_mut()
        .ok_or("The run's plan cannot be repeated.")?;
    let seconds = object.get("duration_s").and_then(Value::as_f64);
    if seconds.is_some_and(|seconds| seconds > LONGEST_S) {
        object.insert("duration_s".to_owned(), LONGEST_S.into());
    }
    // Two flows after each other on one source port meet the time that the kernel keeps it.
    object.remove("cport");
    Ok(value)
}

fn changed_flow(
    run: &Run,
    plan: &ThroughputPlan,
    cause: &str,
    controls: &[String],
    mut b: Value,
) -> Result<Value, String> {
    let summary = match &run.summary {
        Some(Summary::Throughput(summary)) => Some(summary),
        _ => None,
    };
    match cause {
        "receiver_window" | "send_buffer" => {
            let window = plan
                .window_bytes
                .or_else(|| summary.and_then(|it| it.window_bytes.got))
                .unwrap_or(1 << 20);
            b["window_bytes"] = window.saturating_mul(4).min(1 << 30).into();
        }
        "bandwidth_asked" => {
            let asked = plan
                .bandwidth_bits_per_second
                .ok_or("The run asked for no bandwidth, so there is none to raise.")?;
            b["bandwidth_bits_per_second"] = (asked * 2.0).into();
        }
        "congestion" => {
            let used = summary.and_then(|it| it.congestion.as_deref());
            let used = plan.congestion.as_deref().or(used).unwrap_or("cubic");
            // Bbr does not take loss for congestion; cubic does.
            let other = if used.starts_with("bbr") {
                "cubic"
            } else {
                "bbr"
            };
            if plan.protocol != Protocol::Tcp || !controls.iter().any(|known| known == other) {
                return Err(format!(
                    "Congestion is proved with another congestion control than {used}, and this kernel offers {}: load one, as with modprobe tcp_{other}.",
                    if controls.is_empty() {
                        "none that is known".to_owned()
                    } else {
                        controls.join(", ")
                    }
                ));
            }
            b["congestion"] = other.into();
        }
        // The CPU of one thread, and what stands on the path, are told apart by the number of streams.
        _ => b["streams"] = plan.streams.saturating_mul(2).into(),
    }
    Ok(b)
}

/// The same at half the load, over the same time.
fn halved(mut b: Value) -> Result<Value, String> {
    let half = |value: &Value| value.as_f64().map(|number| number / 2.0);
    let whole_half = |value: &Value| value.as_u64().map(|number| number.div_ceil(2));
    let steps = b.get("rate").and_then(Value::as_array).cloned();
    if let Some(steps) = steps {
        let steps: Vec<Value> = steps
            .iter()
            .map(|step| json!([half(&step[0]), step[1]]))
            .collect();
        b["rate"] = steps.into();
    } else if let Some(rate) = b.get("rate").and_then(half) {
        if rate == 0.0 {
            return Err(
                "The run sent one request after another, and there is no rate to halve.".to_owned(),
            );
        }
        b["rate"] = rate.into();
        if let Some(count) = b.get("num_conns").and_then(whole_half) {
            b["num_conns"] = count.into();
        }
    } else if let Some(users) = b.get("concurrent").and_then(Value::as_u64) {
        if users < 2 {
            return Err("The run had one user, and half of one is none.".to_owned());
        }
        b["concurrent"] = (users / 2).into();
    }
    Ok(b)
}

impl Proving {
    /// As the notebook keeps it.
    pub fn to_json(&self) -> Value {
        let mut prove = Map::new();
        prove.insert("run".to_owned(), self.run.into());
        prove.insert("cause".to_owned(), self.cause.clone().into());
        prove.insert("a".to_owned(), self.pair.a.clone());
        prove.insert("b".to_owned(), self.pair.b.clone());
        json!({"prove": prove, "repeat": self.pair.repeat, "pause_s": self.pair.pause_s})
    }

    /// What differs between the two plans, in words: `streams 1 → 2`.
    pub fn change(&self) -> String {
        let fields: Vec<String> = self
            .pair
            .b
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, after)| {
                let before = self.pair.a.get(name).filter(|value| !value.is_null());
                (before != Some(after)).then(|| match before {
                    Some(before) => format!("{name} {} → {}", shown(before), shown(after)),
                    None => format!("{name} {}", shown(after)),
                })
            })
            .collect();
        fields.join(", ")
    }

    /// What the runs so far answer.
    pub fn proof(&self, points: &[Point]) -> Option<Proof> {
        let expected = Expected::of(&self.cause)?;
        let ratio = ratio_by(points, |summary| expected.figure(summary));
        Some(Proof {
            run: self.run,
            cause: self.cause.clone(),
            change: self.change(),
            expected: expected.sentence(),
            answer: expected.answer(ratio),
            figure: expected.figure_name(),
            ratio,
        })
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number
            .as_f64()
            .map_or_else(|| number.to_string(), units::significant),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(expected: Expected, low: f64, high: f64) -> Answer {
        expected.answer(Some(Ratio {
            b_to_a: (low * high).sqrt(),
            low: Some(low),
            high: Some(high),
            pairs: 5,
        }))
    }

    #[test]
    fn an_interval_answers_and_one_that_holds_both_does_not() {
        use Answer::{Confirmed, Refuted, Undecided};
        for (expected, low, high, said) in [
            (Expected::More, 1.8, 2.1, Confirmed),
            (Expected::More, 0.98, 1.02, Refuted),
            (Expected::More, 0.4, 0.6, Refuted),
            (Expected::More, 1.05, 1.2, Undecided),
            (Expected::Same, 0.98, 1.02, Confirmed),
            (Expected::Same, 1.8, 2.1, Refuted),
            (Expected::Same, 0.4, 0.6, Undecided),
            (Expected::Same, 0.7, 1.3, Undecided),
            (Expected::Other, 1.8, 2.1, Confirmed),
            (Expected::Other, 0.3, 0.5, Confirmed),
            (Expected::Other, 0.95, 1.05, Refuted),
            (Expected::Other, 0.95, 1.5, Undecided),
            (Expected::Sooner, 0.3, 0.6, Confirmed),
            (Expected::Sooner, 0.97, 1.03, Refuted),
            (Expected::Sooner, 0.7, 0.95, Undecided),
            (Expected::Punctual, 0.1, 0.3, Confirmed),
            (Expected::Punctual, 0.8, 1.2, Refuted),
            (Expected::Punctual, 0.3, 0.8, Undecided),
        ] {
            assert_eq!(
                answer(expected, low, high),
                said,
                "{expected:?} {low} {high}"
            );
        }
        let two = Ratio {
            b_to_a: 2.0,
            low: Some(1.9),
            high: Some(2.1),
            pairs: 2,
        };
        assert_eq!(Expected::More.answer(Some(two)), Undecided);
        assert_eq!(Expected::More.answer(None), Undecided);
    }

    #[test]
    fn half_the_load_takes_the_same_time() {
        let half = |plan: Value| halved(plan).unwrap();
        assert_eq!(
            half(json!({"rate": 7, "num_conns": 15})),
            json!({"rate": 3.5, "num_conns": 8})
        );
        assert_eq!(
            half(json!({"rate": 7, "duration_s": 4})),
            json!({"rate": 3.5, "duration_s": 4})
        );
        assert_eq!(
            half(json!({"rate": [[4, 5], [8, 2]]})),
            json!({"rate": [[2.0, 5], [4.0, 2]]})
        );
        assert_eq!(half(json!({"concurrent": 5})), json!({"concurrent": 2}));
        assert!(halved(json!({"rate": 0})).is_err());
        assert!(halved(json!({"concurrent": 1})).is_err());
    }

    #[test]
    fn every_cause_has_its_experiment_and_the_others_their_reason() {
        for cause in CAUSES {
            assert!(Expected::of(cause).is_some(), "{cause}");
        }
        for cause in [
            "cgroup",
            "receiver_drops",
            "receiver_application",
            "target_compute",
            "unknown",
            "refused",
        ] {
            assert!(Expected::of(cause).is_none());
            assert!(why_not(cause).ends_with('.'), "{cause}");
        }
    }
}
