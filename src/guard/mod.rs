//! Who may ask the dashboard for what, and where tests may be sent.

pub mod cidr;
pub mod target;
