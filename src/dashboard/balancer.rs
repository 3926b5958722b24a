//! Balancer settings from what is documented of peers, where no capacity was searched: the form, and the text for each balancer.

use askama::Template;
use axum::extract::{Path, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::dashboard::context::{self, Visit};
use crate::dashboard::error::Trouble;
use crate::dashboard::experiments::capacity;
use crate::dashboard::fields::{self, ErrorLine, Field, FieldView, Input, Values};
use crate::dashboard::frame::{Frame, Place, page};
use crate::dashboard::words;
use crate::measure::documented_caps;
use crate::measure::units;
use crate::report::{Allowed, Backend, Balancer, balancer_text};
use crate::state::AppState;
use crate::store::Peer;

const PLACE: &str = "/balancer";

#[derive(Template)]
#[template(path = "balancer.html")]
struct BalancerPage {
    frame: Frame,
    errors: Vec<ErrorLine>,
    fields: Vec<FieldView>,
    servers: Vec<ServerLine>,
    texts: Vec<TextView>,
    nothing: String,
}

struct ServerLine {
    name: String,
    cap: String,
    rate: String,
    why: String,
}

struct TextView {
    word: &'static str,
    name: &'static str,
    text: String,
    href: String,
}

const fn field(
    name: &'static str,
    label: &'static str,
    unit: &'static str,
    hint: &'static str,
    class: &'static str,
) -> Field {
    Field {
        name,
        label,
        hint,
        unit,
        class,
        input: Input::Text("decimal"),
        mono: false,
        list: "",
    }
}

const FIELDS: [Field; 4] = [
    Field {
        input: Input::Text("text"),
        ..field(
            "peers",
            "Servers",
            "",
            "Names of registered peers, with commas between",
            "c6",
        )
    },
    field(
        "reply_bytes",
        "A reply has",
        "bytes",
        "With its header; a run's report says it as reply size",
        "c2",
    ),
    field("share", "Use of it", "%", "The rest is the margin", "c2"),
    field(
        "rate",
        "One server is said to hold",
        "req/s",
        "May be left empty; the smaller of this and the cap counts",
        "c2",
    ),
];

/// What the form asks for.
struct Asked {
    peers: String,
    reply_bytes: f64,
    share: f64,
    rate: Option<f64>,
}

fn read(values: &Values) -> Result<Asked, Vec<(String, String)>> {
    let mut faults = Vec::new();
    let text = |name: &str| values.get(name).map_or("", |value| value.trim());
    let mut number = |name: &str, least: f64, most: f64, unit: &str| {
        let value = units::parse_number(text(name)).ok();
        let value = value.filter(|value| (least..=most).contains(value));
        if value.is_none() {
            faults.push((
                name.to_owned(),
                format!("Write a number of {unit} from {least} to {most}."),
            ));
        }
        value.unwrap_or(least)
    };
    let reply_bytes = number("reply_bytes", 1.0, 1e12, "bytes");
    let share = number("share", 1.0, 100.0, "per cent") / 100.0;
    let rate = (!text("rate").is_empty()).then(|| number("rate", 0.1, 1e7, "requests a second"));
    if faults.is_empty() {
        Ok(Asked {
            peers: text("peers").to_owned(),
            reply_bytes,
            share,
            rate,
        })
    } else {
        Err(faults)
    }
}

/// The peers as servers, each with what it is allowed.
fn servers(asked: &Asked, peers: &[Peer]) -> Result<Vec<Backend>, String> {
    let mut servers = capacity::named(&asked.peers, peers)?;
    for server in &mut servers {
        let peer = peers.iter().find(|peer| peer.name == server.name);
        if server.cap_bits_per_second.is_none() {
            // The rule of the documentation, where the peer states no cap of its own.
            server.cap_bits_per_second = peer
                .and_then(|peer| documented_caps::by_vcpus(peer.vcpus?))
                .map(|cap| cap.bits_per_second);
        }
        server.allowed = Allowed::of(
            server.cap_bits_per_second,
            asked.reply_bytes,
            asked.rate,
            asked.share,
        );
    }
    if let Some(unknown) = servers.iter().find(|server| server.allowed.is_none()) {
        return Err(format!(
            "Of {} neither a cap nor its vCPUs are known: fill them in on the Peers page, or state what a server holds",
            unknown.name
        ));
    }
    Ok(servers)
}

fn source(asked: &Asked) -> String {
    format!(
        "From what is documented of peers; replies of {} bytes. Nothing was measured.",
        words::plain(asked.reply_bytes)
    )
}

async fn values(visit: &Visit, state: &AppState) -> Result<(Values, Vec<Peer>), Trouble> {
    let peers = state.store.peers().await;
    let peers = peers.map_err(|error| Trouble::storage(&error))?;
    let pairs = url::form_urlencoded::parse(visit.query().as_bytes())
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let asked = fields::read_pairs(pairs)
        .map_err(|sentence| Trouble::unusable(sentence, PLACE, "An empty form"))?;
    let known: Vec<&str> = peers
        .iter()
        .filter(|peer| {
            peer.internal_cap_bits_per_second
                .or(peer.external_cap_bits_per_second)
                .is_some()
                || peer.vcpus.is_some()
        })
        .map(|peer| peer.name.as_str())
        .collect();
    let mut values: Values = [
        ("peers", known.join(", ")),
        // The picture of the load-balancing tutorial, with its header.
        ("reply_bytes", "24168".to_owned()),
        ("share", "80".to_owned()),
        ("rate", String::new()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    values.extend(asked);
    Ok((values, peers))
}

/// Answers `GET /balancer`: the form, what each server is allowed, and the settings.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let (values, peers) = match values(&visit, &state).await {
        Ok(read) => read,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let mut faults = Vec::new();
    let mut nothing = String::new();
    let mut found = None;
    match read(&values) {
        Err(wrong) => faults = wrong,
        Ok(asked) if asked.peers.is_empty() => {
            "No peer with a cap or with vCPUs is registered: register the servers on the Peers page first."
                .clone_into(&mut nothing);
        }
        Ok(asked) => match servers(&asked, &peers) {
            Ok(servers) => found = Some((asked, servers)),
            Err(why) => faults.push(("peers".to_owned(), format!("{why}."))),
        },
    }
    let errors = fields::error_lines(&FIELDS, &faults);
    let pairs: Vec<(&str, &str)> = values
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let mut texts = Vec::new();
    if let Some((asked, servers)) = &found {
        for balancer in Balancer::ALL {
            if let Ok(text) = balancer_text(balancer, &source(asked), None, servers) {
                texts.push(TextView {
                    word: balancer.word(),
                    name: balancer.name(),
                    text,
                    href: context::query(&format!("{PLACE}/{}", balancer.word()), &pairs),
                });
            }
        }
    }
    let status = if errors.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::UNPROCESSABLE_ENTITY
    };
    let built = BalancerPage {
        frame: visit.frame().at(Place::Peers, "Balancer settings"),
        errors,
        fields: fields::filled(&FIELDS, &values, &faults),
        servers: found
            .iter()
            .flat_map(|(_, servers)| servers)
            .filter_map(|server| {
                let allowed = server.allowed.as_ref()?;
                Some(ServerLine {
                    name: server.name.clone(),
                    cap: words::bits(server.cap_bits_per_second),
                    rate: words::per_s(Some(allowed.per_s)),
                    why: allowed.why.clone(),
                })
            })
            .collect(),
        texts,
        nothing,
    };
    page(status, &built)
}

/// Answers `GET /balancer/{gcloud|haproxy|nginx}`: one of them as text.
pub async fn text(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(word): Path<String>,
) -> Response {
    let made = async {
        let Some(balancer) = Balancer::from_word(&word) else {
            let known: Vec<&str> = Balancer::ALL.map(Balancer::word).to_vec();
            return Err(Trouble::missing(format!(
                "Settings are written for {}",
                known.join(", ")
            )));
        };
        let refuse = |why: String| Trouble::unusable(why, PLACE, "The form");
        let (values, peers) = values(&visit, &state).await?;
        let asked = read(&values).map_err(|faults| {
            let (field, sentence) = faults.into_iter().next().unwrap_or_default();
            refuse(format!("{field}: {sentence}"))
        })?;
        let servers = servers(&asked, &peers).map_err(refuse)?;
        balancer_text(balancer, &source(&asked), None, &servers).map_err(refuse)
    };
    match made.await {
        Ok(text) => (
            [
                (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
                (header::CACHE_CONTROL, "no-store"),
            ],
            text,
        )
            .into_response(),
        Err(trouble) => trouble.answer(visit.frame()),
    }
}
