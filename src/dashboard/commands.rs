//! The commands page: fields become the commands that make a lab in Google Cloud, and those that remove it.

use askama::Template;
use axum::extract::{Path, State as Shared};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::dashboard::context::{self, Visit};
use crate::dashboard::error::Trouble;
use crate::dashboard::fields::{self, ErrorLine, Field, Group, Input, Values};
use crate::dashboard::frame::{Frame, Place, page};
use crate::report::{Commands, Lab, Wanted};
use crate::state::AppState;

const PLACE: &str = "/commands";

#[derive(Template)]
#[template(path = "commands.html")]
struct CommandsPage {
    frame: Frame,
    lab: &'static str,
    kinds: [LabLink; 2],
    errors: Vec<ErrorLine>,
    groups: Vec<Group>,
    made: Option<Commands>,
    create_file: String,
    delete_file: String,
}

struct LabLink {
    word: &'static str,
    note: &'static str,
    href: String,
    here: bool,
}

const fn field(
    name: &'static str,
    label: &'static str,
    hint: &'static str,
    class: &'static str,
) -> Field {
    Field {
        name,
        label,
        hint,
        unit: "",
        class,
        input: Input::Text("text"),
        mono: true,
        list: "",
    }
}

const NAMES: [Field; 3] = [
    field(
        "prefix",
        "Prefix",
        "Every name begins with it, so that nothing else is touched",
        "c2",
    ),
    field("project", "Project", "Empty: the one that gcloud has", "c2"),
    field(
        "from",
        "You log in from",
        "Your own address, with /32",
        "c2",
    ),
];
const BINARY: Field = field(
    "binary",
    "Where the machines fetch the binary",
    "An https address that needs no login, such as a public bucket's; put target/release/tidemark there first",
    "c6",
);
const MACHINE: Field = field("machine_type", "Machine type", "Of every machine", "c2");
const MACHINES: Field = Field {
    input: Input::Text("numeric"),
    ..field("machines", "Machines", "In each region", "c2")
};
const ZONE: Field = field("zone", "Zone", "Of the machines that measure", "c2");
const REGIONS: Field = field(
    "regions",
    "Regions of the groups",
    "One for the regional lab, two for the global one; with spaces between",
    "c4",
);
const MAX_RATE: Field = Field {
    input: Input::Text("decimal"),
    unit: "req/s",
    ..field(
        "max_rate",
        "Most to one instance",
        "What a capacity search suggests",
        "c2",
    )
};
const MTU: Field = Field {
    input: Input::Text("numeric"),
    unit: "bytes",
    ..field(
        "mtu",
        "MTU",
        "1460 as it comes, 8896 for jumbo frames",
        "c2",
    )
};
const TIER: Field = Field {
    input: Input::Check,
    ..field(
        "tier_1",
        "Egress tier TIER_1",
        "Machine types with 30 vCPUs or more; costs more",
        "c3",
    )
};

