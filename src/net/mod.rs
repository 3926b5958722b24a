//! The edge to the machine: the only clock, the only client sockets, the only `unsafe`.

pub mod clock;
pub mod connect;
pub mod environment;
pub mod health;
pub mod icmp;
pub mod interfaces;
pub mod listening;
pub mod machine;
pub mod pace;
pub mod resolve;
pub mod stream;
pub mod sys;
pub mod tcp_flow;
pub mod tls;
pub mod udp_flow;
