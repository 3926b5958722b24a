//! Downloads: every figure of a run as a file, with names and units that stand alone.

mod intervals;
pub mod requests;

use axum::body::Body;
use axum::extract::{Path, State as Shared};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use askama::Template;

use crate::chart::Theme as ChartTheme;
use crate::dashboard::assets;
use crate::dashboard::context::Visit;
use crate::dashboard::error::Trouble;
use crate::dashboard::frame::{Frame, Place, Theme};
use crate::dashboard::history::Query;
use crate::dashboard::run::drawings;
use crate::dashboard::run::handler::{self, Found};
use crate::dashboard::run::pages::RunPage;
use crate::measure::fold::Interval;
use crate::measure::plan::{Kind, Plan};
use crate::measure::run::{Run, State};
use crate::measure::summary::Summary;
use crate::report;
use crate::report::csv::{Delimiter, Options};
use crate::state::AppState;
use crate::store::StoreError;

pub(super) const CSV: &str = "text/csv; charset=utf-8";
pub(super) const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// A report or picture that a person opens from this server can run nothing and reach nobody.
const SANDBOX: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox";

/// Packets of a ping read at a time.
const ECHOES_AT_A_TIME: usize = 10_000;

/// Runs in the history's CSV read at a time.
const RUNS_AT_A_TIME: usize = 200;

