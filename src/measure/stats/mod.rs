//! Statistics that merge exactly: moments, percentiles, and whether figures agree with each other.

pub mod consistency;
pub mod moments;
pub mod spread;
