//! The functions that kro adds to CEL, with kro's results.

pub mod hash;
pub mod json;
pub mod lists;
pub mod maps;
pub mod omit;
pub mod random;
pub mod runtime;
