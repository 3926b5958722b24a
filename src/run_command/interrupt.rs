//! Ctrl-C: what was measured is printed, and the exit status says how it went.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use super::{NOTHING, Refused};
use crate::supervisor::StopHandle;

/// Asks for the stop at the first SIGINT or SIGTERM, and ends the program at the second.
pub(super) fn stop_on_interrupt(stop: &Arc<StopHandle>) -> Result<(), Refused> {
    let failed = |error: std::io::Error| {
        Refused::nothing(format!("Ctrl-C could not be prepared for: {error}."))
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(failed)?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (
            signal(SignalKind::interrupt()).map_err(failed)?,
            signal(SignalKind::terminate()).map_err(failed)?,
        )
    };
    let stop = Arc::clone(stop);
    std::thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    if stop.is_asked() {
                        std::process::exit(i32::from(NOTHING));
                    }
                    stop.stop();
                }
            });
        })
        .map_err(failed)?;
    Ok(())
}
