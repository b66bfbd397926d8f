//! Turns arguments into calls: the controller and the command line in one binary.
fn main() {}
