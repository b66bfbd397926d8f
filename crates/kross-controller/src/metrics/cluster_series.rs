//! Which clusters have series of their own in the metrics, and under which label. Whoever may create instances decides how many
//! clusters there are, so series are shared out fairly; and names of Secrets are shown only to those who may see them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;

use kross_cluster::{ClusterState, ClusterView};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::fair_share::{Contender, fair_share};

/// How many clusters have series of their own.
pub(super) const MAX_SERIES: usize = 100;
/// The label of all others. It cannot be that of a Secret, which has a slash.
pub(super) const OTHERS: &str = "others";

thread_local! {
    static NAMES_SHOWN: Cell<bool> = const { Cell::new(false) };
}

/// Encodes metrics with the names of clusters instead of their ids. Use it only for readers who may see the names of Secrets.
pub fn with_cluster_names<T>(encode: impl FnOnce() -> T) -> T {
    /// Restores the default also after a panic.
    struct Shown(bool);
    impl Drop for Shown {
        fn drop(&mut self) {
            NAMES_SHOWN.set(self.0);
        }
    }
    let _shown = Shown(NAMES_SHOWN.replace(true));
    encode()
}

pub(super) fn names_are_shown() -> bool {
    NAMES_SHOWN.get()
}

/// The state of a cluster, and how the metrics call it where they do not show its name.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterStatus {
    /// The label in the metrics.
    pub id: String,
    /// The state.
    #[serde(flatten)]
    pub view: ClusterView,
}

/// The same for a Secret as long as the hub exists, and of no use to those who do not know the hub's UID.
pub(super) fn cluster_id(hub_uid: &str, secret: &str) -> String {
    let digest = Sha256::new().chain_update(hub_uid).chain_update([0]).chain_update(secret).finalize();
    let mut id = String::from("secret-");
    for byte in digest.iter().take(6) {
        // Writing to a string cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    id
}

/// The Secrets that have series of their own. Those that were connected come before those that never were, and each namespace
/// has one before any has two, so that no namespace can push out the clusters of another.
pub(super) fn with_own_series(views: &[ClusterView]) -> BTreeMap<&str, bool> {
    let mut secrets: BTreeMap<&str, bool> = BTreeMap::new();
    for view in views {
        *secrets.entry(&view.secret).or_default() |= was_connected(view);
    }
    let contenders = secrets.into_iter().map(|(secret, connected)| Contender {
        namespace: secret.split_once('/').map_or(secret, |(namespace, _)| namespace).to_owned(),
        name: secret.to_owned(),
        is_preferred: connected,
        item: (secret, connected),
    });
    fair_share(contenders, MAX_SERIES).into_iter().collect()
}

/// Whether it is connected or was: an outage does not end its series.
fn was_connected(view: &ClusterView) -> bool {
    view.state == ClusterState::Connected
        || view.identity.is_some()
        || view.last_contact.is_some()
        || view.answered > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(secret: &str, state: ClusterState) -> ClusterView {
        ClusterView { secret: secret.to_owned(), state, ..ClusterView::default() }
    }

    fn views(namespace: &str, number: usize, state: ClusterState) -> Vec<ClusterView> {
        (0..number).map(|at| view(&format!("{namespace}/c{at:03}"), state)).collect()
    }

    fn of<'a>(own: &BTreeMap<&'a str, bool>, namespace: &str) -> Vec<&'a str> {
        own.keys().filter(|secret| secret.split('/').next() == Some(namespace)).copied().collect()
    }

    #[test]
    fn names_that_never_connected_do_not_push_out_clusters() {
        let mut all = views("aaa", 500, ClusterState::NotConnected);
        all.extend(views("shop", 99, ClusterState::Connected));
        all.push(ClusterView {
            last_contact: Some("2026-01-01T00:00:00Z".to_owned()),
            ..view("zzz/unreachable", ClusterState::NotConnected)
        });
        let own = with_own_series(&all);
        assert_eq!((own.len(), of(&own, "shop").len()), (MAX_SERIES, 99));
        assert_eq!(of(&own, "zzz"), ["zzz/unreachable"]);
    }

    #[test]
    fn a_namespace_with_many_clusters_does_not_push_out_those_of_others() {
        let mut all = views("aaa", 500, ClusterState::Connected);
        all.extend(views("shop", 40, ClusterState::Connected));
        all.extend(views("new", 500, ClusterState::NotConnected));
        let own = with_own_series(&all);
        assert_eq!((of(&own, "shop").len(), of(&own, "aaa").len(), of(&own, "new").len()), (40, 60, 0));
    }

    #[test]
    fn names_are_shown_only_where_they_were_asked_for() {
        assert!(!names_are_shown());
        assert!(with_cluster_names(names_are_shown));
        assert!(std::panic::catch_unwind(|| with_cluster_names(|| panic!("encoding"))).is_err());
        assert!(!names_are_shown());
    }

    #[test]
    fn an_id_depends_on_the_hub_and_has_no_part_of_the_name() {
        let id = cluster_id("uid", "shop/eu-kubeconfig");
        assert_eq!(id, cluster_id("uid", "shop/eu-kubeconfig"));
        assert_ne!(id, cluster_id("other", "shop/eu-kubeconfig"));
        assert_ne!(id, cluster_id("uid", "shop/us-kubeconfig"));
        assert_eq!(id.len(), "secret-".len() + 12);
    }
}
