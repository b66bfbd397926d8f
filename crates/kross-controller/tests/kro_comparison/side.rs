//! One side of the comparison: sends the requests of a step to its control plane and reads the objects into a snapshot.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use kross_testing::wait;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersion};
use kube::discovery::Scope;
use kube::{Api, Client};
use serde_json::{Value as Json, json};

use crate::scenario::{Kind, Scenario, Step, holds, text_of};

/// The field manager of the requests.
const MANAGER: &str = "somebody";

/// The control plane of kro or of kross.
pub struct Side {
    pub name: &'static str,
    pub client: Client,
    kinds: Mutex<HashMap<Kind, (ApiResource, Scope)>>,
}

/// Objects by `Kind/namespace/name`.
pub type Snapshot = BTreeMap<String, Json>;

impl Side {
    pub fn new(name: &'static str, client: Client) -> Self {
        Self { name, client, kinds: Mutex::default() }
    }

    /// The API of a kind in a namespace, once it is served.
    pub async fn api(&self, kind: &Kind, namespace: &str) -> Api<DynamicObject> {
        let resource = wait::until(format!("{kind:?} to be served by {}", self.name), || async {
            match self.served(kind).await {
                Some(served) => Ok(served),
                None => Err(self.ready_messages(kind).await),
            }
        });
        let (resource, scope) = resource.await;
        if scope == Scope::Namespaced {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    /// The messages of `Ready` of the definitions of a group.
    async fn ready_messages(&self, kind: &Kind) -> String {
        let definitions = crate::setup::Objects { client: self.client.clone() }.definitions();
        let definitions = list(&definitions).await.into_iter().filter(|definition| {
            definition["spec"]["schema"]["group"]
                .as_str()
                .is_some_and(|group| kind.api_version.starts_with(group))
        });
        definitions
            .map(|definition| text_of(&crate::setup::condition(&definition, "Ready")["message"]))
            .collect()
    }

    /// Discovers a kind, if it is served.
    async fn served(&self, kind: &Kind) -> Option<(ApiResource, Scope)> {
        if let Some(known) = self.kinds.lock().unwrap().get(kind) {
            return Some(known.clone());
        }
        let version: GroupVersion = kind.api_version.parse().unwrap();
        let (resource, capabilities) =
            kube::discovery::pinned_kind(&self.client, &version.with_kind(&kind.kind)).await.ok()?;
        let found = (resource, capabilities.scope);
        self.kinds.lock().unwrap().insert(kind.clone(), found.clone());
        Some(found)
    }

    /// Sends the requests of a step and waits for its conditions. Returns the messages of the requests that were rejected.
    pub async fn run(&self, scenario: &Scenario, step: &Step) -> Vec<String> {
        let mut rejections = Vec::new();
        for object in &step.create {
            self.create(scenario, object).await.unwrap_or_else(|error| {
                panic!("{}, {}, {}: {error}: {object:#}", self.name, scenario.name, step.name)
            });
        }
        for object in &step.refused {
            rejections.push(self.create(scenario, object).await.err().unwrap_or("accepted".to_owned()));
        }
        for (reference, patch) in &step.patch {
            self.patch(scenario, reference, patch).await.unwrap_or_else(|error| {
                panic!("{}, {}, {}: {reference}: {error}", self.name, scenario.name, step.name)
            });
        }
        for (reference, patch) in &step.refused_patch {
            let rejection = self.patch(scenario, reference, patch).await.err();
            rejections.push(rejection.unwrap_or("accepted".to_owned()));
        }
        for (reference, patch) in &step.status {
            let (kind, namespace, name) = scenario.reference(reference);
            let api = self.api(kind, &namespace).await;
            let parameters =
                PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            let patch = json!({"status": patch});
            api.patch_status(&name, &parameters, &Patch::Merge(patch)).await.unwrap();
        }
        for reference in &step.delete {
            let (kind, namespace, name) = scenario.reference(reference);
            self.api(kind, &namespace).await.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        for (reference, expected) in &step.until {
            self.until(scenario, step, reference, expected).await;
        }
        rejections
    }

    async fn create(&self, scenario: &Scenario, object: &Json) -> Result<(), String> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(&scenario.name);
        let api = self.api(&Kind::of(object), namespace).await;
        let object = serde_json::from_value(object.clone()).unwrap();
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        api.create(&parameters, &object).await.map(drop).map_err(message_of)
    }

    async fn patch(&self, scenario: &Scenario, reference: &str, patch: &Json) -> Result<(), String> {
        let (kind, namespace, name) = scenario.reference(reference);
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let api = self.api(kind, &namespace).await;
        api.patch(&name, &parameters, &Patch::Merge(patch)).await.map(drop).map_err(message_of)
    }

    async fn until(&self, scenario: &Scenario, step: &Step, reference: &str, expected: &Json) {
        let (kind, namespace, name) = scenario.reference(reference);
        let api = self.api(kind, &namespace).await;
        let what = format!("{reference} of `{}`, `{}` on {}", scenario.name, step.name, self.name);
        wait::until(format!("{what} to be {expected}"), || async {
            let object = api.get_opt(&name).await.map_err(|error| error.to_string())?;
            let object = object.map(|object| serde_json::to_value(object).unwrap());
            if holds(object.as_ref(), expected) { Ok(()) } else { Err(format!("{object:#?}")) }
        })
        .await;
    }

    /// All objects that the scenario created, directly or through the controller.
    pub async fn snapshot(&self, scenario: &Scenario) -> Snapshot {
        let mut all = Snapshot::new();
        for kind in &scenario.kinds {
            let Some((resource, scope)) = self.served(kind).await else { continue };
            let mut found = Vec::new();
            if scope == Scope::Namespaced {
                for namespace in &scenario.namespaces {
                    let api =
                        Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &resource);
                    found.extend(list(&api).await);
                }
            } else {
                found.extend(list(&Api::all_with(self.client.clone(), &resource)).await);
                found.retain(|object| belongs(scenario, object));
            }
            for mut object in found {
                object["apiVersion"] = json!(kind.api_version);
                object["kind"] = json!(kind.kind);
                all.insert(reference_of(&object), object);
            }
        }
        all
    }
}

/// Whether a cluster-scoped object belongs to a scenario: by the prefix of its name, its group or its definition.
fn belongs(scenario: &Scenario, object: &Json) -> bool {
    let own = |name: &str| {
        name == scenario.name || name.strip_prefix(&scenario.name).is_some_and(|rest| rest.starts_with('-'))
    };
    let group = format!("{}.example.com", scenario.name);
    own(&text_of(&object["metadata"]["name"]))
        || object["spec"]["group"] == group.as_str()
        || own(&text_of(&object["metadata"]["labels"]["kro.run/resource-graph-definition-name"]))
}

async fn list(api: &Api<DynamicObject>) -> Vec<Json> {
    wait::until("the list of objects", || async {
        match api.list(&ListParams::default()).await {
            Ok(list) => {
                Ok(list.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect())
            }
            // A kind that is not served any more has no objects.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            // The API server rejects lists of a new kind until its storage is initialized.
            Err(error) => Err(error.to_string()),
        }
    })
    .await
}

pub fn reference_of(object: &Json) -> String {
    let metadata = &object["metadata"];
    let parts = [&object["kind"], &metadata["namespace"], &metadata["name"]];
    parts.into_iter().filter_map(Json::as_str).collect::<Vec<_>>().join("/")
}

fn message_of(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message,
        error => panic!("{error}"),
    }
}
