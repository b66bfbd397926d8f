//! The status of a ClusterConnection: what was published before, and what is known of the cluster now.

use std::time::Duration;

use jiff::Timestamp;
use kross_api::{
    ClusterConnectionStatus, ClusterState, ConnectionCredential, ConnectionFailure, whole_seconds,
};
use kross_cluster::{ClusterReport, Connection, ConnectionState};

use super::counts::ClusterCounts;

/// How long the first connection attempt may run before it is published.
const FIRST_ATTEMPT: Duration = Duration::from_secs(10);
/// Differences of the round trip that are noise.
const NOISE: Duration = Duration::from_millis(20);

/// How soon a change is written; the first is the most important one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Importance {
    /// The cluster is not connected, or for another reason than before.
    Loss,
    /// The cluster is connected, or is another one than before.
    State,
    /// Counts, versions and the like.
    Detail,
    /// The cluster is not used any more.
    Deletion,
}

/// Since when the cluster has been in the published state, if an earlier process saw it in the same.
#[derive(Debug)]
pub(super) struct Continued {
    /// As this process saw it first.
    own: Timestamp,
    published: String,
}

/// The status to publish; none if there is nothing to say yet.
pub(super) fn plan(
    before: &ClusterConnectionStatus,
    report: &ClusterReport,
    counts: ClusterCounts,
    continued: &mut Option<Continued>,
) -> Option<ClusterConnectionStatus> {
    let credential = report.credential.map(|(method, expires)| ConnectionCredential {
        method: method.as_str().to_owned(),
        expires: expires.map(whole_seconds),
    });
    let known = ClusterConnectionStatus {
        instances: i64::try_from(counts.instances).ok(),
        objects: counts.objects.or(before.objects),
        mode: counts.mode.or(before.mode),
        credential,
        // What is known of the cluster stays known while it is not connected.
        round_trip_time: before.round_trip_time.clone(),
        version: before.version.clone(),
        uid: before.uid.clone(),
        unverified: before.unverified,
        ..ClusterConnectionStatus::default()
    };
    match &report.state {
        ConnectionState::Connecting { since } => connecting(before, known, *since),
        ConnectionState::Connected(connection) => {
            let since = continue_since(before, ClusterState::Connected, connection.since, continued);
            Some(connected(before, known, connection, since))
        }
        ConnectionState::NotConnected { failure, identity } => {
            let since = continue_since(before, ClusterState::NotConnected, failure.since, continued);
            let mut status = not_connected(before, known, failure, &report.secret.to_string(), since);
            if let Some(identity) = identity {
                status.uid = Some(identity.uid.to_string());
                status.unverified = (!identity.verified).then_some(true);
            }
            Some(status)
        }
    }
}

/// How important it is to publish a change; none if there is none.
pub(super) fn importance(
    before: &ClusterConnectionStatus,
    after: &ClusterConnectionStatus,
) -> Option<Importance> {
    let state = |status: &ClusterConnectionStatus| {
        (status.state, status.step.clone(), status.reason, status.since.clone(), status.uid.clone())
    };
    if before == after {
        None
    } else if state(before) == state(after) {
        Some(Importance::Detail)
    } else if after.state == Some(ClusterState::NotConnected) {
        Some(Importance::Loss)
    } else {
        Some(Importance::State)
    }
}

/// After a restart of the controller a cluster is as reachable as it was, until the first attempt has ended.
fn connecting(
    before: &ClusterConnectionStatus,
    known: ClusterConnectionStatus,
    since: Timestamp,
) -> Option<ClusterConnectionStatus> {
    let waits = Duration::try_from(since.until(Timestamp::now()).ok()?).unwrap_or_default();
    (before.state.is_none() && waits > FIRST_ATTEMPT).then(|| ClusterConnectionStatus {
        state: Some(ClusterState::Connecting),
        since: Some(whole_seconds(since)),
        ..known
    })
}

fn connected(
    before: &ClusterConnectionStatus,
    known: ClusterConnectionStatus,
    connection: &Connection,
    since: String,
) -> ClusterConnectionStatus {
    let uid = connection.identity.uid.to_string();
    // What was known of another cluster does not count.
    let is_same = before.uid.as_ref() == Some(&uid);
    let before = if is_same { before.clone() } else { ClusterConnectionStatus::default() };
    let warnings: Vec<String> = connection.warnings.iter().map(ToString::to_string).collect();
    ClusterConnectionStatus {
        state: Some(ClusterState::Connected),
        since: Some(since),
        round_trip_time: round_trip(before.round_trip_time, connection.round_trip),
        version: connection.version.as_ref().map(ToString::to_string).or(before.version),
        uid: Some(uid),
        unverified: (!connection.identity.verified).then_some(true),
        watches: i64::try_from(connection.client.stats().watches.streams).ok(),
        warnings: if warnings.is_empty() { Default::default() } else { warnings.into() },
        ..known
    }
}

fn not_connected(
    before: &ClusterConnectionStatus,
    known: ClusterConnectionStatus,
    failure: &ConnectionFailure,
    secret: &str,
    since: String,
) -> ClusterConnectionStatus {
    let published = || before.last_contact.as_ref()?.parse().ok();
    let failure =
        ConnectionFailure { last_contact: failure.last_contact.or_else(published), ..failure.clone() };
    ClusterConnectionStatus {
        state: Some(ClusterState::NotConnected),
        step: Some(format!("{:?}", failure.step)),
        reason: Some(failure.reason),
        message: Some(failure.message(secret)),
        since: Some(since),
        last_contact: failure.last_contact.map(whole_seconds),
        ..known
    }
}

