//! Logs on standard error: one event a line, whatever it holds.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

/// Starts logging; `RUST_LOG` chooses what, `info` without it. Panics are logged too, as one line.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_target(false)
        .with_writer(|| OneLine)
        .try_init();
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let reason = panic.payload_as_str().unwrap_or("no reason given");
        tracing::error!(place, reason, "internal error");
    }));
}

/// Writes each event as one line: control characters escaped, the rest of a very long one cut off.
struct OneLine;

impl Write for OneLine {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(one_line(&String::from_utf8_lossy(event)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn one_line(event: &str) -> String {
    let mut line = String::with_capacity(event.len() + 1);
    for character in event.trim_end_matches('\n').chars() {
        if line.len() > LONGEST_LINE {
            line.push('…');
            break;
        }
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line.push('\n');
    line
}

const LONGEST_LINE: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_without_control_characters() {
        assert_eq!(one_line("plain ✓\n"), "plain ✓\n");
        assert_eq!(
            one_line("a\nERROR forged\r\x1b[2J\u{9b}\n"),
            "a\\nERROR forged\\r\\u{1b}[2J\\u{9b}\n"
        );
        assert!(one_line(&"x".repeat(1_000_000)).len() < 2100);
    }
}
