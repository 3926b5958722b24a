//! What would be good enough: rules such as `p99<500ms,errors<0.1%`, and whether a run met them.

use crate::measure::run::ObjectiveResult;
use crate::measure::summary::{Distribution, Summary};
use crate::measure::units;

/// The rules that a run is held against.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objectives {
    rules: Vec<Objective>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
struct Objective {
    text: String,
    quantity: Quantity,
    /// In ms, as a share, per s, or in bit/s.
    limit: f64,
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantity {
    Quantile(Quantile),
    Average,
    Maximum,
    Errors,
    Rate,
    Throughput,
    Loss,
}

/// The quantiles that every summary holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantile {
    P50,
    P90,
    P95,
    P99,
    P99_9,
}

const MAX_RULES: usize = 20;
const KNOWN: &str = "p50, p90, p95, p99, p99.9, max and avg with < and a duration, errors< and loss< with a share, rate> with a number per second, throughput> with a rate in bit/s";

impl Objectives {
    /// Reads rules that are separated by commas; an empty text has none.
    ///
    /// # Errors
    ///
    /// A sentence about the first rule that cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rules: Vec<&str> = text
            .split([',', ';', '\n'])
            .map(str::trim)
            .filter(|rule| !rule.is_empty())
            .collect();
        if rules.len() > MAX_RULES {
            return Err(format!("At most {MAX_RULES} objectives can be stated."));
        }
        Ok(Self {
            rules: rules
                .into_iter()
                .map(Objective::parse)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Each rule with what was measured.
    pub fn judge(&self, summary: &Summary) -> Vec<ObjectiveResult> {
        self.rules.iter().map(|rule| rule.judge(summary)).collect()
    }

    /// A sentence for each rule that this many requests cannot prove.
    ///
    /// A quantile q needs 10 / (1 − q) requests; a share of errors below e needs 3 / e without an error (rule of three).
    pub fn too_few(&self, requests: u64) -> Vec<String> {
        self.rules
            .iter()
            .filter_map(|rule| rule.too_few(requests))
            .collect()
    }
}

impl std::fmt::Display for Objectives {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let texts: Vec<&str> = self.rules.iter().map(|rule| rule.text.as_str()).collect();
        f.write_str(&texts.join(","))
    }
}

impl Objective {
    fn parse(rule: &str) -> Result<Self, String> {
        let text: String = rule
            .chars()
            .filter(|c| !c.is_whitespace() && !c.is_control())
            .take(60)
            .collect();
        let at = text
            .find(['<', '>'])
            .ok_or_else(|| format!("“{text}” is not an objective: there are {KNOWN}."))?;
        let (word, rest) = text.split_at(at);
        let (sign, value) = rest.split_at(1);
        let quantity = match word.to_ascii_lowercase().as_str() {
            "p50" | "median" => Quantity::Quantile(Quantile::P50),
            "p90" => Quantity::Quantile(Quantile::P90),
            "p95" => Quantity::Quantile(Quantile::P95),
            "p99" => Quantity::Quantile(Quantile::P99),
            "p99.9" | "p99_9" => Quantity::Quantile(Quantile::P99_9),
            "max" => Quantity::Maximum,
            "avg" => Quantity::Average,
            "errors" => Quantity::Errors,
            "rate" => Quantity::Rate,
            "throughput" => Quantity::Throughput,
            "loss" => Quantity::Loss,
            _ => {
                return Err(format!(
                    "“{word}” is nothing that an objective can be about: there are {KNOWN}."
                ));
            }
        };
        if sign != quantity.sign() {
            return Err(format!(
                "“{text}” points the wrong way: write {word}{}{value}.",
                quantity.sign()
            ));
        }
        let limit = quantity
            .parse_limit(value)
            .map_err(|why| format!("The objective {text} cannot be read: {why}"))?;
        if limit <= 0.0 && quantity.sign() == "<" {
            return Err(format!(
                "Nothing is below 0: give the objective {word} a limit above it, such as {word}{}.",
                if matches!(quantity, Quantity::Errors | Quantity::Loss) {
                    "<0.1%"
                } else {
                    "<500ms"
                }
            ));
        }
        Ok(Self {
            text,
            quantity,
            limit,
        })
    }

