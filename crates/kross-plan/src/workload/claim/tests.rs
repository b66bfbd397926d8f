//! The steps of a claim, from its creation to its deletion.

use kross_api::{ConditionStatus, KubernetesClusterSpec};
use serde_json::{Value as Json, json};

use super::*;

const UID: &str = "7c3f";

fn value(json: Json) -> Value {
    Value::from(json)
}

/// A claim and what was observed for it.
struct World {
    spec: KubernetesClusterSpec,
    labels: Object,
    phase: Option<BindingPhase>,
    has_finalizer: bool,
    is_deleting: bool,
    observed: ClaimObservation,
}

impl World {
    fn new(spec: Json) -> Self {
        Self {
            spec: serde_json::from_value(spec).unwrap(),
            labels: value(json!({"env": "dev"})).as_object().unwrap().clone(),
            phase: None,
            has_finalizer: true,
            is_deleting: false,
            observed: ClaimObservation {
                classes: Some(vec![
                    class("small", json!({"size": "s"}), false),
                    class("large", json!({}), true),
                ]),
                managed: ObservedManaged::Absent,
                copy: None,
                is_secret_deleted: false,
                target: ObservedTarget::Absent,
                users: ObservedUsers::Unknown,
            },
        }
    }

    /// A claim that refers to the managed resource that was provisioned for it.
    fn provisioned() -> Self {
        Self::new(json!({"classRef": {"name": "small"}, "writeConnectionSecretToRef": {"name": "conn"},
            "resourceRef": {"apiVersion": "example.com/v1", "kind": "Cloud", "name": "cluster-7c3f"}}))
    }

    /// The same, bound.
    fn bound() -> Self {
        let mut world = Self::provisioned();
        world.phase = Some(BindingPhase::Bound);
        world.managed(bound_resource());
        world.observed.copy = Some(Ok(()));
        world
    }

    fn managed(&mut self, object: Json) -> &mut Self {
        let managed = ManagedObject { value: value(object), fields: BindingFields::default() };
        self.observed.managed = ObservedManaged::Found(managed);
        self
    }

    fn target(&mut self, target: Json) -> &mut Self {
        self.observed.target = ObservedTarget::Found(value(target));
        self
    }

    fn deleting(mut self) -> Self {
        self.is_deleting = true;
        self.observed.copy = None;
        self.observed.users = ObservedUsers::Targets(Vec::new());
        self
    }

    fn plan(&self) -> ClaimPlan {
        plan_claim(&self.claim(), &self.observed)
    }

    fn claim(&self) -> Claim<'_> {
        Claim {
            namespace: "shop",
            name: "dev",
            uid: UID,
            labels: &self.labels,
            spec: &self.spec,
            phase: self.phase,
            has_finalizer: self.has_finalizer,
            is_deleting: self.is_deleting,
        }
    }

    #[track_caller]
    fn action(&self) -> ClaimAction {
        let plan = self.plan();
        plan.action.unwrap_or_else(|| panic!("no action: {:?}", plan.report))
    }

    #[track_caller]
    fn report(&self) -> ClaimReport {
        let plan = self.plan();
        assert_eq!(plan.action, None);
        plan.report.unwrap()
    }

    /// Phase, and status, reason and message of a condition.
    #[track_caller]
    fn condition(&self, kind: ConditionType) -> (BindingPhase, ConditionStatus, Reason, String) {
        let report = self.report();
        let found = report.conditions.iter().find(|condition| condition.kind == kind).unwrap().clone();
        (report.phase, found.status, found.reason, found.message)
    }

    /// The reason for which the claim is not synced.
    #[track_caller]
    fn refusal(&self) -> (BindingPhase, Reason) {
        let (phase, status, reason, message) = self.condition(ConditionType::Synced);
        assert_eq!(status, ConditionStatus::False, "{message}");
        assert!(!message.is_empty());
        (phase, reason)
    }
}

