//! Turns definitions, or a file with roles, into the rules of a registered cluster's ServiceAccount, and these into RBAC objects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kross_api::labels;
use kross_cluster::ServiceAccountName;
use serde_json::{Value as Json, json};

use super::super::rbac;
use crate::hub::text;
use crate::input::{Input, SchemaArguments};
use crate::output::Output;

/// The API of roles.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Rules by namespace; those of the whole cluster have none.
pub(super) type Rules = BTreeMap<Option<String>, Vec<Json>>;

/// What the graphs of definitions may do in a cluster: that of one Secret, or any cluster that depends on the instance.
///
/// # Errors
/// A path cannot be read, or a definition has errors; these are printed.
pub(super) fn from_definitions(
    paths: &[PathBuf],
    schemas: &SchemaArguments,
    secret: (&str, &str),
    output: &mut Output,
) -> anyhow::Result<Rules> {
    let mut input = Input::documents(paths)?;
    let schemas = input.schemas(schemas)?;
    match rbac::remote_rules(input, &schemas, secret) {
        Ok(rules) => Ok(rules),
        Err(rbac::Underivable::Diagnostics(text)) => {
            output.note(text.trim_end());
            bail!("cannot derive RBAC rules from a definition with errors");
        }
        Err(rbac::Underivable::NoDefinition) => bail!("no ResourceGraphDefinition found"),
    }
}

/// The rules of the ClusterRoles and Roles in a file, as `kross rbac --remote` prints them.
///
/// # Errors
/// The file cannot be read, or has no role.
pub(super) fn from_file(path: &Path) -> anyhow::Result<Rules> {
    let mut input = Input::default();
    let documents = input.read(&[path.to_owned()])?;
    let mut rules = Rules::new();
    for document in &documents {
        let object = serde_json::to_value(document.value())?;
        let namespace = match text(&object, "/kind") {
            Some("ClusterRole") => None,
            Some("Role") => {
                let namespace = text(&object, "/metadata/namespace");
                Some(namespace.context("a Role without a namespace")?.to_owned())
            }
            _ => continue,
        };
        let found = object.get("rules").and_then(Json::as_array).cloned().unwrap_or_default();
        rules.entry(namespace).or_default().extend(found);
    }
    if rules.is_empty() {
        bail!("no ClusterRole and no Role in {}: pass what `kross rbac --remote` prints", path.display());
    }
    Ok(rules)
}

/// What every registration needs: to tell which cluster it is, and to renew its own token.
pub(super) fn base(account: &ServiceAccountName) -> Rules {
    let uid = json!({"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]});
    let token = json!({"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [account.name],
        "verbs": ["create"]});
    Rules::from([(None, vec![uid]), (Some(account.namespace.clone()), vec![token])])
}

/// Adds rules that are not there yet.
pub(super) fn merge(into: &mut Rules, other: Rules) {
    for (namespace, rules) in other {
        let known = into.entry(namespace).or_default();
        for rule in rules {
            if !known.contains(&rule) {
                known.push(rule);
            }
        }
    }
}

/// The name of all roles and bindings of a ServiceAccount.
pub(super) fn role_name(account: &ServiceAccountName) -> String {
    format!("kross:{}:{}", account.namespace, account.name)
}

/// The labels of everything that a registration creates in the cluster.
pub(super) fn object_labels(account: &ServiceAccountName) -> Json {
    json!({labels::REGISTRATION: account.name, labels::REGISTRATION_NAMESPACE: account.namespace})
}

/// The ServiceAccount, with the hub and the Secret that it is for.
pub(super) fn service_account(account: &ServiceAccountName, registered_for: &str) -> Json {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {
        "name": account.name, "namespace": account.namespace, "labels": object_labels(account),
        "annotations": {kross_api::annotations::REGISTERED_FOR: registered_for}}})
}

/// The roles with these rules, and their bindings to the ServiceAccount.
pub(super) fn roles(account: &ServiceAccountName, rules: &Rules) -> Vec<Json> {
    let name = role_name(account);
    let mut objects = Vec::new();
    for (namespace, rules) in rules {
        let (role, binding) = match namespace {
            None => ("ClusterRole", "ClusterRoleBinding"),
            Some(_) => ("Role", "RoleBinding"),
        };
        let mut metadata = json!({"name": name, "labels": object_labels(account)});
        if let (Some(namespace), Some(metadata)) = (namespace, metadata.as_object_mut()) {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        let api_version = format!("{RBAC}/v1");
        objects.push(json!({"apiVersion": api_version, "kind": role, "metadata": metadata, "rules": rules}));
        objects.push(json!({"apiVersion": api_version, "kind": binding, "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": role, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}]}));
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_may_renew_its_own_token_and_no_other_one() {
        let account = ServiceAccountName::parse("kro-system/kross-eu").unwrap();
        let mut rules = base(&account);
        merge(&mut rules, base(&account));
        let objects = roles(&account, &rules);
        assert_eq!(objects.len(), 4, "{objects:#?}");
        let role = objects.iter().find(|object| object["kind"] == "Role").unwrap();
        assert_eq!(role["metadata"]["namespace"], "kro-system");
        assert_eq!(role["rules"].as_array().unwrap().len(), 1);
        assert_eq!(role["rules"][0]["resourceNames"], json!(["kross-eu"]));
        let names: Vec<_> =
            objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
        assert!(names.iter().all(|name| *name == "kross:kro-system:kross-eu"), "{names:?}");
    }
}
