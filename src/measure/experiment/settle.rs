//! From which repeat on a series has settled.

/// Medians that differ by less than this share from the one before count as the same.
const SAME: f64 = 0.1;

/// The first repeat, counted from 1, from which on every median differs by less than 10 % from the one before it.
///
/// The first median has none before it. A repeat without a median unsettles: neither it nor the one after it counts.
/// `None` below two repeats, or where even the last one still moved.
pub fn settled_at(medians: &[Option<f64>]) -> Option<u32> {
    if medians.len() < 2 {
        return None;
    }
    let moved = (0..medians.len()).rev().find(|&index| match index {
        0 => medians[0].is_none(),
        _ => !is_same(medians[index - 1], medians[index]),
    });
    let first = moved.map_or(0, |index| index + 1);
    (first < medians.len()).then(|| u32::try_from(first + 1).unwrap_or(u32::MAX))
}

fn is_same(before: Option<f64>, after: Option<f64>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => {
            let moved = (after - before).abs();
            moved <= 0.0 || moved < SAME * before.abs()
        }
        _ => false,
    }
}
