//! Runs side by side: overlay, table of differences, what was set differently, and whether they can be compared.

use askama::Template;
use axum::extract::State as Shared;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};

use crate::chart::{self, CompareInput, CompareLine, CompareUnit};
use crate::dashboard::context::{self, Visit};
use crate::dashboard::error::Trouble;
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::run::figures::{self, FigureView};
use crate::dashboard::run::view;
use crate::dashboard::words::{self, DASH};
use crate::measure::compare::{self, Comparison, FigureCell, Reading, Subject};
use crate::measure::compare_figures::Unit;
use crate::measure::fold::Series;
use crate::measure::plan::Kind;
use crate::measure::run::Run;
use crate::state::AppState;

/// Most runs of one comparison.
pub const MOST_RUNS: usize = 20;

/// What the address says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Query {
    /// Runs in the order given.
    runs: Vec<i64>,
    /// Experiments whose runs are meant.
    experiments: Vec<i64>,
    /// The run with which the others are compared.
    base: Option<i64>,
    /// `p99` for the tail over time, else the median.
    metric: String,
    /// Whether it came from checkboxes, so that its address is to be made short.
    ticked: bool,
}

impl Query {
    /// Reads a query string; the error is a sentence.
    fn read(text: &str) -> Result<Self, String> {
        let mut out = Self::default();
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            let shown: String = value.chars().take(40).collect();
            match &*name {
                "runs" => out.runs.extend(ids("runs", &value)?),
                "run" => {
                    out.ticked = true;
                    out.runs.extend(ids("run", &value)?);
                }
                "experiments" => out.experiments.extend(ids("experiments", &value)?),
                "base" if value.is_empty() => {}
                "base" => {
                    let base = value.parse();
                    out.base = Some(
                        base.map_err(|_| format!("base is the number of a run, not {shown}."))?,
                    );
                }
                "metric" if matches!(&*value, "" | "p50" | "p99") => {
                    out.metric = value.into_owned();
                }
                "metric" => return Err(format!("metric is p50 or p99, not {shown}.")),
                _ => {}
            }
        }
        Ok(out)
    }

    /// The address of this view below `path`, with another base or metric where one is named.
    fn href(&self, path: &str) -> String {
        let list = |ids: &[i64]| {
            ids.iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        let base = self.base.map_or_else(String::new, |base| base.to_string());
        let query = context::query(
            path,
            &[
                ("runs", &list(&self.runs)),
                ("experiments", &list(&self.experiments)),
                ("base", &base),
                ("metric", &self.metric),
            ],
        );
        // Commas mean themselves in a query.
        query.replace("%2C", ",")
    }
}

