//! Round trips of the probe beside a throughput run: on the idle path before it, and under load.

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::flow::Flow;
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, counted, figure as number, ms};
use crate::chart::theme::{Manner, Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish};
use crate::measure::flow_series::EchoBin;
use crate::measure::run::State;

pub(crate) const NAME: &str = "rtt";

/// One probe as a mark: s since the load began, ms, whether load ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) rtt: Option<f64>,
    pub(crate) loaded: bool,
}

/// Medians in ms before and beside the load.
#[derive(Clone, Copy, Debug)]
struct Medians {
    idle: Option<f64>,
    loaded: Option<f64>,
}

pub(crate) fn figure(flow: &Flow<'_>) -> Figure {
    let marks = marks(flow);
    let bins = bins(flow);
    let good = |value: Option<f64>| value.filter(|value| value.is_finite() && *value > 0.0);
    let medians = flow.summary().map_or(
        Medians {
            idle: None,
            loaded: None,
        },
        |summary| Medians {
            idle: good(summary.rtt_ms.idle.median),
            loaded: good(summary.rtt_ms.loaded.median),
        },
    );
    let (sent, lost) = counts(&marks, &bins);
    let answered =
        marks.iter().any(|mark| mark.rtt.is_some()) || bins.iter().any(|bin| bin.rtt_ms.is_some());
    let form = if bins.is_empty() {
        "every one, and the medians"
    } else {
        "in steps: p50, and the band from p5 to p95"
    };
    let lost_words = if lost > 0 {
        format!(", {} lost", text::count(lost))
    } else {
        String::new()
    };
    let parts = Parts {
        name: NAME,
        title: title(flow, medians),
        subtitle: format!(
            "{} beside the run, from before it began: {form}{lost_words}",
            counted(sent, "probe")
        ),
        desc: "Round-trip times over time, first on the idle path, then under load.".to_owned(),
        table: table(&marks, &bins),
        empty: (!answered).then(|| {
            if sent > 0 {
                format!(
                    "No probe was answered: all {} were lost.",
                    text::count(sent)
                )
            } else {
                "No probe ran beside it.".to_owned()
            }
        }),
        pair: false,
    };
    finish(parts, |form| draw(flow, form, &marks, &bins, medians))
}

/// The probes one by one.
fn marks(flow: &Flow<'_>) -> Vec<Mark> {
    let tame = |value: f64| value.is_finite().then(|| value.clamp(-1e6, 1e9));
    flow.series
        .echoes
        .iter()
        .take(1_000)
        .filter_map(|echo| {
            Some(Mark {
                at: tame(echo.at_s - flow.start_s)?,
                rtt: echo.rtt_ms.filter(|rtt| rtt.is_finite() && *rtt >= 0.0),
                loaded: echo.loaded,
            })
        })
        .collect()
}

fn bins(flow: &Flow<'_>) -> Vec<EchoBin> {
    flow.series
        .echo_bins
        .iter()
        .take(500)
        .filter(|bin| bin.from_s.is_finite() && bin.to_s.is_finite())
        .map(|bin| EchoBin {
            from_s: (bin.from_s - flow.start_s).clamp(-1e6, 1e9),
            to_s: (bin.to_s - flow.start_s).clamp(-1e6, 1e9),
            rtt_ms: bin.rtt_ms.filter(|band| {
                [band.min, band.p5, band.p50, band.p95, band.max]
                    .iter()
                    .all(|value| value.is_finite() && *value >= 0.0)
            }),
            ..bin.clone()
        })
        .collect()
}

fn counts(marks: &[Mark], bins: &[EchoBin]) -> (u64, u64) {
    let lost = marks.iter().filter(|mark| mark.rtt.is_none()).count() as u64;
    bins.iter().fold((marks.len() as u64, lost), |sum, bin| {
        (
            sum.0.saturating_add(bin.sent),
            sum.1.saturating_add(bin.lost),
        )
    })
}

