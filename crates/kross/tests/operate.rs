//! The commands for operating, on a real hub with a controller and a remote cluster.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    missing_docs
)]

#[path = "operate/actions.rs"]
mod actions;
#[path = "operate/adopt.rs"]
mod adopt;
#[path = "operate/browser.rs"]
mod browser;
#[path = "operate/dashboard.rs"]
mod dashboard;
#[path = "operate/dashboard_scale.rs"]
mod dashboard_scale;
#[path = "operate/diff.rs"]
mod diff;
#[path = "operate/flags.rs"]
mod flags;
#[path = "operate/lists.rs"]
mod lists;
#[path = "operate/new.rs"]
mod new;
#[path = "operate/register.rs"]
mod register;
#[path = "operate/scale.rs"]
mod scale;
#[path = "operate/schemas.rs"]
mod schemas;
#[path = "operate/tree.rs"]
mod tree;
#[path = "operate/why.rs"]
mod why;
#[path = "operate/world.rs"]
mod world;
