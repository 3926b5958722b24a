//! The `tidemark` program.

fn main() {}
