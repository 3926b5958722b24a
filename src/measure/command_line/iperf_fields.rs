//! What lines of iperf 2 and iperf 3 say in the same way.

use super::Draft;
use super::iperf_values::{self as values, Suffixes};
use super::server_line::ServerLine;

/// The sentence for a word that belongs to no option, in iperf 2 and 3.
pub(super) fn bare_word(word: &str) -> String {
    format!(
        "{} belongs to no option: the host stands behind -c, and each option is written out.",
        super::cut(word)
    )
}

/// What is said to `-u -b 0`.
pub(super) const UNLIMITED_UDP: &str = "UDP without a rate is not supported: -b 0 would send as fast as the machine can; give a rate such as -b 10g, which is then the most that is sent.";

/// A size in bytes; anything else is a problem.
pub(super) fn size(draft: &mut Draft, text: &str, value: &str, suffixes: Suffixes) -> Option<u64> {
    let bytes = values::bytes(value, suffixes);
    if bytes.is_none() {
        draft.problem(
            text,
            format!(
                "{} needs a size in bytes such as 1400, 256K or 100M.",
                super::cut(text)
            ),
        );
    }
    bytes
}

/// `-b`: a rate in bit/s of each stream, 0 = unlimited.
pub(super) fn take_rate(draft: &mut Draft, text: &str, value: &str, suffixes: Suffixes) {
    if value.trim_end().ends_with("pps") {
        draft.problem(
            text,
            "A rate in packets per second (pps) is not supported: write it in bit/s, which is packets × length × 8, such as -b 100m.",
        );
        return;
    }
    if value.contains([',', '/']) {
        draft.problem(
            text,
            "-b takes one steady rate here: bursts (/) and varying rates (,) are not supported.",
        );
        return;
    }
    match values::rate(value, suffixes) {
        Some(rate) if rate > 0.0 => {
            draft.set("bandwidth_bits_per_second", rate);
            draft.understood(text, values::rate_meaning(value, rate, suffixes));
        }
        Some(_) => {
            draft.plan.remove("bandwidth_bits_per_second");
            draft.understood(text, "no limit");
        }
        None => draft.problem(
            text,
            format!(
                "{} needs a rate in bit/s such as 500k, 100m or 10g.",
                super::cut(text)
            ),
        ),
    }
}

/// `-p`.
pub(super) fn take_port(draft: &mut Draft, text: &str, value: &str) {
    match super::whole(value).filter(|port| (1..=65_535).contains(port)) {
        Some(port) => {
            draft.set("port", port);
            draft.understood(text, format!("port {port}"));
        }
        None if value.contains('-') => {
            draft.problem(text, "A range of ports is not supported: give -p one port.");
        }
        None => draft.problem(text, "-p takes a number from 1 to 65535."),
    }
}

/// A whole number that goes into a field of the plan.
pub(super) fn take_count(draft: &mut Draft, text: &str, value: &str, field: &str, meaning: &str) {
    if let Some(count) = draft.count(text, value) {
        draft.set(field, count);
        draft.understood(text, format!("{count} {meaning}"));
    }
}

/// `-B` of a client; with a port, that is the first stream's source port. The unspecified address stands for none.
pub(super) fn take_bind(draft: &mut Draft, text: &str, value: &str) {
    let (address, port) = match values::bind_place(value) {
        Ok(place) => place,
        Err(sentence) => return draft.problem(text, sentence),
    };
    let any = port.is_some()
        && address
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_unspecified());
    if !any {
        draft.set("bind", address);
    }
    match port {
        Some(port) => {
            draft.set("cport", port);
            draft.understood(
                text,
                format!("sends from port {port}, each further stream from the next one"),
            );
        }
        None => draft.understood(text, "the address to send from"),
    }
}

/// `-i`; 0 prints totals alone.
pub(super) fn take_interval(draft: &mut Draft, text: &str, value: &str) {
    let Some(seconds) = draft.number(text, value) else {
        return;
    };
    if seconds == 0.0 {
        draft.output.iperf.interval_lines = Some(false);
        draft.understood(text, "prints totals alone; seconds are kept all the same");
        return;
    }
    draft.output.iperf.interval_lines = Some(true);
    draft.set("interval_s", seconds);
    draft.understood(text, format!("a line every {seconds} s"));
}

/// `-f`: one letter.
pub(super) fn take_format(draft: &mut Draft, text: &str, value: &str, letters: &str) {
    match value
        .chars()
        .next()
        .filter(|letter| letters.contains(*letter))
    {
        Some(letter) => {
            draft.output.iperf.unit = Some(letter);
            draft.understood(text, "the unit in which figures are printed");
        }
        None => draft.problem(text, format!("-f takes one letter of {letters}.")),
    }
}

/// What lines of both receivers share.
pub(super) fn take_listening(
    server: &mut ServerLine,
    draft: &mut Draft,
    name: &str,
    text: &str,
    value: &str,
) {
    match name {
        "port" => {
            take_port(draft, text, value);
            let port = draft.plan.remove("port").and_then(|port| port.as_u64());
            if let Some(port) = port.and_then(|port| u16::try_from(port).ok()) {
                server.port = port;
            }
        }
        "bind" => match values::bind_place(value).map(|(address, port)| (address.parse(), port)) {
            Ok((_, Some(_))) => {
                draft.problem(
                    text,
                    "-B takes an address alone here: give the port with -p.",
                );
            }
            Ok((Ok(address), None)) => {
                server.bind = Some(address);
                draft.understood(text, "the address to listen on");
            }
            Ok((Err(_), None)) => draft.problem(text, "-B takes an IP address of this machine."),
            Err(sentence) => draft.problem(text, sentence),
        },
        "interval" => {
            let Some(seconds) = draft.number(text, value) else {
                return;
            };
            if seconds == 0.0 {
                server.interval_s = None;
                draft.understood(text, "prints totals alone");
            } else if (0.1..=3_600.0).contains(&seconds) {
                server.interval_s = Some(seconds);
                draft.understood(text, format!("a line every {seconds} s"));
            } else {
                draft.problem(text, "-i takes 0.1 to 3600 s, or 0 for totals alone.");
            }
        }
        _ => draft.ignored(text, "changes nothing here"),
    }
}
