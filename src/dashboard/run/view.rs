//! A run as its page shows it: every word, in the order of the page.

use crate::dashboard::experiments;
use crate::dashboard::ruler::Ruler;
use crate::dashboard::run::answered::{self, Answered};
use crate::dashboard::run::belief::{self, Belief};
use crate::dashboard::run::echo_parts;
use crate::dashboard::run::ends;
use crate::dashboard::run::figures::{self, FigureView};
use crate::dashboard::run::files::{self, FileLine};
use crate::dashboard::run::flow_keys::{Flow, Side};
use crate::dashboard::run::keys::{self, Key};
use crate::dashboard::run::limits::{self, Limits};
use crate::dashboard::run::old::Old;
use crate::dashboard::run::rail::{self, Fact};
use crate::dashboard::run::table::Table;
use crate::dashboard::run::{drawings, flow_rail, flow_words, imported, scale, streams};
use crate::dashboard::words::{self, Piece};
use crate::measure::command_line;
use crate::measure::fold::Series;
use crate::measure::outcome::Outcome;
use crate::measure::plan::ping::PingMethod;
use crate::measure::plan::throughput::{Dialect, Protocol};
use crate::measure::plan::{Kind, Plan};
use crate::measure::run::{ObjectiveResult, Origin, Run, State};
use crate::measure::summary::flow::EchoRow;
use crate::measure::summary::{FailureText, Summary};

/// Everything that the body of a run's page says.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one switch of the template"
)]
pub struct RunView {
    /// Its number.
    pub id: i64,
    /// The experiment that it belongs to, and its place there in words.
    pub experiment: Option<(i64, String)>,
    /// Its kind in words.
    pub kind: String,
    /// Where it came from, unless this node was asked for it.
    pub origin: Option<&'static str>,
    /// What makes its figures other than a plain test's, such as `receive: discard`.
    pub short_cuts: Option<String>,
    /// Its state in words.
    pub state: String,
    /// Whether more will come.
    pub live: bool,
    /// Whether it ended before its plan.
    pub partial: bool,
    /// Whether it measured nothing.
    pub failed: bool,
    /// Whether others are compared with it.
    pub baseline: bool,
    /// Its tags.
    pub tags: Vec<String>,
    /// The same in one line.
    pub tags_text: String,
    /// The finding.
    pub title: Vec<Piece>,
    /// The browser's tab.
    pub tab: String,
    /// What a screen reader says of a running run.
    pub said: String,
    /// Where it went.
    pub target: String,
    /// Whose address that is.
    pub peer: Option<String>,
    /// When, how long, n.
    pub what: Vec<String>,
    /// The node that sent.
    pub node: String,
    /// What the figures mean.
    pub meaning: Vec<Piece>,
    /// Why it is not whole.
    pub stopped: Option<Stopped>,
    /// Whether buttons and links to this server make sense.
    pub actions: bool,
    /// Whether this node can do the same again.
    pub repeatable: bool,
    /// Where that begins.
    pub again: String,
    /// What stands above the command line.
    pub command_head: &'static str,
    /// What the stop button says.
    pub stop_word: &'static str,
    /// Objectives.
    pub objectives: Vec<ObjectiveLine>,
    /// The tide ruler.
    pub ruler: Option<Ruler>,
    /// The belief strip.
    pub belief: Option<Belief>,
    /// Key figures.
    pub keys: Vec<Key>,
    /// Key figures of each direction, where there are two.
    pub sides: Vec<Side>,
    /// What stands where the charts would.
    pub nothing: Option<String>,
    /// Charts in rows of one or two.
    pub figures: Vec<Vec<FigureView>>,
    /// Who answered.
    pub answered: Option<Answered>,
    /// What held it back.
    pub limits: Option<Limits>,
    /// What was reported on the way of a path check.
    pub remarks: Vec<String>,
    /// Streams, both ends, packets, sizes, interfaces.
    pub tables: Vec<Table>,
    /// What the failures said.
    pub failures: Vec<FailureLine>,
    /// How many failures said something else.
    pub failures_more: Option<String>,
    /// What the old tool would have said.
    pub old: Option<Old>,
    /// The command line in one line.
    pub command: String,
    /// The same, broken for reading.
    pub command_wrapped: String,
    /// How the requests ended.
    pub outcomes: Vec<Fact>,
    /// What lies between the two ends.
    pub path: Vec<Fact>,
    /// Downloads.
    pub files: Vec<FileLine>,
    /// Those that a spreadsheet gets in its own spelling: name and word.
    pub excel: Vec<(&'static str, &'static str)>,
    /// The plan.
    pub plan: Vec<Fact>,
    /// The machine.
    pub environment: Vec<Fact>,
    /// The note.
    pub note: String,
}

