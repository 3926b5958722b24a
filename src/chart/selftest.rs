//! The self-test drawn: how late sends were at each rate that was tried, and how late on the timer's grid.

use crate::chart::axis::Axis;
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, count, ms};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::selftest::{EXACT_MS, SelfTest, Strength, StrengthStep};

/// Both charts, to stand side by side.
pub fn self_test_figures(test: &SelfTest) -> Vec<Figure> {
    vec![strength(test), timer(test)]
}

/// New and kept connections, as far as they were tried.
fn tried(test: &SelfTest) -> Vec<(&'static str, Role, &Strength)> {
    let kinds = [
        ("new", Role::S1, test.new_connections.as_ref()),
        ("kept", Role::S2, test.kept_connections.as_ref()),
    ];
    kinds
        .into_iter()
        .filter_map(|(word, role, strength)| Some((word, role, strength?)))
        .collect()
}

/// The steps that can be drawn: rate and lateness, both above 0.
fn drawable(strength: &Strength) -> Vec<(f64, f64, &StrengthStep)> {
    strength
        .steps
        .iter()
        .filter_map(|step| Some((step.rate_per_s, step.lateness_p99_ms?, step)))
        .filter(|(rate, late, _)| rate.is_finite() && *rate > 0.0 && late.is_finite())
        .map(|(rate, late, step)| (rate, late.clamp(1e-3, 1e6), step))
        .collect()
}

fn strength(test: &SelfTest) -> Figure {
    let kinds = tried(test);
    let nothing = kinds.iter().all(|(.., found)| drawable(found).is_empty());
    let rows = kinds.iter().flat_map(|(word, _, found)| {
        found.steps.iter().map(|step| {
            vec![
                (*word).to_owned(),
                count(text::whole(step.rate_per_s)),
                step.lateness_p99_ms.map(ms).unwrap_or_default(),
                count(step.failed),
                if step.passed { "yes" } else { "no" }.to_owned(),
            ]
        })
    });
    let parts = Parts {
        name: "strength",
        title: match (test.new_per_s(), test.kept_per_s()) {
            (Some(new), Some(kept)) => format!(
                "On schedule up to {} new connections a second, {} requests over kept ones",
                count(text::whole(new)),
                count(text::whole(kept))
            ),
            _ => "Lateness at each rate that was tried".to_owned(),
        },
        subtitle: format!(
            "99th percentile of the lateness of each step; a cross failed. Allowed: {}",
            ms(EXACT_MS)
        ),
        desc: "One mark for each step of the search, by its rate and its lateness.".to_owned(),
        table: Table::new(
            &[
                "connections",
                "rate per s",
                "lateness p99",
                "not answered",
                "on schedule",
            ],
            rows,
        ),
        empty: nothing.then(|| "No rate was tried.".to_owned()),
        pair: true,
    };
    finish(parts, |form| draw_strength(form, &kinds))
}

fn frame(form: Form, right: f64) -> Frame {
    Frame {
        left: 58.0,
        top: 28.0,
        right: f64::from(form.width()) - right,
        bottom: 218.0,
    }
}