fn draw(flow: &Flow<'_>, form: Form, marks: &[Mark], bins: &[EchoBin], medians: Medians) -> Canvas {
    let narrow = form.is_narrow();
    let frame = Frame {
        left: if narrow { 50.0 } else { 60.0 },
        top: 28.0,
        right: if narrow { 302.0 } else { 740.0 },
        bottom: if narrow { 198.0 } else { 208.0 },
    };
    let canvas = Canvas::new(form.width(), if narrow { 240 } else { 250 });
    let times = marks
        .iter()
        .map(|mark| mark.at)
        .chain(bins.iter().flat_map(|bin| [bin.from_s, bin.to_s]));
    let (first, last) = times.fold((0.0_f64, 0.0_f64), |(first, last), at| {
        (first.min(at), last.max(at))
    });
    let end = flow.not_measured().map_or(last, |(_, to, _)| to.max(last));
    let (from, to) = safe_range(first, end);
    let values = marks
        .iter()
        .filter_map(|mark| mark.rtt)
        .chain(bins.iter().filter_map(|bin| Some(bin.rtt_ms?.p95)))
        .chain(bins.iter().filter_map(|bin| Some(bin.rtt_ms?.p5)));
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        Axis::Linear(from, to),
        Axis::latency(values),
    );
    shade_idle(&panel, first);
    panel.grid_y(&panel.y.latency_ticks(5));
    if let Some((from, to, words)) = flow.not_measured() {
        panel.not_measured(from.max(last), to, &words);
    }
    let dots = |loaded: bool| -> Vec<(f64, f64)> {
        marks
            .iter()
            .filter(|mark| mark.loaded == loaded)
            .filter_map(|mark| Some((panel.at_x(mark.at), panel.at_y(mark.rtt?))))
            .collect()
    };
    canvas.dots(&dots(true), 1.4, Role::S1);
    canvas.dots(&dots(false), 1.4, Role::S3);
    bands(&panel, bins);
    lost(&panel, marks, bins);
    let mut labels = Vec::new();
    if let Some(idle) = medians.idle {
        let pen = Pen::line(Role::S3, 16).manner(Manner::Dotted);
        panel.line(&[(from, idle), (to, idle)], pen);
        labels.push(EndLabel::new(
            panel.at_y(idle),
            Role::S3,
            format!("idle {}", ms(idle)),
        ));
    }
    if let Some(loaded) = medians.loaded {
        panel.line(
            &[(0.0, loaded), (last.max(0.0), loaded)],
            Pen::line(Role::S1, 20),
        );
        labels.push(EndLabel::new(
            panel.at_y(loaded),
            Role::S1,
            format!("loaded {}", ms(loaded)),
        ));
    }
    let ticks = seconds_ticks(panel.x, if narrow { 4 } else { 6 });
    panel.axis_x(&ticks, "time since the load began");
    panel.name_y(if panel.y.is_log() {
        "round trip, log scale"
    } else {
        "round trip"
    });
    let x = frame.right + 9.0;
    let room = f64::from(form.width()) - x;
    let bounds = (frame.top - 8.0, frame.bottom + 10.0);
    write_end_labels(&canvas, x, room, bounds, form.text_size(), labels);
    canvas
}

/// Ticks of time from 0 on; the idle time before it has none.
fn seconds_ticks(x: Axis, most: usize) -> Vec<(f64, String)> {
    match x {
        Axis::Linear(_, to) if to > 0.0 => Axis::Linear(0.0, to).clock_ticks(most),
        _ => Vec::new(),
    }
}

/// The time before the load.
fn shade_idle(panel: &Panel, first: f64) {
    let (left, right) = (panel.at_x(first), panel.at_x(0.0));
    if first >= 0.0 || right - left < 1.0 {
        return;
    }
    let Frame { top, bottom, .. } = panel.frame;
    panel
        .canvas
        .rect(left, top, right - left, bottom - top, Pen::fill(Role::Wash));
    if right - left > text::width("idle", panel.size) + 4.0 {
        let middle = f64::midpoint(left, right);
        panel
            .canvas
            .text((middle, top + 14.0), Anchor::Middle, Role::Muted, "idle");
    }
}

