//! Lists remote clusters: from the ClusterConnections that the controller publishes or, where those cannot be read, from the
//! statuses of instances and targets.

use std::collections::BTreeSet;

use kross_api::ClusterState;

use super::list::{Item, Listed};
use crate::hub::{ClusterConnectionView, ClusterConnections, Hub, text};

mod statuses;

const HEADERS: [&str; 6] = ["SECRET", "STATE", "MODE", "VERSION", "INSTANCES", "OBJECTS"];
const WIDE_HEADERS: [&str; 6] = ["SINCE", "LAST CONTACT", "ROUND TRIP", "EXPIRES", "UID", "REASON"];

/// Lists the clusters whose Secrets are in a namespace and those that its instances use, or all. With a selector, it lists those
/// that the selected instances use.
pub(super) async fn clusters(
    hub: &Hub,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> anyhow::Result<Listed> {
    if selector.is_some() {
        return statuses::of_instances(hub, namespace, selector).await;
    }
    let note = match ClusterConnections::list(hub).await? {
        ClusterConnections::Listed(kind, views) => {
            let mut listed = match namespace {
                Some(_) => statuses::of_instances(hub, namespace, None).await?,
                None => Listed {
                    headers: HEADERS.to_vec(),
                    wide_headers: WIDE_HEADERS.to_vec(),
                    ..Listed::default()
                },
            };
            listed.kinds.push(kind);
            listed.items = merge(listed.items, &views, namespace, &hub.namespace);
            return Ok(listed);
        }
        ClusterConnections::NotServed => "the hub has no ClusterConnections",
        ClusterConnections::Forbidden => "you may not list ClusterConnections",
    };
    let mut listed = statuses::of_instances(hub, namespace, None).await?;
    listed.notes.push(format!("{note}; the clusters are those in the statuses of instances and targets"));
    Ok(listed)
}

/// The published clusters, and those that instances name and nobody has published.
fn merge(
    reported: Vec<Item>,
    views: &[ClusterConnectionView],
    namespace: Option<&str>,
    own: &str,
) -> Vec<Item> {
    let used: BTreeSet<&str> = reported.iter().map(|item| item.name.as_str()).collect();
    let is_shown = |view: &&ClusterConnectionView| {
        namespace.is_none_or(|namespace| view.secret.namespace == namespace)
            || used.contains(view.secret.status_text().as_str())
    };
    let mut items: Vec<Item> = views.iter().filter(is_shown).map(|view| item(view, own)).collect();
    let published: BTreeSet<String> = items.iter().map(|item| item.name.clone()).collect();
    items.extend(reported.into_iter().filter(|item| !published.contains(&item.name)));
    items.sort_by(|a, b| a.name.cmp(&b.name));
    items
}

fn item(view: &ClusterConnectionView, own: &str) -> Item {
    let ClusterConnectionView { object, name, secret, status } = view;
    let shown = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let count = |value: Option<i64>| value.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let own = (secret.namespace == own).then(|| secret.name.clone());
    Item {
        namespace: String::new(),
        name: secret.status_text(),
        aliases: [name.clone(), secret.to_string()].into_iter().chain(own).collect(),
        argument: format!("clusterconnection.kro.run/{name}"),
        ready: view.is_connected(),
        failed: status.state == Some(ClusterState::NotConnected),
        cells: vec![
            secret.status_text(),
            shown(status.state.map(|state| state.to_string())),
            shown(status.mode.map(|mode| mode.to_string())),
            shown(status.version.clone()),
            count(status.instances),
            count(status.objects),
        ],
        wide: vec![
            shown(status.since.clone()),
            shown(status.last_contact.clone()),
            shown(status.round_trip_time.clone()),
            expiry(status.credential.as_ref().and_then(|credential| credential.expires.as_deref())),
            shown(status.uid.clone()),
            status.message.clone().unwrap_or_default(),
        ],
        created: text(object, "/metadata/creationTimestamp").map(str::to_owned),
        object: object.clone(),
    }
}

/// The day on which a credential expires: a time would be shown as an age.
fn expiry(expires: Option<&str>) -> String {
    expires.map_or_else(|| "-".to_owned(), |time| time.split('T').next().unwrap_or(time).to_owned())
}
