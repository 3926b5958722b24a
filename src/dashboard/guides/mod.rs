//! Guides as pages: what is done, forms that start what is left, the source lab's figures beside the own ones.

pub mod found;
pub mod lab;
pub mod steps;

use askama::Template;
use axum::extract::{Path, State as Shared};
use axum::http::StatusCode;
use axum::response::Response;

use crate::chart;
use crate::dashboard::context::{self, Visit};
use crate::dashboard::error::Trouble;
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::run::figures::{self, FigureView};
use crate::dashboard::words::DASH;
use crate::measure::guide::{Beside, Evidence, Guide, Stands};
use crate::measure::units;
use crate::state::AppState;
use crate::store::StoreError;
use found::Mark;
use lab::LabView;
use steps::StepForm;

#[derive(Template)]
#[template(path = "guide/list.html")]
struct ListPage {
    frame: Frame,
    groups: [(&'static str, &'static str, Vec<Line>); 2],
}

/// A guide in a list.
pub struct Line {
    /// Where it is.
    pub href: String,
    /// What it is called.
    pub name: &'static str,
    /// What it answers.
    pub question: &'static str,
    /// How far it is, in words.
    pub done: String,
}

#[derive(Template)]
#[template(path = "guide/page.html")]
struct GuidePage {
    frame: Frame,
    slug: &'static str,
    name: &'static str,
    title: String,
    question: &'static str,
    source: &'static str,
    steps: Vec<StepView>,
    done: String,
    look_for: &'static [&'static str],
    figure: FigureView,
    second: Option<FigureView>,
    rows: Vec<RowView>,
    rule: String,
    peers: Vec<(String, bool)>,
    place: String,
    needs_lab: bool,
    lab: Option<LabView>,
    runs: String,
    next: Option<Line>,
}

struct StepView {
    number: usize,
    word: &'static str,
    does: &'static str,
    why: &'static str,
    mark: Mark,
    form: StepForm,
}

struct RowView {
    figure: &'static str,
    lab: String,
    own: String,
    class: &'static str,
    mark: &'static str,
    says: String,
}

/// The guide that something with these tags belongs to: its address and name.
pub fn link(tags: &[String]) -> Option<(String, &'static str)> {
    let guide = tags.iter().find_map(|tag| Guide::of_tag(tag))?;
    Some((address(guide), guide.name()))
}

fn address(guide: Guide) -> String {
    format!("/guides/{}", guide.slug())
}

/// Every guide with its question, for the home page.
pub fn lines() -> Vec<Line> {
    Guide::ALL.into_iter().map(line).collect()
}

fn line(guide: Guide) -> Line {
    Line {
        href: address(guide),
        name: guide.name(),
        question: guide.question(),
        done: String::new(),
    }
}

/// Answers `GET /guides`.
pub async fn list(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let mut groups = [
        (
            "Machines and networks",
            "Against this machine, or against a registered peer.",
            Vec::new(),
        ),
        (
            "Behind a load balancer",
            "On the lab that scripts/lab.sh starts: two regions of three servers behind HAProxy.",
            Vec::new(),
        ),
    ];
    for guide in Guide::ALL {
        let marks = match found::marks(&state, guide).await {
            Ok(marks) => marks,
            Err(error) => return Trouble::storage(&error).answer(visit.frame()),
        };
        let mut line = line(guide);
        line.done = how_far(&marks);
        groups[usize::from(guide.needs_lab())].2.push(line);
    }
    page(
        StatusCode::OK,
        &ListPage {
            frame: visit.frame().at(Place::Guides, "Guides"),
            groups,
        },
    )
}

fn how_far(marks: &[Mark]) -> String {
    let done = marks.iter().filter(|mark| mark.done).count();
    match done {
        0 => format!("{} steps", marks.len()),
        _ if done == marks.len() => "✓ done".to_owned(),
        _ => format!("{done} of {} steps done", marks.len()),
    }
}

/// Answers `GET /guides/{slug}`; `?peer=NAME` fills the forms for that peer.
pub async fn show(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(slug): Path<String>,
) -> Response {
    match make(&visit, &state, &slug).await {
        Ok(built) => page(StatusCode::OK, &built),
        Err(trouble) => trouble.answer(visit.frame()),
    }
}

/// What one server answers: found by the guide itself, else what the first of the lab's guides found of one backend.
async fn ceiling(
    state: &AppState,
    guide: Guide,
    found: &Evidence,
) -> Result<Option<f64>, StoreError> {
    let own = found.ceiling();
    if own.is_some() || !guide.needs_lab() {
        return Ok(own);
    }
    let first = Guide::RegionalOverload;
    let marks = found::marks(state, first).await?;
    Ok(found::evidence(state, first, &marks).await?.ceiling())
}