/// Why a run is not whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopped {
    /// The sentence.
    pub text: String,
    /// Whether nothing was measured.
    pub bad: bool,
}

/// One objective in words.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectiveLine {
    /// `ok`, `bad` or `muted`.
    pub class: &'static str,
    /// The mark.
    pub mark: &'static str,
    /// The rule.
    pub rule: String,
    /// Met, missed or unknown, and what was measured.
    pub text: String,
}

/// One text of failures.
#[derive(Clone, Debug, PartialEq)]
pub struct FailureLine {
    /// The outcome's key.
    pub outcome: String,
    /// The text.
    pub text: String,
    /// How often.
    pub count: String,
}

/// What stands beside a run in the notebook.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Rows of `intervals.csv`.
    pub intervals: Option<u64>,
    /// Rows of `requests.csv`.
    pub requests: Option<u64>,
    /// The first packets of a ping.
    pub echoes: Vec<EchoRow>,
    /// Whose address its target is.
    pub peer: Option<String>,
}

/// The page's words for this run, with its charts.
pub fn view(run: &Run, series: Option<&Series>, beside: &Beside) -> RunView {
    let names = names(run);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let title = title(run);
    let live = !run.state.is_final();
    let command = if run.command.is_empty() {
        command_line::write(&run.plan)
    } else {
        run.command.clone()
    };
    let drawn = figures::rows(
        &format!("/runs/{}", run.id),
        drawings::charts(run, series),
        &names,
    );
    let received = run.origin == Origin::Received;
    RunView {
        id: run.id,
        experiment: experiments::place_of(run),
        kind: kind_of(run),
        // The state says the same.
        origin: origin_words(run.origin).filter(|_| run.state != State::Imported),
        short_cuts: match &run.plan {
            Plan::Throughput(plan) => flow_words::short_cuts(plan),
            _ => None,
        },
        state: state_words(run),
        live,
        partial: matches!(
            run.state,
            State::Failed | State::Cancelled | State::Interrupted
        ),
        failed: run.state == State::Failed,
        baseline: run.baseline,
        tags: run.tags.clone(),
        tags_text: run.tags.join(", "),
        tab: tab(run, &title),
        said: format!("{}: {title}", progress_words(run)),
        title: words::pieces(&title, &names),
        target: run.plan.target(),
        peer: beside.peer.clone(),
        what: what(run),
        node: rail::told_by(run),
        meaning: words::pieces(run.verdict.as_deref().unwrap_or_default(), &names),
        stopped: stopped(run),
        actions: true,
        again: rail::again(run, &command),
        command_head: rail::command_head(run),
        repeatable: !received && run.state != State::Imported,
        stop_word: if run.state == State::Queued {
            "Take it out of the queue"
        } else {
            "Stop and keep what there is"
        },
        objectives: run.objectives.iter().map(objective).collect(),
        ruler: scale::of(run, series),
        belief: if live {
            None
        } else {
            belief::belief(&run.checks)
        },
        nothing: drawn.is_empty().then(|| drawings::nothing(run)).flatten(),
        figures: drawn,
        answered: run
            .summary
            .as_ref()
            .and_then(|summary| answered::answered(run, summary, series.and_then(Series::http))),
        limits: if live || drawings::nothing_moved(run, series) {
            None
        } else {
            limits::limits(run, series.and_then(Series::flow))
        },
        failures: failures(run.summary.as_ref()).iter().map(failure).collect(),
        failures_more: failures_more(run.summary.as_ref()),
        command_wrapped: wrapped(&command),
        command,
        files: if live {
            Vec::new()
        } else {
            files::files(run, beside.intervals, beside.requests)
        },
        excel: files::for_excel(run, beside.intervals),
        plan: rail::plan(&run.plan),
        environment: rail::environment_of(run),
        note: run.note.clone(),
        ..figures_of(run, series, beside)
    }
}

