//! What several features need to be tested.

#![allow(
    dead_code,
    reason = "each helper has its users as features get their tests"
)]

pub mod browser;
pub mod experiments;
pub mod flow_script;
pub mod fronts;
pub mod lab;
pub mod load;
pub mod misbehave;
pub mod netns;
pub mod notebook;
pub mod pages;
pub mod printed;
pub mod process;
pub mod raw;
pub mod server;
pub mod throughput;

/// Says, past the capture of test output, that a test could not run here; `scripts/test.sh` lists these lines.
pub fn skip(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}
