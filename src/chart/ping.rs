//! Round trips of a ping: every probe as a dot, lost ones as crosses, and their distribution on its side.

use crate::chart::axis::{Axis, safe_range};
use crate::chart::canvas::{Anchor, Canvas};
use crate::chart::flow::{Flow, FlowRun};
use crate::chart::labels::{EndLabel, write_end_labels};
use crate::chart::panel::{Frame, Panel};
use crate::chart::text::{self, count, counted, figure as number, ms};
use crate::chart::theme::{Pen, Role};
use crate::chart::{Figure, Form, Parts, Table, finish, steps};
use crate::measure::flow_series::{EchoBin, EchoPoint};
use crate::measure::run::State;
use crate::measure::summary::flow::PingSummary;

pub(crate) const NAME: &str = "ping";

/// What is drawn.
struct Probes {
    points: Vec<EchoPoint>,
    bins: Vec<EchoBin>,
    sent: u64,
    answered: u64,
    median: Option<f64>,
    max: Option<f64>,
}

pub(crate) fn figure(flow: &Flow<'_>) -> Figure {
    let probes = probes(flow);
    let lost = probes.sent.saturating_sub(probes.answered);
    let how = match flow.run {
        FlowRun::Ping(plan, _) => match plan.port {
            Some(port) => format!("TCP connects to port {port}"),
            None => "ICMP echoes".to_owned(),
        },
        FlowRun::Throughput(..) => "Probes".to_owned(),
    };
    let form = if probes.bins.is_empty() {
        "every probe"
    } else {
        "in steps: p50, and the band from p5 to p95"
    };
    let empty = if probes.sent == 0 {
        Some(flow.nothing())
    } else if probes.answered == 0 {
        Some(format!(
            "No answer: all {} were lost.",
            counted(probes.sent, "probe")
        ))
    } else {
        None
    };
    let parts = Parts {
        name: NAME,
        title: title(flow, &probes, lost),
        subtitle: format!(
            "{how}, {form}. n = {}, {} lost",
            count(probes.sent),
            count(lost)
        ),
        desc: "Round-trip time of each probe, and how often each time came.".to_owned(),
        table: table(&probes),
        empty,
        pair: false,
    };
    finish(parts, |form| draw(flow, form, &probes))
}

fn probes(flow: &Flow<'_>) -> Probes {
    let good = |value: &f64| value.is_finite() && *value >= 0.0;
    let series = flow.series;
    let points: Vec<EchoPoint> = series
        .echoes
        .iter()
        .take(1_000)
        .filter(|echo| echo.at_s.is_finite())
        .map(|echo| EchoPoint {
            at_s: echo.at_s.clamp(0.0, 1e9),
            rtt_ms: echo.rtt_ms.filter(good),
            ..*echo
        })
        .collect();
    let bins: Vec<EchoBin> = series
        .echo_bins
        .iter()
        .take(250)
        .filter(|bin| bin.from_s.is_finite() && bin.to_s.is_finite())
        .map(|bin| EchoBin {
            from_s: bin.from_s.clamp(0.0, 1e9),
            to_s: bin.to_s.clamp(0.0, 1e9),
            rtt_ms: bin
                .rtt_ms
                .filter(|band| [band.p5, band.p50, band.p95, band.max].iter().all(good)),
            ..bin.clone()
        })
        .collect();
    let figures: Option<&PingSummary> = match flow.run {
        FlowRun::Ping(_, summary) => Some(summary),
        FlowRun::Throughput(..) => None,
    };
    let distribution = figures.map(|summary| &summary.rtt_ms.figures);
    let answered = points.iter().filter(|echo| echo.rtt_ms.is_some()).count() as u64;
    let (sent, answered) = bins
        .iter()
        .fold((points.len() as u64, answered), |sum, bin| {
            (
                sum.0.saturating_add(bin.sent),
                sum.1.saturating_add(bin.sent.saturating_sub(bin.lost)),
            )
        });
    // A step without a drawable band cannot be drawn as answered.
    let drawable = points.iter().any(|echo| echo.rtt_ms.is_some())
        || bins.iter().any(|bin| bin.rtt_ms.is_some());
    Probes {
        points,
        bins,
        sent,
        answered: if drawable { answered } else { 0 },
        median: distribution.and_then(|figures| figures.median).filter(good),
        max: distribution.and_then(|figures| figures.max).filter(good),
    }
}

