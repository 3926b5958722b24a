//! The `tidemark` program: arguments → serve, run or self-test.

use std::io::Write;
use std::process::ExitCode;

use tidemark::app;
use tidemark::config::{self, Asked, Declined};
use tidemark::run_command;

fn main() -> ExitCode {
    match config::read(std::env::args_os()) {
        Ok(Asked::Serve(config)) => {
            app::logs::start();
            match app::serve(&config) {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => refuse(&failure.sentence, failure.status),
            }
        }
        Ok(Asked::Run(options)) => ExitCode::from(run_command::run(&options)),
        Ok(Asked::SelfTest(options)) => ExitCode::from(run_command::self_test(&options)),
        Err(Declined::Information(text)) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(Declined::Usage(sentence)) => refuse(&sentence, 2),
    }
}

fn refuse(sentence: &str, status: u8) -> ExitCode {
    eprintln!("tidemark: {sentence}");
    ExitCode::from(status)
}