    fn judge(&self, summary: &Summary) -> ObjectiveResult {
        let measured = self.quantity.measured(summary);
        let (measured, ok) = match measured {
            Measured::Value(value) if self.quantity.sign() == "<" => {
                let mut text = self.quantity.print(value);
                if self.quantity.is_censored(summary) {
                    text.push_str(" or more");
                }
                (Some(text), Some(value < self.limit))
            }
            Measured::Value(value) => (Some(self.quantity.print(value)), Some(value > self.limit)),
            // Without one reply the time to it has no bound.
            Measured::NothingCame => (Some("no reply came".to_owned()), Some(false)),
            Measured::Nothing => (None, None),
            Measured::NotThisKind => (Some("not measured by this kind of run".to_owned()), None),
        };
        ObjectiveResult {
            rule: self.text.clone(),
            limit: self.quantity.print(self.limit),
            measured,
            ok,
        }
    }

    fn too_few(&self, requests: u64) -> Option<String> {
        let needed = match self.quantity {
            Quantity::Quantile(quantile) => 10.0 / (1.0 - quantile.share()),
            Quantity::Errors => 3.0 / self.limit,
            _ => return None,
        };
        let needed = (needed - 1e-6).ceil();
        let condition = match self.quantity {
            Quantity::Errors => " without an error",
            _ => "",
        };
        (needed > requests as f64).then(|| {
            format!(
                "{} requests are too few to prove {}: it takes {}{condition}.",
                units::grouped(requests),
                self.text,
                units::significant(needed)
            )
        })
    }
}

impl Quantile {
    const fn share(self) -> f64 {
        match self {
            Self::P50 => 0.5,
            Self::P90 => 0.9,
            Self::P95 => 0.95,
            Self::P99 => 0.99,
            Self::P99_9 => 0.999,
        }
    }

    const fn of(self, distribution: &Distribution) -> Option<f64> {
        match self {
            Self::P50 => distribution.p50,
            Self::P90 => distribution.p90,
            Self::P95 => distribution.p95,
            Self::P99 => distribution.p99,
            Self::P99_9 => distribution.p99_9,
        }
    }
}

/// What a run says about a quantity.
enum Measured {
    Value(f64),
    /// Requests went out and none came back.
    NothingCame,
    /// No request went out.
    Nothing,
    NotThisKind,
}

impl Quantity {
    const fn sign(self) -> &'static str {
        match self {
            Self::Rate | Self::Throughput => ">",
            _ => "<",
        }
    }

    fn parse_limit(self, value: &str) -> Result<f64, String> {
        match self {
            Self::Quantile(_) | Self::Average | Self::Maximum => {
                units::parse_duration_s(value).map(|seconds| seconds * 1_000.0)
            }
            Self::Errors | Self::Loss => units::parse_share(value),
            Self::Rate => {
                units::parse_number(value.strip_suffix("/s").unwrap_or(value)).and_then(|rate| {
                    if rate >= 0.0 {
                        Ok(rate)
                    } else {
                        Err("a rate is not negative.".to_owned())
                    }
                })
            }
            Self::Throughput => units::parse_bits_per_second(value),
        }
    }

    fn print(self, value: f64) -> String {
        match self {
            Self::Quantile(_) | Self::Average | Self::Maximum => units::ms_text(value),
            Self::Errors | Self::Loss => units::share_text(value),
            Self::Rate => units::per_s_text(value),
            Self::Throughput => units::bits_per_second_text(value),
        }
    }

    /// Whether a timeout stands at this quantity: the wait would have been longer than what was measured.
    fn is_censored(self, summary: &Summary) -> bool {
        let (censored, count) = match summary {
            Summary::Rate(rate) => (rate.censored, rate.latency_ms.count),
            Summary::Users(users) => (users.censored, users.latency_ms.count),
            _ => return false,
        };
        let share = match self {
            Self::Quantile(quantile) => quantile.share(),
            // Any timeout at all makes these only a lower bound.
            Self::Average | Self::Maximum => 1.0,
            _ => return false,
        };
        censored > 0 && (count as f64 * share).ceil() > count.saturating_sub(censored) as f64
    }