/// The parts that are made from the figures; empty before there are any.
fn figures_of(run: &Run, series: Option<&Series>, beside: &Beside) -> RunView {
    let Some(summary) = run.summary.as_ref().filter(|_| run.state != State::Queued) else {
        return RunView::default();
    };
    let live = !run.state.is_final();
    let flow_series = series.and_then(Series::flow);
    let mut view = RunView {
        outcomes: rail::outcomes(summary),
        path: flow_rail::path(run, flow_series),
        ..RunView::default()
    };
    match (&run.plan, summary) {
        (Plan::Throughput(plan), Summary::Throughput(summary)) => {
            let flow = Flow {
                plan,
                summary,
                series: flow_series,
                live,
            };
            view.tables.extend(streams::streams(plan, summary, live));
            if drawings::nothing_moved(run, series) {
                return view;
            }
            view.keys = flow.keys();
            view.sides = flow.sides();
            if !live {
                view.tables.extend(ends::ends(plan, summary, &run.node));
            }
        }
        (Plan::Ping(plan), Summary::Ping(summary)) => {
            view.keys = echo_parts::ping_keys(summary, &beside.echoes);
            view.tables
                .extend(echo_parts::packets(plan, summary, &beside.echoes, live));
        }
        (_, Summary::Path(summary)) => {
            view.remarks.clone_from(&summary.remarks);
            view.keys = echo_parts::path_keys(summary);
            view.tables = echo_parts::path_tables(summary);
        }
        (_, Summary::Imported(figures)) => {
            view.keys = imported::keys(run.kind, figures);
            view.tables = imported::tables(figures);
        }
        (plan, summary) => view.keys = keys::keys(plan, summary, live),
    }
    view
}

/// The kind of a run with what tells it from others of its kind.
fn kind_of(run: &Run) -> String {
    match &run.plan {
        Plan::Throughput(plan) => format!(
            "throughput, {}, {}, {}",
            match plan.dialect {
                Dialect::Iperf2 => "iperf\u{a0}2",
                Dialect::Iperf3 => "iperf\u{a0}3",
            },
            match plan.protocol {
                Protocol::Tcp => "TCP",
                Protocol::Udp => "UDP",
            },
            flow_rail::direction(plan.direction)
        ),
        Plan::Ping(plan) if plan.method == PingMethod::Tcp => "ping by TCP connects".to_owned(),
        _ => kind_words(run.kind).to_owned(),
    }
}

/// Where a run came from, unless this node was asked for it.
pub const fn origin_words(origin: Origin) -> Option<&'static str> {
    match origin {
        Origin::Local => None,
        Origin::Remote => Some("asked for by another node"),
        Origin::Received => Some("received: served to another machine"),
        Origin::Imported => Some("imported"),
    }
}

/// `rate, open loop` and its like.
pub fn kind_words(kind: Kind) -> &'static str {
    match kind {
        Kind::Rate => "rate, open loop",
        Kind::Users => "users, closed loop",
        Kind::Fetch => "fetch, one request",
        Kind::Throughput => "throughput",
        Kind::Ping => "ping, round trips",
        Kind::Path => "path, MTU",
    }
}

fn state_words(run: &Run) -> String {
    match (run.state, run.queue_place) {
        (State::Queued, Some(place)) => format!("queued, place {place}"),
        (state, _) => state.word().to_owned(),
    }
}

