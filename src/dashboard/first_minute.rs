//! The first minute's page: begun by one button, drawn as it goes, and what it comes to.

use askama::Template;
use axum::Form;
use axum::extract::State as Shared;
use axum::extract::rejection::FormRejection;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};

use crate::chart::{self, MinuteStep};
use crate::dashboard::context::Visit;
use crate::dashboard::error::Trouble;
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::launch;
use crate::dashboard::run::figures::{self, FigureView};
use crate::dashboard::run::old::{self, Old};
use crate::dashboard::words;
use crate::measure::first_minute::{FirstMinute, MinuteFound, Pace, Part, ServerLog};
use crate::measure::fold::Series;
use crate::measure::run::{Run, State};
use crate::measure::summary::{RateSummary, Summary};
use crate::minute::{MinuteRefused, MinuteView, NothingRuns};
use crate::state::AppState;

const PLACE: &str = "/first-minute";

#[derive(Template)]
#[template(path = "minute/page.html")]
struct MinutePage {
    frame: Frame,
    view: View,
}

#[derive(Template)]
#[template(path = "minute/live.html")]
struct LivePart {
    view: View,
}

/// The scale of its parts in percent of its width, so that its text never scales.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Track {
    /// What it says, for those who do not see it.
    pub label: String,
    /// Where one question ends and the next begins, and when that is.
    pub ticks: Vec<TrackMark>,
    /// The questions, each in the middle of its part.
    pub names: Vec<TrackMark>,
    /// How far it is; empty before it has begun.
    pub done: String,
}

/// A mark on the track.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackMark {
    /// Where, in percent.
    pub at: String,
    /// Which end of the text stands there.
    pub anchor: &'static str,
    /// The text.
    pub text: String,
}

