//! Turns an entry of an instance's status into the texts of one line of the tree.

use kross_api::{ClusterStatus, ManagedResource, ResourceState};

use crate::hub::Tone;

/// One object, or the summary of one collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) object: String,
    pub(super) state: String,
    pub(super) tone: Tone,
    /// The class of a failure; empty if there is none.
    pub(super) reason: String,
    /// What it waits for, or why it failed.
    pub(super) message: String,
}

impl Row {
    /// The row of an entry. Shows the namespace of an object where it differs from the instance's.
    pub(super) fn of(entry: &ManagedResource, instance_namespace: Option<&str>) -> Self {
        let name = match (&entry.namespace, &entry.name) {
            (Some(namespace), Some(name)) if Some(namespace.as_str()) != instance_namespace => {
                format!("{namespace}/{name}")
            }
            (_, Some(name)) => name.clone(),
            (_, None) => String::new(),
        };
        let object = [entry.kind.clone().unwrap_or_default(), name];
        let object = object.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        let reason = entry.reason.map(|reason| reason.as_str().to_owned()).unwrap_or_default();
        Self {
            id: entry.id.clone(),
            object,
            state: entry.state.as_str().to_owned(),
            tone: tone(entry.state),
            reason,
            message: entry.message.clone().unwrap_or_default(),
        }
    }

    /// What is shown beside the state. A sentence that was shown already is not repeated.
    pub(super) fn note(&self, said: &mut Vec<String>) -> String {
        let Self { reason, message, .. } = self;
        if message.is_empty() || said.iter().any(|text| text.contains(message.as_str())) {
            return reason.clone();
        }
        said.push(message.clone());
        if reason.is_empty() { message.clone() } else { format!("{reason}: {message}") }
    }
}

fn tone(state: ResourceState) -> Tone {
    match state {
        ResourceState::Ready => Tone::Good,
        ResourceState::Error => Tone::Bad,
        ResourceState::Skipped | ResourceState::Retained => Tone::Faint,
        ResourceState::Pending
        | ResourceState::Blocked
        | ResourceState::Applying
        | ResourceState::Deleting => Tone::Busy,
    }
}

/// The connection state and the number of ready objects of a cluster.
pub(super) fn cluster_note(entry: &ClusterStatus) -> (Tone, String) {
    let ready = format!("{}/{} ready", entry.ready, entry.total);
    if entry.connected {
        let tone = if entry.ready == entry.total { Tone::Good } else { Tone::Busy };
        return (tone, format!("connected, {}, {ready}", entry.mode.as_str().to_lowercase()));
    }
    let since = entry.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
    let contact =
        entry.last_contact.as_ref().map(|last| format!(", last contact at {last}")).unwrap_or_default();
    (Tone::Bad, format!("not connected{since}{contact}, {ready}"))
}
