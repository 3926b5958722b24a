//! iperf 2's `-y C`: time, both ends, stream, interval, bytes, bit/s, and for UDP jitter, lost, all, percent, late.

use std::collections::HashMap;

use super::blocks::Block;
use super::flow::{Draft, FlowRow, Of};
use super::iperf_row::Whose;
use super::scan::{Number, Scan};
use super::{Import, ImportError, Line, finish};

/// The stream between two ends.
type Ends = HashMap<(String, String), usize>;

/// Whether a line can be such a row: fourteen digits of a time, and enough commas.
pub(super) fn is_row(text: &str) -> bool {
    let mut cells = text.split(',');
    let time = cells.next().unwrap_or_default();
    let whole = time.split_once('.').map_or(time, |(whole, _)| whole);
    whole.len() == 14 && whole.bytes().all(|b| b.is_ascii_digit()) && cells.count() >= 8
}

/// Reads the block.
pub(super) fn read(block: &Block<'_>) -> Result<Import, ImportError> {
    let mut draft = Draft::new("iperf");
    let told = block
        .is_server
        .or_else(|| block.command.as_ref()?.is_server());
    draft.is_server = told.unwrap_or(false);
    if let Some(command) = &block.command {
        command.line(told).clone_into(&mut draft.command);
        draft.in_turn = command.has(told, &["-r"]);
    }
    let mut ends: Ends = HashMap::new();
    for line in &block.lines {
        let text = line.text.trim();
        let silent = text.is_empty()
            || super::command::find(text).is_some()
            || text.starts_with('[')
            || text.starts_with("Waiting for server threads");
        if silent {
            continue;
        }
        if is_row(text) {
            let row = row(&mut draft, *line, &mut ends);
            row.ok_or_else(|| {
                ImportError::at(*line, "begins as a row of iperf's CSV and cannot be read")
            })??;
        } else {
            draft.unknown.note(*line);
        }
    }
    if let Some(command) = &block.command {
        command.note(&mut draft.plan, told);
    }
    finish::flow(draft, block)
}

fn row(draft: &mut Draft, line: Line<'_>, ends: &mut Ends) -> Option<Result<(), ImportError>> {
    let cells: Vec<&str> = line.text.trim().split(',').collect();
    let number = |place: usize| -> Option<Number> {
        let mut scan = Scan::new(cells.get(place)?);
        let number = scan.number()?;
        scan.rest.trim().is_empty().then_some(number)
    };
    let optional = |place: usize| match cells.get(place) {
        None | Some(&"") => Some(None),
        Some(_) => number(place).map(Some),
    };
    let address = |place: usize| {
        Some(format!(
            "{}:{}",
            cells.get(place)?,
            number(place + 1)?.count()?
        ))
    };
    let (local, remote) = (address(1)?, address(3)?);
    let id: i64 = cells.get(5)?.trim().parse().ok()?;
    let mut times = Scan::new(cells.get(6)?);
    let start_s = times.number()?;
    times.eat("-").then_some(())?;
    let end_s = times.number()?;
    times.rest.is_empty().then_some(())?;
    let (bytes, rate) = (number(7)?, number(8)?);
    let (jitter, lost, all) = (optional(9)?, optional(10)?, optional(11)?);
    let (percent, late) = (optional(12)?, optional(13)?);
    // A total of −1 says that the sender was told nothing by the receiver.
    let told = all.is_some_and(|all| all.value >= 0.0) && jitter.is_some();
    draft.is_udp |= all.is_some();
    draft
        .plan
        .note("host", cells[if draft.is_server { 1 } else { 3 }]);
    if let Some(port) = number(4).and_then(Number::count).filter(|port| *port > 0) {
        draft.plan.note("port", port);
    }
    if draft.started_at.is_none() {
        draft.started_at = time(cells[0], end_s.value);
    }
    // iperf 2.0 prints what the server counted as a row with its ends the other way round.
    let reported = ends.contains_key(&(remote.clone(), local.clone()));
    let way = draft.plain_way();
    let of = if id < 0 {
        Of::Sum
    } else {
        let (near, far) = if reported {
            (remote, local)
        } else {
            (local, remote)
        };
        // Old versions give both rows of a stream different numbers on the two sides; its ends tell it.
        let stream = match ends.get(&(near.clone(), far.clone())) {
            Some(stream) => *stream,
            None => match draft.connect(line, &id.to_string(), way) {
                Ok(stream) => stream,
                Err(error) => return Some(Err(error)),
            },
        };
        draft.streams[stream].local = Some(near.clone());
        draft.streams[stream].remote = Some(far.clone());
        ends.insert((near, far), stream);
        Of::Stream(stream)
    };
    let cells_of = if id < 0 { "SUM" } else { cells[5] };
    let mut row = FlowRow {
        bytes: Some(bytes),
        rate: Some(rate),
        whose: reported.then_some(Whose::Receiver),
        ..FlowRow::new(line.number, of, Some(way), start_s, end_s)
    };
    // The client's own rows of UDP count what it sent; their jitter and losses are none that were measured.
    let sender = !draft.is_server && !reported && jitter.is_none_or(|jitter| jitter.value == 0.0);
    if told && !sender {
        row.jitter_ms = jitter.and_then(Number::figure);
        row.lost = lost
            .and_then(Number::count)
            .and_then(|lost| i64::try_from(lost).ok())
            .zip(all.and_then(Number::count));
        row.lost_percent = percent;
        row.out_of_order = late.and_then(Number::count);
        let cells = [("lost_percent", percent), ("out_of_order", late)];
        let cells = cells
            .into_iter()
            .filter_map(|(name, number)| Some((name.to_owned(), number?.figure()?)));
        draft.keep(line.number, cells_of, cells.collect());
    } else if let Some(all) = all {
        row.datagrams = all.count();
        let cells = [
            ("jitter_ms", jitter),
            ("lost", lost),
            ("datagrams", Some(all)),
            ("lost_percent", percent),
            ("out_of_order", late),
        ];
        let cells = cells
            .into_iter()
            .filter_map(|(name, number)| Some((name.to_owned(), number?.figure()?)));
        draft.keep(line.number, "the sender's own cells", cells.collect());
    }
    draft.rows.push(row);
    Some(Ok(()))
}

/// When the test began: the row's time less the time that it covers; a year of 1970 is none.
fn time(text: &str, covers_s: f64) -> Option<jiff::Timestamp> {
    if text.starts_with("1970") || text.len() < 14 {
        return None;
    }
    let at: jiff::Timestamp = format!(
        "{}-{}-{}T{}:{}:{}Z",
        &text[..4],
        &text[4..6],
        &text[6..8],
        &text[8..10],
        &text[10..12],
        &text[12..14]
    )
    .parse()
    .ok()?;
    at.checked_sub(jiff::SignedDuration::try_from_secs_f64(covers_s).ok()?)
        .ok()
}
