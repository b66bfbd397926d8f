//! A definition as commands see it: which kind it serves, whether it is accepted, and what depends on what.

use kross_api::{
    PlacementOptions, ResolvedCredentials, ResourceGraphDefinition, SecretAddress, annotations,
    lower_placement,
};
use serde_json::Value as Json;

use super::instance::{condition, failed_condition, text};

/// A ResourceGraphDefinition.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition(pub Json);

/// Whether an object is a definition.
pub fn is_definition(object: &Json) -> bool {
    text(object, "/kind") == Some("ResourceGraphDefinition")
        && text(object, "/apiVersion").is_some_and(|version| version.starts_with("kro.run/"))
}

impl Definition {
    /// The object of a definition.
    #[must_use]
    pub fn new(object: Json) -> Self {
        Self(object)
    }

    /// `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        text(&self.0, "/metadata/name").unwrap_or_default()
    }

    /// `Active`, `Inactive`, `Deleting`, or empty if it was never reconciled.
    pub fn state(&self) -> &str {
        match text(&self.0, "/metadata/deletionTimestamp") {
            Some(_) => "Deleting",
            None => text(&self.0, "/status/state").unwrap_or_default(),
        }
    }

    /// Whether its API is served and everything about it is as desired.
    pub fn is_ready(&self) -> bool {
        let is_true = condition(&self.0, "Ready").is_some_and(|ready| ready["status"] == "True");
        is_true && self.state() == "Active" && failed_condition(&self.0).is_none()
    }

    /// Group and kind of its instances.
    pub fn served_kind(&self) -> (&str, &str) {
        let field = |path: &str| text(&self.0, path);
        match field("/spec/schema/externalRef/kind") {
            Some(kind) => {
                let version = field("/spec/schema/externalRef/apiVersion").unwrap_or_default();
                (version.split_once('/').map_or("", |(group, _)| group), kind)
            }
            None => (
                field("/spec/schema/group").unwrap_or(kross_api::DEFAULT_GROUP),
                field("/spec/schema/kind").unwrap_or_default(),
            ),
        }
    }

    /// Whether its instances are objects of a kind that another definition or operator serves.
    pub fn is_of_existing_kind(&self) -> bool {
        text(&self.0, "/spec/schema/externalRef/kind").is_some()
    }

    /// Whether it serves a kind.
    pub fn serves(&self, api_version: &str, kind: &str) -> bool {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.served_kind() == (group, kind)
    }

    /// Whether an object of the kind that it serves is an instance: of an existing kind, only those are that kross reconciles.
    pub fn has_instance(&self, object: &Json) -> bool {
        !self.is_of_existing_kind()
            || object
                .pointer("/metadata/annotations")
                .is_some_and(|annotations| annotations.get(annotations::STATE).is_some())
    }

    /// The ids of the resources that a resource depends on.
    pub fn dependencies(&self, id: &str) -> Vec<&str> {
        let resources = self.0.pointer("/status/resources").and_then(Json::as_array);
        let resource = resources.into_iter().flatten().find(|resource| resource["id"] == id);
        let dependencies = resource.and_then(|resource| resource["dependencies"].as_array());
        dependencies.into_iter().flatten().filter_map(|dependency| dependency["id"].as_str()).collect()
    }

    /// The number of the newest revision.
    pub fn revision(&self) -> Option<i64> {
        self.0.pointer("/status/lastIssuedRevision").and_then(Json::as_i64)
    }

    /// Whether it names the Secret of a cluster literally, without an expression.
    #[must_use]
    pub fn names_statically(&self, secret: &SecretAddress) -> bool {
        let Ok(definition) = serde_json::from_value::<ResourceGraphDefinition>(self.0.clone()) else {
            return false;
        };
        let scope = definition.spec.schema.scope();
        // The controller reports what is wrong with it.
        let mut ignored = kross_diagnostics::Diagnostics::new();
        let placement = lower_placement(&definition.spec, PlacementOptions::default(), &mut ignored);
        placement.references().filter_map(|(_, reference)| reference.static_cluster(scope)).any(
            |cluster| matches!(&cluster.credentials, ResolvedCredentials::Secret(address) if address == secret),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret() -> SecretAddress {
        SecretAddress { namespace: "team".to_owned(), name: "eu".to_owned(), key: "kubeconfig".to_owned() }
    }

    #[test]
    fn a_definition_is_affected_only_if_it_names_the_secret_literally() {
        let definition = |cluster: Json| {
            Definition::new(
                json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "a"},
                "spec": {"schema": {"apiVersion": "v1", "kind": "A"}, "resources": [{"id": "a",
                    "cluster": cluster, "template": {"apiVersion": "v1", "kind": "ConfigMap"}}]}}),
            )
        };
        assert!(definition(json!({"name": "eu", "namespace": "team"})).names_statically(&secret()));
        assert!(!definition(json!({"name": "us", "namespace": "team"})).names_statically(&secret()));
        // The namespace is that of each instance, or an expression decides.
        assert!(!definition(json!({"name": "eu"})).names_statically(&secret()));
        let parameterized = definition(json!({"name": "${schema.spec.x}", "namespace": "team"}));
        assert!(!parameterized.names_statically(&secret()));
    }
}
