//! Access to the instances of one kind and to the ConfigMaps that they create.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::setup::{Objects, condition, create_once_served, until};

/// The instances of one kind in the namespace of a test.
pub struct InstanceApi {
    pub instances: Api<DynamicObject>,
    pub kind: String,
}

impl InstanceApi {
    pub fn new(objects: &Objects, kind: &str, namespace: &str) -> Self {
        let instances = objects.namespaced("kro.run", kind, &kross_api::plural(kind), namespace);
        Self { instances, kind: kind.to_owned() }
    }

    pub async fn create(&self, name: &str, spec: Json) {
        let instance = json!({"apiVersion": "kro.run/v1alpha1", "kind": self.kind,
            "metadata": {"name": name}, "spec": spec});
        create_once_served(&self.instances, instance).await;
    }

    pub async fn patch(&self, name: &str, patch: Json) {
        self.instances.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn delete(&self, name: &str) {
        self.instances.delete(name, &DeleteParams::default()).await.unwrap();
    }

    #[track_caller]
    pub fn until(&self, name: &str, condition: impl Fn(&Json) -> bool) -> impl Future<Output = Json> {
        until(self.instances.clone(), name.to_owned(), condition)
    }

    /// Waits until an instance has this state in its current generation.
    #[track_caller]
    pub fn until_state(&self, name: &str, state: &'static str) -> impl Future<Output = Json> {
        self.until(name, move |instance| {
            let ready = condition(instance, "Ready");
            instance["status"]["state"] == state
                && ready["observedGeneration"] == instance["metadata"]["generation"]
        })
    }
}

/// Edits the data of a ConfigMap, as a user other than the controller.
pub async fn edit(api: &Api<ConfigMap>, name: &str, data: Json) {
    let patch = json!({"data": data});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// The value of a key in a ConfigMap's data.
pub fn value<'a>(config_map: &'a ConfigMap, key: &str) -> Option<&'a str> {
    config_map.data.as_ref()?.get(key).map(String::as_str)
}

/// The labels, annotations and field managers by which an object belongs to an instance; empty once it is released.
pub fn ownership_metadata(object: &ConfigMap) -> Vec<String> {
    let maps = [&object.metadata.labels, &object.metadata.annotations];
    let keys = maps.into_iter().flatten().flat_map(|map| map.keys().cloned());
    let mut found: Vec<String> =
        keys.filter(|key| key.contains("kro.run") || key.contains("applyset")).collect();
    let managers = object.metadata.managed_fields.iter().flatten().filter_map(|entry| entry.manager.clone());
    found.extend(managers.filter(|manager| manager.starts_with("kro")));
    found
}