    fn measured(self, summary: &Summary) -> Measured {
        let (tried, good, rate) = match summary {
            Summary::Rate(rate) => (
                rate.planned,
                rate.outcomes.get("ok").copied().unwrap_or(0),
                rate.achieved_per_s,
            ),
            Summary::Users(users) => (
                users.planned.unwrap_or_else(|| {
                    users
                        .transactions
                        .saturating_add(users.failed)
                        .saturating_add(users.unsent)
                }),
                users.transactions,
                users.transaction_rate_per_s,
            ),
            Summary::Fetch(fetch) => (1, u64::from(fetch.outcome == "ok"), None),
            Summary::Ping(ping) => (ping.transmitted, ping.received, None),
            Summary::Throughput(_) | Summary::Path(_) | Summary::Imported(_) => {
                return self.of_flow(summary);
            }
        };
        let latency = |value: Option<f64>| match value {
            Some(value) => Measured::Value(value),
            None if tried > 0 => Measured::NothingCame,
            None => Measured::Nothing,
        };
        let distribution = match summary {
            Summary::Rate(rate) => Some(&rate.latency_ms),
            Summary::Users(users) => Some(&users.latency_ms),
            Summary::Ping(ping) => Some(&ping.rtt_ms.figures),
            _ => None,
        };
        let single = match summary {
            Summary::Fetch(fetch) => fetch.total_ms.filter(|_| fetch.status.is_some()),
            _ => None,
        };
        match self {
            Self::Quantile(quantile) => {
                latency(distribution.map_or(single, |figures| quantile.of(figures)))
            }
            Self::Average => latency(distribution.map_or(single, |figures| figures.avg)),
            Self::Maximum => latency(distribution.map_or(single, |figures| figures.max)),
            Self::Errors if tried == 0 => Measured::Nothing,
            Self::Errors => Measured::Value(tried.saturating_sub(good) as f64 / tried as f64),
            Self::Loss => match summary {
                Summary::Ping(ping) => ping.loss_percent.map_or(Measured::Nothing, |percent| {
                    Measured::Value(percent / 100.0)
                }),
                _ => Measured::NotThisKind,
            },
            Self::Rate if matches!(summary, Summary::Fetch(_) | Summary::Ping(_)) => {
                Measured::NotThisKind
            }
            Self::Rate => rate.map_or(Measured::Nothing, Measured::Value),
            Self::Throughput => Measured::NotThisKind,
        }
    }

