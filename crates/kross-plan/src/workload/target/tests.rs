use kross_api::LocalReference;

use super::*;

fn facts() -> ObjectFacts {
    ObjectFacts { generation: 2, created: None, deleting: false }
}

fn connected(uid: &str, milliseconds: u64) -> TargetConnection {
    TargetConnection::Connected {
        uid: uid.to_owned(),
        verified: true,
        version: Some("v1.36.0".to_owned()),
        round_trip: Some(Duration::from_millis(milliseconds)),
        warnings: Vec::new(),
        deletions_only: false,
    }
}

fn observation(propagation: TargetPropagation, connection: TargetConnection) -> TargetObservation<'static> {
    TargetObservation { name: "dev", propagation, connection, deletion: None }
}

fn plan(before: &KubernetesTargetStatus, observed: &TargetObservation<'_>) -> KubernetesTargetStatus {
    plan_target_status(before, facts(), observed, Timestamp::UNIX_EPOCH)
}

fn condition(status: &KubernetesTargetStatus, kind: ConditionType) -> (ConditionStatus, String) {
    let found = status.conditions.iter().find(|one| one.type_ == kind.as_str()).unwrap();
    (found.status, found.reason.clone().unwrap_or_default())
}

#[test]
fn a_secret_of_the_user_takes_precedence_and_the_name_of_the_copy_is_the_controllers() {
    let managed = Some(kross_api::ManagedClusterReference::default());
    let mut spec = KubernetesTargetSpec { cluster_ref: managed, connection_secret_ref: None };
    assert_eq!(target_secret(&spec, "dev"), TargetSecret::Copy);
    spec.connection_secret_ref = Some(LocalReference::new("dev-connection"));
    assert_eq!(target_secret(&spec, "dev"), TargetSecret::Copy);
    spec.connection_secret_ref = Some(LocalReference::new("mine"));
    assert_eq!(target_secret(&spec, "dev"), TargetSecret::Local("mine"));
    spec.cluster_ref = None;
    spec.connection_secret_ref = Some(LocalReference::new("dev-connection"));
    assert_eq!(target_secret(&spec, "dev"), TargetSecret::Local("dev-connection"));
}

#[test]
fn a_target_is_ready_once_its_cluster_is_connected() {
    let empty = KubernetesTargetStatus::default();
    let waiting = plan(&empty, &observation(TargetPropagation::Local, TargetConnection::Connecting));
    assert_eq!(condition(&waiting, ConditionType::Ready).0, ConditionStatus::Unknown);
    let ready = plan(&waiting, &observation(TargetPropagation::Local, connected("u", 8)));
    assert_eq!(condition(&ready, ConditionType::Ready), (ConditionStatus::True, "Ready".to_owned()));
    assert_eq!(ready.cluster.as_ref().unwrap().uid.as_deref(), Some("u"));
    // A restart of the controller changes nothing.
    let again = plan(&ready, &observation(TargetPropagation::Local, TargetConnection::Connecting));
    assert_eq!(again, ready);
}

#[test]
fn a_refusal_is_the_reason_of_ready_and_keeps_what_is_known_of_the_cluster() {
    let ready =
        plan(&KubernetesTargetStatus::default(), &observation(TargetPropagation::Local, connected("u", 8)));
    let refusal = PropagationRefusal::new(Reason::Released, "released");
    let released = observation(TargetPropagation::Refused(refusal), connected("u", 8));
    let status = plan(&ready, &released);
    assert_eq!(condition(&status, ConditionType::Ready), (ConditionStatus::False, "Released".to_owned()));
    assert_eq!(condition(&status, ConditionType::Reachable).0, ConditionStatus::True);
    assert_eq!(status.cluster, ready.cluster);
}

#[test]
fn a_target_that_is_deleted_is_not_ready_and_names_its_users() {
    let users = (0..7).map(|number| format!("App `shop/{number}`")).collect();
    let deleting = TargetObservation {
        deletion: Some(TargetDeletion::InUse(users)),
        ..observation(TargetPropagation::Local, connected("u", 8))
    };
    let status = plan(&KubernetesTargetStatus::default(), &deleting);
    assert_eq!(condition(&status, ConditionType::Ready), (ConditionStatus::False, "InUse".to_owned()));
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    let message = ready.message.as_deref().unwrap();
    assert!(message.contains("App `shop/4` and 2 more") && !message.contains("shop/5"), "{message}");
    assert!(message.contains("kro.run/force-delete"), "{message}");
}

#[test]
fn a_connection_secret_that_is_deleted_makes_the_target_not_ready() {
    let TargetConnection::Connected { uid, verified, version, round_trip, warnings, .. } = connected("u", 8)
    else {
        unreachable!()
    };
    let connection =
        TargetConnection::Connected { uid, verified, version, round_trip, warnings, deletions_only: true };
    let status = plan(&KubernetesTargetStatus::default(), &observation(TargetPropagation::Local, connection));
    assert_eq!(condition(&status, ConditionType::Ready), (ConditionStatus::False, "Deleting".to_owned()));
}

#[test]
fn the_round_trip_time_changes_only_when_it_doubles_or_halves() {
    let text = |before: &str, now: u64| {
        round_trip_text(Some(before.to_owned()), Some(Duration::from_millis(now))).unwrap()
    };
    assert_eq!(text("10ms", 19), "10ms");
    assert_eq!(text("10ms", 20), "20ms");
    assert_eq!(text("10ms", 6), "10ms");
    assert_eq!(text("10ms", 5), "5ms");
    assert_eq!(text("soon", 5), "5ms");
    assert_eq!(round_trip_text(None, Some(Duration::from_micros(3))).as_deref(), Some("1ms"));
    assert_eq!(round_trip_text(Some("10ms".to_owned()), None).as_deref(), Some("10ms"));
}
