//! The tide ruler: what was measured above the line, what it is held against below it, what is missing as a red wash.

use crate::dashboard::words;

/// One ruler, in percent of its width, so that its text never scales.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ruler {
    /// What it says, for those who do not see it.
    pub label: String,
    /// Marks on the scale.
    pub ticks: Vec<Tick>,
    /// Bars on the line.
    pub bars: Vec<Bar>,
    /// What was measured.
    pub above: Option<Flag>,
    /// The reference.
    pub below: Option<Flag>,
}

/// One mark on the scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Where, in percent.
    pub at: String,
    /// Its label.
    pub text: String,
    /// Which end of the label stands there.
    pub anchor: &'static str,
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Its left end.
    pub at: String,
    /// Its length.
    pub width: String,
    /// Its colour role.
    pub fill: &'static str,
    /// Whether it is only a wash.
    pub wash: bool,
}

/// A labelled value.
#[derive(Clone, Debug, PartialEq)]
pub struct Flag {
    /// Where, in percent.
    pub at: String,
    /// Which end of the label stands there.
    pub anchor: &'static str,
    /// Distance of the label from its mark in px.
    pub dx: &'static str,
    /// Its colour role.
    pub fill: &'static str,
    /// The label.
    pub text: String,
}

/// What was measured against what it should have been, on a scale from 0.
pub fn against(measured: f64, measured_text: &str, reference: f64, reference_text: &str) -> Ruler {
    let (top, step) = scale(measured.max(reference));
    let mut bars = Vec::new();
    if reference > measured {
        bars.push(bar(measured, reference - measured, top, "var(--bad)", true));
    }
    bars.push(bar(0.0, measured, top, "var(--s1)", false));
    Ruler {
        label: format!("{measured_text} of {reference_text}"),
        ticks: ticks_beside(top, step, reference),
        bars,
        above: Some(flag(measured, top, "var(--s1)", measured_text)),
        below: Some(flag(reference, top, "var(--s2)", reference_text)),
    }
}

/// Where values lie: a bar from the smallest to the largest, with one of them named above it.
pub fn spread(
    (low, high): (f64, f64),
    high_text: &str,
    (middle, middle_text): (f64, &str),
) -> Ruler {
    let (top, step) = scale(high);
    Ruler {
        label: format!("{middle_text}, {high_text}"),
        ticks: ticks_beside(top, step, high),
        bars: vec![
            bar(low, high - low, top, "var(--sky)", false),
            bar(low, middle - low, top, "var(--s1)", false),
        ],
        above: Some(flag(middle, top, "var(--s1)", middle_text)),
        below: Some(flag(high, top, "var(--s2)", high_text)),
    }
}

/// How far a running run is, in seconds; without a known end the line is open.
pub fn progress(done_s: f64, of_s: Option<f64>) -> Ruler {
    let end = of_s.unwrap_or(done_s * 1.25).max(done_s).max(0.1);
    let text = format!("{} done", words::seconds(done_s));
    let mut ticks = ticks(end, tick_step(end), "\u{a0}s");
    if of_s.is_none() {
        ticks.retain(|tick| tick.anchor != "end");
    }
    Ruler {
        label: match of_s {
            Some(of) => format!("{text} of {}", words::seconds(of)),
            None => text.clone(),
        },
        ticks,
        bars: vec![bar(0.0, done_s, end, "var(--s1)", false)],
        above: Some(flag(done_s, end, "var(--s1)", &text)),
        below: None,
    }
}

/// Phases one after another, in ms: name, length, colour role.
pub fn phases(parts: &[(&'static str, f64, &'static str)]) -> Ruler {
    let total: f64 = parts.iter().map(|(_, ms, _)| ms).sum();
    let end = total.max(1e-6);
    let mut at = 0.0;
    let mut bars = Vec::new();
    for (_, ms, fill) in parts {
        bars.push(bar(at, *ms, end, fill, false));
        at += ms;
    }
    let longest = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let mut start = 0.0;
    let mut above = None;
    for part in parts {
        if Some(part) == longest {
            let text = format!("{} {}", part.0, words::ms(Some(part.1)));
            above = Some(flag(start + part.1, end, "var(--s1)", &text));
        }
        start += part.1;
    }
    Ruler {
        label: parts
            .iter()
            .map(|(name, ms, _)| format!("{name} {}", words::ms(Some(*ms))))
            .collect::<Vec<_>>()
            .join(", "),
        ticks: vec![
            tick(0.0, end, "0".to_owned()),
            tick(end, end, words::ms(Some(total))),
        ],
        bars,
        above,
        below: None,
    }
}

/// A round end of the scale and its step.
fn scale(largest: f64) -> (f64, f64) {
    let largest = if largest.is_finite() && largest > 0.0 {
        largest
    } else {
        1.0
    };
    let step = tick_step(largest);
    let fine = step / 5.0;
    let mut top = (largest / fine).ceil() * fine;
    if top < largest * 1.02 {
        top += fine;
    }
    (top, step)
}

