//! A run as one line of a list: on the home page and in the history.

use crate::dashboard::run::view;
use crate::dashboard::words::{self, Piece};
use crate::measure::run::{Run, State};

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
    Line {
        id: run.id,
        title: words::pieces(&view::title(run), &names),
        what: format!(
            "{} · {} · {when}",
            view::kind_words(run.kind),
            run.plan.target()
        ),
        kind: run.kind.word(),
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