fn bands(panel: &Panel, bins: &[EchoBin]) {
    let answered: Vec<(f64, &EchoBin)> = bins
        .iter()
        .filter(|bin| bin.rtt_ms.is_some())
        .map(|bin| (f64::midpoint(bin.from_s, bin.to_s), bin))
        .collect();
    let step = answered
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .filter(|step| *step > 0.0)
        .fold(f64::INFINITY, f64::min);
    for stretch in answered.chunk_by(|a, b| b.0 - a.0 <= step * 2.5 && a.1.loaded == b.1.loaded) {
        let line = |of: fn(&crate::measure::series::BandMs) -> f64| -> Vec<(f64, f64)> {
            stretch
                .iter()
                .filter_map(|(at, bin)| Some((*at, of(bin.rtt_ms.as_ref()?))))
                .collect()
        };
        let role = if stretch.iter().all(|(_, bin)| bin.loaded) {
            Role::S1
        } else {
            Role::S3
        };
        let (low, high) = (line(|band| band.p5), line(|band| band.p95));
        panel.band(&high, &low, Pen::fill(role).opacity(0.17));
        panel.line(&line(|band| band.p50), Pen::line(role, 16));
    }
}

/// Lost probes: crosses on the upper edge.
fn lost(panel: &Panel, marks: &[Mark], bins: &[EchoBin]) {
    let times: Vec<f64> = marks
        .iter()
        .filter(|mark| mark.rtt.is_none())
        .map(|mark| mark.at)
        .chain(
            bins.iter()
                .filter(|bin| bin.lost > 0)
                .map(|bin| f64::midpoint(bin.from_s, bin.to_s)),
        )
        .map(|at| panel.at_x(at))
        .collect();
    let points: Vec<(f64, f64)> = crate::chart::steps::thin(times, 7.2)
        .into_iter()
        .map(|x| (x, panel.frame.top + 3.8))
        .collect();
    panel.canvas.crosses(&points, Pen::line(Role::Bad, 18));
}

fn title(flow: &Flow<'_>, medians: Medians) -> String {
    const NEUTRAL: &str = "Round trips before and under load";
    if flow.state == State::Running {
        return "Round trips so far".to_owned();
    }
    match (medians.idle, medians.loaded) {
        (Some(idle), Some(loaded)) if loaded - idle >= 0.1 && loaded > idle * 1.2 => format!(
            "The load costs {} of queue: the round trip rises from {} to {}",
            ms(loaded - idle),
            ms(idle),
            ms(loaded)
        ),
        (Some(idle), Some(loaded)) => format!(
            "The load costs no queue: the round trip is {} idle and {} loaded",
            ms(idle),
            ms(loaded)
        ),
        (None, Some(loaded)) => format!("The round trip under load is {}", ms(loaded)),
        _ => NEUTRAL.to_owned(),
    }
}

fn table(marks: &[Mark], bins: &[EchoBin]) -> Table {
    let word = |loaded: bool| if loaded { "loaded" } else { "idle" }.to_owned();
    let value = |of: Option<f64>| of.map(number).unwrap_or_default();
    let head = [
        "from, s", "load", "probes", "lost", "p50, ms", "p95, ms", "max, ms",
    ];
    if !bins.is_empty() {
        return Table::new(
            &head,
            bins.iter().map(|bin| {
                vec![
                    number(bin.from_s),
                    word(bin.loaded),
                    text::count(bin.sent),
                    text::count(bin.lost),
                    value(bin.rtt_ms.map(|band| band.p50)),
                    value(bin.rtt_ms.map(|band| band.p95)),
                    value(bin.rtt_ms.map(|band| band.max)),
                ]
            }),
        );
    }
    // Several probes a row where there are more than rows.
    let join = marks.len().div_ceil(Table::MOST_ROWS).max(1);
    let rows = marks
        .chunk_by(|a, b| a.loaded == b.loaded)
        .flat_map(|part| part.chunks(if join > 1 { join + 1 } else { 1 }))
        .map(|part| {
            let mut answered: Vec<f64> = part.iter().filter_map(|mark| mark.rtt).collect();
            answered.sort_by(f64::total_cmp);
            let at = |share: f64| -> Option<f64> {
                let rank = text::whole((share * answered.len() as f64).ceil()).max(1);
                answered.get(usize::try_from(rank).ok()? - 1).copied()
            };
            vec![
                number(part[0].at),
                word(part[0].loaded),
                text::count(part.len() as u64),
                text::count((part.len() - answered.len()) as u64),
                value(at(0.5)),
                value(at(0.95)),
                value(answered.last().copied()),
            ]
        });
    Table::new(&head, rows)
}
