//! The built-in receivers on the pages: where they listen, whom they serve and turn away, start and stop.

use std::net::SocketAddr;

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{Path, State as Shared};
use axum::response::{IntoResponse, Redirect, Response};

use crate::dashboard::context::{self, Visit};
use crate::dashboard::error::Trouble;
use crate::dashboard::words;
use crate::dashboard::{launch, peers};
use crate::guard::Concerns;
use crate::measure::command_line::ServerLine;
use crate::measure::plan::throughput::Dialect;
use crate::state::AppState;
use crate::supervisor::{ReceiverView, RefusedSource};

/// Where the panels stand.
const PLACE: &str = "/#receivers";

/// One receiver as a page shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What it is called.
    pub name: &'static str,
    /// Its word in addresses.
    pub word: &'static str,
    /// What it does, in a few words.
    pub state: String,
    /// Class of that.
    pub class: &'static str,
    /// Where it listens, or would.
    pub addresses: String,
    /// Who can reach it, and what it has served.
    pub notes: Vec<String>,
    /// Where to type the line below.
    pub place: &'static str,
    /// The line to type; empty while it is stopped.
    pub line: String,
    /// What the button does, `start` or `stop`; empty where there is none.
    pub action: &'static str,
    /// Those who were turned away, the last one first.
    pub refused: Vec<Refused>,
}

/// Somebody who was turned away.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The address.
    pub from: String,
    /// How often, when last, and why.
    pub text: String,
}

/// Turned-away sources on a panel.
const REFUSED: usize = 5;

/// Both receivers, iperf 2 first.
pub fn panels(state: &AppState) -> Vec<Panel> {
    state.supervisor.receivers().iter().map(panel).collect()
}

/// The receiver that a pasted `iperf -s` or `iperf3 -s` asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedFor {
    /// The finding.
    pub head: String,
    /// The receiver.
    pub panel: Panel,
    /// What is other than the line says; empty where nothing is.
    pub note: String,
}

/// The built-in receiver that does what this line does.
pub fn asked_for(state: &AppState, line: &ServerLine) -> Option<AskedFor> {
    let receivers = state.supervisor.receivers();
    let view = receivers.iter().find(|view| view.dialect == line.dialect)?;
    Some(answer_to(view, line))
}

fn answer_to(view: &ReceiverView, line: &ServerLine) -> AskedFor {
    let panel = panel(view);
    let name = panel.name;
    let flag = match view.dialect {
        Dialect::Iperf2 => "--receiver",
        Dialect::Iperf3 => "--receiver3",
    };
    AskedFor {
        head: match panel.action {
            "stop" => format!("The built-in {name} receiver listens already"),
            "start" => format!("The built-in {name} receiver does this, and is stopped"),
            _ => format!("The built-in {name} receiver does this, and is switched off"),
        },
        note: match view.addresses.first() {
            Some(address) if address.port() != 0 && address.port() != line.port => format!(
                "The line asks for port {}; this one has {}, which {flag} sets.",
                line.port,
                address.port()
            ),
            _ => String::new(),
        },
        panel,
    }
}

/// The port on which this node's own iperf 2 receiver can be tested; `None` while it is stopped.
pub fn own_port(state: &AppState) -> Option<u16> {
    state
        .supervisor
        .receivers()
        .iter()
        .find(|view| view.dialect == Dialect::Iperf2 && view.running)
        .and_then(|view| Some(view.addresses.first()?.port()))
}

fn panel(view: &ReceiverView) -> Panel {
    let (name, tool, flag, usual) = match view.dialect {
        Dialect::Iperf2 => ("iperf 2", "iperf", "--receiver", 5001),
        Dialect::Iperf3 => ("iperf 3", "iperf3", "--receiver3", 5201),
    };
    let off = view.addresses.is_empty();
    let status = &view.status;
    let (state, class) = if off {
        ("switched off".to_owned(), "muted")
    } else if !view.running {
        ("stopped".to_owned(), "muted")
    } else if status.running > 0 {
        let tests = words::plural(status.running.into(), "test", "tests");
        let streams = words::plural(status.streams.into(), "stream", "streams");
        (format!("● serves {tests}, {streams}"), "live")
    } else {
        ("✓ listens".to_owned(), "ok")
    };
    Panel {
        name,
        word: view.dialect.word(),
        state,
        class,
        addresses: if off {
            words::DASH.to_owned()
        } else {
            let addresses: Vec<String> = view.addresses.iter().map(ToString::to_string).collect();
            format!("{}, TCP and UDP", addresses.join(", "))
        },
        notes: if off {
            vec![format!(
                "Started with {flag} off; give it an address, such as {flag} 0.0.0.0:{usual}."
            )]
        } else {
            notes(view)
        },
        place: if is_own(&view.addresses) {
            "On this machine"
        } else {
            "On another machine"
        },
        line: match view.addresses.first() {
            Some(address) if view.running => line(tool, *address, usual),
            _ => String::new(),
        },
        action: match (off, view.running) {
            (true, _) => "",
            (false, true) => "stop",
            (false, false) => "start",
        },
        refused: view.refused.iter().take(REFUSED).map(refused).collect(),
    }
}

fn notes(view: &ReceiverView) -> Vec<String> {
    let mut notes = vec![reach(&view.addresses)];
    let status = &view.status;
    if status.begun > 0 {
        let mut served = format!(
            "{} served since its start, {} received",
            words::plural(status.begun, "test", "tests"),
            words::bytes(status.bytes_received as f64)
        );
        if status.bytes_sent > 0 {
            served = format!("{served}, {} sent", words::bytes(status.bytes_sent as f64));
        }
        notes.push(format!("{served}."));
    }
    if status.dropped > 0 {
        notes.push(format!(
            "{} dropped by this machine’s socket buffers.",
            words::plural(status.dropped, "datagram", "datagrams")
        ));
    }
    notes
}