/// Since when the cluster has been in this state. A restart of the controller does not begin it anew.
fn continue_since(
    before: &ClusterConnectionStatus,
    state: ClusterState,
    own: Timestamp,
    continued: &mut Option<Continued>,
) -> String {
    if let Some(known) = continued.as_ref().filter(|known| known.own == own) {
        return known.published.clone();
    }
    let is_first = continued.is_none();
    let published = match &before.since {
        Some(since) if is_first && before.state == Some(state) => since.clone(),
        _ => whole_seconds(own),
    };
    *continued = Some(Continued { own, published: published.clone() });
    published
}

/// The round trip as it is published: it changes only when it has doubled or halved.
fn round_trip(before: Option<String>, now: Option<Duration>) -> Option<String> {
    let Some(now) = now else { return before };
    let millis = |time: Duration| time.as_millis().max(1);
    let known = before.as_deref().and_then(|text| text.strip_suffix("ms")?.parse::<u64>().ok());
    let known = known.map(Duration::from_millis);
    match known {
        Some(known) if known.abs_diff(now) < NOISE || (now < known * 2 && now * 2 > known) => before,
        _ => Some(format!("{}ms", millis(now))),
    }
}

#[cfg(test)]
mod tests {
    use kross_api::{ConnectStep, ConnectionAdvice, FailureReason, SecretAddress};
    use kross_cluster::AuthMethod;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn lost(since: Timestamp, cause: &str, last_contact: Option<Timestamp>) -> ClusterReport {
        let (step, reason) = (ConnectStep::Reach, FailureReason::Unreachable);
        let failure = ConnectionFailure::new(step, reason, cause, ConnectionAdvice::CheckNetwork, since);
        let failure = ConnectionFailure { last_contact, ..failure };
        ClusterReport {
            secret: SecretAddress {
                namespace: "shop".to_owned(),
                name: "eu-kubeconfig".to_owned(),
                key: "kubeconfig".to_owned(),
            },
            state: ConnectionState::NotConnected { failure, identity: None },
            credential: Some((AuthMethod::Token, Some(at(9000)))),
        }
    }

    fn plan(
        before: &ClusterConnectionStatus,
        report: &ClusterReport,
        continued: &mut Option<Continued>,
    ) -> ClusterConnectionStatus {
        super::plan(before, report, ClusterCounts::default(), continued).unwrap()
    }

    #[test]
    fn a_loss_has_its_reason_and_the_last_contact_and_keeps_what_is_known_of_the_cluster() {
        let before = ClusterConnectionStatus {
            state: Some(ClusterState::Connected),
            version: Some("v1.36.3".to_owned()),
            objects: Some(12),
            watches: Some(3),
            ..ClusterConnectionStatus::default()
        };
        let report = lost(at(10), "connection refused", Some(at(5)));
        let status = plan(&before, &report, &mut None);
        insta::assert_snapshot!(serde_json::to_string_pretty(&status).unwrap());
        assert_eq!(importance(&before, &status), Some(Importance::Loss));
        assert_eq!(importance(&status, &status), None);
    }

    #[test]
    fn a_restart_does_not_change_since_when_a_cluster_is_not_connected() {
        let first = plan(&Default::default(), &lost(at(10), "connection refused", Some(at(5))), &mut None);
        // The next process sees the same outage, and has never seen the cluster.
        let (report, mut continued) = (lost(at(700), "connection refused", None), None);
        let second = plan(&first, &report, &mut continued);
        assert_eq!(second, first);
        assert_eq!(plan(&second, &report, &mut continued), first);
        // Later it was connected for a moment.
        let third = plan(&second, &lost(at(900), "connection refused", Some(at(890))), &mut continued);
        assert_eq!(third.since, Some(whole_seconds(at(900))));
        assert_eq!(importance(&second, &third), Some(Importance::Loss));
    }

    #[test]
    fn another_cause_is_a_detail() {
        let mut continued = None;
        let first = plan(&Default::default(), &lost(at(10), "connection refused", None), &mut continued);
        let second = plan(&first, &lost(at(10), "no answer after 5.0s", None), &mut continued);
        assert_eq!(importance(&first, &second), Some(Importance::Detail));
    }

    #[test]
    fn a_round_trip_is_updated_when_it_doubles_or_halves_and_not_for_a_few_milliseconds() {
        let shown = |before: &str, now: u64| {
            round_trip(Some(before.to_owned()), Some(Duration::from_millis(now))).unwrap()
        };
        assert_eq!(shown("100ms", 199), "100ms");
        assert_eq!(shown("100ms", 200), "200ms");
        assert_eq!(shown("100ms", 50), "50ms");
        assert_eq!(shown("1ms", 15), "1ms");
        assert_eq!(round_trip(None, Some(Duration::from_micros(3))).as_deref(), Some("1ms"));
        assert_eq!(round_trip(Some("10ms".to_owned()), None).as_deref(), Some("10ms"));
    }
}
