//! The pages: each one is its parameters, a typed page, a template of the same name and a handler.

pub mod assets;
pub mod fields;
pub mod frame;
pub mod launch;
pub mod ruler;
pub mod run;
pub mod words;