/// The finding, or a neutral sentence where there is none.
pub fn title(run: &Run) -> String {
    if let Some(title) = run.title.as_ref().filter(|title| !title.is_empty()) {
        return title.clone();
    }
    match run.state {
        State::Queued => "Waits for its turn: one run measures at a time".to_owned(),
        State::Running => progress_words(run),
        State::Failed => "Nothing could be measured".to_owned(),
        State::Cancelled => "Stopped before it had measured anything".to_owned(),
        State::Interrupted => "Interrupted before it had measured anything".to_owned(),
        State::Finished | State::Imported => match run.kind {
            Kind::Rate => "Latency at the offered rate".to_owned(),
            Kind::Users => "Transactions and response time".to_owned(),
            Kind::Fetch => "One request and its phases".to_owned(),
            Kind::Throughput => "Throughput of the streams".to_owned(),
            Kind::Ping => "Round trips".to_owned(),
            Kind::Path => "The MTU of the path".to_owned(),
        },
    }
}

fn progress_words(run: &Run) -> String {
    if run.state == State::Queued {
        return state_words(run);
    }
    let share = format!("{:.0}\u{a0}% done", run.progress.done * 100.0);
    match run.progress.eta_s {
        Some(eta) => format!("{share}, about {} left", words::seconds(eta.ceil())),
        None => share,
    }
}

fn tab(run: &Run, title: &str) -> String {
    match run.state {
        // The title of a running run begins with its share done.
        State::Running => format!("{title} · #{}", run.id),
        State::Finished | State::Imported => format!("#{} {title}", run.id),
        state => format!("{} · #{} {title}", state.word(), run.id),
    }
}

fn what(run: &Run) -> Vec<String> {
    let mut out = Vec::new();
    match run.started_at {
        Some(at) if run.state == State::Running => out.push(format!("started {}", words::when(at))),
        Some(at) => out.push(words::when(at)),
        None => out.push(format!("asked for {}", words::when(run.created_at))),
    }
    if let (Some(start), Some(end)) = (run.started_at, run.finished_at) {
        let took = end.duration_since(start).as_secs_f64();
        out.push(words::seconds(took));
    }
    if run.state == State::Running {
        out.push(progress_words(run));
    }
    if let Some(summary) = run.summary.as_ref().filter(|_| run.state.is_final()) {
        out.extend(size(summary));
    }
    if !run.actor.is_empty() && run.actor != "local" {
        out.push(format!("by {}", run.actor));
    }
    out
}

fn size(summary: &Summary) -> Option<String> {
    use std::fmt::Write as _;

    let (planned, outcomes) = match summary {
        Summary::Rate(figures) => (Some(figures.planned), &figures.outcomes),
        Summary::Users(figures) => (figures.planned, &figures.outcomes),
        Summary::Throughput(figures) => {
            let all = u64::from(figures.streams_asked);
            return Some(words::plural(all, "stream", "streams"));
        }
        Summary::Ping(figures) => {
            return Some(format!("n = {}", words::count(figures.transmitted)));
        }
        Summary::Imported(figures) => return imported::size(figures),
        Summary::Fetch(_) | Summary::Path(_) => return None,
    };
    let number: u64 = outcomes.values().sum();
    let of = |outcome: Outcome| outcomes.get(outcome.key()).copied().unwrap_or(0);
    let cut_off = of(Outcome::AbortedAtStop);
    let bad = number.saturating_sub(of(Outcome::Ok) + cut_off);
    let mut text = format!("n = {}", words::count(number));
    if let Some(planned) = planned.filter(|planned| *planned > number) {
        let _ = write!(text, " of {}", words::count(planned));
    }
    for (count, what) in [(bad, "not ok"), (cut_off, "cut off by the stop")] {
        if count > 0 {
            let _ = write!(text, ", {} {what}", words::count(count));
        }
    }
    Some(text)
}

