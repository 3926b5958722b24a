//! The launch form: what is pasted and what is typed become one plan, and its cost is shown before anything is sent.

mod estimate;
pub mod fields;
pub mod form;
mod handler;
pub mod page;
pub mod presets;
mod remarks;

pub use handler::{read, show, submit, tags, token};
