//! `tidemark selftest`: how exact and how strong this machine's generator is, printed and kept.

use std::io::Write;
use std::sync::Arc;

use tokio::runtime::Runtime;

use super::interrupt::stop_on_interrupt;
use super::{NOTHING, RAN, Refused, print};
use crate::app::data::DataFolder;
use crate::config::SelfTestOptions;
use crate::config::flags::SelfTestFormat;
use crate::measure::selftest::{KeptSelfTest, SelfTest};
use crate::net::{clock, sys};
use crate::report;
use crate::runner::Stop;
use crate::selftest;
use crate::store::Store;
use crate::supervisor::StopHandle;

/// Makes the self-test and prints it; returns the exit status. What cannot be kept is printed all the same.
pub fn self_test(options: &SelfTestOptions) -> u8 {
    attempt(options).unwrap_or_else(|refused| {
        for sentence in &refused.sentences {
            print::complain(sentence);
        }
        refused.status
    })
}

fn attempt(options: &SelfTestOptions) -> Result<u8, Refused> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Refused::nothing(format!("No thread could be started: {error}.")))?;
    sys::private_files();
    // Before it is measured, so that nobody waits for a result that cannot be kept without knowing it.
    let notebook = open(options);
    if let Err(sentence) = &notebook {
        print::complain(&format!("The result will not be kept: {sentence}"));
    }
    let stop = Stop::new();
    let (asked, own) = (Arc::new(StopHandle::default()), stop.clone());
    asked.on_stop(move || own.stop());
    stop_on_interrupt(&asked)?;
    let started_at = clock::wall();
    let figures = selftest::run(options.quick, &stop, &mut |_| {})
        .map_err(|error| Refused::nothing(error.to_string()))?;
    if asked.is_asked() {
        return Ok(NOTHING);
    }
    let mut kept = KeptSelfTest {
        id: 0,
        node: options.name.clone(),
        started_at,
        finished_at: clock::wall(),
        figures,
    };
    if let Ok((store, _folder)) = notebook {
        keep(&runtime, &store, &mut kept);
    }
    let text = match options.format {
        SelfTestFormat::Text => report::self_test_text(&kept),
        SelfTestFormat::Json => {
            serde_json::to_string_pretty(&report::self_test_json(&kept)).unwrap_or_default() + "\n"
        }
    };
    // A reader that has gone away wants no more.
    let mut output = std::io::stdout().lock();
    let _ = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    Ok(status(&kept.figures))
}

fn open(options: &SelfTestOptions) -> Result<(Store, DataFolder), String> {
    let folder = DataFolder::open(&options.data).map_err(|failure| failure.sentence)?;
    let store = Store::open(&options.data).map_err(|error| error.to_string())?;
    Ok((store, folder))
}

fn keep(runtime: &Runtime, store: &Store, kept: &mut KeptSelfTest) {
    let stored = runtime.block_on(store.insert_self_test(
        kept.node.clone(),
        kept.started_at,
        kept.finished_at,
        kept.figures.clone(),
    ));
    match stored {
        Ok(stored) => *kept = stored,
        Err(error) => print::complain(&format!("The result is not kept: {error}")),
    }
    runtime.block_on(store.close());
}

/// Without the timer's figures nothing is known of the generator.
fn status(test: &SelfTest) -> u8 {
    if test.exact_to_ms().is_some() {
        RAN
    } else {
        NOTHING
    }
}