/// A step of 1, 2 or 5 times a power of ten, so that two to five fit.
fn tick_step(end: f64) -> f64 {
    let power = 10_f64.powf((end / 2.0).log10().floor());
    [5.0, 2.0, 1.0]
        .into_iter()
        .map(|times| times * power)
        .find(|step| end / step >= 2.0)
        .unwrap_or(power)
}

fn ticks(end: f64, step: f64, unit: &str) -> Vec<Tick> {
    let mut out = vec![tick(0.0, end, "0".to_owned())];
    let mut at = step;
    while at < last_label(end) && out.len() < 8 {
        out.push(tick(at, end, words::digits_short(at)));
        at += step;
    }
    out.push(tick(
        end,
        end,
        format!("{}{unit}", words::digits_short(end)),
    ));
    out
}

/// Marks without the label that the mark below the line would cross.
fn ticks_beside(end: f64, step: f64, reference: f64) -> Vec<Tick> {
    let mut out = vec![tick(0.0, end, "0".to_owned())];
    let mut at = step;
    while at < last_label(end) && out.len() < 8 {
        let crossed = (at - reference).abs() < end * 0.03;
        let text = if crossed {
            String::new()
        } else {
            words::digits_short(at)
        };
        out.push(tick(at, end, text));
        at += step;
    }
    let crossed = reference > end * 0.965;
    let text = if crossed {
        String::new()
    } else {
        words::digits_short(end)
    };
    out.push(tick(end, end, text));
    out
}

/// Where labels end, so that none runs into the end's own on a phone: 350 px wide, 8 px a digit.
fn last_label(end: f64) -> f64 {
    let digits = words::digits_short(end).chars().count() as f64;
    end * (1.0 - (digits * 1.5 * 8.0 + 8.0) / 350.0).min(0.9)
}

fn tick(at: f64, end: f64, text: String) -> Tick {
    Tick {
        at: percent(at, end),
        text,
        anchor: match at {
            at if at <= 0.0 => "start",
            at if at >= end => "end",
            _ => "middle",
        },
    }
}

fn bar(at: f64, width: f64, end: f64, fill: &'static str, wash: bool) -> Bar {
    Bar {
        at: percent(at, end),
        width: percent(width, end),
        fill,
        wash,
    }
}

fn flag(at: f64, end: f64, fill: &'static str, text: &str) -> Flag {
    let left = at / end < 0.5;
    Flag {
        at: percent((at - end * 0.002).max(0.0), end),
        anchor: if left { "start" } else { "end" },
        dx: if left { "6" } else { "-5" },
        fill,
        text: text.to_owned(),
    }
}

fn percent(at: f64, end: f64) -> String {
    let share = (at / end * 100.0).clamp(0.0, 100.0);
    format!("{}%", (share * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_washed_between_measured_and_reference() {
        let ruler = against(10.7, "10.7 answered", 13.0, "13.0 offered");
        assert_eq!(ruler.bars.len(), 2);
        assert!(ruler.bars[0].wash);
        assert_eq!(ruler.bars[0].at, ruler.bars[1].width);
        assert_eq!(ruler.ticks.first().unwrap().text, "0");
        assert!(
            against(13.0, "a", 13.0, "b")
                .bars
                .iter()
                .all(|bar| !bar.wash)
        );
    }

    #[test]
    fn the_reference_crosses_no_label() {
        let ruler = against(12.4, "m", 10.0, "r");
        let texts: Vec<&str> = ruler.ticks.iter().map(|tick| tick.text.as_str()).collect();
        assert_eq!(texts, ["0", "5", "", "13"]);
        assert!(ruler.label.ends_with("of r"));
    }

    #[test]
    fn long_labels_stay_apart_on_a_phone() {
        let ruler = against(65_535.0, "m", 1_500.0, "r");
        let texts: Vec<&str> = ruler.ticks.iter().map(|tick| tick.text.as_str()).collect();
        assert_eq!(
            texts,
            ["0", "20\u{202f}000", "40\u{202f}000", "68\u{202f}000"]
        );
    }

    #[test]
    fn every_scale_ends_and_its_labels_stay_apart() {
        for largest in [
            0.0,
            1e-9,
            0.3,
            1.0,
            7.0,
            13.0,
            99.9,
            100_000.0,
            f64::INFINITY,
            f64::NAN,
        ] {
            let ruler = against(largest, "m", largest, "r");
            assert!((2..=8).contains(&ruler.ticks.len()), "{largest}: {ruler:?}");
            assert!(!format!("{ruler:?}").contains("inf%"), "{largest}");
        }
        for end in [0.01, 0.5, 1.0, 45.0, 86_400.0] {
            assert!(progress(end / 3.0, Some(end)).ticks.len() <= 8);
        }
    }
}
