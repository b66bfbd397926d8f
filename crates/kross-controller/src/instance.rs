//! Turns an instance into the objects of its graph: observe, plan, apply in waves inside one pass, report.
//!
//! What is decided is the planner's; here is the I/O around it, in the order of the walk.

mod admit;
mod apply;
mod children;
mod cluster_inventory;
mod cluster_resolver;
mod deletion;
mod error;
mod external;
mod inventory_scan;
mod manage;
mod memory;
mod observe;
mod pass;
mod reach;
mod reconcile;
mod release_report;
mod report;

pub(crate) use memory::Instances;
pub(crate) use reconcile::{instance_of, reconcile};
