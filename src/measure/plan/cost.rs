//! What a plan will cost, before it starts.

use serde::Serialize;

use super::{Caps, Plan};

/// What a plan asks of the target and of this machine at most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Sending time in s; `None` when the target's speed decides.
    pub sending_s: Option<f64>,
    /// When the last reply or timeout must have come, in s; `None` when the target's speed decides.
    pub last_reply_by_s: Option<f64>,
    /// Requests at most; `None` when only time bounds them.
    pub requests_at_most: Option<u64>,
    /// Requests under way at once if the target answers none of them.
    pub in_flight_if_all_hang: u64,
}

impl Plan {
    /// What it will cost at most.
    ///
    /// In flight if all hang: highest rate × timeout, at least 1, and no more than the plan's
    /// connections and its own limit; in a closed loop the number of users.
    pub fn cost(&self) -> Cost {
        let sending_s = self.expected_duration_s();
        let in_flight_if_all_hang = match self {
            Self::Rate(plan) => {
                let hanging = (plan.peak_rate() * plan.timeout_s).ceil().max(1.0);
                let limit = u64::from(plan.max_in_flight)
                    .min(plan.planned_connections().unwrap_or(u64::MAX));
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "at least 1; a float too large saturates and is then limited"
                )]
                limit.min(hanging as u64)
            }
            Self::Users(plan) => u64::from(plan.concurrent),
            Self::Throughput(plan) => u64::from(plan.streams),
            Self::Fetch(_) | Self::Ping(_) | Self::Path(_) | Self::Imported(_) => 1,
        };
        Cost {
            sending_s,
            last_reply_by_s: sending_s.map(|sending| sending + self.timeout_s()),
            requests_at_most: self.planned_requests(),
            in_flight_if_all_hang,
        }
    }

    /// When a run of it must be stopped at the latest, in s: after its sending time and the slowest last connection,
    /// or where the target's speed decides, after the longest time that is allowed here; then one timeout more.
    pub fn latest_end_s(&self, caps: &Caps) -> f64 {
        let timeout = self.timeout_s();
        let natural = match self {
            Self::Rate(plan) => plan
                .sending_s()
                .map(|sending| sending + f64::from(plan.num_calls) * timeout),
            Self::Users(plan) => plan.duration_s.map(|sending| sending + timeout),
            Self::Fetch(_) => Some(timeout),
            Self::Throughput(plan) => plan.sending_s(),
            Self::Ping(_) => self.expected_duration_s().map(|s| s + timeout),
            Self::Path(_) | Self::Imported(_) => None,
        };
        let longest = caps.max_duration_s + timeout;
        natural.map_or(longest, |natural| natural.min(longest))
    }
}
