//! Pure codecs between bytes and messages; "not complete yet" is never an error.

pub mod http1;
pub mod icmp;
pub mod iperf2;
pub mod iperf3;
pub mod own;
