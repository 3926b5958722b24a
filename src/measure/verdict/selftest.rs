//! How far a run's figures can be trusted because of the last self-test of the node that made it.

use crate::measure::plan::{Plan, RatePlan};
use crate::measure::run::{Check, Environment, Severity};
use crate::measure::selftest::SelfTest;
use crate::measure::summary::{RateSummary, Summary, UsersSummary};
use crate::measure::verdict::checks::check;
use crate::measure::verdict::words;

/// The check's name.
const NAME: &str = "selftest";

/// What a self-test says of a run; `None` for kinds of runs that it says nothing about.
///
/// A miss is a warning: the run asked more of the generator than it is known to hold, or the machine has changed since.
pub fn self_test_check(
    plan: &Plan,
    summary: &Summary,
    test: &SelfTest,
    environment: &Environment,
) -> Option<Check> {
    let (ok, detail) = match (plan, summary) {
        (Plan::Rate(plan), Summary::Rate(summary)) => of_http(test, &Asked::of_rate(plan, summary)),
        (Plan::Users(plan), Summary::Users(summary)) => {
            of_http(test, &Asked::of_users(plan.keep_alive, summary))
        }
        (Plan::Throughput(_), Summary::Throughput(summary)) => {
            of_throughput(test, summary.bits_per_second)?
        }
        _ => return None,
    };
    let (ok, detail) = match changed(&test.environment, environment) {
        Some(what) => (
            false,
            format!("{detail}; {what} since the self-test, so make it again"),
        ),
        None => (ok, detail),
    };
    Some(check(NAME, Some(ok), Severity::Warn, detail))
}

/// How exact and how strong the generator is, in one sentence without its full stop.
pub fn self_test_words(test: &SelfTest) -> String {
    head(test, test.new_per_s(), NEW)
}

const NEW: &str = "connections/s";
const KEPT: &str = "requests/s over kept connections";

fn head(test: &SelfTest, held: Option<f64>, what: &str) -> String {
    let exact = test
        .exact_to_ms()
        .map(|ms| format!("exact to {}", words::time(two_digits(ms))));
    let strong = match held {
        Some(rate) => format!("strong enough for {}\u{a0}{what}", whole(rate)),
        None => format!("on schedule at no rate of {what} that was tried"),
    };
    match exact {
        Some(exact) => format!("this generator is {exact} and {strong}"),
        None => format!("how exact this generator is was not measured; it is {strong}"),
    }
}

/// What an HTTP run asked of its generator.
struct Asked {
    new_per_s: f64,
    /// Requests per s where connections are kept for more than one.
    kept_per_s: Option<f64>,
}

impl Asked {
    fn of_rate(plan: &RatePlan, summary: &RateSummary) -> Self {
        let over = |count: u64| match summary.send_window_s {
            window if window > 0.0 => count as f64 / window,
            _ => 0.0,
        };
        let connections = over(summary.connections);
        Self {
            new_per_s: if plan.reuse {
                connections
            } else {
                connections.max(plan.peak_rate())
            },
            kept_per_s: (plan.reuse || plan.num_calls > 1).then(|| {
                (plan.peak_rate() * f64::from(plan.num_calls)).max(over(summary.requests))
            }),
        }
    }

    fn of_users(keep_alive: bool, summary: &UsersSummary) -> Self {
        let all: u64 = summary.outcomes.values().sum();
        let per_s = match summary.elapsed_s {
            elapsed if elapsed > 0.0 => all as f64 / elapsed,
            _ => 0.0,
        };
        Self {
            new_per_s: if keep_alive { 0.0 } else { per_s },
            kept_per_s: keep_alive.then_some(per_s),
        }
    }
}

fn of_http(test: &SelfTest, asked: &Asked) -> (bool, String) {
    // Of two kinds of work the one counts of which the larger share was used.
    let new = (asked.new_per_s, test.new_per_s(), NEW);
    let kept = asked.kept_per_s.map(|rate| (rate, test.kept_per_s(), KEPT));
    let share = |(rate, held, _): &(f64, Option<f64>, &str)| held.map(|held| rate / held);
    let counts = match kept {
        // Without a figure nothing can be said of that kind, which is worse than any share.
        Some(kept) if share(&kept).is_none() || share(&kept) >= share(&new) => kept,
        _ => new,
    };
    let (_, held, what) = counts;
    let head = head(test, held, what);
    match share(&counts) {
        None => (false, head),
        Some(used) if used > 1.0 => (
            false,
            format!("{head}; this run asked for {} times that", two_digits(used)),
        ),
        Some(used) => (
            true,
            format!(
                "{head}; this run used {} of that",
                words::percent(two_digits(used))
            ),
        ),
    }
}

fn of_throughput(test: &SelfTest, moved: Option<f64>) -> Option<(bool, String)> {
    let loopback = test.loopback_bits_per_second().filter(|rate| *rate > 0.0)?;
    let head = format!(
        "one stream of this machine moves {} over loopback, both ends on it",
        words::bits(loopback)
    );
    Some((
        true,
        match moved {
            None => head,
            Some(moved) if moved > loopback => format!("{head}; this run moved more"),
            Some(moved) => format!(
                "{head}; this run moved {} of that",
                words::percent(two_digits(moved / loopback))
            ),
        },
    ))
}

/// What of the machine is other than it was, in words.
fn changed(then: &Environment, now: &Environment) -> Option<&'static str> {
    let differs = |then: Option<String>, now: Option<String>| {
        then.zip(now).is_some_and(|(then, now)| then != now)
    };
    if differs(then.cpu_model.clone(), now.cpu_model.clone()) {
        return Some("the CPU has changed");
    }
    let cpus = |environment: &Environment| environment.cpus.map(|cpus| cpus.to_string());
    differs(cpus(then), cpus(now)).then_some("the number of CPUs has changed")
}

