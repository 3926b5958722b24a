//! What several features need to be tested.

#![allow(
    dead_code,
    reason = "each helper has its users as features get their tests"
)]

pub mod browser;
pub mod load;
pub mod misbehave;
pub mod notebook;
pub mod pages;
pub mod process;
pub mod raw;
pub mod server;
