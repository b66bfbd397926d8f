//! The functions that kro adds to the language, with its answers.

pub mod hash;
pub mod json;
pub mod lists;
pub mod maps;
pub mod omit;
pub mod random;
pub mod runtime;
