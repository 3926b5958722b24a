//! The launch page: the form with its values, how the pasted line was read, what it will cost, and whether this machine can do it.

use askama::Template;

use crate::dashboard::fields::{self, ErrorLine, Group, Input, Values};
use crate::dashboard::frame::{Frame, Place};
use crate::dashboard::launch::estimate::{self, MachineLine};
use crate::dashboard::launch::presets::{self, Preset};
use crate::dashboard::launch::{fields as form_fields, form, remarks};
use crate::dashboard::receivers;
use crate::dashboard::run::rail::Fact;
use crate::dashboard::run::view;
use crate::dashboard::words;
use crate::measure::command_line::{self, Reading, WordNote};
use crate::measure::plan::throughput::{Direction, Protocol};
use crate::measure::plan::{Caps, Kind, Plan, Rate};
use crate::store::Peer;

/// What one showing of the form is made from.
pub struct Showing<'a> {
    /// What stands around it.
    pub frame: Frame,
    /// The kind of run.
    pub kind: Kind,
    /// The fields' values.
    pub values: Values,
    /// The pasted line.
    pub pasted: String,
    /// A line that works on this node, for the empty box.
    pub example: String,
    /// How it was read.
    pub reading: Option<Reading>,
    /// Faults found after the plan was read: field and message.
    pub faults: Vec<(String, String)>,
    /// Whether faults of an untouched form are shown.
    pub asked: Asked,
    /// A target that may be registered.
    pub offer: Option<Offer>,
    /// Marks this showing.
    pub token: String,
    /// The largest run.
    pub caps: &'a Caps,
    /// Runs that wait or run.
    pub open_runs: usize,
    /// Open files that this process may have.
    pub open_files: Option<u64>,
    /// CPUs that this machine has.
    pub cpus: Option<u32>,
    /// Registered peers.
    pub peers: Vec<Peer>,
    /// The receiver that the pasted line starts.
    pub receiver: Option<receivers::AskedFor>,
}

/// How the page came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It was opened.
    ToShow,
    /// A check was asked for.
    ToCheck,
    /// A start was asked for.
    ToStart,
}

/// A target that registering would allow.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// The host as it stands in the URL.
    pub host: String,
    /// The address to register.
    pub address: String,
    /// A name to begin with.
    pub name: String,
    /// Whether its address is public.
    pub public: bool,
    /// Whether the consent was forgotten.
    pub unconfirmed: bool,
}

/// The page.
#[derive(Template)]
#[template(path = "launch/page.html")]
pub struct LaunchPage {
    frame: Frame,
    kind: &'static str,
    kind_words: &'static str,
    head: String,
    lead: &'static str,
    pasted: String,
    example: String,
    problems: Vec<String>,
    read: Vec<ReadWord>,
    kinds: [KindLink; 6],
    presets: &'static [Preset],
    receiver: Option<receivers::AskedFor>,
    hosts: Vec<(String, String)>,
    errors: Vec<ErrorLine>,
    offer: Option<Offer>,
    checked: Option<String>,
    groups: Vec<Group>,
    advanced: Vec<fields::FieldView>,
    advanced_open: bool,
    advanced_words: &'static str,
    token: String,
    command: String,
    command_wrapped: String,
    cost: Vec<Fact>,
    machine: Vec<MachineLine>,
}

struct ReadWord {
    text: String,
    class: &'static str,
    mark: &'static str,
    meaning: String,
}

struct KindLink {
    word: &'static str,
    note: &'static str,
    href: String,
    here: bool,
}

/// Reads the form's values into a plan; all faults at once, each under the name of its field.
pub fn plan(kind: Kind, values: &Values, caps: &Caps) -> Result<Plan, Vec<(String, String)>> {
    let (json, mut faults) = form::plan_json(kind, values);
    match Plan::from_json(&json, caps) {
        Ok(plan) if faults.is_empty() => return Ok(plan),
        Ok(_) => {}
        Err(errors) => {
            for error in errors {
                let field = form::field_for(&error.field, values);
                // The form's own fault of a field is the reason for the plan's.
                if !faults.iter().any(|(known, _)| *known == field) {
                    faults.push((field, error.message));
                }
            }
        }
    }
    Err(faults)
}