/// Answers `GET /runs/{id}/{file}`.
pub async fn file(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path((id, name)): Path<(String, String)>,
) -> Response {
    match make(&visit, &state, &id, &name).await {
        Ok(response) => response,
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

async fn make(visit: &Visit, state: &AppState, id: &str, name: &str) -> Result<Response, Trouble> {
    let found = handler::find(state, id).await?;
    let options = options(visit.query());
    let run = &found.run;
    let number = run.id;
    let read = |error: StoreError| Trouble::storage(&error);
    Ok(match name {
        "summary.csv" => attached(number, name, CSV, report::csv::summary_csv(run, options)),
        "summary.json" => attached(number, name, JSON, json(run)?),
        "intervals.csv" => intervals::stream(state, run, requests::Form::Csv(options)).await?,
        "intervals.json" => intervals::stream(state, run, requests::Form::Json).await?,
        "requests.csv" if run.kind.is_http() => {
            requests::stream(state, run, requests::Form::Csv(options)).await?
        }
        "requests.json" if run.kind.is_http() => {
            requests::stream(state, run, requests::Form::Json).await?
        }
        "report.txt" => {
            let text = if run.state == State::Imported {
                state.store.imported_text(number).await.map_err(read)?
            } else {
                report::text_with_rows(run, &rows_of(state, run).await?)
            };
            let text = text.ok_or_else(|| no_figures(run))?;
            attached(number, name, TEXT, text)
        }
        "iperf.csv" if run.kind == Kind::Throughput => {
            let (Plan::Throughput(plan), Some(Summary::Throughput(summary))) =
                (&run.plan, &run.summary)
            else {
                return Err(no_figures(run));
            };
            let rows = state
                .store
                .flows(number, 0, usize::MAX)
                .await
                .map_err(read)?;
            attached(
                number,
                name,
                CSV,
                report::iperf_csv(run, plan, summary, &rows),
            )
        }
        "histogram.hgrm" if run.kind == Kind::Ping => {
            let text = percentiles_of_packets(state, number).await?;
            attached(number, name, TEXT, text)
        }
        "histogram.hgrm" if run.kind.is_http() => {
            let blobs = state.store.histograms(number).await.map_err(read)?;
            let text = tokio::task::spawn_blocking(move || report::hgrm(&merged(&blobs)))
                .await
                .map_err(|error| Trouble::storage(&error))?;
            attached(number, name, TEXT, text)
        }
        "report.html" => {
            let html = stand_alone(visit, state, found).await?;
            let mut answer = attached(number, name, "text/html; charset=utf-8", html);
            sandboxed(&mut answer);
            answer
        }
        _ => return Err(no_file(number, name)),
    })
}

/// All rows of a run's `intervals.csv`, for a text that is made from them as a whole.
async fn rows_of(state: &AppState, run: &Run) -> Result<Vec<Interval>, Trouble> {
    state
        .store
        .rows_of(run, 0, usize::MAX)
        .await
        .map_err(|error| Trouble::storage(&error))
}

/// Answers `GET /runs/{id}/charts/{name}.svg`.
pub async fn drawing(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path((id, file)): Path<(String, String)>,
) -> Response {
    match draw(&visit, &state, &id, &file).await {
        Ok(response) => response,
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

async fn draw(visit: &Visit, state: &AppState, id: &str, file: &str) -> Result<Response, Trouble> {
    let Found { run, series, .. } = handler::find(state, id).await?;
    let number = run.id;
    let theme = chart_theme(visit.query());
    let Some(name) = file.strip_suffix(".svg").map(str::to_owned) else {
        return Err(no_file(number, file));
    };
    let svg = tokio::task::spawn_blocking(move || {
        drawings::chart_file(&run, series.as_ref(), &name, theme)
    })
    .await
    .map_err(|error| Trouble::storage(&error))?
    .ok_or_else(|| no_file(number, file))?;
    Ok(picture(&format!("tidemark-run-{number}"), file, svg))
}

/// The colours that a chart is asked for in.
pub(super) fn chart_theme(query: &str) -> ChartTheme {
    if has(query, "theme", "dark") {
        ChartTheme::Dark
    } else {
        ChartTheme::Light
    }
}

/// A chart as a picture of its own.
pub(super) fn picture(stem: &str, file: &str, svg: String) -> Response {
    let mut answer = (
        [
            (header::CONTENT_TYPE, "image/svg+xml"),
            (header::CACHE_CONTROL, "no-store"),
        ],
        svg,
    )
        .into_response();
    let name = format!("inline; filename=\"{stem}-{}\"", safe(file));
    if let Ok(value) = HeaderValue::from_str(&name) {
        answer
            .headers_mut()
            .insert(header::CONTENT_DISPOSITION, value);
    }
    sandboxed(&mut answer);
    answer
}

/// Answers `GET /runs.csv` with the filters of the history; all of it, never a page of it.
pub async fn runs_csv(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let query = Query::read(visit.query());
    let (filter, wrong) = query.filter();
    if !wrong.is_empty() {
        return Trouble::unusable(wrong.join(" "), "/runs", "All runs").answer(visit.frame());
    }
    let options = options(visit.query());
    let (sender, body) = requests::channel();
    let first = match state
        .store
        .runs(filter.clone(), query.before(), RUNS_AT_A_TIME)
        .await
    {
        Ok(runs) => runs,
        Err(error) => return Trouble::storage(&error).answer(visit.frame()),
    };
    tokio::spawn(async move {
        // The first chunk begins with the header; the writer of whole files says how it is spelled.
        let mut text = report::csv::runs_csv(&first, options);
        let mut last = first.last().map(|run| run.id);
        let mut more = first.len() == RUNS_AT_A_TIME;
        loop {
            if sender.send(Ok(text.into())).await.is_err() || !more {
                return;
            }
            match state.store.runs(filter.clone(), last, RUNS_AT_A_TIME).await {
                Ok(runs) => {
                    more = runs.len() == RUNS_AT_A_TIME;
                    last = runs.last().map(|run| run.id).or(last);
                    text = runs
                        .iter()
                        .map(|run| report::csv::runs_row(run, options))
                        .collect();
                }
                Err(error) => {
                    let _ = sender.send(Err(std::io::Error::other(error))).await;
                    return;
                }
            }
        }
    });
    named("tidemark-runs.csv", CSV, body)
}

/// The page as one file: its style sheet inside, no script, no link to this server's files.
async fn stand_alone(visit: &Visit, state: &AppState, found: Found) -> Result<String, Trouble> {
    let id = found.run.id;
    let mut run = handler::draw(state, found).await?;
    run.actions = false;
    for figure in run.figures.iter_mut().flatten() {
        figure.links = false;
    }
    let frame = Frame {
        theme: Theme::System,
        ..visit.frame()
    }
    .at(Place::Nowhere, run.tab.clone());
    let style = frame.style.clone();
    let html = RunPage { frame, run }
        .render()
        .map_err(|error| Trouble::storage(&error))?;
    let link = format!("<link rel=\"stylesheet\" href=\"{style}\">");
    let mut html = html.replacen(&link, &format!("<style>{}</style>", assets::STYLE), 1);
    for (from, to) in [
        ("<link rel=\"icon\"", ">"),
        ("<script", "</script>"),
        ("<nav", "</nav>"),
        ("<form", "</form>"),
    ] {
        html = cut(html, from, to);
    }
    Ok(html.replace(
        "<a class=\"brand\" href=\"/\">",
        &format!("<a class=\"brand\" href=\"#main\" title=\"Run {id}\">"),
    ))
}

/// The text without its first part from `from` to the end of `to`.
fn cut(mut text: String, from: &str, to: &str) -> String {
    if let Some(start) = text.find(from)
        && let Some(length) = text[start..].find(to)
    {
        text.replace_range(start..start + length + to.len(), "");
    }
    text
}

/// All seconds' histograms as one; one that cannot be read is left out.
fn merged(blobs: &[Vec<u8>]) -> Histogram<u64> {
    let mut sum = Histogram::new(3).expect("three digits are allowed");
    sum.auto(true);
    let mut reader = Deserializer::new();
    for blob in blobs.iter().filter(|blob| !blob.is_empty()) {
        match reader.deserialize::<u64, _>(&mut blob.as_slice()) {
            Ok(histogram) => {
                if let Err(error) = sum.add(&histogram) {
                    tracing::warn!(?error, "a second's histogram does not fit");
                }
            }
            Err(error) => tracing::warn!(?error, "a second's histogram cannot be read"),
        }
    }
    sum
}

/// The round trips of a ping as percentile text.
async fn percentiles_of_packets(state: &AppState, run: i64) -> Result<String, Trouble> {
    let mut histogram = Histogram::new(3).expect("three digits are allowed");
    histogram.auto(true);
    let mut skip = 0;
    loop {
        let some = state
            .store
            .echoes(run, skip, ECHOES_AT_A_TIME)
            .await
            .map_err(|error| Trouble::storage(&error))?;
        skip += some.len();
        for rtt_ms in some.iter().filter_map(|echo| echo.rtt_ms) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a time is not negative, and one too long saturates"
            )]
            let micros = (rtt_ms * 1e3).round() as u64;
            if let Err(error) = histogram.record(micros) {
                tracing::warn!(?error, "a round trip does not fit");
            }
        }
        if some.len() < ECHOES_AT_A_TIME {
            return Ok(report::hgrm(&histogram));
        }
    }
}

fn json(run: &Run) -> Result<String, Trouble> {
    serde_json::to_string(run).map_err(|error| Trouble::storage(&error))
}

pub(super) fn options(query: &str) -> Options {
    Options {
        excel: has(query, "excel", "1"),
        delimiter: if has(query, "delim", "semicolon") {
            Delimiter::Semicolon
        } else {
            Delimiter::Comma
        },
    }
}

fn has(query: &str, name: &str, value: &str) -> bool {
    url::form_urlencoded::parse(query.as_bytes()).any(|pair| pair.0 == name && pair.1 == value)
}

fn attached(run: i64, name: &str, kind: &'static str, body: impl Into<Body>) -> Response {
    named(&format!("tidemark-run-{run}-{}", safe(name)), kind, body)
}

pub(super) fn named(name: &str, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut answer = Response::new(body.into());
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    answer
}

pub(super) fn total(answer: &mut Response, rows: u64) {
    answer.headers_mut().insert("x-total-rows", rows.into());
}

fn sandboxed(answer: &mut Response) {
    answer.headers_mut().insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(SANDBOX),
    );
}

/// Only letters that a file name may have everywhere.
fn safe(name: &str) -> String {
    name.chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-'))
        .take(60)
        .collect()
}

fn no_figures(run: &Run) -> Trouble {
    let mut trouble = Trouble::missing(format!("Run {} has no figures to print", run.id));
    trouble.status = StatusCode::NOT_FOUND;
    trouble.ways.clear();
    trouble.way(format!("/runs/{}", run.id), "The run")
}

fn no_file(run: i64, name: &str) -> Trouble {
    let shown: String = name.chars().take(60).collect();
    let mut trouble = Trouble::missing(format!("Run {run} has no file {shown:?}"));
    trouble.ways.clear();
    trouble.way(format!("/runs/{run}"), "The run and its files")
}
