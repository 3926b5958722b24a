//! The pages: each one is its parameters, a typed page, a template of the same name and a handler.

pub mod api_page;
pub mod assets;
pub mod audit;
pub mod balancer;
pub mod commands;
pub mod compare;
pub mod context;
pub mod download;
pub mod error;
pub mod experiments;
pub mod fields;
pub mod first_minute;
pub mod frame;
pub mod guides;
pub mod history;
pub mod home;
pub mod import;
pub mod launch;
pub mod lines;
pub mod login;
pub mod monitor;
pub mod peers;
pub mod picture;
pub mod receivers;
pub mod ruler;
pub mod run;
pub mod selftest;
pub mod theme;
pub mod words;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};

use crate::state::AppState;
use context::Visit;
use error::Trouble;

/// All pages and downloads.
pub fn router(state: AppState) -> Router {
    Router::new()
        .route("/", get(home::show))
        .route("/runs", get(history::show))
        .route("/runs.csv", get(download::runs_csv))
        .route("/runs/new", get(launch::show).post(launch::submit))
        .route("/runs/import", get(import::show).post(import::submit))
        .route("/runs/{id}", get(run::handler::show))
        .route("/runs/{id}/live", get(run::handler::live))
        .route("/runs/{id}/cancel", post(run::handler::cancel))
        .route("/runs/{id}/baseline", post(run::handler::baseline))
        .route("/runs/{id}/prove", post(run::prove::start))
        .route("/runs/{id}/edit", post(run::handler::edit))
        .route(
            "/runs/{id}/delete",
            get(run::handler::ask_delete).post(run::handler::delete),
        )
        .route("/runs/{id}/charts/{file}", get(download::drawing))
        .route("/runs/{id}/{file}", get(download::file))
        .route("/experiments", get(experiments::list::show))
        .route(
            "/experiments/new",
            get(experiments::new::show).post(experiments::new::submit),
        )
        .route("/experiments/{id}", get(experiments::show::show))
        .route("/experiments/{id}/live", get(experiments::show::live))
        .route("/experiments/{id}/cancel", post(experiments::show::cancel))
        .route(
            "/experiments/{id}/delete",
            get(experiments::show::ask_delete).post(experiments::show::delete),
        )
        .route(
            "/experiments/{id}/charts/{file}",
            get(experiments::files::drawing),
        )
        .route(
            "/experiments/{id}/balancer",
            get(experiments::capacity::balancer),
        )
        .route("/experiments/{id}/{file}", get(experiments::files::file))
        .route("/compare", get(compare::show))
        .route("/compare/charts/compare.svg", get(compare::drawing))
        .route("/peers", get(peers::show).post(peers::create))
        .route("/peers/{name}", post(peers::change))
        .route(
            "/peers/{name}/delete",
            get(peers::ask_delete).post(peers::delete),
        )
        .route("/peers/{name}/check", post(peers::check))
        .route("/receivers/allow", post(receivers::allow))
        .route("/receivers/{dialect}/{action}", post(receivers::act))
        .route(
            "/first-minute",
            get(first_minute::show).post(first_minute::start),
        )
        .route("/first-minute/live", get(first_minute::live))
        .route("/first-minute/cancel", post(first_minute::cancel))
        .route("/selftest", get(selftest::show).post(selftest::start))
        .route("/selftest/live", get(selftest::live))
        .route("/selftest/cancel", post(selftest::cancel))
        .route("/guides", get(guides::list))
        .route("/guides/lab", post(guides::lab::register))
        .route("/guides/{slug}", get(guides::show))
        .route("/monitor", get(monitor::show).post(monitor::start))
        .route("/monitor/stop", post(monitor::stop))
        .route("/balancer", get(balancer::show))
        .route("/balancer/{word}", get(balancer::text))
        .route("/commands", get(commands::show))
        .route("/commands/{file}", get(commands::file))
        .route("/api", get(api_page::show))
        .route("/audit", get(audit::show))
        .route("/audit.csv", get(audit::csv))
        .route("/login", get(login::show).post(login::submit))
        .route("/logout", post(login::leave))
        .route("/theme", post(theme::set))
        .route(picture::PATH, get(picture::serve))
        .route("/static/{name}", get(assets::serve))
        .method_not_allowed_fallback(wrong_method)
        .fallback(missing)
        .with_state(state)
}

async fn missing(visit: Visit, uri: Uri) -> Response {
    let shown: String = uri.path().chars().take(80).collect();
    Trouble::missing(format!("There is no page {shown}")).answer(visit.frame())
}

async fn wrong_method(visit: Visit, method: Method) -> Response {
    let mut trouble = Trouble::missing(format!("{method} does not work on this page"));
    trouble.status = StatusCode::METHOD_NOT_ALLOWED;
    trouble.answer(visit.frame())
}
