//! Turns the objects of an instance into the steps of its deletion, with the planner that the controller uses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use jiff::Timestamp;
use kross_api::{ClusterId, annotations};
use kross_plan::{Deletion, HookRecord, Hooks, OwnedObject, PendingDeletion, Wait, plan_deletion};
use serde::Serialize;
use serde_json::Value as Json;

use super::inventory::Found;
use crate::commands::wrap::wrap;
use crate::hub::{Definition, InstanceView};

/// What the deletion of an instance would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Explanation {
    instance: String,
    /// Resources that are created first, such as backups.
    hooks: Vec<String>,
    /// The objects that are deleted, in waves: each waits for the one before it.
    waves: Vec<Vec<String>>,
    /// Objects that are retained, and lose their labels.
    retained: Vec<String>,
    /// What the deletion would wait for, and why.
    blocked: Vec<String>,
    /// What could not be looked into.
    unknown: Vec<String>,
}

impl Explanation {
    pub(super) fn of(instance: &Json, definition: Option<&Definition>, found: Found, now: Timestamp) -> Self {
        let view = InstanceView(instance);
        let Found { objects, unknown, unreachable } = found;
        let mut explanation = Self {
            instance: view.title(),
            hooks: definition.map(hooks).unwrap_or_default(),
            unknown,
            ..Self::default()
        };
        for cluster in unreachable {
            let since = crate::hub::since(cluster.since.as_deref(), now);
            let since = if since.is_empty() { since } else { format!(" for {since}") };
            let objects =
                if cluster.total == 1 { "1 object".to_owned() } else { format!("{} objects", cluster.total) };
            explanation.blocked.push(format!(
                "{objects} in cluster {}, which is not connected{since}: the deletion waits until it is, or until \
                 `kubectl annotate {} {}='{}'` gives them up",
                cluster.name,
                view.argument(),
                annotations::ABANDON_CLUSTER,
                cluster.uid.as_deref().unwrap_or("*")
            ));
        }
        explanation.simulate(objects, now);
        explanation
    }

    /// Plans, does what the plan says to copies of the objects, and plans again, until nothing is left or nothing changes.
    fn simulate(&mut self, mut objects: Vec<OwnedObject>, now: Timestamp) {
        let by_uid: BTreeMap<_, _> =
            objects.iter().map(|object| (object.uid.clone(), object.clone())).collect();
        for object in &objects {
            if !object.finalizers.is_empty() && !object.terminating {
                let names: Vec<String> = object.finalizers.iter().map(|name| format!("`{name}`")).collect();
                self.blocked.push(format!(
                    "{} has finalizers of other controllers: {}; the deletion waits until they are removed",
                    title(&object.key),
                    names.join(", ")
                ));
            }
        }
        loop {
            let plan = plan_deletion(Deletion {
                objects: &objects,
                hooks: Hooks::Planned(&[]),
                hook_record: &HookRecord::default(),
                attempts: &BTreeMap::new(),
                persisted: None,
                reported_orphans: &BTreeSet::new(),
                reports_orphans: false,
                now,
            });
            let shown = |pending: &PendingDeletion| match by_uid
                .get(&pending.uid)
                .and_then(|it| it.lifecycle.force_after())
            {
                Some(limit) => {
                    format!("{} (orphaned if it takes longer than {}s)", title(&pending.key), limit.as_secs())
                }
                None => title(&pending.key),
            };
            self.retained.extend(plan.release.iter().map(|pending| title(&pending.key)));
            let wave: Vec<String> = plan.delete.iter().map(shown).collect();
            let done: BTreeSet<_> = plan
                .delete
                .iter()
                .chain(&plan.release)
                .chain(&plan.orphaned)
                .map(|it| it.uid.clone())
                .collect();
            if !wave.is_empty() {
                self.waves.push(wave);
            }
            if done.is_empty() {
                let waits = plan.waiting.iter().filter(|(_, wait)| *wait != Wait::Dependents);
                self.blocked.extend(
                    waits.map(|(pending, wait)| format!("{}: {}", title(&pending.key), wait.message())),
                );
                // The rest is deleted after these.
                let rest = plan.waiting.iter().filter(|(_, wait)| *wait == Wait::Dependents);
                let rest: Vec<String> = rest.map(|(pending, _)| shown(pending)).collect();
                if !rest.is_empty() {
                    self.waves.push(rest);
                }
                return;
            }
            objects.retain(|object| !done.contains(&object.uid));
        }
    }

