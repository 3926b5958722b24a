//! Everything tested from outside, in one binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub,
    reason = "a test that meets the unexpected stops there, and says so"
)]

mod api;
mod app;
mod balancer;
mod browser;
mod browser_login;
mod capacity;
mod chart;
mod chart_runs;
mod commands;
mod compare;
mod crash;
mod experiment_charts;
mod experiment_pages;
mod experiments;
mod experiments_real;
mod first_minute;
mod flow_chart;
mod flow_chart_runs;
mod flow_pages;
mod flow_report;
mod fold;
mod fronts;
mod guard;
mod guides;
mod http_faults;
mod http_machine;
mod http_tls;
mod image;
mod import;
mod interop;
mod iperf2_wire;
mod iperf3_wire;
mod kits;
mod lab;
mod limits;
mod login;
mod netlab;
mod pages;
mod path;
mod ping;
mod probe;
mod prove;
mod reach;
mod received;
mod receiver;
mod report;
mod run_command;
mod run_flows;
mod selftest;
mod serve;
mod store;
mod supervisor;
mod support;
mod throughput_cases;
mod throughput_client;
mod throughput_pairs;
mod tidy;
mod verdict;
