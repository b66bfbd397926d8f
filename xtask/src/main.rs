//! The one index of tasks: assets, generate, test, ci.
fn main() {}