fn draw_strength(form: Form, kinds: &[(&'static str, Role, &Strength)]) -> Canvas {
    let canvas = Canvas::new(form.width(), 260);
    let all: Vec<(f64, f64, &StrengthStep)> = kinds
        .iter()
        .flat_map(|(.., found)| drawable(found))
        .collect();
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for (rate, ..) in &all {
        least = least.min(*rate);
        most = most.max(*rate);
    }
    let late = all.iter().map(|(_, late, _)| *late);
    let (low, high) = late.fold((EXACT_MS, EXACT_MS), |(low, high), late| {
        (low.min(late), high.max(late))
    });
    let panel = Panel::new(
        &canvas,
        frame(form, 62.0),
        form.text_size(),
        Axis::Log(least * 0.85, most * 1.2),
        Axis::Log(low * 0.7, high * 1.6),
    );
    panel.grid_y(&panel.y.latency_ticks(6));
    let allowed = panel.at_y(EXACT_MS);
    canvas.line(
        (panel.frame.left, allowed),
        (panel.frame.right, allowed),
        Pen::line(Role::Muted, 14).manner(Manner::Dashed),
    );
    let mut labels = Vec::new();
    for (word, role, found) in kinds {
        let steps = drawable(found);
        let place =
            |(rate, late, _): &(f64, f64, &StrengthStep)| (panel.at_x(*rate), panel.at_y(*late));
        let of = |passed: bool| -> Vec<(f64, f64)> {
            let kind = steps.iter().filter(|(.., step)| step.passed == passed);
            kind.map(place).collect()
        };
        let (good, bad) = (of(true), of(false));
        canvas.dots(&good, 3.4, *role);
        canvas.crosses(&bad, Pen::line(*role, 20));
        let last = steps.iter().max_by(|a, b| a.0.total_cmp(&b.0)).map(place);
        if let Some((_, y)) = last {
            let mark = if *word == "new" {
                "● new"
            } else {
                "● kept"
            };
            labels.push(EndLabel::new(y, *role, mark));
        }
    }
    labels.push(EndLabel::new(allowed, Role::Muted, ms(EXACT_MS)));
    panel.axis_x(
        &panel.x.number_ticks(5),
        "connections or requests per s, log scale",
    );
    panel.name_y("lateness p99, log scale");
    let bounds = (panel.frame.top - 8.0, panel.frame.bottom + 10.0);
    write_end_labels(
        &canvas,
        panel.frame.right + 8.0,
        54.0,
        bounds,
        form.text_size(),
        labels,
    );
    canvas
}

/// Shares up to which the lateness is drawn.
fn percentiles(test: &SelfTest) -> Vec<(f64, f64, &'static str)> {
    let Some(timer) = &test.timer else {
        return Vec::new();
    };
    let late = &timer.lateness_ms;
    [
        (0.5, late.p50, "50 %"),
        (0.9, late.p90, "90 %"),
        (0.95, late.p95, "95 %"),
        (0.99, late.p99, "99 %"),
        (0.999, late.p99_9, "99.9 %"),
    ]
    .into_iter()
    // A share beyond 1 − 1/n is known of nobody.
    .filter(|(share, ..)| *share <= 1.0 - 1.0 / (late.count.max(2) as f64))
    .filter_map(|(share, value, word)| Some((share, value?, word)))
    .filter(|(_, value, _)| value.is_finite() && *value > 0.0)
    .collect()
}

fn timer(test: &SelfTest) -> Figure {
    let points = percentiles(test);
    let late = test.timer.as_ref().map(|timer| &timer.lateness_ms);
    let rows = points
        .iter()
        .map(|(_, value, word)| vec![(*word).to_owned(), ms(*value)])
        .chain(late.and_then(|late| Some(vec!["100 %".to_owned(), ms(late.max?)])));
    let parts = Parts {
        name: "timer",
        title: match late.and_then(|late| late.p99) {
            Some(p99) => format!("99 in 100 sends are within {} of a perfect grid", ms(p99)),
            None => "Lateness on a perfect grid".to_owned(),
        },
        subtitle: match &test.timer {
            Some(timer) => format!(
                "Lateness up to each share of the sends, {} a second. n = {}",
                count(text::whole(timer.rate_per_s)),
                count(timer.lateness_ms.count)
            ),
            None => "Lateness up to each share of the sends".to_owned(),
        },
        desc: "How late sends were, from the half that was earliest to the latest.".to_owned(),
        table: Table::new(&["share of sends", "not later than"], rows),
        empty: (points.len() < 2).then(|| "The timer was not measured.".to_owned()),
        pair: true,
    };
    finish(parts, |form| draw_timer(form, &points))
}

fn draw_timer(form: Form, points: &[(f64, f64, &'static str)]) -> Canvas {
    let canvas = Canvas::new(form.width(), 260);
    let end = points.last().map_or(0.99, |last| last.0);
    let panel = Panel::new(
        &canvas,
        frame(form, 78.0),
        form.text_size(),
        Axis::Nines(end),
        Axis::latency(points.iter().map(|(_, value, _)| *value)),
    );
    panel.grid_y(&panel.y.latency_ticks(5));
    let line: Vec<(f64, f64)> = points.iter().map(|(at, value, _)| (*at, *value)).collect();
    panel.line(&line, Pen::line(Role::S1, 20));
    let dots: Vec<(f64, f64)> = line
        .iter()
        .map(|(at, value)| (panel.at_x(*at), panel.at_y(*value)))
        .collect();
    canvas.dots(&dots, 3.2, Role::S1);
    panel.axis_x(&panel.x.share_ticks(), "share of sends");
    panel.name_y(if panel.y.is_log() {
        "lateness, log scale"
    } else {
        "lateness"
    });
    if let (Some((x, y)), Some((_, value, _))) = (dots.last(), points.last()) {
        canvas.strong((x + 8.0, y + 4.2), Anchor::Start, Role::S1, &ms(*value));
    }
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::selftest::{Bound, Timer};
    use crate::measure::summary::Distribution;

    fn step(rate_per_s: f64, lateness_p99_ms: Option<f64>, passed: bool) -> StrengthStep {
        StrengthStep {
            rate_per_s,
            lateness_p99_ms,
            failed: 0,
            passed,
        }
    }

    #[test]
    fn a_self_test_is_drawn_and_an_empty_one_says_so() {
        let figures = self_test_figures(&SelfTest::default());
        assert!(figures.iter().all(|figure| figure.empty.is_some()));
        let test = SelfTest {
            timer: Some(Timer {
                rate_per_s: 1_000.0,
                lateness_ms: Distribution {
                    p50: Some(0.03),
                    p90: Some(0.05),
                    p95: Some(0.06),
                    p99: Some(0.2),
                    p99_9: Some(4.0),
                    max: Some(9.0),
                    count: 500,
                    ..Distribution::default()
                },
            }),
            new_connections: Some(Strength {
                highest_per_s: Some(8_000.0),
                ended_by: Bound::Generator,
                steps: vec![
                    step(8_000.0, Some(0.3), true),
                    step(16_000.0, Some(f64::NAN), false),
                    step(16_000.0, None, false),
                    step(16_000.0, Some(9.0), false),
                ],
            }),
            kept_connections: Some(Strength {
                highest_per_s: Some(20_000.0),
                ended_by: Bound::Time,
                steps: vec![step(20_000.0, Some(0.0), true)],
            }),
            ..SelfTest::default()
        };
        let figures = self_test_figures(&test);
        assert!(figures.iter().all(|figure| figure.empty.is_none()));
        assert!(figures[0].title.contains("new connections a second"));
        assert_eq!(figures[0].table.rows.len(), 5);
        // 500 sends have no 99.9th percentile to be drawn.
        assert_eq!(figures[1].table.rows.len(), 5);
        for figure in &figures {
            let svg = figure.desk.inline();
            assert!(!svg.as_str().contains("NaN"));
        }
    }
}
