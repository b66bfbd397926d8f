//! The functions that Kubernetes adds to CEL, with Kubernetes' results.

pub mod cidr;
pub mod find;
pub mod formats;
pub mod ip;
pub mod lists;
pub mod quantity;
pub mod semver;
pub mod url;
