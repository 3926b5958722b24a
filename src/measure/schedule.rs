//! When the next request is due, which URL it asks for, and how long a user thinks: pure and reproducible.

use std::time::Duration;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

use crate::measure::plan::{Order, Rate, RatePlan, Schedule, UsersPlan, WeightedUrl};

/// The planned starts of an open-loop plan's connections, since the run's start, the first at 0.
///
/// A process that arrives once per unit (exactly, or in exponential gaps of mean 1) is mapped through the
/// rate's integral over time. Evenly spaced connection k of a constant rate so starts at k / rate, computed
/// anew for each k: nothing adds up.
#[derive(Clone, Debug)]
pub struct Arrivals {
    segments: Vec<Segment>,
    segment: usize,
    gaps: Option<Pcg64>,
    /// Number of the next arrival.
    index: u64,
    /// The next arrival's place in the unit process.
    place: f64,
    limit: Option<u64>,
    end: f64,
    stride: u64,
}

/// A stretch of constant rate.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start_s: f64,
    /// Arrivals expected before it.
    start_place: f64,
    /// Arrivals expected until its end.
    end_place: f64,
    rate: f64,
}

impl Arrivals {
    /// The arrivals of this plan; none for rate 0, where each connection waits for the one before it.
    pub fn new(plan: &RatePlan) -> Self {
        let (segments, end) = segments(plan);
        Self {
            segments,
            segment: 0,
            gaps: match plan.schedule {
                Schedule::Deterministic => None,
                Schedule::Exponential => Some(Pcg64::seed_from_u64(plan.seed)),
            },
            index: 0,
            place: 0.0,
            limit: plan.num_conns,
            end,
            stride: 1,
        }
    }

    /// Every `of`-th arrival, beginning with number `index`: the shards of one plan interleave and together are
    /// the whole. Arrival n of a shard is number `index + n × of` of the plan.
    #[must_use]
    pub fn shard(mut self, index: u64, of: u64) -> Self {
        self.advance(index);
        self.stride = of.max(1);
        self
    }

    fn advance(&mut self, arrivals: u64) {
        match &mut self.gaps {
            None => {
                self.index = self.index.saturating_add(arrivals);
                self.place = self.index as f64;
            }
            Some(gaps) => {
                for _ in 0..arrivals {
                    if self.place >= self.end {
                        break;
                    }
                    self.index += 1;
                    self.place += -(-unit(gaps)).ln_1p();
                }
            }
        }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.limit.is_some_and(|limit| self.index >= limit) || self.place >= self.end {
            return None;
        }
        while self.segments.get(self.segment)?.end_place <= self.place {
            self.segment += 1;
        }
        let segment = self.segments.get(self.segment)?;
        let seconds = segment.start_s + (self.place - segment.start_place) / segment.rate;
        self.advance(self.stride);
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// How many arrivals a plan has; 0 for rate 0. An exponential plan bounded by time is drawn to know.
pub fn count(plan: &RatePlan) -> u64 {
    if let Some(connections) = plan.num_conns {
        return connections;
    }
    if plan.schedule == Schedule::Exponential {
        return Arrivals::new(plan).fold(0, |count, _| count + 1);
    }
    let (_, end) = segments(plan);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "never negative; a float too large saturates"
    )]
    let whole = end.ceil() as u64;
    whole
}

/// How many arrivals a plan has on average: the integral of its rate over time, or its connections.
pub fn expected_count(plan: &RatePlan) -> f64 {
    match plan.num_conns {
        Some(connections) => connections as f64,
        None => segments(plan).1,
    }
}

/// The stretches of constant rate above 0, and the arrivals expected in all (infinite when a count bounds them).
fn segments(plan: &RatePlan) -> (Vec<Segment>, f64) {
    let steps = match (&plan.rate, plan.duration_s) {
        (Rate::Steps(steps), _) => steps.clone(),
        (Rate::Constant(rate), Some(seconds)) => vec![(*rate, seconds)],
        (Rate::Constant(rate), None) => vec![(*rate, f64::INFINITY)],
    };
    let mut segments = Vec::with_capacity(steps.len());
    let (mut start_s, mut start_place) = (0.0, 0.0);
    for (rate, seconds) in steps {
        if rate > 0.0 {
            let end_place = snapped(start_place + rate * seconds);
            segments.push(Segment {
                start_s,
                start_place,
                end_place,
                rate,
            });
            start_place = end_place;
        }
        start_s += seconds;
    }
    (segments, start_place)
}

