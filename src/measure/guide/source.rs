//! The figures of the source labs, as printed there; rates in bit/s, times in ms.

/// Where those of the first three guides come from.
pub(super) const CORES: &str = "the core-count and debugging lab: iperf 2 and ping between cloud machines of 1 and 4 vCPUs, its printed tool outputs";
/// Where those of the `TIER_1` guide come from.
pub(super) const TIER: &str = "the Tier_1 lab: iperf 2 between two n2-standard-64 with 8896-byte frames, its printed tool output";
/// Where those of the servers come from.
pub(super) const SERVERS: &str = "the capacity and load-balancing tutorial (lb-app-capacity-tutorial-python): httperf and siege against n1-highcpu-4 machines, its printed tool outputs";
/// Said where there are none.
pub(super) const NONE: &str =
    "the tutorial describes a region that fails and prints no figures of it";

/// `ping -c 5`, first pair of machines.
pub(super) const PING_MS: [f64; 5] = [1.89, 0.409, 0.542, 0.557, 0.559];

/// Name of the sender, its documented cap, what one stream to an internal address reached.
pub(super) const ONE_STREAM: [(&str, f64, f64); 3] = [
    ("1 vCPU", 2e9, 1.96e9),
    ("4 vCPU", 8e9, 7.67e9),
    ("4 vCPU, high CPU", 8e9, 8.84e9),
];

/// The same pair of machines by its two addresses.
pub(super) const INTERNAL: f64 = 1.94e9;
/// See [`INTERNAL`].
pub(super) const EXTERNAL: f64 = 1.16e9;

/// MTU that the lab sets and expects, in bytes.
pub(super) const MTU: f64 = 8896.0;
/// `[SUM]` of 16 streams.
pub(super) const TIER_SUM: f64 = 74.9e9;
/// Documented cap of that machine with the tier.
pub(super) const TIER_CAP: f64 = 75e9;
/// Each of the 16 streams, slowest first.
pub(super) const TIER_STREAMS: [f64; 16] = [
    2.10e9, 2.19e9, 2.19e9, 2.51e9, 2.62e9, 2.66e9, 3.19e9, 3.58e9, 3.80e9, 5.02e9, 5.07e9, 5.43e9,
    5.62e9, 6.76e9, 9.57e9, 12.6e9,
];

/// siege's 80 hits over its 14.45 s: the ceiling. (The lab prints 5.05; the division gives 5.54.)
pub(super) const CEILING_PER_S: f64 = 80.0 / 14.45;
/// One server: rate, median connection time, errors of 500 connections.
pub(super) const ONE_SERVER: [(f64, f64, u64); 4] = [
    (4.0, 377.5, 0),
    (5.0, 378.5, 0),
    (7.0, 8_481.5, 4),
    (10.0, 10_052.5, 32),
];
/// Connections of each of these.
pub(super) const CONNECTIONS: f64 = 500.0;

/// Three servers of one region: rate, average latency as the lab states it.
pub(super) const REGION: [(f64, f64); 2] = [(10.0, 500.0), (20.0, 5_000.0)];
/// Where the lab sees it bend, in requests per second.
pub(super) const REGION_KNEE: (f64, f64) = (12.0, 13.0);
/// Servers of a region.
pub(super) const SERVERS_OF_REGION: f64 = 3.0;

/// Two regions at 10 requests a second: the median.
pub(super) const GLOBAL_BELOW_MS: f64 = 531.5;
/// At 20 a second, run after run: the medians.
pub(super) const GLOBAL_MEDIANS_MS: [f64; 5] = [7_351.5, 3_623.5, 705.5, 667.5, 669.5];
/// Average latency at 20 a second as the lab states it: by one region, and by two once they have settled.
pub(super) const AT_TWENTY_MS: (f64, f64) = (5_000.0, 700.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_streams_are_sixteen_and_sum_to_what_the_lab_printed() {
        let sum: f64 = TIER_STREAMS.iter().sum();
        assert!((sum - TIER_SUM).abs() < 0.05e9, "{sum}");
        assert!(TIER_STREAMS.is_sorted());
    }
}