fn ids(name: &str, value: &str) -> Result<Vec<i64>, String> {
    value
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            let shown: String = part.chars().take(40).collect();
            part.parse::<i64>()
                .map_err(|_| format!("{name} is a list of numbers such as 1,2,3; {shown} is none."))
        })
        .collect()
}

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage {
    frame: Frame,
    title: String,
    heads: Vec<Head>,
    warnings: Vec<(&'static str, String)>,
    figure: FigureView,
    svg: String,
    rows: Vec<Row>,
    settings: Vec<Row>,
    same: String,
    query_runs: String,
    query_experiments: String,
    metric: String,
    link: String,
}

/// A run at the head of a column.
struct Head {
    id: i64,
    letter: String,
    what: String,
    finding: String,
    base: bool,
    baseline: bool,
}

/// One row of a table.
struct Row {
    name: String,
    cells: Vec<Cell>,
}

/// One cell: a figure, its difference, and what that means.
struct Cell {
    text: String,
    difference: String,
    class: &'static str,
    reading: &'static str,
}

/// The runs of a comparison with what they are drawn from.
struct Found {
    query: Query,
    runs: Vec<(Run, Option<Series>)>,
    base: usize,
}

/// Answers `GET /compare`.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let query = match Query::read(visit.query()) {
        Ok(query) => query,
        Err(sentence) => return unusable(&visit, sentence),
    };
    if query.ticked {
        return Redirect::to(&query.href("/compare")).into_response();
    }
    match find(&state, query).await {
        Ok(found) => {
            let frame = visit.frame();
            match tokio::task::spawn_blocking(move || draw(frame, &found)).await {
                Ok(drawn) => page(StatusCode::OK, &drawn),
                Err(error) => Trouble::storage(&error).answer(visit.frame()),
            }
        }
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

/// Answers `GET /compare/charts/compare.svg`.
pub async fn drawing(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let query = match Query::read(visit.query()) {
        Ok(query) => query,
        Err(sentence) => return unusable(&visit, sentence),
    };
    let dark = url::form_urlencoded::parse(visit.query().as_bytes())
        .any(|(name, value)| name == "theme" && value == "dark");
    let theme = if dark {
        chart::Theme::Dark
    } else {
        chart::Theme::Light
    };
    match find(&state, query).await {
        Ok(found) => {
            let svg = tokio::task::spawn_blocking(move || {
                let comparison = compare::compare(&subjects(&found), found.base);
                chart::compare_file(&input(&found, &comparison), theme)
            })
            .await;
            match svg {
                Ok(svg) => (
                    [
                        (header::CONTENT_TYPE, "image/svg+xml"),
                        (header::CACHE_CONTROL, "no-store"),
                        (
                            header::CONTENT_SECURITY_POLICY,
                            "default-src 'none'; style-src 'unsafe-inline'; sandbox",
                        ),
                    ],
                    svg,
                )
                    .into_response(),
                Err(error) => Trouble::storage(&error).answer(visit.frame()),
            }
        }
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

fn unusable(visit: &Visit, sentence: impl Into<String>) -> Response {
    Trouble::unusable(sentence, "/runs", "Choose runs").answer(visit.frame())
}

async fn find(state: &AppState, query: Query) -> Result<Found, Trouble> {
    let read = |error| Trouble::storage(&error);
    let mut wanted = query.runs.clone();
    for id in &query.experiments {
        let experiment = state.store.experiment(*id).await.map_err(read)?;
        let experiment =
            experiment.ok_or_else(|| Trouble::missing(format!("There is no experiment {id}")))?;
        wanted.extend(experiment.points.iter().map(|point| point.run));
    }
    if wanted.is_empty() {
        return Err(Trouble::unusable(
            "Name the runs to compare: tick them on the list of runs, or write /compare?runs=1,2",
            "/runs",
            "Choose runs",
        ));
    }
    if wanted.len() > MOST_RUNS {
        return Err(Trouble::unusable(
            format!(
                "At most {MOST_RUNS} runs are compared at once, and these are {}",
                wanted.len()
            ),
            "/runs",
            "Choose runs",
        ));
    }
    let mut runs: Vec<(Run, Option<Series>)> = Vec::new();
    for id in wanted {
        let run = state.supervisor.run(id).await.map_err(read)?;
        let run = run.ok_or_else(|| Trouble::no_run(&id.to_string()))?;
        let series = state.store.series(id).await.map_err(read)?;
        runs.push((run, series));
    }
    let base = match query.base {
        Some(base) => runs
            .iter()
            .position(|(run, _)| run.id == base)
            .ok_or_else(|| {
                Trouble::unusable(
                    format!("Run {base} is to be the base and is not among the runs compared"),
                    "/runs",
                    "Choose runs",
                )
            })?,
        // A person's own baseline, where one is among them.
        None => runs.iter().position(|(run, _)| run.baseline).unwrap_or(0),
    };
    Ok(Found { query, runs, base })
}

fn subjects(found: &Found) -> Vec<Subject<'_>> {
    found
        .runs
        .iter()
        .map(|(run, series)| Subject {
            run,
            series: series.as_ref(),
        })
        .collect()
}

/// `A` to `T`.
fn letter(place: usize) -> String {
    u8::try_from(place)
        .ok()
        .filter(|place| *place < 26)
        .map_or_else(
            || place.to_string(),
            |place| char::from(b'A' + place).to_string(),
        )
}

fn draw(frame: Frame, found: &Found) -> ComparePage {
    let comparison = compare::compare(&subjects(found), found.base);
    let input = input(found, &comparison);
    let figure = chart::compare_figure(&input);
    let svg = found.query.href("/compare/charts/compare.svg");
    let mut views = figures::rows("/compare", vec![figure], &[]);
    let mut figure = views.remove(0).remove(0);
    // Its files are not those of one run.
    figure.links = false;
    let heads: Vec<Head> = found
        .runs
        .iter()
        .enumerate()
        .map(|(place, (run, _))| Head {
            id: run.id,
            letter: letter(place),
            what: format!(
                "{}, {}",
                view::kind_words(run.kind),
                words::when(run.started_at.unwrap_or(run.created_at))
            ),
            finding: view::title(run),
            base: place == found.base,
            baseline: run.baseline,
        })
        .collect();
    let list = |ids: &[i64]| {
        ids.iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    ComparePage {
        frame: frame.at(Place::Compare, format!("Compare {} runs", found.runs.len())),
        title: input.title.clone(),
        heads,
        figure,
        rows: comparison
            .figures
            .iter()
            .map(|row| Row {
                name: row.name.to_owned(),
                cells: row.cells.iter().map(|one| cell(row.unit, *one)).collect(),
            })
            .collect(),
        settings: comparison
            .settings
            .iter()
            .map(|row| Row {
                name: if row.machine {
                    format!("{} (machine)", row.name.replace('_', " "))
                } else {
                    row.name.replace('_', " ")
                },
                cells: row
                    .values
                    .iter()
                    .map(|value| plain(value.clone().unwrap_or_else(|| DASH.to_owned())))
                    .collect(),
            })
            .collect(),
        same: words::plural(
            comparison.same_settings as u64,
            "setting is",
            "settings are",
        ),
        warnings: comparison.warnings,
        query_runs: list(&found.query.runs),
        query_experiments: list(&found.query.experiments),
        metric: found.query.metric.clone(),
        link: found.query.href("/compare"),
        svg,
    }
}

fn plain(text: String) -> Cell {
    Cell {
        text,
        difference: String::new(),
        class: "",
        reading: "",
    }
}

fn cell(unit: Unit, cell: Option<FigureCell>) -> Cell {
    let Some(cell) = cell else {
        return plain(DASH.to_owned());
    };
    let mut out = plain(shown(unit, cell.value));
    if let Some(difference) = cell.difference.filter(|difference| *difference != 0.0) {
        let sign = if difference > 0.0 { '+' } else { '−' };
        let of_base = cell.value - difference;
        let share = if of_base.abs() > 0.0 {
            format!(
                " ({sign}{:.1}\u{a0}%)",
                (difference / of_base).abs() * 100.0
            )
        } else {
            String::new()
        };
        out.difference = format!("{sign}{}{share}", shown(unit, difference.abs()));
    }
    (out.class, out.reading) = match cell.reading {
        None => ("", ""),
        Some(Reading::Same) => ("muted", "same"),
        Some(Reading::WithinNoise) => ("muted", "within noise"),
        Some(Reading::Better) => ("ok", "✓ better"),
        Some(Reading::Worse) => ("bad", "✕ worse"),
        Some(Reading::Different) => ("", "different"),
    };
    out
}

fn shown(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Ms => words::ms(Some(value)),
        Unit::Seconds => words::seconds(value),
        Unit::PerSecond => format!("{}\u{a0}/s", words::digits(value)),
        Unit::BitsPerSecond => words::bits(Some(value)),
        Unit::Percent => format!("{}\u{a0}%", words::digits(value)),
        Unit::Count => words::plain(value),
        Unit::Ratio => words::digits(value),
        Unit::Bytes => words::bytes(value),
    }
}

/// What the overlay shows: the base's kind of figure, of every run that has it.
fn input(found: &Found, comparison: &Comparison) -> CompareInput {
    let kind = found
        .runs
        .get(found.base)
        .map_or(Kind::Rate, |(run, _)| run.kind);
    let tail = found.query.metric == "p99";
    let (unit, what) = match kind {
        Kind::Throughput => (
            CompareUnit::BitsPerSecond,
            "Sum of the streams of each run's first direction",
        ),
        Kind::Ping => (CompareUnit::Ms, "Round trips"),
        _ if tail => (
            CompareUnit::Ms,
            "99th percentile of the latency in steps of time",
        ),
        _ => (CompareUnit::Ms, "Median latency in steps of time"),
    };
    let lines = found
        .runs
        .iter()
        .enumerate()
        .map(|(place, (run, series))| CompareLine {
            label: format!("{} #{}", letter(place), run.id),
            points: if (run.kind == Kind::Throughput) == (unit == CompareUnit::BitsPerSecond) {
                series
                    .as_ref()
                    .map_or_else(Vec::new, |series| points(series, unit, tail))
            } else {
                Vec::new()
            },
        })
        .collect();
    CompareInput {
        title: title(found, comparison),
        what: what.to_owned(),
        unit,
        lines,
        base: found.base,
    }
}

fn points(series: &Series, unit: CompareUnit, tail: bool) -> Vec<(f64, f64)> {
    match (series, unit) {
        (Series::Http(series), _) => series
            .bins
            .iter()
            .filter_map(|bin| {
                let band = bin.latency_ms?;
                Some((bin.start_s, if tail { band.p99 } else { band.p50 }))
            })
            .collect(),
        (Series::Flow(series), CompareUnit::BitsPerSecond) => {
            let start = series.load_start_s.unwrap_or(0.0);
            let line = series
                .sums
                .first()
                .into_iter()
                .flat_map(|line| &line.points);
            line.filter_map(|point| {
                Some((
                    (f64::midpoint(point.from_s, point.to_s) - start).max(0.0),
                    point.bits_per_second()?,
                ))
            })
            .collect()
        }
        (Series::Flow(series), CompareUnit::Ms) if series.echoes.is_empty() => series
            .echo_bins
            .iter()
            .filter_map(|bin| Some((bin.from_s.max(0.0), bin.rtt_ms?.p50)))
            .collect(),
        (Series::Flow(series), CompareUnit::Ms) => series
            .echoes
            .iter()
            .filter(|echo| echo.at_s >= 0.0)
            .filter_map(|echo| Some((echo.at_s, echo.rtt_ms?)))
            .collect(),
    }
}

/// The most telling difference, or that there is none.
fn title(found: &Found, comparison: &Comparison) -> String {
    let runs = found.runs.len();
    if comparison.is_all_the_same() {
        return format!("No difference between these {runs} runs");
    }
    for row in &comparison.figures {
        for (place, one) in row.cells.iter().enumerate() {
            let Some(one) = one else { continue };
            let word = match one.reading {
                Some(Reading::Better) => "better",
                Some(Reading::Worse) => "worse",
                _ => continue,
            };
            let of_base = one.value - one.difference.unwrap_or(0.0);
            let (a, b) = (&found.runs[found.base].0, &found.runs[place].0);
            return format!(
                "{}: {} in run {}, {} in run {}, {word}",
                row.name,
                shown(row.unit, of_base),
                a.id,
                shown(row.unit, one.value),
                b.id
            );
        }
    }
    format!("No figure of these {runs} runs is better or worse than noise")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_carries_the_whole_view() {
        let query = Query::read("runs=1,2,%203&base=2&metric=p99").unwrap();
        assert_eq!(query.runs, [1, 2, 3]);
        assert_eq!(
            query.href("/compare"),
            "/compare?runs=1,2,3&base=2&metric=p99"
        );
        let ticked = Query::read("run=4&run=7").unwrap();
        assert!(ticked.ticked);
        assert_eq!(ticked.href("/compare"), "/compare?runs=4,7");
        for wrong in ["runs=1,x", "base=one", "metric=p42", "run=9e9"] {
            assert!(Query::read(wrong).unwrap_err().ends_with('.'), "{wrong}");
        }
    }
}
