//! Turns connection flags into the hub as a command reads it, with the caller's own rights.

use anyhow::Context;
pub(crate) use kross_server::read_model::{
    ClusterConnectionView, ClusterConnections, ControllerLease, DEFINITIONS, Definition, Hub, InstanceView,
    Owner, RemoteClusters, Tone, age, condition, controller_lease, failed_condition, find_kind, for_people,
    is_definition, read_object, since, text,
};

mod connection;
mod reference;

pub(crate) use connection::ConnectionFlags;
pub(crate) use reference::ObjectReference;

/// Runs a command that reads clusters.
///
/// # Errors
/// The command fails, or no runtime can be started.
pub(crate) fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Runtime::new().context("cannot start a runtime")?.block_on(command)
}

impl ConnectionFlags {
    /// Connects, and discovers the kinds that the hub serves.
    ///
    /// # Errors
    /// There is no usable configuration, or the hub does not answer.
    pub(crate) async fn hub(&self) -> anyhow::Result<Hub> {
        let client = self.connect().await?;
        let namespace = self.namespace().unwrap_or_else(|| client.default_namespace()).to_owned();
        Hub::discover(client, namespace).await.context("cannot discover the kinds that the cluster serves")
    }
}
