//! What stands around every page: title, navigation, this node, the chosen theme.

use askama::Template;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

use crate::dashboard::assets;

/// Light or dark, as chosen here; without a choice the browser's own setting rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// As the browser asks.
    #[default]
    System,
    /// Always dark.
    Dark,
    /// Always light.
    Light,
}

impl Theme {
    /// The theme with this word; anything unknown is the browser's.
    pub fn from_word(word: &str) -> Self {
        match word {
            "dark" => Self::Dark,
            "light" => Self::Light,
            _ => Self::System,
        }
    }

    /// The theme that a request's cookie chooses.
    pub fn of(headers: &HeaderMap) -> Self {
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .find_map(|pair| pair.trim().strip_prefix("theme="))
            .map_or(Self::System, Self::from_word)
    }

    /// The word on the button and in the cookie.
    pub const fn word(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Dark => "dark",
            Self::Light => "light",
        }
    }

    /// What the button changes it to.
    pub const fn next(self) -> &'static str {
        match self {
            Self::System => "dark",
            Self::Dark => "light",
            Self::Light => "system",
        }
    }

    /// The value of `data-theme`; `None` leaves it to the browser.
    pub const fn chosen(self) -> Option<&'static str> {
        match self {
            Self::System => None,
            Self::Dark | Self::Light => Some(self.word()),
        }
    }
}

/// Where a page stands in the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Outside it.
    Nowhere,
    /// New run.
    New,
    /// The history and each run.
    Runs,
    /// Experiments.
    Experiments,
    /// Runs side by side.
    Compare,
    /// Peers.
    Peers,
    /// Guides and what belongs to them.
    Guides,
    /// The API reference.
    Api,
}

/// One entry of the navigation.
pub struct Link {
    /// Where it leads.
    pub href: &'static str,
    /// What it is called.
    pub word: &'static str,
    /// Whether the page belongs to it.
    pub here: bool,
}

/// What stands around a page.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The browser's tab; starts with the state.
    pub title: String,
    /// Where the page stands in the navigation.
    pub place: Place,
    /// Light or dark.
    pub theme: Theme,
    /// The page's own address, to come back to.
    pub back: String,
    /// This node's name.
    pub node: String,
    /// Short facts about this node.
    pub facts: Vec<String>,
    /// This program's version.
    pub version: &'static str,
    /// The style sheet's address.
    pub style: String,
    /// The script's address.
    pub script: String,
    /// The mark's address.
    pub mark: String,
    /// Whether there is a session to leave.
    pub logged_in: bool,
    /// Whether a browser without JavaScript loads the page again by itself.
    pub reloads: bool,
}

impl Frame {
    /// A frame for this node, before the page has given it a title.
    pub fn new(node: &str, facts: Vec<String>, theme: Theme, back: &str) -> Self {
        Self {
            title: String::new(),
            place: Place::Nowhere,
            theme,
            back: back.to_owned(),
            node: node.to_owned(),
            facts,
            version: env!("CARGO_PKG_VERSION"),
            style: assets::style_path(),
            script: assets::script_path(),
            mark: assets::mark_path(),
            logged_in: false,
            reloads: false,
        }
    }

    /// The same frame with a title and a place.
    #[must_use]
    pub fn at(mut self, place: Place, title: impl Into<String>) -> Self {
        self.place = place;
        self.title = title.into();
        self
    }

    /// The navigation.
    pub fn links(&self) -> [Link; 7] {
        [
            ("/runs/new", "New run", Place::New),
            ("/runs", "Runs", Place::Runs),
            ("/experiments", "Experiments", Place::Experiments),
            ("/compare", "Compare", Place::Compare),
            ("/peers", "Peers", Place::Peers),
            ("/guides", "Guides", Place::Guides),
            ("/api", "API", Place::Api),
        ]
        .map(|(href, word, place)| Link {
            href,
            word,
            here: self.place == place,
        })
    }
}

/// A rendered page with this status.
pub fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, [(header::CACHE_CONTROL, "no-store")], Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_chooses_the_theme() {
        let of = |cookie: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, cookie.parse().unwrap());
            Theme::of(&headers)
        };
        assert_eq!(of("a=b; theme=dark"), Theme::Dark);
        assert_eq!(of("theme=light"), Theme::Light);
        assert_eq!(of("theme=<script>"), Theme::System);
        assert_eq!(Theme::of(&HeaderMap::new()), Theme::System);
    }
}
