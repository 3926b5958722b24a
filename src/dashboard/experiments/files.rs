//! An experiment's files: its points as CSV and JSON, its charts as SVG.

use axum::extract::{Path, State as Shared};
use axum::response::Response;

use super::{find, show};
use crate::chart::{self, ExperimentChartInput};
use crate::dashboard::context::Visit;
use crate::dashboard::download::{self, CSV, JSON};
use crate::dashboard::error::Trouble;
use crate::report;
use crate::state::AppState;

/// Answers `GET /experiments/{id}/{file}`.
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
    if !matches!(name, "points.csv" | "points.json") {
        return Err(no_file(id, name));
    }
    let experiment = find(state, id).await?;
    let number = experiment.id;
    let rows = experiment.points.len() as u64;
    let file = format!("tidemark-experiment-{number}-{name}");
    let mut answer = if name == "points.csv" {
        let options = download::options(visit.query());
        let text = tokio::task::spawn_blocking(move || report::points_csv(&experiment, options))
            .await
            .map_err(|error| Trouble::storage(&error))?;
        download::named(&file, CSV, text)
    } else {
        let body = serde_json::json!({
            "experiment": number, "total_rows": rows, "rows": experiment.points,
        });
        download::named(&file, JSON, body.to_string())
    };
    download::total(&mut answer, rows);
    Ok(answer)
}

/// Answers `GET /experiments/{id}/charts/{name}.svg`.
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
    let experiment = find(state, id).await?;
    let number = experiment.id;
    let spec = experiment.design().ok_or_else(|| no_file(id, file))?;
    let Some(name) = file.strip_suffix(".svg").map(str::to_owned) else {
        return Err(no_file(id, file));
    };
    let series = show::series(state, &experiment, Some(&spec)).await?;
    let theme = download::chart_theme(visit.query());
    let svg = tokio::task::spawn_blocking(move || {
        let input = ExperimentChartInput {
            experiment: &experiment,
            spec: &spec,
            series: &series,
        };
        chart::experiment_file(&input, &name, theme)
    })
    .await
    .map_err(|error| Trouble::storage(&error))?
    .ok_or_else(|| no_file(id, file))?;
    Ok(download::picture(
        &format!("tidemark-experiment-{number}"),
        file,
        svg,
    ))
}

fn no_file(id: &str, name: &str) -> Trouble {
    let id: String = id.chars().take(20).collect();
    let shown: String = name.chars().take(60).collect();
    let mut trouble = Trouble::missing(format!("Experiment {id} has no file {shown:?}"));
    trouble.ways.clear();
    trouble.way(format!("/experiments/{id}"), "The experiment and its files")
}
