//! Turns a kind from the command line into one that the cluster serves, and tells whether an object is an instance.

use std::sync::Arc;

use anyhow::bail;
use kross_api::{annotations, labels};
use kross_cluster::ApiKind;
use kross_diagnostics::suggest;
use serde_json::Value as Json;

/// Finds a kind by its name or plural, with or without its group, in any case.
pub(super) fn kind(kinds: &[Arc<ApiKind>], typed: &str) -> anyhow::Result<Arc<ApiKind>> {
    let (name, group) = typed.split_once('.').map_or((typed, None), |(name, group)| (name, Some(group)));
    let named = |kind: &&Arc<ApiKind>| {
        let same = |known: &str| known.eq_ignore_ascii_case(name);
        (same(&kind.kind) || same(&kind.plural)) && group.is_none_or(|group| *kind.group == *group)
    };
    let mut found: Vec<&Arc<ApiKind>> = kinds.iter().filter(named).collect();
    // Prefer the kind that kross serves: its instances are what this command shows.
    if found.len() > 1 && found.iter().filter(|kind| kind.group == *kross_api::DEFAULT_GROUP).count() == 1 {
        found.retain(|kind| kind.group == *kross_api::DEFAULT_GROUP);
    }
    match found.as_slice() {
        [kind] => Ok(Arc::clone(kind)),
        [] => match suggest(name, kinds.iter().map(|kind| kind.kind.as_str())) {
            Some(meant) => bail!("unknown kind `{typed}`; did you mean `{meant}`?"),
            None => bail!("unknown kind `{typed}`; run `kubectl api-resources` to list all kinds"),
        },
        [first, ..] => {
            let all: Vec<String> =
                found.iter().map(|kind| format!("`{}.{}`", kind.plural, kind.group)).collect();
            bail!(
                "`{typed}` is ambiguous ({}): use for example `{}.{}/NAME`",
                all.join(", "),
                first.plural,
                first.group
            )
        }
    }
}

/// Says that an object is no instance, and of which instance it is a resource. `definitions` is none if they are unknown.
pub(super) fn not_an_instance(object: &Json, definitions: Option<&[Json]>) -> Option<String> {
    let text = |path: &str| object.pointer(path).and_then(Json::as_str).unwrap_or_default();
    let is_reconciled =
        object.pointer("/metadata/annotations").is_some_and(|all| all.get(annotations::STATE).is_some());
    let is_resource = text("/kind") == "KubernetesApplicationResource"
        && text("/apiVersion").starts_with(kross_api::WORKLOAD_GROUP);
    if is_reconciled
        || is_resource
        || definitions?.iter().any(|definition| serves(definition, text("/apiVersion"), text("/kind")))
    {
        return None;
    }
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    let label =
        |key: &str| object.pointer("/metadata/labels").and_then(|all| all.get(key)).and_then(Json::as_str);
    let long_name =
        object.pointer("/metadata/annotations").and_then(|all| all.get(annotations::INSTANCE_NAME));
    let name_of_owner = long_name.and_then(Json::as_str).or_else(|| label(labels::INSTANCE_NAME));
    let owner = label(labels::INSTANCE_KIND).zip(name_of_owner);
    let Some((owner_kind, owner)) = owner else {
        return Some(format!("{kind}/{name} is not an instance: no ResourceGraphDefinition serves `{kind}`"));
    };
    let namespace =
        label(labels::INSTANCE_NAMESPACE).map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    Some(format!(
        "{kind}/{name} is not an instance, but a resource of one: run `kross tree {owner_kind}/{owner}{namespace}`"
    ))
}

/// Whether a definition serves the kind, as a new or an existing type.
fn serves(definition: &Json, api_version: &str, kind: &str) -> bool {
    let text = |path: &str| definition.pointer(path).and_then(Json::as_str);
    if text("/spec/schema/externalRef/kind").is_some() {
        return text("/spec/schema/externalRef/kind") == Some(kind)
            && text("/spec/schema/externalRef/apiVersion") == Some(api_version);
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    text("/spec/schema/kind") == Some(kind)
        && text("/spec/schema/group").unwrap_or(kross_api::DEFAULT_GROUP) == group
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_is_no_instance_is_named_as_such() {
        let definitions = [
            json!({"spec": {"schema": {"kind": "App", "apiVersion": "v1"}}}),
            json!({"spec": {"schema": {"externalRef": {"apiVersion": "v1", "kind": "Namespace"}}}}),
        ];
        let object = |version: &str, kind: &str, labels: Json| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x", "labels": labels}});
        let problem = |object: &Json| not_an_instance(object, Some(&definitions));
        assert_eq!(problem(&object("kro.run/v1", "App", json!({}))), None);
        assert_eq!(problem(&object("v1", "Namespace", json!({}))), None);
        assert_eq!(
            problem(&object("v1", "Secret", json!({}))).unwrap(),
            "Secret/x is not an instance: no ResourceGraphDefinition serves `Secret`"
        );
        let owned = json!({
            "kro.run/instance-kind": "App", "kro.run/instance-name": "web", "kro.run/instance-namespace": "shop",
        });
        let child = object("v1", "ConfigMap", owned);
        assert_eq!(
            problem(&child).unwrap(),
            "ConfigMap/x is not an instance, but a resource of one: run `kross tree App/web -n shop`"
        );
        assert_eq!(not_an_instance(&child, None), None, "definitions are unknown");
    }

    fn kinds() -> Vec<Arc<ApiKind>> {
        let kind = |group: &str, kind: &str, plural: &str| {
            Arc::new(ApiKind::custom(group, "v1", kind, plural, true))
        };
        vec![
            kind("kro.run", "App", "apps"),
            kind("other.dev", "App", "apps"),
            kind("a.dev", "Cache", "caches"),
            kind("b.dev", "Cache", "caches"),
        ]
    }

    #[test]
    fn a_kind_is_found_by_name_plural_or_group_in_any_case() {
        for typed in ["App", "app", "APPS", "apps.kro.run"] {
            assert_eq!(kind(&kinds(), typed).unwrap().group, *"kro.run", "{typed}");
        }
        assert_eq!(kind(&kinds(), "app.other.dev").unwrap().group, *"other.dev");
        assert_eq!(
            kind(&kinds(), "Cach").unwrap_err().to_string(),
            "unknown kind `Cach`; did you mean `Cache`?"
        );
        let many = kind(&kinds(), "cache").unwrap_err().to_string();
        assert!(many.contains("`caches.a.dev`, `caches.b.dev`"), "{many}");
    }
}
