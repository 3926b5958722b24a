//! HdrHistogram's percentile text, which its plotting pages read.

use std::fmt::Write;

use hdrhistogram::Histogram;

/// Lines for each halving of the distance to 100 %.
const TICKS: u32 = 5;

/// The distribution of a histogram of µs as percentile text in ms.
pub fn hgrm(histogram: &Histogram<u64>) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, histogram);
    text
}

fn write(out: &mut String, histogram: &Histogram<u64>) -> std::fmt::Result {
    writeln!(
        out,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS) {
        total += step.count_since_last_iteration();
        let quantile = step.quantile_iterated_to();
        // No line may say more than the largest value that was seen.
        let value = ms(step.value_iterated_to().min(histogram.max()));
        write!(out, "{value:12.3} {quantile:.12} {total:10}")?;
        if quantile < 1.0 {
            writeln!(out, " {:14.2}", 1.0 / (1.0 - quantile))?;
        } else {
            writeln!(out)?;
        }
    }
    let mean = histogram.mean() / 1000.0;
    let deviation = histogram.stdev() / 1000.0;
    let max = ms(histogram.max());
    let count = histogram.len();
    let sub_buckets = sub_buckets(histogram.sigfig());
    writeln!(
        out,
        "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]"
    )?;
    writeln!(out, "#[Max     = {max:12.3}, Total count    = {count:12}]")?;
    writeln!(
        out,
        "#[Buckets = {:12}, SubBuckets     = {sub_buckets:12}]",
        histogram.buckets()
    )
}

/// The smallest power of two that tells apart 2 × 10^digits values.
fn sub_buckets(digits: u8) -> u32 {
    (2 * 10_u32.pow(u32::from(digits))).next_power_of_two()
}

fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_rise_to_the_largest_value() {
        let mut histogram = Histogram::new(3).unwrap();
        for us in [1_000, 2_000, 3_000, 10_000] {
            histogram.record(us).unwrap();
        }
        let text = hgrm(&histogram);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "       Value     Percentile TotalCount 1/(1-Percentile)"
        );
        assert_eq!(lines[1], "");
        assert_eq!(
            lines[2],
            "       1.000 0.000000000000          1           1.00"
        );
        assert!(
            text.contains("\n      10.007 1.000000000000          4\n#[Mean"),
            "{text}"
        );
        assert!(text.contains("#[Max     =       10.007, Total count    =            4]"));
        assert!(text.ends_with(", SubBuckets     =         2048]\n"));
    }

    #[test]
    fn nothing_measured_is_a_heading_and_zeros() {
        let text = hgrm(&Histogram::new(3).unwrap());
        assert!(text.contains("Total count    =            0]"), "{text}");
        assert!(!text.contains("NaN"), "{text}");
    }
}
