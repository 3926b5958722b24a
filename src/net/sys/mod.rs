//! The only `unsafe` code: thin, safe fronts of system calls that the standard library does not offer.
#![allow(
    unsafe_code,
    reason = "this is the one place that speaks to the kernel directly"
)]

mod addresses;
mod cpu;
mod disk;
mod limits;
mod messages;
mod socket;
mod tcp_info;
mod timer;
mod udp_batch;

pub use addresses::interface_addresses;
pub use cpu::{CpuTimes, ThreadClock, process_cpu, thread_cpu};
pub use disk::free_bytes;
pub use limits::{
    ignore_sigxfsz, lower_thread_priority, open_files, private_files, raise_open_files,
};
pub use messages::{
    Arrival, Reported, Telling, group_id, receive_arrival, receive_error, tell, wait_any,
};
pub use socket::{
    Ready, bind_without_port, hold_back_ack, receive_discarding, receive_now, unacknowledged_bytes,
    wait,
};
pub use tcp_info::{TcpInfo, tcp_info};
pub use timer::Timer;
pub use udp_batch::{Arrived, Outlet, ReceiveBatch, SEND_BATCH, raise_receive_buffer, segments};