/// Whether nobody but this machine can reach these addresses.
fn is_own(addresses: &[SocketAddr]) -> bool {
    addresses.iter().all(|address| address.ip().is_loopback())
}

/// Who can reach these addresses.
fn reach(addresses: &[SocketAddr]) -> String {
    if is_own(addresses) {
        "Only this machine can reach it.".to_owned()
    } else {
        "Serves this machine, registered peers, and what --accept-from names.".to_owned()
    }
}

/// What a person types on another machine.
fn line(tool: &str, address: SocketAddr, usual: u16) -> String {
    let host = if address.ip().is_unspecified() {
        "THIS-HOST".to_owned()
    } else {
        address.ip().to_string()
    };
    let port = if address.port() == usual {
        String::new()
    } else {
        format!(" -p {}", address.port())
    };
    let six = if tool == "iperf" && address.is_ipv6() && !address.ip().is_unspecified() {
        " -V"
    } else {
        ""
    };
    format!("{tool} -c {host}{port}{six}")
}

fn refused(source: &RefusedSource) -> Refused {
    let times = match source.count {
        1 => "turned away".to_owned(),
        more => format!("turned away {}\u{a0}times", words::count(more)),
    };
    Refused {
        from: source.from.to_string(),
        text: format!("{times}, last {}: {}", words::when(source.at), source.why),
    }
}

/// Answers `POST /receivers/{dialect}/{action}`: starts or stops one.
pub async fn act(
    visit: Visit,
    Shared(state): Shared<AppState>,
    Path((word, action)): Path<(String, String)>,
) -> Response {
    let dialect = match word.as_str() {
        "iperf2" => Dialect::Iperf2,
        "iperf3" => Dialect::Iperf3,
        _ => return unknown().answer(visit.frame()),
    };
    let done = match action.as_str() {
        "start" => state.supervisor.start_receiver(dialect).await,
        "stop" => state.supervisor.stop_receiver(dialect).await,
        _ => return unknown().answer(visit.frame()),
    };
    match done {
        Ok(_) => Redirect::to(PLACE).into_response(),
        Err(error) => {
            Trouble::conflict(error.to_string(), PLACE, "The receivers").answer(visit.frame())
        }
    }
}

fn unknown() -> Trouble {
    Trouble::missing("There are two receivers, iperf2 and iperf3, to start or stop")
}

/// Answers `POST /receivers/allow`: registers a source that was turned away as a peer; a public address needs the
/// consent that the peer's form asks for.
pub async fn allow(
    visit: Visit,
    Shared(state): Shared<AppState>,
    form: Result<Form<Vec<(String, String)>>, FormRejection>,
) -> Response {
    let values = match launch::read(form) {
        Ok(values) => values,
        Err(trouble) => return trouble.answer(visit.frame()),
    };
    let address = values.get("address").cloned().unwrap_or_default();
    if let Ok(peer) = peers::add(
        &state,
        &peers::minimal(&address, &address, false),
        &visit.actor(),
    )
    .await
    {
        return Concerns::mark(peer.title(), Redirect::to(PLACE));
    }
    let form = context::query("/peers", &[("add", &address)]);
    Redirect::to(&format!("{form}#form")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receiver::ReceiverStatus;

    fn view(addresses: &[&str], running: bool) -> ReceiverView {
        ReceiverView {
            dialect: Dialect::Iperf2,
            addresses: addresses
                .iter()
                .map(|address| address.parse().unwrap())
                .collect(),
            running,
            status: ReceiverStatus::default(),
            refused: Vec::new(),
        }
    }

    #[test]
    fn a_panel_says_what_to_type_elsewhere_and_has_the_button_that_helps() {
        let listens = panel(&view(&["10.0.0.2:5001"], true));
        assert_eq!(listens.line, "iperf -c 10.0.0.2");
        assert_eq!(listens.action, "stop");
        assert!(listens.notes[0].contains("--accept-from"));
        let own = panel(&view(&["127.0.0.1:40001"], true));
        assert_eq!(own.line, "iperf -c 127.0.0.1 -p 40001");
        assert!(own.notes[0].contains("Only this machine"));
        let every = panel(&view(&["0.0.0.0:5001"], true));
        assert_eq!(every.line, "iperf -c THIS-HOST");
        let stopped = panel(&view(&["10.0.0.2:5001"], false));
        assert_eq!((stopped.line.as_str(), stopped.action), ("", "start"));
        let off = panel(&view(&[], false));
        assert_eq!(off.action, "");
        assert!(off.notes[0].contains("--receiver 0.0.0.0:5001"));
    }

    #[test]
    fn what_runs_and_who_was_turned_away_is_counted() {
        let mut view = view(&["10.0.0.2:5001"], true);
        view.status = ReceiverStatus {
            running: 1,
            streams: 16,
            begun: 12,
            bytes_received: 3_200_000_000,
            ..ReceiverStatus::default()
        };
        view.refused = vec![RefusedSource {
            from: "10.0.0.9".parse().unwrap(),
            why: "It is no registered peer.".to_owned(),
            at: "2026-11-30T17:44:35Z".parse().unwrap(),
            count: 3,
        }];
        let panel = panel(&view);
        assert_eq!(panel.state, "● serves 1\u{a0}test, 16\u{a0}streams");
        assert!(panel.notes[1].starts_with("12\u{a0}tests served since its start, 3.20\u{a0}GB"));
        assert_eq!(panel.refused[0].from, "10.0.0.9");
        assert!(
            panel.refused[0]
                .text
                .starts_with("turned away 3\u{a0}times, last 2026-11-30")
        );
    }
}