async fn make(visit: &Visit, state: &AppState, slug: &str) -> Result<GuidePage, Trouble> {
    let Some(guide) = Guide::from_slug(slug) else {
        let shown: String = slug.chars().take(60).collect();
        return Err(
            Trouble::missing(format!("There is no guide {shown:?}")).way("/guides", "All guides")
        );
    };
    let read = |error| Trouble::storage(&error);
    let peers = state.store.peers().await.map_err(read)?;
    let asked = url::form_urlencoded::parse(visit.query().as_bytes())
        .find(|(name, _)| name == "peer")
        .map(|(_, value)| value.into_owned())
        .filter(|name| !name.is_empty());
    let peer = match &asked {
        None => None,
        Some(name) => Some(
            peers
                .iter()
                .find(|peer| peer.name.eq_ignore_ascii_case(name))
                .ok_or_else(|| {
                    let shown: String = name.chars().take(60).collect();
                    Trouble::missing(format!("There is no peer {shown:?}")).way("/peers", "Peers")
                })?,
        ),
    };
    let marks = found::marks(state, guide).await.map_err(read)?;
    let evidence = found::evidence(state, guide, &marks).await.map_err(read)?;
    let beside = guide.beside(&evidence);
    let ceiling = ceiling(state, guide, &evidence).await.map_err(read)?;
    let place = steps::Place::new(state, peer, &peers, ceiling);
    let steps: Vec<StepView> = guide
        .steps()
        .iter()
        .zip(&marks)
        .enumerate()
        .map(|(index, (step, mark))| StepView {
            number: index + 1,
            word: step.word,
            does: step.does,
            why: step.why,
            mark: mark.clone(),
            form: steps::form(guide, step, &place),
        })
        .collect();
    let done = how_far(&marks);
    let measured = !beside.own.is_empty();
    let next = Guide::ALL
        .into_iter()
        .skip_while(|other| *other != guide)
        .nth(1)
        .map(line);
    let mut frame = visit
        .frame()
        .at(Place::Guides, format!("{} · {done}", guide.name()));
    frame.reloads = marks.iter().any(|mark| mark.live);
    Ok(GuidePage {
        frame,
        slug: guide.slug(),
        name: guide.name(),
        title: if measured {
            beside.title.clone()
        } else {
            guide.question().to_owned()
        },
        question: guide.question(),
        source: guide.source(),
        steps,
        done,
        look_for: guide.look_for(),
        rows: rows(&beside),
        figure: figure(guide, &beside)?,
        second: guide
            .second(&evidence)
            .map(|second| drawn(&second, "both"))
            .transpose()?,
        rule: format!(
            "Alike means that neither figure is more than {} larger than the other, or what the line says.",
            units::share_text(crate::measure::guide::ALIKE)
        ),
        peers: peers
            .iter()
            .filter(|peer| !guide.needs_lab() && !peer.addresses().is_empty())
            .map(|peer| {
                let chosen = asked
                    .as_ref()
                    .is_some_and(|name| peer.name.eq_ignore_ascii_case(name));
                (peer.name.clone(), chosen)
            })
            .collect(),
        place: peer.map_or_else(|| "this machine".to_owned(), |peer| peer.name.clone()),
        needs_lab: guide.needs_lab(),
        lab: if guide.needs_lab() {
            Some(lab::view(state, &peers).await)
        } else {
            None
        },
        runs: context::query("/runs", &[("tag", &guide.tag())]),
        next,
    })
}

fn figure(guide: Guide, beside: &Beside) -> Result<FigureView, Trouble> {
    let mut beside = beside.clone();
    if !beside.own.is_empty() && !beside.lab.is_empty() {
        // The finding stands on top of the page already.
        beside.title = format!("{}: the source lab and yours", guide.name());
    }
    drawn(&beside, "beside")
}

fn drawn(beside: &Beside, name: &'static str) -> Result<FigureView, Trouble> {
    let drawn = vec![chart::guide_figure(beside, name)];
    let figure = figures::rows("", drawn, &[]).into_iter().flatten().next();
    let mut figure = figure.ok_or_else(|| Trouble::missing("The chart could not be drawn"))?;
    figure.links = false;
    Ok(figure)
}

fn rows(beside: &Beside) -> Vec<RowView> {
    let or_dash = |text: &str| {
        if text.is_empty() {
            DASH.to_owned()
        } else {
            text.to_owned()
        }
    };
    beside
        .rows
        .iter()
        .map(|row| {
            let (class, mark) = match row.stands {
                Stands::Alike => ("ok", "✓ alike"),
                Stands::Differs => ("warn", "! differs"),
                Stands::Open => ("muted", ""),
            };
            RowView {
                figure: row.figure,
                lab: or_dash(&row.lab),
                own: or_dash(&row.own),
                class,
                mark,
                says: row.says.clone(),
            }
        })
        .collect()
}