fn draw(flow: &Flow<'_>, form: Form, probes: &Probes) -> Canvas {
    let narrow = form.is_narrow();
    let aside = probes.answered >= 5;
    let (left, right, gap, wide) = match (narrow, aside) {
        (true, true) => (50.0, 236.0, 8.0, 56.0),
        (true, false) => (50.0, 300.0, 0.0, 0.0),
        (false, true) => (60.0, 620.0, 14.0, 106.0),
        (false, false) => (60.0, 740.0, 0.0, 0.0),
    };
    let frame = Frame {
        left,
        top: 28.0,
        right,
        bottom: if narrow { 208.0 } else { 218.0 },
    };
    let canvas = Canvas::new(form.width(), if narrow { 250 } else { 260 });
    let (covers, _) = flow.reach();
    let last = probes
        .points
        .iter()
        .map(|echo| echo.at_s)
        .chain(probes.bins.iter().map(|bin| bin.to_s))
        .fold(0.0, f64::max);
    let end = flow.not_measured().map_or(last, |(_, to, _)| to.max(last));
    let (_, end) = safe_range(0.0, end * 1.01);
    let values = probes
        .points
        .iter()
        .filter_map(|echo| echo.rtt_ms)
        .chain(probes.bins.iter().filter_map(|bin| Some(bin.rtt_ms?.p95)))
        .chain(probes.bins.iter().filter_map(|bin| Some(bin.rtt_ms?.p5)));
    let panel = Panel::new(
        &canvas,
        frame,
        form.text_size(),
        Axis::Linear(0.0, end),
        Axis::latency(values),
    );
    panel.grid_y(&panel.y.latency_ticks(5));
    if let Some((from, to, words)) = flow.not_measured() {
        panel.not_measured(from.max(covers).max(last), to, &words);
    }
    bands(&panel, &probes.bins);
    let dots: Vec<(f64, f64)> = probes
        .points
        .iter()
        .filter_map(|echo| Some((panel.at_x(echo.at_s), panel.at_y(echo.rtt_ms?))))
        .collect();
    let radius = match dots.len() {
        0..5 => 3.5,
        5..100 => 2.4,
        _ => 1.5,
    };
    canvas.dots(&dots, radius, Role::S1);
    if let ([(x, y)], Some(value)) = (dots.as_slice(), probes.median) {
        canvas.strong((x + 8.0, *y - 6.0), Anchor::Start, Role::S1, &ms(value));
    }
    lost(&panel, probes);
    if aside {
        sideways(flow, &canvas, &panel, (right + gap, right + gap + wide));
    }
    let ticks = panel.x.clock_ticks(if narrow { 3 } else { 6 });
    panel.axis_x(&ticks, "time since start");
    panel.name_y(if panel.y.is_log() {
        "round trip, log scale"
    } else {
        "round trip"
    });
    let mut labels = Vec::new();
    if probes.sent > 1 {
        if let Some(median) = probes.median {
            let words = format!("median {}", ms(median));
            labels.push(EndLabel::new(panel.at_y(median), Role::S1, words));
        }
        if let Some(max) = probes.max {
            let words = format!("max {}", ms(max));
            labels.push(EndLabel::new(panel.at_y(max), Role::S1, words));
        }
    }
    let x = right + gap + wide + 9.0;
    let room = f64::from(form.width()) - x;
    let bounds = (frame.top - 8.0, frame.bottom + 10.0);
    write_end_labels(&canvas, x, room, bounds, form.text_size(), labels);
    canvas
}

/// Lost probes: crosses on the lower edge, as many as fit.
fn lost(panel: &Panel, probes: &Probes) {
    let places: Vec<f64> = probes
        .points
        .iter()
        .filter(|echo| echo.rtt_ms.is_none())
        .map(|echo| echo.at_s)
        .chain(
            probes
                .bins
                .iter()
                .filter(|bin| bin.lost > 0)
                .map(|bin| f64::midpoint(bin.from_s, bin.to_s)),
        )
        .map(|at| panel.at_x(at))
        .collect();
    let points: Vec<(f64, f64)> = steps::thin(places, 7.2)
        .into_iter()
        .map(|x| (x, panel.frame.bottom - 4.5))
        .collect();
    panel.canvas.crosses(&points, Pen::line(Role::Bad, 18));
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
    for stretch in answered.chunk_by(|a, b| b.0 - a.0 <= step * 2.5) {
        let line = |of: fn(&crate::measure::series::BandMs) -> f64| -> Vec<(f64, f64)> {
            stretch
                .iter()
                .filter_map(|(at, bin)| Some((*at, of(bin.rtt_ms.as_ref()?))))
                .collect()
        };
        let (low, high) = (line(|band| band.p5), line(|band| band.p95));
        panel.band(&high, &low, Pen::fill(Role::S1).opacity(0.17));
        panel.line(&line(|band| band.p50), Pen::line(Role::S1, 16));
    }
}

