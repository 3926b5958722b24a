//! The templates of a run's pages.

use askama::Template;

use crate::dashboard::frame::Frame;
use crate::dashboard::run::view::RunView;

/// A run, live or final.
#[derive(Template)]
#[template(path = "run/page.html")]
pub struct RunPage {
    /// What stands around it.
    pub frame: Frame,
    /// The run.
    pub run: RunView,
}

/// The part of a running run's page that is swapped.
#[derive(Template)]
#[template(path = "run/live.html")]
pub struct LivePart {
    /// The run.
    pub run: RunView,
}

/// Asks before a run is deleted.
#[derive(Template)]
#[template(path = "run/delete.html")]
pub struct DeletePage {
    /// What stands around it.
    pub frame: Frame,
    /// The run.
    pub id: i64,
    /// Its state.
    pub state: String,
    /// Its finding.
    pub title: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::frame::{Frame, Place, Theme};
    use crate::dashboard::run::fixture;
    use crate::dashboard::run::view::{Beside, view};
    use crate::measure::fold::Series;

    fn page(name: &str) -> String {
        let (run, series) = fixture::rate();
        let mut view = view(&run, Some(&Series::Http(series)), &Beside::default());
        view.actions = true;
        let frame = Frame::new("eu-a", vec!["4 vCPU".to_owned()], Theme::System, "/runs/41")
            .at(Place::Runs, name);
        RunPage { frame, run: view }.render().unwrap()
    }

    #[test]
    fn the_report_says_finding_belief_figures_and_evidence_in_that_order() {
        let html = page("#41");
        let mut at = 0;
        for words in [
            "Run 41",
            "<h1>",
            "What was asked for",
            "answered well",
            "class=\"belief",
            "class=\"keys\"",
            "Answered by",
            "Do it again",
            "Outcomes",
            "summary.csv",
            "Environment",
        ] {
            let found = html[at..].find(words);
            assert!(found.is_some(), "{words} does not follow in\n{html}");
            at += found.unwrap();
        }
    }
}
