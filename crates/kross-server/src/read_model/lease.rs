//! Whether a controller runs, as its Lease tells. A controller without leader election has none.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value as Json;

use super::Hub;
use super::instance::text;

/// The name of the Lease of every controller, which kro has too.
const LEASE: &str = "controller.kro.run";
/// How long a controller may take to take over.
const GRACE: i64 = 15;

/// What the Leases on the hub say about controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerLease {
    /// There is none, or it may not be read.
    Unknown,
    /// One is held.
    Held {
        /// `namespace/name`.
        lease: String,
        /// Who holds it.
        holder: String,
    },
    /// The last one was not renewed in time, or was released.
    Lost {
        /// `namespace/name`.
        lease: String,
        /// Who held it last; empty if it was released.
        holder: String,
        /// When it was renewed last.
        renewed: Timestamp,
    },
}

/// Reads the Leases of controllers.
pub async fn controller_lease(hub: &Hub, now: Timestamp) -> ControllerLease {
    let Ok(kind) = hub.kind("leases.coordination.k8s.io") else { return ControllerLease::Unknown };
    // It is in the namespace of the controller, which commands do not know.
    let listed = tokio::time::timeout(Duration::from_secs(5), hub.list(&kind, None, None)).await;
    let leases = listed.ok().and_then(Result::ok).unwrap_or_default();
    let states = leases.iter().filter(|lease| text(lease, "/metadata/name") == Some(LEASE));
    let mut states: Vec<ControllerLease> = states.map(|lease| state(lease, now)).collect();
    states.sort_by_key(|state| match state {
        ControllerLease::Held { .. } => (0, 0),
        ControllerLease::Lost { renewed, .. } => (1, -renewed.as_second()),
        ControllerLease::Unknown => (2, 0),
    });
    states.into_iter().next().unwrap_or(ControllerLease::Unknown)
}

fn state(lease: &Json, now: Timestamp) -> ControllerLease {
    let Some(renewed) = text(lease, "/spec/renewTime").and_then(|time| time.parse::<Timestamp>().ok()) else {
        return ControllerLease::Unknown;
    };
    let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Json::as_i64).unwrap_or(15);
    let holder = text(lease, "/spec/holderIdentity").unwrap_or_default().to_owned();
    let title = format!("{}/{LEASE}", text(lease, "/metadata/namespace").unwrap_or_default());
    let age = now.as_second().saturating_sub(renewed.as_second());
    if age <= seconds.saturating_add(GRACE) && !holder.is_empty() {
        return ControllerLease::Held { lease: title, holder };
    }
    ControllerLease::Lost { lease: title, holder, renewed }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_that_was_not_renewed_in_time_is_lost() {
        let lease = |holder: &str| {
            json!({"metadata": {"namespace": "kro", "name": LEASE}, "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}})
        };
        let at = |time: &str| time.parse().unwrap();
        assert!(matches!(state(&lease("a"), at("2026-01-01T00:00:20Z")), ControllerLease::Held { .. }));
        assert!(matches!(state(&lease("a"), at("2026-01-01T00:01:00Z")), ControllerLease::Lost { .. }));
        assert!(matches!(state(&lease(""), at("2026-01-01T00:00:01Z")), ControllerLease::Lost { .. }));
    }
}
