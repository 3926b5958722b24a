//! The self-test's page: run it, watch it, and what the last one found.

use askama::Template;
use axum::Form;
use axum::extract::State as Shared;
use axum::extract::rejection::FormRejection;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};

use crate::chart;
use crate::dashboard::context::Visit;
use crate::dashboard::error::Trouble;
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::launch;
use crate::dashboard::run::figures::{self, FigureView};
use crate::dashboard::words;
use crate::measure::run::State;
use crate::measure::selftest::KeptSelfTest;
use crate::report::{self, SelfTestRow};
use crate::state::AppState;
use crate::supervisor::{NotRunning, SelfTestView};

/// Self-tests on the page, the last one and those before it.
const SHOWN: usize = 10;
const PLACE: &str = "/selftest";

#[derive(Template)]
#[template(path = "selftest/page.html")]
struct SelfTestPage {
    frame: Frame,
    view: View,
}

#[derive(Template)]
#[template(path = "selftest/live.html")]
struct LivePart {
    view: View,
}

/// Everything that the page says.
#[derive(Default)]
struct View {
    /// Whether one waits or runs.
    live: bool,
    tab: String,
    said: String,
    title: String,
    what: String,
    /// Share done in percent.
    done: Option<String>,
    /// Why the last attempt came to nothing.
    error: Option<String>,
    rows: Vec<SelfTestRow>,
    remarks: Vec<String>,
    figures: Vec<Vec<FigureView>>,
    /// When the figures are from, while another self-test runs.
    last: Option<String>,
    earlier: Vec<Earlier>,
}

/// One self-test of those before the last.
struct Earlier {
    when: String,
    exact: String,
    new: String,
    kept: String,
    loopback: String,
    note: &'static str,
}

/// Answers `GET /selftest`.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    match make(&state).await {
        Ok(view) => {
            let mut frame = visit.frame().at(Place::Nowhere, view.tab.clone());
            frame.reloads = view.live;
            page(StatusCode::OK, &SelfTestPage { frame, view })
        }
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

