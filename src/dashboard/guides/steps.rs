//! The form of each step, filled for the place that was chosen; it goes to the same launch as every other form.

use super::found::typed;
use crate::dashboard::launch;
use crate::dashboard::{context, receivers};
use crate::measure::experiment::ExperimentKind;
use crate::measure::guide::{Guide, Start, Step};
use crate::state::AppState;
use crate::store::Peer;

/// Where the lab of `scripts/lab.sh` listens unless its settings say otherwise.
const REGIONAL: &str = "http://127.0.0.1:8101/";
const GLOBAL: &str = "http://127.0.0.1:8102/";
const BACKEND: &str = "http://127.0.1.1:8080/";
/// Requests a second that the lab's first region takes before the second one does.
const REGION_CAP: f64 = 10.0;
/// The lab's rates for one server over its ceiling: 4, 5, 7 and 10 over 5.54.
const ONE_SERVER: [f64; 4] = [0.72, 0.9, 1.26, 1.8];
/// The lab's rates for a region over three times that: 5 to 20 over 16.6.
const REGION: [f64; 8] = [0.3, 0.48, 0.6, 0.72, 0.78, 0.9, 1.02, 1.2];

/// A form of a step.
pub struct StepForm {
    /// Where it goes.
    pub action: &'static str,
    /// What it says without being asked.
    pub hidden: Vec<(&'static str, String)>,
    /// What can be changed.
    pub fields: Vec<StepField>,
    /// Under its button.
    pub note: String,
}

/// One field.
pub struct StepField {
    /// Its name.
    pub name: &'static str,
    /// Its id, unique in the page.
    pub id: String,
    /// Its label.
    pub label: &'static str,
    /// Its unit; empty where there is none.
    pub unit: &'static str,
    /// Its place in the grid.
    pub class: &'static str,
    /// Its value.
    pub value: String,
}

/// Where the steps go.
pub struct Place {
    internal: String,
    external: String,
    port: u16,
    url: String,
    regional: String,
    global: String,
    backend: String,
    ceiling: Option<f64>,
    cap: f64,
    /// Whether the global front settles slowly.
    settles: bool,
}

impl Place {
    /// The chosen peer, else this machine; and the lab, where it is registered.
    pub fn new(
        state: &AppState,
        peer: Option<&Peer>,
        peers: &[Peer],
        ceiling: Option<f64>,
    ) -> Self {
        let here = "127.0.0.1".to_owned();
        let (internal, external) = match peer {
            None => (here.clone(), here),
            Some(peer) => {
                let (internal, external) = (&peer.internal_address, &peer.external_address);
                let either = |first: &Option<String>, second: &Option<String>| {
                    first
                        .clone()
                        .or_else(|| second.clone())
                        .unwrap_or_else(|| peer.name.clone())
                };
                (either(internal, external), either(external, internal))
            }
        };
        let own = context::workload_url(&state.node);
        let url = match peer {
            Some(peer) => web(&internal, peer.ports.workload),
            None => own.unwrap_or_else(|| "http://127.0.0.1:8000/".to_owned()),
        };
        let of_lab = |name: &str, otherwise: &str| {
            peers
                .iter()
                .filter(|peer| peer.tags.iter().any(|tag| tag == super::lab::LAB))
                .find(|peer| peer.name == name)
                .and_then(|peer| Some(web(peer.internal_address.as_ref()?, peer.ports.workload)))
                .unwrap_or_else(|| otherwise.to_owned())
        };
        let front_tags: Vec<&str> = peers
            .iter()
            .filter(|peer| {
                peer.name == "global" && peer.tags.iter().any(|tag| tag == super::lab::LAB)
            })
            .flat_map(|peer| peer.tags.iter().map(String::as_str))
            .collect();
        Self {
            cap: front_tags
                .iter()
                .find_map(|tag| tag.strip_prefix("cap:")?.parse().ok())
                .filter(|cap| (0.1..=1e6).contains(cap))
                .unwrap_or(REGION_CAP),
            settles: front_tags.contains(&"settling"),
            port: peer.map_or_else(
                || receivers::own_port(state).unwrap_or(5001),
                |peer| peer.ports.throughput,
            ),
            internal,
            external,
            url,
            regional: of_lab("regional", REGIONAL),
            global: of_lab("global", GLOBAL),
            backend: of_lab("r1a", BACKEND),
            ceiling,
        }
    }
}

fn web(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("http://[{host}]:{port}/")
    } else {
        format!("http://{host}:{port}/")
    }
}