/// The page for this showing.
pub fn build(showing: Showing<'_>) -> LaunchPage {
    let Showing {
        frame,
        kind,
        values,
        pasted,
        example,
        reading,
        faults,
        asked,
        offer,
        token,
        caps,
        open_runs,
        open_files,
        cpus,
        peers,
        receiver,
    } = showing;
    let read = plan(kind, &values, caps);
    let mut errors = read.as_ref().err().cloned().unwrap_or_default();
    errors.extend(faults);
    let plan = read.ok();
    let all = form_fields::all(kind);
    let mut groups = groups(kind, &values, &errors);
    let mut advanced = fields::filled(form_fields::advanced(kind), &values, &errors);
    remarks::remark(
        groups
            .iter_mut()
            .flat_map(|group| &mut group.fields)
            .chain(&mut advanced),
        plan.as_ref(),
        &values,
        &peers,
    );
    let advanced_open = advanced
        .iter()
        .any(|field| field.error.is_some() || is_set(field.name, &field.value));
    let lines = fields::error_lines(&all, &errors);
    let command = plan.as_ref().map(command_line::write).unwrap_or_default();
    let word = form::kind_word(kind);
    LaunchPage {
        frame: frame.at(
            Place::New,
            match lines.len() {
                0 => format!("New run: {word}"),
                number => format!("{number} to mend · New run: {word}"),
            },
        ),
        kind: word,
        kind_words: view::kind_words(kind),
        head: match &receiver {
            Some(asked) => asked.head.clone(),
            None => head(plan.as_ref()),
        },
        lead: if receiver.is_some() {
            "This line starts no test, it waits for one. This node has such a receiver built in."
        } else if reading.is_some() {
            "The form below is what the pasted line means. Change either; both are checked before the first packet leaves."
        } else {
            "Fill in the form, or paste the line that you would have typed. Both are checked before the first packet leaves."
        },
        problems: reading
            .as_ref()
            .filter(|_| receiver.is_none())
            .map(|reading| reading.problems.clone())
            .unwrap_or_default(),
        read: reading
            .map(|reading| reading.words.into_iter().map(read_word).collect())
            .unwrap_or_default(),
        pasted,
        example,
        kinds: kinds(kind, &values),
        presets: presets::of(kind),
        receiver,
        hosts: hosts(&peers),
        checked: (asked == Asked::ToCheck && lines.is_empty() && offer.is_none()).then(|| {
            "✓ Every field holds, and the target may be tested. Nothing has been sent.".to_owned()
        }),
        errors: lines,
        offer,
        groups,
        advanced,
        advanced_open,
        advanced_words: form_fields::advanced_words(kind),
        token,
        command_wrapped: view::wrapped(&command),
        command,
        cost: plan
            .as_ref()
            .map(|plan| estimate::cost(plan, open_runs))
            .unwrap_or_default(),
        machine: plan
            .as_ref()
            .map(|plan| estimate::machine(plan, open_files, cpus))
            .unwrap_or_default(),
    }
}

fn groups(kind: Kind, values: &Values, errors: &[(String, String)]) -> Vec<Group> {
    let wanted = match kind {
        Kind::Fetch | Kind::Path => "For later",
        Kind::Rate | Kind::Users | Kind::Throughput | Kind::Ping => "What would be good enough?",
    };
    vec![
        group("Where", form_fields::target(kind), values, errors),
        group("How much", form_fields::amount(kind), values, errors),
        group(wanted, form_fields::wanted(kind), values, errors),
    ]
}

fn group(
    legend: &'static str,
    list: &[fields::Field],
    values: &Values,
    errors: &[(String, String)],
) -> Group {
    Group {
        legend,
        fields: fields::filled(list, values, errors),
    }
}

/// Whether an advanced field holds something that is not its default.
fn is_set(name: &str, value: &str) -> bool {
    match name {
        "method" => !value.is_empty() && value != "GET",
        "order" => !value.is_empty() && value != "in_turn",
        "seed" | "omit_s" => !value.is_empty() && value != "0",
        "receive" => !value.is_empty() && value != "copy",
        "length_bytes" => !value.is_empty() && !matches!(value, "1M" | "1470"),
        "size_bytes" => !value.is_empty() && value != "56",
        "timeout_s" => !value.is_empty() && value != "1",
        _ => !value.is_empty(),
    }
}

