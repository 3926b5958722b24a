//! A run as one line of a list: on the home page and in the history.

use crate::dashboard::run::{imported, view};
use crate::dashboard::words::{self, DASH, Measure, Piece};
use crate::measure::run::{Origin, Run, State};
use crate::measure::summary::Summary;
use crate::measure::summary::flow::ThroughputSummary;

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// The run's number.
    pub id: i64,
    /// The finding.
    pub title: Vec<Piece>,
    /// Kind, target and time, for lists that have no columns for them.
    pub what: String,
    /// The kind's word.
    pub kind: &'static str,
    /// Where it came from, unless this node was asked for it.
    pub origin: Option<&'static str>,
    /// Its one figure, or a dash.
    pub figure: String,
    /// What the figure is.
    pub figure_of: String,
    /// Where it went.
    pub target: String,
    /// When it began, or was asked for while it waits.
    pub when: String,
    /// The same for machines.
    pub machine_time: String,
    /// The state's word.
    pub state: String,
    /// The state's class.
    pub class: &'static str,
    /// The state's mark.
    pub mark: &'static str,
    /// Percent done, while it runs.
    pub done: Option<String>,
    /// Whether others are compared with it.
    pub baseline: bool,
    /// How the objectives went.
    pub objectives: String,
    /// Class of that.
    pub objectives_class: &'static str,
    /// Its tags.
    pub tags: Vec<String>,
}

/// The line for this run.
pub fn line(run: &Run) -> Line {
    let names = view::names(run);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (class, mark) = mark(run);
    let (objectives, objectives_class) = objectives(run);
    // As the report says it: a run that waited in the queue began later than it was asked for.
    let began = run.started_at.unwrap_or(run.created_at);
    let when = words::when(began);
    let (figure, figure_of) = run
        .summary
        .as_ref()
        .map_or_else(|| (DASH.to_owned(), String::new()), figure);
    Line {
        id: run.id,
        title: words::pieces(&view::title(run), &names),
        what: format!(
            "{} · {} · {when}",
            view::kind_words(run.kind),
            run.plan.target()
        ),
        kind: run.kind.word(),
        origin: match run.origin {
            Origin::Local => None,
            Origin::Remote => Some("remote"),
            Origin::Received => Some("received"),
            Origin::Imported => Some("imported"),
        },
        figure,
        figure_of,
        target: run.plan.target(),
        when,
        machine_time: words::machine_time(began),
        state: match (run.state, run.queue_place, run.progress.eta_s) {
            (State::Queued, Some(place), _) => format!("queued, place {place}"),
            (State::Running, _, Some(eta)) => {
                format!("about {} left", words::seconds(eta.ceil()))
            }
            (state, ..) => state.word().to_owned(),
        },
        class,
        mark,
        done: (run.state == State::Running).then(|| format!("{:.0}", run.progress.done * 100.0)),
        baseline: run.baseline,
        objectives,
        objectives_class,
        tags: run.tags.clone(),
    }
}

/// The one figure that a list shows of a run, and what it is.
fn figure(summary: &Summary) -> (String, String) {
    let of = |measure: Measure, of: &str| (measure.text(), of.to_owned());
    match summary {
        Summary::Rate(figures) => of(Measure::per_s(figures.achieved_per_s), "answered well"),
        Summary::Users(figures) => of(
            Measure::per_s(figures.transaction_rate_per_s),
            "transactions",
        ),
        Summary::Fetch(figures) => of(Measure::ms(figures.total_ms), "total"),
        Summary::Throughput(figures) => throughput(figures),
        Summary::Imported(figures) => imported::headline(figures),
        Summary::Ping(figures) => (
            words::ms(figures.rtt_ms.figures.median),
            figures.loss_percent.map_or_else(String::new, |percent| {
                format!("median, {} lost", words::share(percent / 100.0))
            }),
        ),
        Summary::Path(figures) => match figures.path_mtu {
            Some(mtu) => (
                format!("{}\u{a0}bytes", words::count(mtu.into())),
                if figures.black_hole == Some(true) {
                    "path MTU, black hole".to_owned()
                } else {
                    "path MTU".to_owned()
                },
            ),
            None => (DASH.to_owned(), "path MTU".to_owned()),
        },
    }
}

fn throughput(figures: &ThroughputSummary) -> (String, String) {
    let rate =
        |part: &ThroughputSummary| words::bits(part.bits_per_second.or(part.bits_per_second_whole));
    let mut notes = Vec::new();
    let figure = match (
        figures.directions.get("send"),
        figures.directions.get("receive"),
    ) {
        // In turn there is no sum.
        (Some(send), Some(receive)) if figures.bits_per_second.is_none() => {
            notes.push("send, receive".to_owned());
            format!("{}, {}", rate(send), rate(receive))
        }
        (Some(_), Some(_)) => {
            notes.push("both directions".to_owned());
            rate(figures)
        }
        _ => rate(figures),
    };
    if let Some(lost) = figures.udp.as_ref().and_then(|udp| udp.lost_percent) {
        notes.push(format!("{} lost", words::share(lost / 100.0)));
    }
    if figures.receive == "discard" {
        notes.push("discard".to_owned());
    }
    if figures.offload {
        notes.push("offload".to_owned());
    }
    (figure, notes.join(", "))
}

fn mark(run: &Run) -> (&'static str, &'static str) {
    match run.state {
        State::Finished | State::Imported => ("ok", "✓"),
        State::Failed => ("bad", "✕"),
        State::Cancelled | State::Interrupted => ("warn", "!"),
        State::Running => ("live", "●"),
        State::Queued => ("muted", "…"),
    }
}

fn objectives(run: &Run) -> (String, &'static str) {
    let all = run.objectives.len();
    if all == 0 {
        return (words::DASH.to_owned(), "muted");
    }
    let missed = run
        .objectives
        .iter()
        .filter(|result| result.ok == Some(false))
        .count();
    let met = run
        .objectives
        .iter()
        .filter(|result| result.ok == Some(true))
        .count();
    match (missed, met) {
        (0, met) if met == all => (format!("✓ met {met} of {all}"), "ok"),
        (0, _) => (format!("– {met} of {all} met"), "muted"),
        (missed, _) => (format!("✕ missed {missed} of {all}"), "bad"),
    }
}