/// The fields of this lab in their groups.
fn all(lab: Lab) -> [(&'static str, Vec<Field>); 2] {
    let machines = match lab {
        Lab::Balanced => vec![REGIONS, ZONE, MACHINE, MACHINES, MAX_RATE],
        Lab::Peers => vec![
            ZONE,
            MACHINE,
            Field {
                hint: "2 or more",
                ..MACHINES
            },
            MTU,
            TIER,
        ],
    };
    let mut names = NAMES.to_vec();
    names.push(BINARY);
    [("Names and access", names), ("Machines", machines)]
}

/// What an empty form begins with.
fn defaults(state: &AppState) -> Values {
    let node = &state.node;
    let or = |value: &Option<String>, otherwise: &str| {
        value
            .clone()
            .filter(|value| !value.is_empty())
            .unwrap_or_else(|| otherwise.to_owned())
    };
    [
        ("prefix", "tidemark".to_owned()),
        ("from", "203.0.113.7/32".to_owned()),
        (
            "binary",
            "https://storage.googleapis.com/BUCKET/tidemark".to_owned(),
        ),
        ("machine_type", or(&node.machine_type, "e2-standard-2")),
        ("zone", or(&node.zone, "europe-west1-b")),
        ("regions", "europe-west1 us-central1".to_owned()),
        ("machines", "3".to_owned()),
        ("max_rate", "4.5".to_owned()),
        ("mtu", "1460".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// The values of the query, completed where it leaves a field out, and the lab that they are for.
fn values(visit: &Visit, state: &AppState) -> Result<(Lab, Values), Trouble> {
    let pairs = url::form_urlencoded::parse(visit.query().as_bytes())
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let asked = fields::read_pairs(pairs)
        .map_err(|sentence| Trouble::unusable(sentence, PLACE, "An empty form"))?;
    let mut values = defaults(state);
    values.insert("lab".to_owned(), Lab::Balanced.word().to_owned());
    values.extend(asked);
    let lab = if values["lab"] == Lab::Peers.word() {
        Lab::Peers
    } else {
        Lab::Balanced
    };
    Ok((lab, values))
}

/// Answers `GET /commands`: the form, and the commands that its fields come to.
pub async fn show(visit: Visit, Shared(state): Shared<AppState>) -> Response {
    let (lab, values) = match values(&visit, &state) {
        Ok(read) => read,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let (made, faults) = match Wanted::read(&values) {
        Ok(wanted) => (Some(wanted.commands()), Vec::new()),
        Err(faults) => (None, faults),
    };
    let groups = all(lab);
    let known: Vec<Field> = groups.iter().flat_map(|(_, list)| list.clone()).collect();
    let errors = fields::error_lines(&known, &faults);
    let status = if errors.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::UNPROCESSABLE_ENTITY
    };
    let title = match errors.len() {
        0 => "Cloud commands".to_owned(),
        number => format!("{number} to mend · Cloud commands"),
    };
    let pairs: Vec<(&str, &str)> = values
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let file = |name: &str| context::query(&format!("{PLACE}/{name}"), &pairs);
    let built = CommandsPage {
        frame: visit.frame().at(Place::Guides, title),
        lab: lab.word(),
        kinds: [
            (
                Lab::Balanced,
                "Load-balanced servers",
                "groups behind a balancer, and a machine that measures",
            ),
            (
                Lab::Peers,
                "Throughput peers",
                "machines that measure between each other",
            ),
        ]
        .map(|(one, word, note)| LabLink {
            word,
            note,
            href: context::query(PLACE, &[("lab", one.word())]),
            here: one == lab,
        }),
        errors,
        groups: groups
            .into_iter()
            .map(|(legend, list)| Group {
                legend,
                fields: fields::filled(&list, &values, &faults),
            })
            .collect(),
        made,
        create_file: file("create.sh"),
        delete_file: file("delete.sh"),
    };
    page(status, &built)
}

/// Answers `GET /commands/create.sh` and `GET /commands/delete.sh`: one list as a file.
pub async fn file(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path(name): Path<String>,
) -> Response {
    let made = values(&visit, &state).and_then(|(_, values)| {
        Wanted::read(&values).map_err(|faults| {
            let (field, sentence) = faults.into_iter().next().unwrap_or_default();
            Trouble::unusable(format!("{field}: {sentence}"), PLACE, "The form")
        })
    });
    let text = match (made, name.as_str()) {
        (Ok(wanted), "create.sh") => wanted.commands().create,
        (Ok(wanted), "delete.sh") => wanted.commands().delete,
        (Ok(_), _) => {
            return Trouble::missing("There are two files here: create.sh and delete.sh")
                .answer(visit.frame());
        }
        (Err(trouble), _) => return trouble.answer(visit.frame()),
    };
    (
        [
            (
                header::CONTENT_TYPE,
                "text/x-shellscript; charset=utf-8".to_owned(),
            ),
            (
                header::CONTENT_DISPOSITION,
                format!("attachment; filename=\"tidemark-{name}\""),
            ),
            (header::CACHE_CONTROL, "no-store".to_owned()),
        ],
        text,
    )
        .into_response()
}
