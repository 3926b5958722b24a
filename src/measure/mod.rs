//! What is measured, when, and what it means: pure values, no I/O, no clock, no async.

pub mod arrivals;
pub mod command_line;
pub mod compare;
pub mod compare_figures;
pub mod documented_caps;
pub mod experiment;
pub mod first_minute;
pub mod flow;
pub mod flow_series;
pub mod fold;
pub mod import;
pub mod objective;
pub mod outcome;
pub mod plan;
pub mod reach;
pub mod rows;
pub mod run;
pub mod sample;
pub mod schedule;
pub mod search;
pub mod selftest;
pub mod series;
pub mod stats;
pub mod summary;
pub mod units;
pub mod verdict;