    /// What a throughput run says; latency is the loaded round trip of the probe beside it.
    fn of_flow(self, summary: &Summary) -> Measured {
        let Summary::Throughput(flow) = summary else {
            return Measured::NotThisKind;
        };
        let value = |figure: Option<f64>| figure.map_or(Measured::Nothing, Measured::Value);
        let loaded = &flow.rtt_ms.loaded;
        match self {
            Self::Throughput => value(flow.bits_per_second),
            Self::Loss => match &flow.udp {
                Some(udp) => value(udp.lost_percent.map(|percent| percent / 100.0)),
                None => Measured::NotThisKind,
            },
            Self::Quantile(quantile) => value(quantile.of(loaded)),
            Self::Average => value(loaded.avg),
            Self::Maximum => value(loaded.max),
            Self::Errors if flow.streams.is_empty() => Measured::Nothing,
            Self::Errors => {
                let failed = flow.streams.iter().filter(|s| s.failed.is_some()).count();
                Measured::Value(failed as f64 / flow.streams.len() as f64)
            }
            Self::Rate => Measured::NotThisKind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::summary::{FetchSummary, RateSummary, UsersSummary};
    use proptest::prelude::*;

    /// 1000 planned, 990 good; p99 at 400 ms, 5/s.
    fn rate() -> Summary {
        Summary::Rate(Box::new(RateSummary {
            planned: 1000,
            unsent: 4,
            outcomes: [("ok".to_owned(), 990), ("http_5xx".to_owned(), 6)].into(),
            achieved_per_s: Some(5.0),
            latency_ms: Distribution {
                avg: Some(120.0),
                max: Some(2500.0),
                p50: Some(100.0),
                p99: Some(400.0),
                ..Distribution::default()
            },
            ..RateSummary::default()
        }))
    }

    fn check(
        rules: &str,
        summary: &Summary,
        expected: &[(&str, &str, Option<&str>, Option<bool>)],
    ) {
        let results = Objectives::parse(rules).unwrap().judge(summary);
        let results: Vec<_> = results
            .iter()
            .map(|result| {
                (
                    result.rule.as_str(),
                    result.limit.as_str(),
                    result.measured.as_deref(),
                    result.ok,
                )
            })
            .collect();
        assert_eq!(results, expected, "{rules}");
    }

    #[test]
    fn rules_are_judged_by_what_was_planned() {
        check(
            "p99<500ms, errors < 0.1%, max<1.5s, rate>4",
            &rate(),
            &[
                ("p99<500ms", "500 ms", Some("400 ms"), Some(true)),
                ("errors<0.1%", "0.1 %", Some("1 %"), Some(false)),
                ("max<1.5s", "1.5 s", Some("2.5 s"), Some(false)),
                ("rate>4", "4/s", Some("5/s"), Some(true)),
            ],
        );
        check(
            "p99<400ms",
            &rate(),
            &[("p99<400ms", "400 ms", Some("400 ms"), Some(false))],
        );
        check(
            "p90<1s",
            &Summary::Rate(Box::default()),
            &[("p90<1s", "1 s", None, None)],
        );
        check("", &rate(), &[]);
    }

    #[test]
    fn what_this_kind_does_not_measure_is_not_judged() {
        let words = Some("not measured by this kind of run");
        check(
            "throughput>1Gbit/s,loss<0.5%",
            &rate(),
            &[
                ("throughput>1Gbit/s", "1 Gbit/s", words, None),
                ("loss<0.5%", "0.5 %", words, None),
            ],
        );
    }

    #[test]
    fn a_run_without_a_reply_misses_every_latency() {
        let dead = Summary::Rate(Box::new(RateSummary {
            planned: 10,
            outcomes: [("connect_refused".to_owned(), 10)].into(),
            ..RateSummary::default()
        }));
        check(
            "p50<1s,errors<1%",
            &dead,
            &[
                ("p50<1s", "1 s", Some("no reply came"), Some(false)),
                ("errors<1%", "1 %", Some("100 %"), Some(false)),
            ],
        );
    }

    #[test]
    fn users_and_single_requests_are_judged_too() {
        let users = Summary::Users(Box::new(UsersSummary {
            planned: None,
            transactions: 99,
            failed: 1,
            transaction_rate_per_s: Some(5.54),
            latency_ms: Distribution {
                p95: Some(700.0),
                ..Distribution::default()
            },
            ..UsersSummary::default()
        }));
        check(
            "p95<1s,errors<2%,rate>5.5/s",
            &users,
            &[
                ("p95<1s", "1 s", Some("700 ms"), Some(true)),
                ("errors<2%", "2 %", Some("1 %"), Some(true)),
                ("rate>5.5/s", "5.5/s", Some("5.54/s"), Some(true)),
            ],
        );
        let fetch = Summary::Fetch(Box::new(FetchSummary {
            total_ms: Some(12.0),
            status: Some(200),
            outcome: "ok".to_owned(),
            ..FetchSummary::default()
        }));
        check(
            "p99.9<20ms,errors<50%",
            &fetch,
            &[
                ("p99.9<20ms", "20 ms", Some("12 ms"), Some(true)),
                ("errors<50%", "50 %", Some("0 %"), Some(true)),
            ],
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (rules, words) in [
            ("p98<1s", "p98"),
            ("p99", "not an objective"),
            ("p99>1s", "write p99<1s"),
            ("rate<5", "write rate>5"),
            ("p99<500", "500ms"),
            ("p99<NaN", "not a number"),
            ("errors<1s", "0.1%"),
            ("errors<0%", "Nothing is below 0"),
            ("max<0ms", "Nothing is below 0"),
            ("rate>-1", "not negative"),
            ("<", "nothing that an objective"),
            ("p99<=500ms", "not a number"),
        ] {
            let message = Objectives::parse(rules).unwrap_err();
            assert!(message.contains(words), "{rules}: {message}");
            assert!(message.ends_with('.'), "{message}");
        }
    }

    #[test]
    fn too_few_requests_are_said() {
        let rules = Objectives::parse("p95<1s,errors<0.1%").unwrap();
        assert_eq!(
            rules.too_few(2_000),
            [
                "2\u{202f}000 requests are too few to prove errors<0.1%: it takes 3\u{202f}000 without an error."
            ]
        );
        assert!(rules.too_few(3_000).is_empty());
        assert_eq!(rules.too_few(199).len(), 2);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", rule in "(p99|errors|rate|loss|max)[<>][0-9.]{0,5}(ms|%|s|/s)?") {
            let _ = Objectives::parse(&text);
            if let Ok(objectives) = Objectives::parse(&rule) {
                prop_assert_eq!(Objectives::parse(&objectives.to_string()), Ok(objectives.clone()));
                let _ = (objectives.judge(&rate()), objectives.too_few(5));
            }
        }
    }
}