fn class(name: &str, labels: Json, is_default: bool) -> ClaimClass {
    let template = json!({"apiVersion": "example.com/v1", "kind": "Cloud",
        "metadata": {"labels": {"team": "infra"}, "annotations": {"kro.run/claim": "other/other"}}, "spec": {"zone": "a"}});
    ClaimClass {
        name: name.to_owned(),
        labels: value(labels).as_object().unwrap().clone(),
        is_default,
        spec: serde_json::from_value(json!({"template": template})).unwrap(),
    }
}

fn managed_resource(claim: &str, phase: &str, ready: &str) -> Json {
    json!({"metadata": {"uid": "m1", "resourceVersion": "5", "annotations": {"kro.run/claim": claim,
        "kro.run/binding-phase": phase, "kro.run/reclaim-policy": "Delete"}},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Creating"}]}})
}

fn bound_resource() -> Json {
    managed_resource("shop/dev/7c3f", "Bound", "True")
}

/// The target of the claim, as it was applied.
fn own_target(world: &World) -> Json {
    let mut before = World::provisioned();
    before.labels = world.labels.clone();
    before.managed(bound_resource());
    before.observed.copy = Some(Ok(()));
    let ClaimAction::CreateTarget(target) = before.action() else { panic!() };
    let mut target = Json::from(&target);
    target["metadata"]["uid"] = json!("t1");
    target
}

#[test]
fn the_finalizer_is_added_before_anything_else() {
    let mut world = World::new(json!({}));
    world.has_finalizer = false;
    assert_eq!(world.action(), ClaimAction::AddFinalizer);
}

#[test]
fn the_class_is_that_of_the_reference_the_selector_or_the_default() {
    for (spec, expected) in [
        (json!({"classRef": {"name": "small"}, "classSelector": {}}), "small"),
        (json!({"classSelector": {"matchLabels": {"size": "s"}}}), "small"),
        (json!({"classSelector": {}}), "large"),
        (json!({}), "large"),
    ] {
        let ClaimAction::Reference { class, resource } = World::new(spec.clone()).action() else { panic!() };
        assert_eq!((class.as_str(), resource.name.as_str()), (expected, "cluster-7c3f"), "{spec}");
        assert_eq!((resource.api_version.as_str(), resource.kind.as_str()), ("example.com/v1", "Cloud"));
    }
}

#[test]
fn a_claim_without_a_class_waits_for_one() {
    for spec in
        [json!({"classRef": {"name": "gone"}}), json!({"classSelector": {"matchLabels": {"size": "xl"}}})]
    {
        assert_eq!(World::new(spec).refusal(), (BindingPhase::Unbindable, Reason::NoClass));
    }
    let mut world = World::new(json!({}));
    world.observed.classes = Some(Vec::new());
    assert_eq!(world.refusal(), (BindingPhase::Unbindable, Reason::NoClass));
    world.observed.classes = None;
    assert_eq!(world.plan(), ClaimPlan::wait(), "the classes are not known yet");
}

#[test]
fn the_managed_resource_names_the_claim_and_is_not_bound() {
    let world = World::provisioned();
    assert_eq!(world.action(), ClaimAction::Provision { class: "small".to_owned() });
    let small = class("small", json!({}), false);
    let object = Json::from(&managed_for(&world.claim(), &small, BindingFields::default()));
    assert_eq!(
        object,
        json!({"apiVersion": "example.com/v1", "kind": "Cloud", "metadata": {"name": "cluster-7c3f", "labels": {"team": "infra"},
            "annotations": {"kro.run/claim": "shop/dev/7c3f", "kro.run/binding-phase": "Unbound", "kro.run/reclaim-policy": "Delete"}},
            "spec": {"zone": "a"}})
    );
    assert!(!crate::workload::is_bound(&value(object)));
    let fields = BindingFields { claim_ref: true, binding_phase: true };
    let object = Json::from(&managed_for(&world.claim(), &small, fields));
    assert_eq!(object["spec"]["claimRef"]["uid"], UID);
    assert_eq!(object["metadata"]["annotations"].get("kro.run/claim"), None);
}

#[test]
fn the_managed_resources_of_a_class_do_not_share_a_connection_secret() {
    let world = World::provisioned();
    let mut small = class("small", json!({}), false);
    for (name, expected) in [(json!({}), "cluster-7c3f"), (json!({"name": "fixed"}), "fixed")] {
        small.spec.template.spec = value(json!({"writeConnectionSecretToRef": name}));
        let object = Json::from(&managed_for(&world.claim(), &small, BindingFields::default()));
        assert_eq!(object["spec"]["writeConnectionSecretToRef"], json!({"name": expected}));
    }
}

#[test]
fn a_class_that_changed_its_kind_provisions_nothing_for_an_older_claim() {
    let mut world = World::provisioned();
    world.spec.resource_ref.as_mut().unwrap().kind = "Other".to_owned();
    assert_eq!(world.refusal(), (BindingPhase::Unbindable, Reason::NoClass));
}

#[test]
fn only_a_managed_resource_that_names_the_claim_is_bound() {
    for claim in ["other/dev", "shop/other", "shop/dev/another-uid", "nonsense"] {
        let mut world = World::provisioned();
        world.managed(managed_resource(claim, "", "True"));
        assert_eq!(world.refusal(), (BindingPhase::Unbindable, Reason::NameTaken), "{claim}");
        world.spec.resource_ref.as_mut().unwrap().name = "existing".to_owned();
        assert_eq!(world.refusal(), (BindingPhase::Unbindable, Reason::NotOffered), "{claim}");
        let (_, _, _, message) = world.condition(ConditionType::Synced);
        assert!(!message.contains("other"), "whom else it is offered to is not told: {message}");
    }
}

#[test]
fn an_existing_managed_resource_is_bound_with_the_uid_and_retained() {
    let mut world = World::provisioned();
    world.spec.resource_ref.as_mut().unwrap().name = "existing".to_owned();
    let mut offered = managed_resource("shop/dev", "Unbound", "True");
    offered["metadata"]["annotations"].as_object_mut().unwrap().remove("kro.run/reclaim-policy");
    world.managed(offered);
    let ClaimAction::PatchManaged(patch) = world.action() else { panic!() };
    assert_eq!(
        Json::from(&patch),
        json!({"metadata": {"uid": "m1", "resourceVersion": "5", "annotations": {"kro.run/claim": "shop/dev/7c3f",
            "kro.run/binding-phase": "Bound", "kro.run/reclaim-policy": "Retain"}}})
    );
}

#[test]
fn ready_is_needed_to_become_bound_and_not_to_stay_so() {
    let mut world = World::provisioned();
    world.managed(managed_resource("shop/dev/7c3f", "Unbound", "False"));
    assert_eq!(world.refusal(), (BindingPhase::Unbindable, Reason::ManagedResourceNotReady));
    let mut world = World::bound();
    world.managed(managed_resource("shop/dev/7c3f", "Bound", "False"));
    let target = own_target(&world);
    world.target(target);
    let (phase, status, reason, message) = world.condition(ConditionType::Synced);
    assert_eq!((phase, status, reason), (BindingPhase::Bound, ConditionStatus::True, Reason::Bound));
    assert!(message.contains("not Ready"), "{message}");
}

#[test]
fn a_binding_that_the_provider_removed_is_written_again() {
    let mut world = World::bound();
    let fields = BindingFields { claim_ref: true, binding_phase: true };
    let claim = json!({"namespace": "shop", "name": "dev", "uid": UID});
    let object = json!({"metadata": {"uid": "m1", "annotations": {"kro.run/reclaim-policy": "Delete"}},
        "spec": {"claimRef": claim}, "status": {"conditions": []}});
    world.observed.managed = ObservedManaged::Found(ManagedObject { value: value(object), fields });
    let ClaimAction::PatchManagedStatus(patch) = world.action() else { panic!() };
    assert_eq!(Json::from(&patch)["status"], json!({"bindingPhase": "Bound"}));
}

#[test]
fn a_lost_managed_resource_is_not_replaced() {
    let mut world = World::bound();
    world.observed.managed = ObservedManaged::Absent;
    assert_eq!(world.refusal(), (BindingPhase::Released, Reason::ManagedResourceNotFound));
    world.phase = Some(BindingPhase::Released);
    assert_eq!(world.refusal(), (BindingPhase::Released, Reason::ManagedResourceNotFound));
    world.managed(managed_resource("shop/dev/7c3f", "Released", "True"));
    assert_eq!(world.refusal(), (BindingPhase::Released, Reason::Released));
}

#[test]
fn the_target_is_created_after_the_secret_was_copied() {
    let mut world = World::bound();
    world.observed.copy = None;
    assert_eq!(world.action(), ClaimAction::CopySecret);
    world.observed.copy = Some(Err(PropagationRefusal::new(Reason::SecretConflict, "foreign")));
    let (_, status, reason, _) = world.condition(ConditionType::ConnectionSecretPropagated);
    assert_eq!((status, reason), (ConditionStatus::False, Reason::SecretConflict));
    world.observed.copy = Some(Ok(()));
    let ClaimAction::CreateTarget(target) = world.action() else { panic!() };
    let target = Json::from(&target);
    assert_eq!(target["spec"], json!({"connectionSecretRef": {"name": "conn"}}));
    assert_eq!(target["metadata"]["labels"], json!({"env": "dev"}));
    assert_eq!(target["metadata"]["ownerReferences"][0]["uid"], UID);
}

#[test]
fn the_labels_of_the_target_are_kept_in_step_without_our_own() {
    let mut world = World::bound();
    let target = own_target(&world);
    world.target(target.clone());
    assert_eq!(world.condition(ConditionType::TargetPublished).2, Reason::Published);
    let mut more = target.clone();
    more["metadata"]["labels"]["added"] = json!("by a user");
    world.target(more);
    assert_eq!(world.condition(ConditionType::TargetPublished).2, Reason::Published);
    world.target(target);
    world.labels =
        value(json!({"tier": "web", "kro.run/instance-id": "1", "applyset.kubernetes.io/part-of": "x",
        "app.kubernetes.io/managed-by": "kro"}))
        .as_object()
        .unwrap()
        .clone();
    let ClaimAction::PatchTarget(patch) = world.action() else { panic!() };
    assert_eq!(Json::from(&patch)["metadata"]["labels"], json!({"tier": "web", "env": null}));
    assert_eq!(Json::from(&patch).get("spec"), None, "a reference that somebody wrote stays");
}

#[test]
fn a_foreign_target_of_the_same_name_is_not_touched() {
    let mut world = World::bound();
    world.target(json!({"metadata": {"uid": "x"}, "spec": {"connectionSecretRef": {"name": "mine"}}}));
    let (_, status, reason, _) = world.condition(ConditionType::TargetPublished);
    assert_eq!((status, reason), (ConditionStatus::False, Reason::NameTaken));
    assert_eq!(world.deleting().action(), ClaimAction::DeleteSecret, "nor deleted");
}

#[test]
fn a_claim_without_a_secret_is_ready_and_not_published() {
    let mut world = World::bound();
    world.spec.write_connection_secret_to_ref = None;
    let (_, status, reason, _) = world.condition(ConditionType::TargetPublished);
    assert_eq!((status, reason), (ConditionStatus::False, Reason::NotRequested));
    assert_eq!(world.report().dependents, [ConditionType::Synced]);
}

#[test]
fn the_deletion_waits_for_the_own_target_then_for_all_others() {
    let mut world = World::bound().deleting();
    let mut target = own_target(&world);
    world.target(target.clone());
    assert_eq!(world.action(), ClaimAction::DeleteTarget { uid: "t1".to_owned() });
    target["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    target["status"] = json!({"conditions": [{"type": "Ready", "status": "False", "reason": "InUse", "message": "App `shop/web` uses it"}]});
    world.target(target);
    assert_eq!(world.action(), ClaimAction::CopySecret, "the users need it to delete their objects");
    world.observed.copy = Some(Ok(()));
    let (_, _, reason, message) = world.condition(ConditionType::Synced);
    assert_eq!(reason, Reason::InUse);
    assert!(message.contains("App `shop/web` uses it"), "{message}");
    world.observed.target = ObservedTarget::Absent;
    world.observed.users = ObservedUsers::Unknown;
    assert_eq!(world.action(), ClaimAction::ListUsers);
    world.observed.users = ObservedUsers::Targets(vec!["b/two".to_owned(), "a/one".to_owned()]);
    let (_, _, reason, message) = world.condition(ConditionType::Synced);
    assert_eq!(reason, Reason::InUse);
    assert!(message.contains("`a/one`, `b/two`"), "{message}");
}

#[test]
fn the_managed_resource_is_deleted_or_released_last() {
    let mut world = World::bound().deleting();
    assert_eq!(world.action(), ClaimAction::DeleteSecret);
    world.observed.is_secret_deleted = true;
    assert_eq!(world.action(), ClaimAction::DeleteManaged { uid: "m1".to_owned() });
    let mut retained = bound_resource();
    retained["metadata"]["annotations"]["kro.run/reclaim-policy"] = json!("Retain");
    world.managed(retained.clone());
    let ClaimAction::PatchManaged(patch) = world.action() else { panic!() };
    assert_eq!(Json::from(&patch)["metadata"]["annotations"], json!({"kro.run/binding-phase": "Released"}));
    retained["metadata"]["annotations"]["kro.run/binding-phase"] = json!("Released");
    world.managed(retained.clone());
    assert_eq!(world.action(), ClaimAction::RemoveFinalizer);
    retained["metadata"]["annotations"]["kro.run/reclaim-policy"] = json!("a policy of the future");
    retained["metadata"]["annotations"]["kro.run/binding-phase"] = json!("Bound");
    world.managed(retained);
    assert!(matches!(world.action(), ClaimAction::PatchManaged(_)), "an unknown policy keeps the resource");
    world.observed.managed = ObservedManaged::Absent;
    assert_eq!(world.action(), ClaimAction::RemoveFinalizer);
}

#[test]
fn a_managed_resource_of_others_survives_the_claim() {
    let mut world = World::bound().deleting();
    world.observed.is_secret_deleted = true;
    world.managed(managed_resource("shop/other", "Bound", "True"));
    assert_eq!(world.action(), ClaimAction::RemoveFinalizer);
    // One that is only offered was never this claim's.
    world.spec.resource_ref.as_mut().unwrap().name = "existing".to_owned();
    world.managed(managed_resource("shop/dev", "Unbound", "True"));
    assert_eq!(world.action(), ClaimAction::RemoveFinalizer);
    world.observed.managed = ObservedManaged::Unknown;
    assert_eq!(world.plan(), ClaimPlan::wait());
}

#[test]
fn a_provisioned_resource_of_a_claim_that_was_never_bound_is_deleted() {
    let mut world = World::provisioned().deleting();
    world.spec.write_connection_secret_to_ref = None;
    world.managed(managed_resource("shop/dev/7c3f", "Unbound", "False"));
    assert_eq!(world.action(), ClaimAction::DeleteManaged { uid: "m1".to_owned() });
    world.spec.resource_ref = None;
    assert_eq!(world.action(), ClaimAction::RemoveFinalizer);
}
