//! Turns an object into the reason why it is not ready: the shortest chain to what blocks it, one sentence, and the command
//! that helps.

mod advice;
mod answer;
mod definition;
mod deletion;
mod investigation;
mod object;
mod resource;
mod workload;

pub use answer::{Answer, Link};
pub use investigation::{Investigation, WhyError};

use kross_api::{ClusterStatus, ManagedResource};

use super::InstanceView;

/// The commands for one resource of an instance, the best first: what helps if it failed, and what shows its object.
#[must_use]
pub fn commands_for(
    entry: &ManagedResource,
    cluster: Option<&ClusterStatus>,
    instance: InstanceView<'_>,
    definition: Option<&str>,
) -> Vec<String> {
    let named = entry.message.as_deref().and_then(advice::command_in);
    let failed = entry.reason.map(|reason| advice::of_failure(reason, entry, cluster, instance, definition));
    let is_reachable = cluster.is_none_or(|cluster| cluster.connected);
    let object = (entry.name.is_some() && is_reachable)
        .then(|| format!("{} get {} -o yaml", advice::kubectl(cluster), advice::argument(entry)));
    let mut commands: Vec<String> =
        named.into_iter().chain(failed.into_iter().flatten()).chain(object).collect();
    commands.dedup();
    commands
}
