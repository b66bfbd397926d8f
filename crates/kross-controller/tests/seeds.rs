//! Every example of the proposals for other clusters, run as written on a hub and two remote control planes. The texts are
//! those that the compiler's tests read; what they leave out, such as a selector, is completed here.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    missing_docs,
    unreachable_pub
)]

#[path = "seeds/by_cluster.rs"]
mod by_cluster;
#[path = "seeds/by_level.rs"]
mod by_level;
#[path = "seeds/by_target.rs"]
mod by_target;
#[path = "support/setup.rs"]
mod setup;
#[path = "seeds/stage.rs"]
mod stage;
