//! Every example of the proposals for multi-cluster graphs, run on a hub and two remote control planes. The files are those
//! of the compiler's tests; required fields that they omit, such as a selector, are added here.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    missing_docs,
    unreachable_pub
)]

#[path = "proposal_examples/cluster_long_form.rs"]
mod cluster_long_form;
#[path = "proposal_examples/cluster_scope.rs"]
mod cluster_scope;
#[path = "proposal_examples/cluster_short_form.rs"]
mod cluster_short_form;
#[path = "proposal_examples/fixture.rs"]
mod fixture;
#[path = "support/setup.rs"]
mod setup;
#[path = "proposal_examples/target_form.rs"]
mod target_form;
