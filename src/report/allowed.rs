//! What a server may be sent by what is documented or said of it, where nothing was measured.

use super::balancer::plain;

/// Requests a second that follow from what is known of a server without a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowed {
    /// Requests per second.
    pub per_s: f64,
    /// How they follow, margin included.
    pub why: String,
}

impl Allowed {
    /// What a server may be sent: this share of the replies that fit its cap, and of the rate that it is said to hold;
    /// the smaller of both, rounded down to a tenth. `None` where neither is known, or not a tenth of a request is left.
    pub fn of(
        cap_bits_per_second: Option<f64>,
        reply_bytes: f64,
        stated_per_s: Option<f64>,
        share: f64,
    ) -> Option<Self> {
        let by_cap = cap_bits_per_second
            .map(|cap| (cap, cap / (8.0 * reply_bytes)))
            .filter(|(_, rate)| rate.is_finite() && *rate > 0.0);
        let (bound, why) = match (by_cap, stated_per_s) {
            (Some((cap, rate)), stated) if stated.is_none_or(|stated| rate <= stated) => (
                rate,
                format!(
                    "{} x {} bit/s / (8 x {} bytes): the replies that its documented cap lets out",
                    plain(share),
                    plain(cap),
                    plain(reply_bytes)
                ),
            ),
            (_, Some(stated)) => (
                stated,
                format!(
                    "{} x {}, the rate that it is said to hold",
                    plain(share),
                    plain(stated)
                ),
            ),
            _ => return None,
        };
        let per_s = (share * bound * 10.0 + 1e-9).floor() / 10.0;
        (per_s >= 0.1).then_some(Self { per_s, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_cap_and_stated_rate_counts_with_its_margin() {
        let of = |cap: Option<f64>, stated: Option<f64>| {
            Allowed::of(cap, 25_000.0, stated, 0.8).map(|allowed| allowed.per_s)
        };
        // 2 Gbit/s / (8 x 25 000 bytes) = 10 000 a second.
        assert_eq!(of(Some(2e9), None), Some(8_000.0));
        assert_eq!(of(Some(2e9), Some(5.0)), Some(4.0));
        assert_eq!(of(Some(2e9), Some(50_000.0)), Some(8_000.0));
        assert_eq!(of(None, Some(6.67)), Some(5.3));
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some(1.0), None), None, "less than a tenth of a request");
        assert_eq!(of(Some(f64::NAN), None), None);
        let why = Allowed::of(Some(2e9), 25_000.0, None, 0.8).unwrap().why;
        assert!(
            why.starts_with("0.8 x 2000000000 bit/s / (8 x 25000 bytes)"),
            "{why}"
        );
    }
}
