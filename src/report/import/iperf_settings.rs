//! Lines of iperf that say how the test is set up: windows, buffers, datagrams, congestion control.

use super::flow::Draft;
use super::scan::{Number, Scan, named_numbers};
use super::{Line, shown};

/// Lines that say how the test is set up, by their beginnings, and what their figures are of.
const SETTINGS: [(&str, &str); 15] = [
    ("TCP window size:", "TCP window"),
    ("UDP buffer size:", "UDP buffer"),
    ("Sending ", "datagrams"),
    ("Receiving ", "datagrams"),
    ("Write buffer size", "write buffer"),
    ("Read buffer size", "read buffer"),
    ("TCP congestion control set to", "congestion control"),
    ("TOS set to", "TOS"),
    ("MSS size", "segment"),
    ("Bursting:", "bursts"),
    ("Bounce-back test", "bounce back"),
    ("TCP three-way-handshake", "handshake"),
    ("Permit key is", "permit key"),
    ("Binding to local", "binding"),
    ("Interface", "interface"),
];

/// What the figures of such a line are of; `None` for other lines.
pub(super) fn of(text: &str) -> Option<&'static str> {
    let setting = SETTINGS.iter().find(|(begins, _)| text.starts_with(begins));
    setting.map(|(_, of)| *of)
}

/// Notes what the line says.
pub(super) fn note(draft: &mut Draft, line: Line<'_>, text: &str, of: &str) {
    let mut figures = Vec::new();
    let after = text.split_once(':').map_or("", |(_, after)| after);
    match of {
        "TCP window" | "UDP buffer" => {
            let mut scan = Scan::new(after);
            // Without a connection iperf 2 prints −1 byte.
            if let Some(size) = scan.bytes() {
                figures.push(("bytes".to_owned(), size.value));
                if draft.window_got.is_none() {
                    draft.window_got = size.count();
                }
            }
            if let Some((_, asked)) = scan.rest.split_once("requested ")
                && let Some(asked) = Scan::new(&asked.replace(')', " ")).bytes()
            {
                draft.window_asked = asked.count();
            }
        }
        "datagrams" => {
            let mut scan = Scan::new(text.split_once(' ').map_or("", |(_, rest)| rest));
            if let Some(length) = scan.number().and_then(Number::count)
                && scan.then("byte datagrams")
            {
                draft.plan.set("length_bytes", length);
            }
            if let Some((_, gap)) = scan.rest.split_once("IPG target:")
                && let Some(gap) = Scan::new(gap).number()
            {
                figures.push(("ipg_target_us".to_owned(), gap.value));
            }
        }
        "read buffer" => {
            let mut scan = Scan::new(after);
            if let Some(size) = scan.bytes() {
                figures.push(("bytes".to_owned(), size.value));
            }
            if let Some((_, bin)) = scan.rest.split_once("width=")
                && let Some(bin) = Scan::new(&bin.replace(')', " ")).bytes()
            {
                figures.push(("bin_bytes".to_owned(), bin.value));
            }
        }
        "congestion control" => {
            draft.congestion = text.rsplit_once("set to ").map(|(_, name)| shown(name));
        }
        // The key itself is nothing to keep.
        "permit key" => {
            figures = named_numbers(text.rsplit_once("' (").map_or("", |(_, rest)| rest));
        }
        _ => figures = named_numbers(text),
    }
    draft.keep(line.number, of, figures);
}