/// How often each time came, as level bars on the same axis.
fn sideways(flow: &Flow<'_>, canvas: &Canvas, panel: &Panel, (left, right): (f64, f64)) {
    let buckets = &flow.series.echo_histogram;
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0);
    canvas.line(
        (left, panel.frame.top),
        (left, panel.frame.bottom),
        Pen::line(Role::Axis, 10),
    );
    for bucket in buckets.iter().take(60).filter(|bucket| bucket.count > 0) {
        if !(bucket.from_ms.is_finite() && bucket.to_ms.is_finite()) {
            continue;
        }
        let (low, high) = (panel.at_y(bucket.from_ms), panel.at_y(bucket.to_ms));
        let high_px = (low - high).max(1.6);
        let long = (right - left) * bucket.count as f64 / most.max(1) as f64;
        let gap = if high_px > 4.0 { 0.6 } else { 0.0 };
        let pen = Pen::fill(Role::S1).opacity(0.55);
        canvas.rect(
            left,
            low - high_px + gap,
            long.max(1.0),
            high_px - gap * 2.0,
            pen,
        );
    }
    let words = "how often";
    if text::width(words, panel.size) <= right - left + 4.0 {
        canvas.text((left, 14.0), Anchor::Start, Role::Muted, words);
    }
}

fn title(flow: &Flow<'_>, probes: &Probes, lost: u64) -> String {
    if flow.state == State::Running {
        return "Round trips so far".to_owned();
    }
    if probes.sent == 0 {
        return "Round trips".to_owned();
    }
    let Some(median) = probes.median.filter(|_| probes.answered > 0) else {
        return format!("None of {} was answered", counted(probes.sent, "probe"));
    };
    if probes.sent == 1 {
        return format!("The one probe took {}", ms(median));
    }
    if lost > 0 {
        return format!(
            "Round trip {} median, {} of {} lost",
            ms(median),
            count(lost),
            count(probes.sent)
        );
    }
    match probes.max {
        Some(max) => format!(
            "Round trip {} median, {} at most, none lost",
            ms(median),
            ms(max)
        ),
        None => format!("Round trip {} median, none lost", ms(median)),
    }
}

fn table(probes: &Probes) -> Table {
    let value = |of: Option<f64>| of.map(number).unwrap_or_default();
    if probes.bins.is_empty() && probes.points.len() <= Table::MOST_ROWS {
        return Table::new(
            &["probe", "sent at, s", "round trip, ms", "duplicates"],
            probes.points.iter().map(|echo| {
                vec![
                    echo.seq.to_string(),
                    number(echo.at_s),
                    echo.rtt_ms.map_or_else(|| "lost".to_owned(), number),
                    echo.duplicates.to_string(),
                ]
            }),
        );
    }
    let head = ["from, s", "probes", "lost", "p50, ms", "max, ms"];
    if probes.bins.is_empty() {
        let join = probes.points.len().div_ceil(Table::MOST_ROWS);
        return Table::new(
            &head,
            probes.points.chunks(join.max(1)).map(|part| {
                let mut answered: Vec<f64> = part.iter().filter_map(|echo| echo.rtt_ms).collect();
                answered.sort_by(f64::total_cmp);
                vec![
                    number(part[0].at_s),
                    count(part.len() as u64),
                    count((part.len() - answered.len()) as u64),
                    value(answered.get(answered.len() / 2).copied()),
                    value(answered.last().copied()),
                ]
            }),
        );
    }
    Table::new(
        &head,
        probes.bins.iter().map(|bin| {
            vec![
                number(bin.from_s),
                count(bin.sent),
                count(bin.lost),
                value(bin.rtt_ms.map(|band| band.p50)),
                value(bin.rtt_ms.map(|band| band.max)),
            ]
        }),
    )
}