fn stopped(run: &Run) -> Option<Stopped> {
    let after = match (run.started_at, run.finished_at) {
        (Some(start), Some(end)) => format!(
            " after {}",
            words::seconds(end.duration_since(start).as_secs_f64())
        ),
        _ => String::new(),
    };
    let had = if run.summary.is_some() {
        " What was measured until then stands below."
    } else {
        ""
    };
    let why = run.error.as_deref().map(belief::sentence);
    let text = match run.state {
        State::Failed => why.unwrap_or_else(|| "It failed, and left no reason.".to_owned()),
        State::Cancelled => format!("Stopped by a person{after}.{had}"),
        State::Interrupted => {
            let why = why.unwrap_or_else(|| "This program was stopped.".to_owned());
            format!("Interrupted{after}. {why}{had}")
        }
        _ => {
            return run.error.as_ref().map(|error| Stopped {
                text: belief::sentence(error),
                bad: false,
            });
        }
    };
    Some(Stopped {
        text,
        bad: run.state == State::Failed,
    })
}

fn objective(result: &ObjectiveResult) -> ObjectiveLine {
    let measured = result.measured.as_deref().unwrap_or("not measured");
    let (class, mark, text) = match result.ok {
        Some(true) => ("ok", "✓", format!("met: {measured}")),
        Some(false) => ("bad", "✕", format!("missed: {measured}")),
        None => ("muted", "–", format!("cannot be told: {measured}")),
    };
    ObjectiveLine {
        class,
        mark,
        rule: result.rule.replace('<', " < ").replace('>', " > "),
        text,
    }
}

fn failures(summary: Option<&Summary>) -> &[FailureText] {
    match summary {
        Some(Summary::Rate(figures)) => &figures.failures,
        Some(Summary::Users(figures)) => &figures.failures,
        _ => &[],
    }
}

fn failures_more(summary: Option<&Summary>) -> Option<String> {
    let more = match summary? {
        Summary::Rate(figures) => figures.failures_not_listed,
        Summary::Users(figures) => figures.failures_not_listed,
        _ => 0,
    };
    (more > 0).then(|| words::count(more))
}

fn failure(failure: &FailureText) -> FailureLine {
    FailureLine {
        outcome: failure.outcome.clone(),
        text: failure.text.clone(),
        count: words::count(failure.count),
    }
}

/// Characters that fit on a line of the rail with a backslash after them.
const WIDTH: usize = 32;

/// The command line broken before its options, as a person would in a script.
pub fn wrapped(command: &str) -> String {
    let mut out = String::new();
    let mut line = 0;
    for word in command.split(' ') {
        let next = line + word.chars().count() + 1;
        let starts = word.starts_with('-') && next > 22 && line > 14;
        // What would not fit beside the backslash is broken inside a word by the browser.
        if line > 2 && word.chars().count() > WIDTH {
            out.push_str(" \\\n");
            line = 0;
        } else if line > 2 && (starts || next > WIDTH) {
            out.push_str(" \\\n  ");
            line = 2;
        } else if !out.is_empty() {
            out.push(' ');
            line += 1;
        }
        out.push_str(word);
        line += word.chars().count();
    }
    out
}

/// Names from outside that may stand in sentences.
pub fn names(run: &Run) -> Vec<String> {
    let mut names: Vec<String> = match &run.summary {
        Some(Summary::Rate(figures)) => figures
            .served_by
            .keys()
            .chain(figures.regions.keys())
            .cloned()
            .collect(),
        Some(Summary::Users(figures)) => figures
            .served_by
            .keys()
            .chain(figures.regions.keys())
            .cloned()
            .collect(),
        Some(Summary::Fetch(figures)) => figures
            .served_by
            .iter()
            .chain(figures.region.iter())
            .cloned()
            .collect(),
        _ => Vec::new(),
    };
    names.extend(
        run.plan
            .endpoints()
            .into_iter()
            .map(|endpoint| endpoint.host),
    );
    names.retain(|name| name.len() > 1);
    names
}