/// Answers `GET /selftest/live`: the part that changes; 204 once nothing waits or runs.
pub async fn live(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    match make(&state).await {
        Ok(view) if !view.live => StatusCode::NO_CONTENT.into_response(),
        Ok(view) => match (LivePart { view }).render() {
            Ok(html) => ([(header::CACHE_CONTROL, "no-store")], Html(html)).into_response(),
            Err(error) => Trouble::storage(&error).answer(visit.frame()),
        },
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

/// Answers `POST /selftest`: puts one into the queue.
pub async fn start(
    visit: Visit,
    Shared(state): Shared<AppState>,
    form: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let values = match launch::read(form) {
        Ok(values) => values,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let quick = values.get("length").is_some_and(|word| word == "quick");
    match state.supervisor.self_test(quick) {
        // A second press of the button shows the one that was started by the first.
        Ok(_) | Err(crate::supervisor::SelfTestRefused::Busy) => {
            Redirect::to(PLACE).into_response()
        }
        Err(refused) => Trouble::conflict(refused.to_string(), PLACE, "Back to the self-test")
            .answer(visit.frame()),
    }
}

/// Answers `POST /selftest/cancel`.
pub async fn cancel(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    match state.supervisor.cancel_self_test() {
        Ok(()) => Redirect::to(PLACE).into_response(),
        Err(NotRunning) => {
            Trouble::conflict("No self-test waits or runs", PLACE, "Back to the self-test")
                .answer(visit.frame())
        }
    }
}

async fn make(state: &AppState) -> Result<View, Trouble> {
    let read = |error| Trouble::storage(&error);
    let kept = state.store.self_tests(SHOWN).await.map_err(read)?;
    let attempt = state.supervisor.self_test_view();
    tokio::task::spawn_blocking(move || view(attempt.as_ref(), &kept))
        .await
        .map_err(|error| Trouble::storage(&error))
}

fn view(attempt: Option<&SelfTestView>, kept: &[KeptSelfTest]) -> View {
    let open = attempt.filter(|attempt| !attempt.state.is_final());
    let mut view = match kept.first() {
        Some(last) => found(last, open.is_some()),
        None => View {
            title: "How exact and how strong is this machine’s generator?".to_owned(),
            what: "No self-test has been made yet.".to_owned(),
            tab: "Self-test".to_owned(),
            ..View::default()
        },
    };
    view.earlier = kept.iter().skip(1).map(earlier).collect();
    match (open, attempt) {
        (Some(open), _) => {
            view.live = true;
            view.title = progress(open);
            view.tab = format!("{} · self-test", view.title);
            view.said.clone_from(&view.title);
            view.done = Some(format!("{:.0}", open.progress.done * 100.0));
        }
        (None, Some(attempt)) if attempt.state != State::Finished => {
            view.error.clone_from(&attempt.error);
        }
        _ => {}
    }
    view
}

/// What the last self-test found.
fn found(last: &KeptSelfTest, another_runs: bool) -> View {
    let took = last
        .finished_at
        .duration_since(last.started_at)
        .as_secs_f64();
    let length = if last.figures.quick { ", quick" } else { "" };
    let mut drawn = figures::rows("/selftest", chart::self_test_figures(&last.figures), &[]);
    for figure in drawn.iter_mut().flatten() {
        figure.links = false;
    }
    View {
        title: report::self_test_sentence(&last.figures),
        what: format!(
            "{} · {}{length} · on {}",
            words::when(last.started_at),
            words::seconds(took),
            last.node
        ),
        tab: "Self-test".to_owned(),
        rows: report::self_test_rows(&last.figures),
        remarks: last.figures.remarks.clone(),
        figures: drawn,
        last: another_runs.then(|| words::when(last.started_at)),
        ..View::default()
    }
}

fn earlier(kept: &KeptSelfTest) -> Earlier {
    let figures = &kept.figures;
    Earlier {
        when: words::when(kept.started_at),
        exact: words::ms(figures.exact_to_ms()),
        new: words::per_s(figures.new_per_s()),
        kept: words::per_s(figures.kept_per_s()),
        loopback: words::bits(figures.loopback_bits_per_second()),
        note: if figures.quick { "quick" } else { "" },
    }
}

fn progress(open: &SelfTestView) -> String {
    match (open.queue_place, open.progress.eta_s) {
        (Some(place), _) => format!("The self-test waits for its turn, place {place}"),
        (None, Some(left)) => format!(
            "{:.0}\u{a0}% done, {}: about {} left",
            open.progress.done * 100.0,
            open.doing,
            words::seconds(left.ceil())
        ),
        (None, None) => "The self-test begins".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::run::Progress;
    use crate::measure::selftest::SelfTest;

    fn attempt(state: State) -> SelfTestView {
        SelfTestView {
            state,
            quick: false,
            queue_place: None,
            progress: Progress {
                done: 0.4,
                eta_s: Some(14.2),
            },
            doing: "servers of known delay",
            error: Some("It was stopped.".to_owned()),
        }
    }

    #[test]
    fn a_running_one_shows_its_progress_above_the_last_ones_figures() {
        let kept = KeptSelfTest {
            id: 1,
            node: "eu-a".to_owned(),
            started_at: "2026-12-01T10:00:00Z".parse().unwrap(),
            finished_at: "2026-12-01T10:00:24Z".parse().unwrap(),
            figures: SelfTest::default(),
        };
        let one = std::slice::from_ref(&kept);
        let running = view(Some(&attempt(State::Running)), one);
        assert!(running.live && running.last.is_some());
        assert!(
            running.title.contains("servers of known delay: about 15"),
            "{}",
            running.title
        );
        assert!(!running.rows.is_empty());
        let stopped = view(Some(&attempt(State::Cancelled)), &[]);
        assert_eq!(stopped.error.as_deref(), Some("It was stopped."));
        assert!(!stopped.live && stopped.rows.is_empty());
        assert_eq!(view(Some(&attempt(State::Finished)), one).error, None);
    }
}
