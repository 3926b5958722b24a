//! Error pages: what happened, what can be done, and a way out.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use crate::dashboard::frame::{Frame, Place, page};

/// What went wrong, as a page says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The status.
    pub status: StatusCode,
    /// One sentence.
    pub sentence: String,
    /// What the person can do.
    pub advice: String,
    /// Where to go from here.
    pub ways: Vec<Way>,
}

/// One way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Where it leads.
    pub href: String,
    /// What it is called.
    pub word: String,
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    frame: Frame,
    status: u16,
    reason: &'static str,
    sentence: String,
    advice: String,
    ways: Vec<Way>,
}

impl Trouble {
    /// Something that does not exist.
    pub fn missing(sentence: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, sentence, "")
            .way("/runs", "All runs")
            .way("/", "Home")
    }

    /// A run that does not exist.
    pub fn no_run(id: &str) -> Self {
        let shown: String = id.chars().take(40).collect();
        let mut trouble = Self::missing(format!("There is no run {shown} in this notebook"));
        "It may have been deleted, or the number may have a digit too many."
            .clone_into(&mut trouble.advice);
        trouble
    }

    /// An experiment that does not exist.
    pub fn no_experiment(id: &str) -> Self {
        let shown: String = id.chars().take(40).collect();
        let mut trouble = Self::missing(format!("There is no experiment {shown} in this notebook"));
        "It may have been deleted, or the number may have a digit too many."
            .clone_into(&mut trouble.advice);
        trouble.way("/experiments", "All experiments")
    }

    /// What cannot be done in the present state.
    pub fn conflict(sentence: impl Into<String>, href: impl Into<String>, word: &str) -> Self {
        Self::new(StatusCode::CONFLICT, sentence, "").way(href, word)
    }

    /// What was sent cannot be used.
    pub fn unusable(sentence: impl Into<String>, href: impl Into<String>, word: &str) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, sentence, "").way(href, word)
    }

    /// A fault of this program or its disk; the details are in the log.
    pub fn storage(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "a page could not be made");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The notebook could not be used",
            format!("{error}"),
        )
        .way("/", "Home")
    }

    fn new(status: StatusCode, sentence: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            status,
            sentence: sentence.into(),
            advice: advice.into(),
            ways: Vec::new(),
        }
    }

    /// The same with one more way out.
    #[must_use]
    pub fn way(mut self, href: impl Into<String>, word: &str) -> Self {
        self.ways.push(Way {
            href: href.into(),
            word: word.to_owned(),
        });
        self
    }

    /// The page.
    pub fn answer(self, frame: Frame) -> Response {
        let reason = self.status.canonical_reason().unwrap_or("error");
        let title = format!("{} {reason}", self.status.as_u16());
        page(
            self.status,
            &ErrorPage {
                frame: frame.at(Place::Nowhere, title),
                status: self.status.as_u16(),
                reason,
                sentence: self.sentence,
                advice: self.advice,
                ways: self.ways,
            },
        )
    }
}