fn head(plan: Option<&Plan>) -> String {
    let Some(plan) = plan else {
        return "What is to be measured?".to_owned();
    };
    let most = |number: Option<u64>| {
        number.map_or_else(String::new, |number| {
            format!(", at most {} in all", words::count(number))
        })
    };
    match plan {
        Plan::Rate(rate) => match &rate.rate {
            Rate::Constant(0.0) => format!(
                "{} one after another",
                words::plural(plan.planned_requests().unwrap_or(0), "request", "requests")
            ),
            Rate::Constant(per_s) => format!(
                "{} {} a second{}{}",
                words::digits_short(*per_s),
                if rate.num_calls == 1 {
                    "requests"
                } else {
                    "connections"
                },
                plan.expected_duration_s()
                    .map_or_else(String::new, |s| format!(" for {}", words::seconds(s))),
                most(plan.planned_requests())
            ),
            Rate::Steps(steps) => format!(
                "{} from {} to {} a second{}",
                words::plural(steps.len() as u64, "step", "steps"),
                words::digits_short(steps.first().map_or(0.0, |step| step.0)),
                words::digits_short(steps.last().map_or(0.0, |step| step.0)),
                most(plan.planned_requests())
            ),
        },
        Plan::Users(users) => {
            let who = words::plural(users.concurrent.into(), "user", "users");
            match (users.reps, users.duration_s) {
                (Some(reps), _) => format!(
                    "{who}, {} each{}",
                    words::plural(reps, "request", "requests"),
                    most(plan.planned_requests())
                ),
                (None, Some(seconds)) => format!("{who} for {}", words::seconds(seconds)),
                (None, None) => who,
            }
        }
        Plan::Fetch(fetch) => format!(
            "One request to {}, phase by phase",
            fetch.url.host_str().unwrap_or_default()
        ),
        Plan::Throughput(flow) => format!(
            "{}{} {} {}{}",
            match (flow.protocol, flow.bandwidth_bits_per_second) {
                (Protocol::Udp, Some(each)) => format!("UDP, {} each: ", words::bits(Some(each))),
                (Protocol::Udp, None) => "UDP: ".to_owned(),
                (Protocol::Tcp, _) => String::new(),
            },
            words::plural(flow.streams.into(), "stream", "streams"),
            match flow.direction {
                Direction::Send => "to",
                Direction::Receive => "from",
                Direction::Both => "to and from",
                Direction::InTurn => "to, then from,",
            },
            flow.host,
            plan.expected_duration_s()
                .map_or_else(String::new, |s| format!(" for {}", words::seconds(s))),
        ),
        Plan::Ping(ping) => format!(
            "{} to {}, one every {}",
            words::plural(ping.count.into(), "probe", "probes"),
            ping.host,
            words::seconds(ping.interval_s)
        ),
        Plan::Imported(_) => String::new(),
        Plan::Path(path) => format!(
            "Interfaces, and the largest packet that reaches {}",
            path.host
        ),
    }
}

/// The addresses of registered peers as choices for a host: the address, and whose it is.
pub fn hosts(peers: &[Peer]) -> Vec<(String, String)> {
    peers
        .iter()
        .flat_map(|peer| {
            let named = |address: &Option<String>, which: &str| {
                let address = address.clone()?;
                Some((address, format!("{}, {which} address", peer.name)))
            };
            [
                named(&peer.internal_address, "internal"),
                named(&peer.external_address, "external"),
            ]
        })
        .flatten()
        .collect()
}

fn read_word(word: command_line::Word) -> ReadWord {
    let (class, mark) = match word.note {
        WordNote::Understood => ("", ""),
        WordNote::Added => ("", "+ "),
        WordNote::Ignored => ("warn", "! "),
        WordNote::NotUnderstood => ("bad", "✕ "),
    };
    ReadWord {
        text: word.text,
        class,
        mark,
        meaning: word.meaning,
    }
}

fn kinds(here: Kind, values: &Values) -> [KindLink; 6] {
    let url = values.get("url").map_or("", String::as_str);
    let host = values.get("host").map_or("", String::as_str);
    [
        (Kind::Throughput, "iperf 2 and 3: bytes through the path"),
        (Kind::Rate, "httperf, open loop: so many a second"),
        (Kind::Users, "siege, closed loop: so many users"),
        (Kind::Ping, "ping: round trips one by one"),
        (Kind::Fetch, "curl -w, one request in its phases"),
        (Kind::Path, "tracepath: interfaces and path MTU"),
    ]
    .map(|(kind, note)| {
        let word = form::kind_word(kind);
        KindLink {
            word,
            note,
            href: crate::dashboard::context::query(
                "/runs/new",
                &[
                    ("kind", word),
                    if kind.is_http() {
                        ("url", url)
                    } else {
                        ("host", host)
                    },
                ],
            ),
            here: kind == here,
        }
    })
}
