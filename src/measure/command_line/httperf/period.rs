//! httperf's `--period`: the gaps between connections.

use crate::measure::units::parse_number;

/// `--rate` or `--period`.
pub(super) enum Pace {
    Even(f64),
    Exponential(f64),
    Steps(Vec<(f64, f64)>),
}

/// `--period [d|e]T` or `vT1,D1,T2,D2…`: seconds between connections instead of connections per second.
pub(super) fn read(value: &str) -> Result<(Pace, String), String> {
    let usage = || {
        "--period takes dT (even gaps of T seconds), eT (exponential gaps) or vT1,D1,T2,D2… (gaps T for D seconds)."
            .to_owned()
    };
    let seconds = |text: &str| parse_number(text).ok().filter(|gap| *gap >= 0.0);
    let lower = value.to_ascii_lowercase();
    let (kind, rest) = match lower.chars().next() {
        Some(letter @ ('d' | 'e' | 'u' | 'v')) => (letter, &lower[1..]),
        _ => ('d', lower.as_str()),
    };
    match kind {
        'u' => Err(
            "--period u is not supported: gaps are even (d) or exponential (e) here.".to_owned(),
        ),
        'v' => {
            let numbers: Option<Vec<f64>> = rest.split(',').map(seconds).collect();
            let numbers = numbers
                .filter(|list| list.len() % 2 == 0)
                .ok_or_else(usage)?;
            let steps: Vec<(f64, f64)> = numbers
                .chunks_exact(2)
                .map(|pair| (rate_of_gap(pair[0]), pair[1]))
                .collect();
            Ok((
                Pace::Steps(steps),
                "gaps and seconds in turn: a rate in steps".to_owned(),
            ))
        }
        _ => {
            let gap = seconds(rest).ok_or_else(usage)?;
            let rate = rate_of_gap(gap);
            if kind == 'e' {
                Ok((
                    Pace::Exponential(rate),
                    format!("random gaps, {gap} s on average: {rate} per second"),
                ))
            } else {
                Ok((Pace::Even(rate), format!("{rate} connections per second")))
            }
        }
    }
}

/// 1 / gap, and the round number where the gap is as near to it as a number can be: 1 / 7 is 0.14285714285714285,
/// whose own inverse is not 7.
fn rate_of_gap(gap: f64) -> f64 {
    if gap <= 0.0 {
        return 0.0;
    }
    let rate = 1.0 / gap;
    let round: f64 = format!("{rate:.11e}").parse().unwrap_or(rate);
    #[expect(
        clippy::float_cmp,
        reason = "the very number that the gap was written from is looked for"
    )]
    if 1.0 / round == gap { round } else { rate }
}
