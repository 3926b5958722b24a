//! Tidemark: a CPU-bound workload, a measuring instrument and its notebook in one binary.
//!
//! The modules stand in the order in which data flows; `ARCHITECTURE.md` draws it.

pub mod api;
pub mod app;
pub mod chart;
pub mod config;
pub mod dashboard;
pub mod guard;
pub mod measure;
pub mod minute;
pub mod net;
pub mod receiver;
pub mod report;
pub mod run_command;
pub mod runner;
pub mod selftest;
pub mod serve;
pub mod state;
pub mod store;
pub mod supervisor;
pub mod wire;
pub mod workload;