    /// Whether something would block the deletion.
    pub(super) fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Draws it for people.
    pub(super) fn draw(&self, width: Option<usize>) -> String {
        let Self { instance, hooks, waves, retained, blocked, unknown } = self;
        let mut drawn = String::new();
        let count: usize = waves.iter().map(Vec::len).sum();
        // Writing to a string cannot fail.
        let objects = if count == 1 { "object" } else { "objects" };
        let _ = write!(drawn, "{instance}: {count} {objects} would be deleted");
        match retained.len() {
            0 => drawn.push('\n'),
            kept => drawn.push_str(&format!(", {kept} would be retained\n")),
        }
        let mut step = 1;
        if !hooks.is_empty() {
            let _ = writeln!(drawn, "\n{step}. create and wait for: {}", hooks.join(", "));
            step += 1;
        }
        for wave in waves {
            let _ = writeln!(drawn, "\n{step}. delete");
            wave.iter().for_each(|object| drawn.push_str(&format!("   {object}\n")));
            step += 1;
        }
        if !waves.is_empty() || !retained.is_empty() {
            let _ = writeln!(drawn, "\n{step}. remove the finalizer of {instance}");
        }
        for (heading, lines) in
            [("retained, without labels of kross", retained), ("blocks", blocked), ("unknown", unknown)]
        {
            if !lines.is_empty() {
                let _ = writeln!(drawn, "\n{heading}:");
                for line in lines {
                    let _ =
                        writeln!(drawn, "   {}", wrap(line, width.map(|width| width.saturating_sub(3)), 3));
                }
            }
        }
        drawn
    }
}

fn title(key: &kross_cluster::ObjectKey) -> String {
    let place = if key.cluster == ClusterId::local() {
        String::new()
    } else {
        format!(" in cluster {}", key.cluster.as_str())
    };
    format!("{} {}{place}", key.kind, key.namespaced_name())
}

/// The resources of a definition that exist only during a deletion.
fn hooks(definition: &Definition) -> Vec<String> {
    let resources = definition.0.pointer("/spec/resources").and_then(Json::as_array);
    let is_hook =
        |resource: &&Json| resource.pointer("/lifecycle/when").is_some_and(|when| when == "Deletion");
    let ids = resources.into_iter().flatten().filter(is_hook).filter_map(|resource| resource["id"].as_str());
    ids.map(|id| format!("`{id}`")).collect()
}

#[cfg(test)]
mod tests {
    use kross_cluster::ObjectKey;
    use kross_plan::ObservedObject;
    use serde_json::json;

    use super::*;

    fn object(cluster: &str, kind: &str, name: &str, metadata: Json) -> OwnedObject {
        let mut metadata = metadata;
        metadata["name"] = json!(name);
        metadata["uid"] = json!(name);
        let value =
            serde_json::from_value(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})).unwrap();
        let key = ObjectKey {
            cluster: if cluster.is_empty() { ClusterId::local() } else { ClusterId::new(cluster) },
            group: "".into(),
            kind: kind.into(),
            namespace: Some("team".into()),
            name: name.into(),
        };
        OwnedObject::new(key, &ObservedObject::new(value))
    }

    #[test]
    fn objects_are_deleted_in_the_reverse_order_of_their_creation_and_some_are_retained() {
        let order = |order: i64| json!({"annotations": {"internal.kro.run/apply-order": order.to_string()}});
        let mut retained = order(0);
        retained["annotations"]["internal.kro.run/lifecycle"] = json!("{\"policy\":\"Retain\"}");
        let mut held = order(0);
        held["finalizers"] = json!(["example.dev/hold"]);
        let found = Found {
            objects: vec![
                object("", "ConfigMap", "first", held),
                object("team/eu", "Deployment", "last", order(1)),
                object("", "PersistentVolumeClaim", "data", retained),
            ],
            ..Found::default()
        };
        let instance = json!({"kind": "Shop", "metadata": {"name": "web", "namespace": "team"}});
        let definition =
            json!({"spec": {"resources": [{"id": "backup", "lifecycle": {"when": "Deletion"}}]}});
        let definition = Definition::new(definition);
        let explanation =
            Explanation::of(&instance, Some(&definition), found, "2026-01-01T00:00:00Z".parse().unwrap());
        assert!(explanation.is_blocked());
        insta::assert_snapshot!(explanation.draw(None));
    }
}