/// The whole number beside `place` when only rounding separates them: 0.1 per s for 30 s are 3 arrivals, not 4.
fn snapped(place: f64) -> f64 {
    let whole = place.round();
    if (place - whole).abs() <= 1e-9 + 1e-12 * place {
        whole
    } else {
        place
    }
}

/// A number from 0 to below 1, from 53 random bits.
fn unit(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Which of a plan's URLs a request asks for.
#[derive(Clone, Debug)]
pub struct UrlChoice {
    /// Sums of the weights up to and including each URL.
    sums: Vec<u64>,
    /// `None` = in turn.
    seed: Option<u64>,
}

impl UrlChoice {
    /// Draws by weight; the same seed and number give the same URL on every thread.
    pub fn new(urls: &[WeightedUrl], seed: u64) -> Self {
        Self {
            sums: sums(urls),
            seed: Some(seed),
        }
    }

    /// One URL after another, each as often in a row as its weight says.
    pub fn in_turn(urls: &[WeightedUrl]) -> Self {
        Self {
            sums: sums(urls),
            seed: None,
        }
    }

    /// The choice of one user of a closed-loop plan, by its own request number.
    pub fn for_user(plan: &UsersPlan, user: u32) -> Self {
        match plan.order {
            Order::InTurn => Self::in_turn(&plan.urls),
            Order::Random => Self::new(&plan.urls, mixed(plan.seed, u64::from(user))),
        }
    }

    /// The place of the URL of request number `seq` in the plan's list.
    pub fn at(&self, seq: u64) -> usize {
        let Some(total) = self.sums.last().copied().filter(|total| *total > 0) else {
            return 0;
        };
        let ticket = match self.seed {
            None => seq % total,
            Some(seed) => {
                let scaled = (u128::from(mixed(seed, seq)) * u128::from(total)) >> 64;
                u64::try_from(scaled).unwrap_or(0)
            }
        };
        self.sums.partition_point(|sum| *sum <= ticket)
    }
}

fn sums(urls: &[WeightedUrl]) -> Vec<u64> {
    urls.iter()
        .scan(0, |sum, one| {
            *sum += u64::from(one.weight);
            Some(*sum)
        })
        .collect()
}

/// Mixes two numbers into 64 well-spread bits (the finaliser of `SplitMix64`).
fn mixed(seed: u64, number: u64) -> u64 {
    let mut bits = seed
        .wrapping_mul(0xd134_2543_de82_ef95)
        .wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The pauses of one user of a closed-loop plan: each between 0 and the plan's delay, evenly distributed.
#[derive(Clone, Debug)]
pub struct ThinkTimes {
    delay_s: f64,
    random: Pcg64,
}

impl ThinkTimes {
    /// The pauses of user number `user`.
    pub fn new(plan: &UsersPlan, user: u32) -> Self {
        Self {
            delay_s: plan.delay_s,
            random: Pcg64::seed_from_u64(mixed(plan.seed, !u64::from(user))),
        }
    }
}

impl Iterator for ThinkTimes {
    type Item = Duration;

    /// Never ends; zero each time when the plan has no delay.
    fn next(&mut self) -> Option<Duration> {
        let seconds = self.delay_s * unit(&mut self.random);
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::{Caps, Plan};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn rate(fields: &Value) -> RatePlan {
        let mut plan = json!({"kind": "rate", "url": "http://h/"});
        for (key, value) in fields.as_object().unwrap() {
            plan[key] = value.clone();
        }
        match Plan::from_json(&plan, &Caps::default()).unwrap() {
            Plan::Rate(plan) => plan,
            _ => unreachable!(),
        }
    }

    fn users(fields: &Value) -> UsersPlan {
        let mut plan = json!({"kind": "users", "url": "http://h/", "reps": 1});
        for (key, value) in fields.as_object().unwrap() {
            plan[key] = value.clone();
        }
        plan["url"] = Value::Null;
        if plan.get("urls").is_none() {
            plan["url"] = json!("http://h/");
        }
        match Plan::from_json(&plan, &Caps::default()).unwrap() {
            Plan::Users(plan) => plan,
            _ => unreachable!(),
        }
    }

    fn starts(fields: &Value) -> Vec<f64> {
        Arrivals::new(&rate(fields))
            .map(|at| at.as_secs_f64())
            .collect()
    }

    #[test]
    fn evenly_spaced_starts_are_worked_out_by_hand() {
        assert_eq!(
            starts(&json!({"rate": 4, "num_conns": 5})),
            [0.0, 0.25, 0.5, 0.75, 1.0]
        );
        assert_eq!(
            starts(&json!({"rate": 2.5, "duration_s": 1})),
            [0.0, 0.4, 0.8]
        );
        assert_eq!(
            starts(&json!({"rate": 10, "duration_s": 0.01})),
            [0.0],
            "the first starts at once, however short the run"
        );
        assert!(starts(&json!({"rate": 0, "num_conns": 5})).is_empty());
        assert!(starts(&json!({"rate": 0, "duration_s": 5})).is_empty());
    }

    #[test]
    fn rounding_neither_adds_nor_loses_a_connection() {
        for (per_s, seconds, expected) in [
            (0.1, 30.0, 3),
            (0.7, 10.0, 7),
            (1.1, 10.0, 11),
            (13.0, 154.0, 2_002),
            (29.97, 100.0, 2_997),
            (3.3, 0.1, 1),
            (100_000.0, 99.99, 9_999_000),
        ] {
            let plan = rate(&json!({"rate": per_s, "duration_s": seconds}));
            assert_eq!(count(&plan), expected, "{per_s}/s for {seconds} s");
            assert_eq!(plan.planned_connections(), Some(expected));
        }
    }

    #[test]
    fn no_error_adds_up_over_ten_million_connections() {
        let plan = rate(&json!({"rate": 7000, "num_conns": 10_000_000}));
        let last = Arrivals::new(&plan).shard(9_999_999, 1).next().unwrap();
        assert_eq!(last.as_nanos(), 1_428_571_285_714);
    }

    #[test]
    fn steps_change_the_gap_and_leave_no_gap_between_them() {
        assert_eq!(
            starts(&json!({"rate": [[2, 1], [4, 1]]})),
            [0.0, 0.5, 1.0, 1.25, 1.5, 1.75]
        );
        assert_eq!(
            starts(&json!({"rate": [[0, 2], [1, 2]]})),
            [2.0, 3.0],
            "a step of rate 0 is a pause"
        );
        // Half an arrival is owed by the first step and paid early in the second.
        assert_eq!(
            starts(&json!({"rate": [[1, 1.5], [2, 1]]})),
            [0.0, 1.0, 1.75, 2.25]
        );
        let plan = rate(&json!({"rate": [[5, 20], [10, 20]]}));
        assert_eq!(count(&plan), 300);
        assert_eq!(plan.sending_s(), Some(40.0));
    }

    #[test]
    fn exponential_gaps_have_the_mean_and_the_spread_of_a_poisson_process() {
        for seed in 1..6 {
            let plan = rate(
                &json!({"rate": 50, "num_conns": 20_000, "schedule": "exponential", "seed": seed}),
            );
            let at: Vec<f64> = Arrivals::new(&plan).map(|at| at.as_secs_f64()).collect();
            assert_eq!(at.len(), 20_000);
            assert!(at[0].abs() < f64::EPSILON);
            let gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let n = gaps.len() as f64;
            let mean = gaps.iter().sum::<f64>() / n;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / (n - 1.0);
            // Standard errors: 0.7 % of the mean; of the variance 2 %.
            assert!((mean * 50.0 - 1.0).abs() < 0.03, "mean {mean}");
            assert!((variance * 2500.0 - 1.0).abs() < 0.1, "variance {variance}");
        }
    }

    #[test]
    fn an_exponential_plan_by_time_counts_what_it_will_send() {
        let plan = rate(&json!({"rate": 100, "duration_s": 20, "schedule": "exponential"}));
        let at: Vec<Duration> = Arrivals::new(&plan).collect();
        assert_eq!(count(&plan), at.len() as u64);
        assert!((1_800..2_200).contains(&at.len()));
        assert!(at.iter().all(|at| *at < Duration::from_secs(20)));
    }

    #[test]
    fn urls_come_by_weight() {
        let plan = rate(
            &json!({"url": null, "urls": [{"url": "http://a/", "weight": 3}, {"url": "http://b/"}], "rate": 1, "num_conns": 1}),
        );
        let choice = UrlChoice::new(&plan.urls, 7);
        let first = (0..40_000).filter(|seq| choice.at(*seq) == 0).count();
        assert!((29_500..30_500).contains(&first), "{first}");
        assert_eq!(choice.at(12_345), UrlChoice::new(&plan.urls, 7).at(12_345));
        let turn = UrlChoice::in_turn(&plan.urls);
        let eight: Vec<usize> = (0..8).map(|seq| turn.at(seq)).collect();
        assert_eq!(eight, [0, 0, 0, 1, 0, 0, 0, 1]);
    }

    #[test]
    fn users_walk_apart_at_random_and_together_in_turn() {
        let urls = json!([{"url": "http://a/"}, {"url": "http://b/"}, {"url": "http://c/"}]);
        let walk = |plan: &UsersPlan, user| {
            let choice = UrlChoice::for_user(plan, user);
            (0..50).map(|seq| choice.at(seq)).collect::<Vec<_>>()
        };
        let random = users(&json!({"urls": urls, "order": "random"}));
        assert_ne!(walk(&random, 0), walk(&random, 1));
        let turn = users(&json!({"urls": urls}));
        assert_eq!(walk(&turn, 0), walk(&turn, 1));
        assert_eq!(walk(&turn, 0)[..4], [0, 1, 2, 0]);
    }

    #[test]
    fn pauses_are_even_between_zero_and_the_delay_and_differ_by_user() {
        let plan = users(&json!({"delay_s": 2}));
        let pauses: Vec<f64> = ThinkTimes::new(&plan, 3)
            .take(20_000)
            .map(|pause| pause.as_secs_f64())
            .collect();
        let mean = pauses.iter().sum::<f64>() / 20_000.0;
        let variance = pauses.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / 19_999.0;
        assert!((mean - 1.0).abs() < 0.02, "mean {mean}");
        assert!((variance - 4.0 / 12.0).abs() < 0.02, "variance {variance}");
        assert!(pauses.iter().all(|pause| (0.0..=2.0).contains(pause)));
        assert_ne!(
            ThinkTimes::new(&plan, 0).next(),
            ThinkTimes::new(&plan, 1).next()
        );
        let none = users(&json!({}));
        assert_eq!(ThinkTimes::new(&none, 0).nth(5), Some(Duration::ZERO));
    }

    proptest! {
        #[test]
        fn shards_together_are_the_whole(
            per_s in 0.5..500.0_f64,
            conns in 1_u64..400,
            of in 1_u64..9,
            exponential: bool,
        ) {
            let schedule = if exponential { "exponential" } else { "deterministic" };
            let plan = rate(&json!({"rate": per_s, "num_conns": conns, "schedule": schedule, "seed": conns}));
            let whole: Vec<Duration> = Arrivals::new(&plan).collect();
            prop_assert_eq!(whole.len() as u64, conns);
            prop_assert!(whole.is_sorted());
            for shard in 0..of {
                let part: Vec<Duration> = Arrivals::new(&plan).shard(shard, of).collect();
                let expected: Vec<Duration> = whole
                    .iter()
                    .copied()
                    .skip(usize::try_from(shard).unwrap())
                    .step_by(usize::try_from(of).unwrap())
                    .collect();
                prop_assert_eq!(part, expected);
            }
        }

        #[test]
        fn a_plan_by_time_ends_before_its_time_and_keeps_its_count(
            steps in prop::collection::vec((0.0..40.0_f64, 0.01..3.0_f64), 1..6),
            exponential: bool,
        ) {
            prop_assume!(steps.iter().any(|(rate, _)| *rate > 0.0));
            let schedule = if exponential { "exponential" } else { "deterministic" };
            let plan = rate(&json!({"rate": steps, "schedule": schedule}));
            let end = plan.sending_s().unwrap() + 1e-9;
            let at: Vec<Duration> = Arrivals::new(&plan).collect();
            prop_assert_eq!(count(&plan), at.len() as u64);
            prop_assert!(at.is_sorted());
            prop_assert!(at.iter().all(|at| at.as_secs_f64() <= end));
        }
    }
}
