//! Turns an expression into a checked, compiled program, and values out of it.
