//! Everything tested from outside, in one binary.

mod tidy;