/// httperf's line for this address.
fn httperf(url: &str, more: &str) -> String {
    let Ok(parsed) = url::Url::parse(url) else {
        return String::new();
    };
    let path = match parsed.query() {
        Some(query) => format!("{}?{query}", parsed.path()),
        None => parsed.path().to_owned(),
    };
    let uri = if path == "/" {
        String::new()
    } else {
        format!(" --uri {path}")
    };
    format!(
        "httperf --server {} --port {}{uri} {more}",
        parsed.host_str().unwrap_or("127.0.0.1"),
        parsed.port_or_known_default().unwrap_or(80)
    )
}

/// Rates at these shares of what is held; the lab's own where that is not known.
fn rates(shares: &[f64], held: Option<f64>, lab: &str) -> String {
    let Some(held) = held else {
        return lab.to_owned();
    };
    let rates: Vec<String> = shares.iter().map(|share| typed(share * held)).collect();
    rates.join(" ")
}

/// Name, label, unit, class, value.
type Asked = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    String,
);

const HOST: (&str, &str) = ("host", "Address");
const LINE: (&str, &str) = ("base", "What runs");

fn asked(
    (name, label): (&'static str, &'static str),
    class: &'static str,
    value: impl Into<String>,
) -> Asked {
    (name, label, "", class, value.into())
}

fn in_unit(
    name: &'static str,
    label: &'static str,
    unit: &'static str,
    value: impl Into<String>,
) -> Asked {
    (name, label, unit, "c2", value.into())
}

/// The form of this step.
pub fn form(guide: Guide, step: &Step, place: &Place) -> StepForm {
    let mut hidden = Vec::new();
    let mut note = String::new();
    let fields = match guide {
        Guide::ConnectionTest => connection(step, place),
        Guide::CoreCount => cores(step, place, &mut hidden),
        Guide::InternalExternal => ways(step, place),
        Guide::Tier1 => tier(step, place),
        Guide::Capacity => capacity(step, place, &mut hidden, &mut note),
        Guide::RegionalOverload => regional(step, place, &mut hidden, &mut note),
        Guide::GlobalOverflow => overflow(step, place, &mut hidden, &mut note),
        Guide::RegionFailure => failure(step, place, &mut note),
    };
    let (action, kind) = match step.start {
        Start::Run(kind) => ("/runs/new", kind.word()),
        Start::Experiment(kind) => ("/experiments/new", kind.word()),
    };
    if step.start == Start::Experiment(ExperimentKind::Sweep) {
        hidden.push(("order", "given".to_owned()));
    }
    hidden.push(("kind", kind.to_owned()));
    hidden.push((
        "tags",
        format!("{}, {}", guide.tag(), guide.step_tag(step.word)),
    ));
    hidden.push(("form_token", launch::token()));
    if action == "/runs/new" {
        // What the form leaves out is filled in.
        hidden.push(("quick", "yes".to_owned()));
    }
    StepForm {
        action,
        hidden,
        fields: fields
            .into_iter()
            .map(|(name, label, unit, class, value)| StepField {
                name,
                id: format!("{}-{name}", step.word),
                label,
                unit,
                class,
                value,
            })
            .collect(),
        note,
    }
}

fn connection(step: &Step, place: &Place) -> Vec<Asked> {
    let (count, interval) = if step.word == "ping" {
        ("5", "1")
    } else {
        ("100", "0.2")
    };
    vec![
        asked(HOST, "c2", &place.external),
        in_unit("count", "Packets", "", count),
        in_unit("interval_s", "Between them", "s", interval),
    ]
}