/// A rate as a whole number, its digits grouped.
fn whole(rate: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are not negative and far below the range"
    )]
    let rate = rate.round() as u64;
    words::count(rate)
}

/// Two significant digits: a self-test knows no more.
fn two_digits(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 0.0;
    }
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    let digits = (value / unit).round();
    if unit < 1.0 {
        digits / (1.0 / unit).round()
    } else {
        digits * unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::Caps;
    use crate::measure::selftest::{Bound, LoopbackTcp, Strength, Timer};
    use crate::measure::summary::Distribution;
    use crate::measure::summary::flow::ThroughputSummary;
    use serde_json::{Value, json};

    fn test() -> SelfTest {
        let strength = |highest_per_s| {
            Some(Strength {
                highest_per_s,
                ended_by: Bound::Generator,
                steps: Vec::new(),
            })
        };
        SelfTest {
            timer: Some(Timer {
                rate_per_s: 1_000.0,
                lateness_ms: Distribution {
                    p99: Some(0.2),
                    ..Distribution::default()
                },
            }),
            new_connections: strength(Some(11_000.0)),
            kept_connections: strength(Some(30_000.0)),
            tcp: Some(LoopbackTcp {
                bits_per_second: Some(40e9),
                rtt_idle_ms: Distribution::default(),
                rtt_loaded_ms: Distribution::default(),
            }),
            ..SelfTest::default()
        }
    }

    fn check(plan: &Value, summary: &Summary, test: &SelfTest) -> Option<(Option<bool>, String)> {
        let plan = Plan::from_json(plan, &Caps::default()).unwrap();
        self_test_check(&plan, summary, test, &Environment::default()).map(|check| {
            let plain = check.detail.replace(['\u{a0}', '\u{202f}'], " ");
            (check.ok, plain)
        })
    }

    fn rate(connections: u64, requests: u64) -> Summary {
        Summary::Rate(Box::new(RateSummary {
            connections,
            requests,
            send_window_s: 10.0,
            ..RateSummary::default()
        }))
    }

    #[test]
    fn a_run_is_held_against_the_kind_of_work_that_it_asks_most_of() {
        let plan = |more: &Value| {
            let mut plan =
                json!({"kind": "rate", "url": "http://127.0.0.1/", "rate": 440, "duration_s": 10});
            for (key, value) in more.as_object().unwrap() {
                plan[key] = value.clone();
            }
            plan
        };
        let (ok, detail) = check(&plan(&json!({})), &rate(4_400, 4_400), &test()).unwrap();
        assert_eq!(
            (ok, detail.as_str()),
            (
                Some(true),
                "this generator is exact to 0.2 ms and strong enough for 11 000 connections/s; this run used 4 % of that"
            )
        );
        // Few connections, many requests over each.
        let (ok, detail) = check(
            &plan(&json!({"num_calls": 100})),
            &rate(4_400, 440_000),
            &test(),
        )
        .unwrap();
        assert_eq!(ok, Some(false));
        assert!(
            detail.ends_with(
                "30 000 requests/s over kept connections; this run asked for 1.5 times that"
            ),
            "{detail}"
        );
        let (ok, detail) = check(&plan(&json!({"rate": 22_000})), &rate(9, 9), &test()).unwrap();
        assert_eq!(ok, Some(false));
        assert!(detail.ends_with("asked for 2 times that"), "{detail}");
    }

    #[test]
    fn what_was_not_measured_is_said_and_other_kinds_have_no_check() {
        let plan = json!({"kind": "rate", "url": "http://127.0.0.1/", "rate": 5, "duration_s": 10});
        let (ok, detail) = check(&plan, &rate(50, 50), &SelfTest::default()).unwrap();
        assert_eq!(ok, Some(false));
        assert_eq!(
            detail,
            "how exact this generator is was not measured; it is on schedule at no rate of connections/s that was tried"
        );
        let ping = json!({"kind": "ping", "host": "127.0.0.1"});
        assert_eq!(check(&ping, &rate(1, 1), &test()), None);
        let flow = json!({"kind": "throughput", "host": "127.0.0.1"});
        let moved = |bits_per_second| {
            Summary::Throughput(Box::new(ThroughputSummary {
                bits_per_second,
                ..ThroughputSummary::default()
            }))
        };
        let (ok, detail) = check(&flow, &moved(Some(1e9)), &test()).unwrap();
        assert_eq!(ok, Some(true));
        assert!(detail.ends_with("this run moved 2.5 % of that"), "{detail}");
        let (_, detail) = check(&flow, &moved(Some(50e9)), &test()).unwrap();
        assert!(detail.ends_with("this run moved more"), "{detail}");
        assert_eq!(check(&flow, &moved(Some(1e9)), &SelfTest::default()), None);
    }

    #[test]
    fn another_number_of_cpus_makes_the_self_test_old() {
        let plan = Plan::from_json(
            &json!({"kind": "users", "url": "http://127.0.0.1/", "reps": 1}),
            &Caps::default(),
        )
        .unwrap();
        let summary = Summary::Users(Box::default());
        let with = |cpus| Environment {
            cpus: Some(cpus),
            ..Environment::default()
        };
        let mut test = test();
        test.environment = with(2);
        let same = self_test_check(&plan, &summary, &test, &with(2)).unwrap();
        assert_eq!(same.ok, Some(true));
        let other = self_test_check(&plan, &summary, &test, &with(4)).unwrap();
        assert_eq!(other.ok, Some(false));
        assert!(other.detail.contains("number of CPUs has changed"));
    }
}
