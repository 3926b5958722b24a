//! What every page needs of a request and of this node.

use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::request::Parts;

use crate::dashboard::frame::{Frame, Theme};
use crate::guard::Visitor;
use crate::state::{AppState, NodeFacts};

/// The request as the frame of a page sees it.
#[derive(Clone, Debug)]
pub struct Visit {
    theme: Theme,
    back: String,
    query: String,
    node: String,
    facts: Vec<String>,
    visitor: Visitor,
}

impl Visit {
    /// The frame of the page that answers it.
    pub fn frame(&self) -> Frame {
        let mut frame = Frame::new(&self.node, self.facts.clone(), self.theme, &self.back);
        frame.logged_in = self.visitor.login && self.visitor.scope.is_some();
        frame
    }

    /// Who asks.
    pub const fn visitor(&self) -> &Visitor {
        &self.visitor
    }

    /// Who asks, in a word for what is kept.
    pub fn actor(&self) -> String {
        self.visitor.name()
    }

    /// The query as it came, without the question mark.
    pub fn query(&self) -> &str {
        &self.query
    }
}

impl FromRequestParts<AppState> for Visit {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &AppState,
    ) -> Result<Self, Self::Rejection> {
        let uri = parts
            .extensions
            .get::<OriginalUri>()
            .map_or(&parts.uri, |original| &original.0);
        let back = if parts.method == axum::http::Method::GET {
            uri.path_and_query()
                .map_or("/", |path| path.as_str())
                .to_owned()
        } else {
            uri.path().to_owned()
        };
        Ok(Self {
            theme: Theme::of(&parts.headers),
            back,
            query: uri.query().unwrap_or_default().to_owned(),
            node: state.node.name.clone(),
            facts: facts(&state.node),
            visitor: Visitor::of(&parts.extensions),
        })
    }
}

fn facts(node: &NodeFacts) -> Vec<String> {
    let mut out = Vec::new();
    out.extend(node.region.clone());
    out.extend(node.machine_type.clone());
    out.extend(node.vcpus.map(|cpus| format!("{cpus}\u{a0}vCPU")));
    out
}

/// The address under which this node's own workload can be tested; `None` when it is off.
pub fn workload_url(node: &NodeFacts) -> Option<String> {
    let address = *node.workload.first()?;
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    Some(format!("http://{address}/"))
}

/// A query string with these pairs, those with empty values left out.
pub fn query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{query}")
    }
}