fn throughput(host: &str, place: &Place, streams: &str, seconds: &str) -> Vec<Asked> {
    vec![
        asked(HOST, "c2", host),
        in_unit("port", "Port", "", place.port.to_string()),
        in_unit("streams", "Streams", "", streams),
        in_unit("duration_s", "For", "s", seconds),
    ]
}

fn iperf(host: &str, port: u16, seconds: u32) -> String {
    format!("iperf -c {host} -p {port} -t {seconds}")
}

fn cores(step: &Step, place: &Place, hidden: &mut Vec<(&'static str, String)>) -> Vec<Asked> {
    match step.word {
        "one" => throughput(&place.internal, place, "1", "10"),
        "streams" => {
            hidden.push(("vary", "streams".to_owned()));
            vec![
                asked(LINE, "c6", iperf(&place.internal, place.port, 10)),
                asked(("values", "Streams"), "c2", "1 4 8"),
                in_unit("repeat", "Repeats", "", "1"),
                in_unit("pause_s", "Pause", "s", "1"),
            ]
        }
        _ => vec![
            asked(LINE, "c6", iperf(&place.internal, place.port, 1)),
            in_unit("repeat", "Repeats", "", "100"),
            in_unit("pause_s", "Pause", "s", "0"),
        ],
    }
}

fn ways(step: &Step, place: &Place) -> Vec<Asked> {
    match step.word {
        "internal" => throughput(&place.internal, place, "1", "10"),
        "external" => throughput(&place.external, place, "1", "10"),
        _ => vec![
            asked(
                ("base", "Internal"),
                "c6",
                iperf(&place.internal, place.port, 5),
            ),
            asked(
                ("b", "External"),
                "c6",
                iperf(&place.external, place.port, 5),
            ),
            in_unit("repeat", "Repeats", "", "5"),
            in_unit("pause_s", "Pause", "s", "0"),
        ],
    }
}

fn tier(step: &Step, place: &Place) -> Vec<Asked> {
    if step.word == "mtu" {
        return vec![
            asked(HOST, "c2", &place.internal),
            in_unit("expect_mtu", "MTU expected", "bytes", "8896"),
        ];
    }
    throughput(&place.internal, place, "16", "30")
}

fn capacity(
    step: &Step,
    place: &Place,
    hidden: &mut Vec<(&'static str, String)>,
    note: &mut String,
) -> Vec<Asked> {
    match step.word {
        "fetch" => vec![asked(("url", "Address"), "c6", &place.url)],
        "users" => vec![
            asked(("url", "Address"), "c6", &place.url),
            in_unit("concurrent", "Users", "", "4"),
            in_unit("reps", "Requests of each", "", "20"),
        ],
        "search" => search(&place.url),
        _ => {
            hidden.push(("vary", "rate".to_owned()));
            *note = scaled(place.ceiling, "this server");
            vec![
                asked(
                    LINE,
                    "c6",
                    httperf(&place.url, "--num-conns 100 --timeout 30"),
                ),
                asked(
                    ("values", "Rates"),
                    "c3",
                    rates(&ONE_SERVER, place.ceiling, "4 5 7 10"),
                ),
                in_unit("pause_s", "Pause", "s", "2"),
            ]
        }
    }
}

/// Says what the rates follow from.
fn scaled(ceiling: Option<f64>, whose: &str) -> String {
    match ceiling {
        Some(ceiling) => format!(
            "The rates are the source lab's in the same shares of what {whose} answers: {} a second.",
            typed(ceiling)
        ),
        None => "The rates are the source lab's own. Do the step before first, and they are scaled to what was found."
            .to_owned(),
    }
}

fn search(url: &str) -> Vec<Asked> {
    vec![
        asked(LINE, "c6", httperf(url, "--num-conns 100 --rate 1")),
        in_unit("step_s", "A step", "s", "20"),
        in_unit("budget_s", "At most", "s", ""),
    ]
}

fn regional(
    step: &Step,
    place: &Place,
    hidden: &mut Vec<(&'static str, String)>,
    note: &mut String,
) -> Vec<Asked> {
    if step.word == "search" {
        return search(&place.backend);
    }
    swept(&place.regional, place, hidden, note)
}

/// The rates for a region, to this front.
fn swept(
    front: &str,
    place: &Place,
    hidden: &mut Vec<(&'static str, String)>,
    note: &mut String,
) -> Vec<Asked> {
    hidden.push(("vary", "rate".to_owned()));
    *note = scaled(place.ceiling, "one backend");
    let region = place.ceiling.map(|one| 3.0 * one);
    vec![
        asked(LINE, "c6", httperf(front, "--num-conns 200 --timeout 30")),
        asked(
            ("values", "Rates"),
            "c4",
            rates(&REGION, region, "5 8 10 12 13 15 17 20"),
        ),
        in_unit("pause_s", "Pause", "s", "2"),
    ]
}

fn overflow(
    step: &Step,
    place: &Place,
    hidden: &mut Vec<(&'static str, String)>,
    note: &mut String,
) -> Vec<Asked> {
    if step.word == "sweep" {
        return swept(&place.global, place, hidden, note);
    }
    let url = match place.ceiling {
        // What was searched is the standard picture; its cap then is one that a region can be full at.
        Some(_) => place.global.clone(),
        None => format!("{}?work=light", place.global),
    };
    if step.word == "below" {
        *note = cap_words(place);
        return vec![
            asked(("url", "Address"), "c6", url),
            in_unit("rate", "Rate", "req/s", typed(place.cap * 0.8)),
            in_unit("num_conns", "Requests", "", "100"),
        ];
    }
    if !place.settles {
        "This front overflows at once, so there is little to settle; LAB_OVERFLOW=settling scripts/lab.sh up starts one that learns over 20 s."
            .clone_into(note);
    }
    // As long as the lab's: a settling front needs 20 s to see what it got.
    let requests = (place.cap * 2.0 * 10.0).ceil();
    let line = httperf(
        &url,
        &format!(
            "--num-conns {requests} --rate {} --timeout 60",
            typed(place.cap * 2.0)
        ),
    );
    vec![
        asked(LINE, "c6", line),
        in_unit("repeat", "Repeats", "", "5"),
        in_unit("pause_s", "Pause", "s", "0"),
    ]
}

/// What the cap of the first region is, and what it should be by what one backend answers.
fn cap_words(place: &Place) -> String {
    let cap = typed(place.cap);
    let Some(one) = place.ceiling else {
        return format!("The first region takes {cap} requests a second.");
    };
    // The lab's cap, 10 a second, is 0.6 of what its three servers answer.
    let fitting = (0.6 * 3.0 * one).floor().max(1.0);
    if fitting.total_cmp(&place.cap).is_eq() {
        return format!(
            "The first region takes {cap} requests a second: 0.6 of what three backends answer, as in the source lab."
        );
    }
    format!(
        "The first region takes {cap} requests a second. One backend answers {} a second, so LAB_CAP={fitting} scripts/lab.sh up sets the source lab's share of it.",
        typed(one)
    )
}

fn failure(step: &Step, place: &Place, note: &mut String) -> Vec<Asked> {
    match step.word {
        "kill" => "Some seconds after the start, in a shell: scripts/lab.sh kill region1",
        "drain" => "Some seconds after the start, in a shell: scripts/lab.sh drain r1a",
        _ => "",
    }
    .clone_into(note);
    vec![
        asked(
            ("url", "Address"),
            "c6",
            format!("{}?work=light", place.global),
        ),
        in_unit("rate", "Rate", "req/s", typed(place.cap * 0.8)),
        in_unit("num_conns", "Requests", "", "200"),
    ]
}