/// Everything that the page says.
#[derive(Default)]
struct View {
    live: bool,
    tab: String,
    said: String,
    kick: String,
    title: String,
    meaning: String,
    error: Option<String>,
    track: Track,
    answers: Vec<Answer>,
    figures: Vec<Vec<FigureView>>,
    old: Option<Old>,
    server: Vec<(&'static str, String)>,
    again: bool,
}

/// One question and what is known of it.
struct Answer {
    class: &'static str,
    mark: &'static str,
    question: &'static str,
    text: String,
    runs: Vec<i64>,
}

/// The four questions, each with the parts that answer it.
const QUESTIONS: [(&str, &str, &[Part]); 4] = [
    ("clock", "How exact is its clock?", &[Part::Clock]),
    ("loopback", "How fast is its loopback?", &[Part::Loopback]),
    (
        "pictures",
        "How many pictures a second does it serve?",
        &[Part::Ceiling],
    ),
    (
        "waiting",
        "What does waiting do beyond that?",
        &[Part::Below, Part::At, Part::Above],
    ),
];

/// The track of a first minute at this pace.
pub fn track(pace: &Pace, done: Option<f64>) -> Track {
    let whole = pace.whole_s();
    let percent = |seconds: f64| format!("{:.1}%", seconds / whole * 100.0);
    let mut at = 0.0;
    let mut track = Track {
        label: format!(
            "Scale from 0 to {} in four parts",
            words::seconds(whole.round())
        ),
        done: done.map_or_else(String::new, |done| format!("{:.1}%", done * 100.0)),
        ticks: vec![TrackMark {
            at: "0".to_owned(),
            anchor: "start",
            text: "0\u{a0}s".to_owned(),
        }],
        names: Vec::new(),
    };
    for (index, (name, _, parts)) in QUESTIONS.iter().enumerate() {
        let length: f64 = parts.iter().map(|part| pace.of(*part)).sum();
        track.names.push(TrackMark {
            at: percent(at + length / 2.0),
            anchor: "middle",
            text: (*name).to_owned(),
        });
        at += length;
        let last = index + 1 == QUESTIONS.len();
        track.ticks.push(TrackMark {
            at: if last { "100%".to_owned() } else { percent(at) },
            anchor: if last { "end" } else { "middle" },
            text: if last {
                words::seconds(at.round())
            } else {
                format!("{:.0}", at.round())
            },
        });
    }
    track
}

/// Answers `GET /first-minute`.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    match make(&state).await {
        Ok(Some(view)) => {
            let mut frame = visit.frame().at(Place::Nowhere, view.tab.clone());
            frame.reloads = view.live;
            page(StatusCode::OK, &MinutePage { frame, view })
        }
        Ok(None) => {
            let mut view = View {
                kick: "not made yet".to_owned(),
                tab: "First minute".to_owned(),
                title: "How good is this machine?".to_owned(),
                meaning: "Nothing has been measured yet. It takes one press, no set-up and no second machine: everything stays on loopback.".to_owned(),
                track: track(&Pace::default(), None),
                again: true,
                ..View::default()
            };
            view.answers = answers(None, &MinuteFound::default());
            let frame = visit.frame().at(Place::Nowhere, view.tab.clone());
            page(StatusCode::OK, &MinutePage { frame, view })
        }
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

/// Answers `GET /first-minute/live`: the part that changes; 204 once it is over.
pub async fn live(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    match make(&state).await {
        Ok(Some(view)) if view.live => match (LivePart { view }).render() {
            Ok(html) => ([(header::CACHE_CONTROL, "no-store")], Html(html)).into_response(),
            Err(error) => Trouble::storage(&error).answer(visit.frame()),
        },
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

/// Answers `POST /first-minute`. The field `step_s` sets the pace; without it a step takes 6 s.
pub async fn start(
    visit: Visit,
    Shared(state): Shared<AppState>,
    form: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let values = match launch::read(form) {
        Ok(values) => values,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let pace = match values.get("step_s").filter(|text| !text.is_empty()) {
        None => Ok(Pace::default()),
        Some(text) => match text.parse() {
            Ok(seconds) => Pace::read(seconds),
            Err(_) => Err(format!("step_s is {text}; it must be a number of seconds.")),
        },
    };
    let refused = |sentence: String| {
        Trouble::unusable(sentence, PLACE, "Back to the first minute").answer(visit.frame())
    };
    let pace = match pace {
        Ok(pace) => pace,
        Err(sentence) => return refused(sentence),
    };
    match state.minute.start(pace, visit.actor()).await {
        // A second press of the button shows the one that was begun by the first.
        Ok(()) | Err(MinuteRefused::Busy) => Redirect::to(PLACE).into_response(),
        Err(other) => refused(other.to_string()),
    }
}

/// Answers `POST /first-minute/cancel`.
pub async fn cancel(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    match state.minute.cancel().await {
        Ok(()) => Redirect::to(PLACE).into_response(),
        Err(NothingRuns) => Trouble::conflict(
            "Nothing runs that could be stopped",
            PLACE,
            "Back to the first minute",
        )
        .answer(visit.frame()),
    }
}

async fn make(state: &AppState) -> Result<Option<View>, Trouble> {
    let read = |error| Trouble::storage(&error);
    let Some(minute) = state.minute.view().await.map_err(read)? else {
        return Ok(None);
    };
    let mut series = Vec::new();
    for (part, run) in &minute.runs {
        if part.share().is_some() {
            let found = match state.supervisor.live(run.id) {
                Some(live) => Some(live.series),
                None => state.store.series(run.id).await.map_err(read)?,
            };
            series.push((*part, found));
        }
    }
    tokio::task::spawn_blocking(move || Some(view(&minute, &series)))
        .await
        .map_err(|error| Trouble::storage(&error))
}

fn view(seen: &MinuteView, series: &[(Part, Option<Series>)]) -> View {
    let minute = &seen.minute;
    let found = &seen.found;
    let live = !minute.state.is_final();
    let title = if live {
        progress(seen)
    } else {
        found.sentence().map_or_else(
            || "Nothing could be measured".to_owned(),
            |sentence| sentence + ".",
        )
    };
    let above = seen
        .runs
        .iter()
        .find(|(part, _)| *part == Part::Above)
        .map(|(_, run)| run);
    View {
        live,
        tab: if live {
            format!("{title} · first minute")
        } else {
            "First minute".to_owned()
        },
        said: title.clone(),
        kick: format!(
            "{} · {}",
            words::when(minute.started_at),
            share_of_cpus(seen)
        ),
        title,
        meaning: meaning(minute, found),
        error: minute.error.clone(),
        track: track(&minute.pace, live.then_some(seen.done)),
        answers: answers(Some(seen), found),
        figures: picture(minute, series),
        old: above.and_then(old::old),
        server: server(minute, above),
        again: !live,
    }
}

/// Who has the CPUs.
fn share_of_cpus(seen: &MinuteView) -> String {
    let threads = words::plural(
        seen.minute.threads.into(),
        "render thread",
        "render threads",
    );
    let cpus = seen.runs.first().and_then(|(_, run)| run.environment.cpus);
    match cpus {
        Some(cpus) => format!("{threads} on {}", words::plural(cpus.into(), "CPU", "CPUs")),
        None => threads,
    }
}

fn progress(seen: &MinuteView) -> String {
    let what = seen.minute.now().map_or("", |part| part.part.words());
    let left = seen.left_s.map_or_else(String::new, |left| {
        format!(", about {} left", words::seconds(left.ceil().max(1.0)))
    });
    format!("{:.0}\u{a0}% done, {what}{left}", seen.done * 100.0)
}

fn meaning(minute: &FirstMinute, found: &MinuteFound) -> String {
    if !minute.state.is_final() {
        return "Every part is an ordinary run, kept in the notebook with the tag first-minute. Nothing leaves this machine.".to_owned();
    }
    let mut said: Vec<String> = found.waiting().into_iter().collect();
    if found.ceiling_per_s.is_some() {
        let what = if minute.picture.contains("width") {
            "of 500 × 400 points, a fourth of the standard one"
        } else {
            "of the standard size"
        };
        let threads = match minute.threads {
            1 => "one thread".to_owned(),
            more => format!("{more} threads"),
        };
        said.push(format!(
            "The rate is an estimate from {} of a closed loop with {threads}, each picture {what}; a capacity search takes longer and gives bounds.",
            words::seconds(minute.pace.ceiling_s)
        ));
    }
    said.join(" ")
}

fn answers(seen: Option<&MinuteView>, found: &MinuteFound) -> Vec<Answer> {
    QUESTIONS
        .iter()
        .map(|(name, question, parts)| {
            let states: Vec<_> = seen
                .into_iter()
                .flat_map(|seen| &seen.minute.parts)
                .filter(|state| parts.contains(&state.part))
                .collect();
            let over = !states.is_empty() && states.iter().all(|state| state.over);
            let now = seen
                .filter(|seen| !seen.minute.state.is_final())
                .and_then(|seen| seen.minute.now())
                .is_some_and(|now| parts.contains(&now.part));
            let skipped = states.iter().find_map(|state| state.skipped.clone());
            let text = answer(name, found);
            let (class, mark) = match (over, now, &skipped) {
                (_, _, Some(_)) => ("warn", "!"),
                (true, ..) => ("ok", "✓"),
                (false, true, None) => ("live", "●"),
                _ => ("na", "–"),
            };
            Answer {
                class,
                mark,
                question,
                text: match (text, skipped, now) {
                    (_, Some(why), _) => why,
                    (Some(text), ..) => text,
                    (None, None, true) => "is being measured".to_owned(),
                    (None, None, false) => promise(name).to_owned(),
                },
                runs: states.iter().filter_map(|state| state.run).collect(),
            }
        })
        .collect()
}

/// The four questions, and how each will be answered.
pub fn promises() -> Vec<(&'static str, &'static str)> {
    QUESTIONS
        .iter()
        .map(|(name, question, _)| (*question, promise(name)))
        .collect()
}

/// What will be measured, before it was.
fn promise(name: &str) -> &'static str {
    match name {
        "clock" => "How late a send is against a perfect grid, p50 and p99.",
        "loopback" => "One TCP stream, and the round-trip time while it runs.",
        "pictures" => "The Mandelbrot workload, up to its ceiling: an estimate.",
        _ => "Below, at and above that rate, beside what httperf would have printed.",
    }
}

/// What was found out about a question.
fn answer(name: &str, found: &MinuteFound) -> Option<String> {
    match name {
        "clock" => {
            let late = found.lateness_ms.as_ref()?;
            Some(format!(
                "Half of {} sends are not later than {} than planned, 99 in 100 not later than {}.",
                words::count(late.count),
                words::ms(late.median),
                words::ms(late.p99)
            ))
        }
        "loopback" => {
            let rate = words::bits(Some(found.bits_per_second?));
            Some(match found.rtt_ms {
                Some((idle, loaded)) => format!(
                    "{rate} in one stream; the round trip goes from {} to {} meanwhile.",
                    words::ms(Some(idle)),
                    words::ms(Some(loaded))
                ),
                None => format!("{rate} in one stream."),
            })
        }
        "pictures" => Some(format!(
            "About {} a second, when the next is asked for as soon as one is done.",
            words::digits(found.ceiling_per_s?)
        )),
        _ => {
            let steps: Vec<String> = [Part::Below, Part::At, Part::Above]
                .into_iter()
                .filter_map(|part| {
                    let step = found.step(part)?;
                    Some(format!(
                        "{} × ({} a second): median {}, at most {}",
                        part.share()?,
                        words::digits(step.offered_per_s),
                        words::ms(Some(step.median_ms)),
                        words::ms(Some(step.max_ms))
                    ))
                })
                .collect();
            (!steps.is_empty()).then(|| steps.join("; "))
        }
    }
}

fn picture(minute: &FirstMinute, series: &[(Part, Option<Series>)]) -> Vec<Vec<FigureView>> {
    let Some(ceiling) = minute.ceiling_per_s else {
        return Vec::new();
    };
    let steps: Vec<MinuteStep<'_>> = [Part::Below, Part::At, Part::Above]
        .into_iter()
        .filter_map(|part| {
            let share = part.share()?;
            let found = series.iter().find(|(known, _)| *known == part);
            Some(MinuteStep {
                share,
                rate_per_s: ceiling * share,
                seconds: minute.pace.step_s,
                series: found
                    .and_then(|(_, series)| series.as_ref())
                    .and_then(Series::http),
            })
        })
        .collect();
    let mut rows = figures::rows(PLACE, vec![chart::first_minute_figure(&steps)], &[]);
    for figure in rows.iter_mut().flatten() {
        figure.links = false;
    }
    rows
}

/// The truth about the step above the ceiling, by the server's own log.
fn server(minute: &FirstMinute, above: Option<&Run>) -> Vec<(&'static str, String)> {
    let (Some(log), Some(Summary::Rate(summary))) =
        (minute.server, above.and_then(|run| run.summary.as_ref()))
    else {
        return Vec::new();
    };
    if minute.state == State::Running {
        return Vec::new();
    }
    truths(&log, summary)
}

fn truths(log: &ServerLog, summary: &RateSummary) -> Vec<(&'static str, String)> {
    let timing = summary.server_timing_ms.clone().unwrap_or_default();
    let phase = |avg: Option<f64>, p99: Option<f64>| {
        format!(
            "{} on average, 99 in 100 within {}",
            words::ms(avg),
            words::ms(p99)
        )
    };
    let mut lines = vec![
        ("pictures asked for", words::count(summary.planned)),
        ("pictures computed", words::count(log.served)),
        (
            "waiting in its queue",
            phase(timing.queue.avg, timing.queue.p99),
        ),
        ("computing", phase(timing.compute.avg, timing.compute.p99)),
        (
            "from the planned request to the picture",
            phase(summary.latency_ms.avg, summary.latency_ms.p99),
        ),
    ];
    if log.refused > 0 {
        lines.insert(2, ("refused with 503", words::count(log.refused)));
    }
    if log.dropped > 0 {
        lines.insert(2, ("given up by their client", words::count(log.dropped)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_track_has_four_parts_and_ends_at_its_whole_length() {
        let track = track(&Pace::default(), Some(0.25));
        assert_eq!(track.names.len(), 4);
        assert_eq!(track.ticks.len(), 5);
        assert_eq!(track.ticks[4].at, "100%");
        assert_eq!(track.done, "25.0%");
        assert!(
            track.ticks[4].text.ends_with('s'),
            "{}",
            track.ticks[4].text
        );
    }

    #[test]
    fn before_anything_was_measured_every_question_says_what_will_be() {
        let all = answers(None, &MinuteFound::default());
        assert_eq!(all.len(), 4);
        for one in all {
            assert_eq!(one.mark, "–");
            assert!(!one.text.is_empty() && one.runs.is_empty());
        }
    }

    #[test]
    fn the_servers_log_is_beside_the_generators_figures() {
        let log = ServerLog {
            served: 60,
            refused: 2,
            dropped: 0,
        };
        let summary = RateSummary {
            planned: 62,
            ..RateSummary::default()
        };
        let lines = truths(&log, &summary);
        assert_eq!(lines[2], ("refused with 503", "2".to_owned()));
        assert!(
            lines
                .iter()
                .all(|(name, _)| *name != "given up by their client")
        );
        assert!(lines[3].1.contains(words::DASH));
    }
}
