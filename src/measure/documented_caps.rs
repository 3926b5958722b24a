//! Egress caps as they are documented: data with a date and a source, never measured here.

/// One documented cap.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentedCap {
    /// The cap in bit/s.
    pub bits_per_second: f64,
    /// Where it is written.
    pub source: String,
    /// When it was read there, as YYYY-MM.
    pub as_of: &'static str,
}

/// Egress of one vCPU to an internal address, in bit/s.
const PER_VCPU: f64 = 2e9;
/// The most that a machine may send to an internal address without `TIER_1`, in bit/s.
const MOST_BY_VCPUS: f64 = 16e9;

/// Caps of the `TIER_1` lab: what the machine has without the tier, and with it.
const TIER_1: (f64, f64) = (32e9, 75e9);

/// When the labs' rules were read.
const AS_OF: &str = "2026-11";

/// The rule of the core-count lab: min(2 × vCPUs, 16) Gbit/s; `None` for no vCPU.
pub fn by_vcpus(vcpus: u32) -> Option<DocumentedCap> {
    (vcpus > 0).then(|| DocumentedCap {
        bits_per_second: (f64::from(vcpus) * PER_VCPU).min(MOST_BY_VCPUS),
        source: "2 Gbit/s per vCPU, at most 16 (core-count lab)".to_owned(),
        as_of: AS_OF,
    })
}

/// The rule of the `TIER_1` lab: 75 Gbit/s with the tier, 32 Gbit/s without it.
pub fn by_tier(tier_1: bool) -> DocumentedCap {
    DocumentedCap {
        bits_per_second: if tier_1 { TIER_1.1 } else { TIER_1.0 },
        source: if tier_1 {
            "egress tier TIER_1 (TIER_1 lab)".to_owned()
        } else {
            "default egress tier (TIER_1 lab)".to_owned()
        },
        as_of: AS_OF,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_grow_with_the_vcpus_up_to_sixteen_gigabit() {
        for (vcpus, expected) in [(1, 2e9), (2, 4e9), (4, 8e9), (8, 16e9), (64, 16e9)] {
            let cap = by_vcpus(vcpus).map(|cap| cap.bits_per_second);
            assert_eq!(cap, Some(expected), "{vcpus}");
        }
        assert_eq!(by_vcpus(0), None);
        let of = |tier| Some(by_tier(tier).bits_per_second);
        assert_eq!((of(false), of(true)), (Some(32e9), Some(75e9)));
    }
}
