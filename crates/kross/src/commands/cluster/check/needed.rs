//! Finds out which rules the credential of a cluster needs: those of every registration, and those of the definitions that use the
//! cluster, on the hub or in files.

use std::path::PathBuf;

use kross_api::SecretAddress;
use serde_json::Value as Json;

use super::super::grants::{self, Rules};
use super::super::registration::Registration;
use super::super::users::names;
use crate::commands::get::listable_instances;
use crate::commands::rbac;
use crate::hub::{Definition, Hub, InstanceView, text};
use crate::input::{Input, SchemaArguments};
use crate::output::Output;

/// Where definitions are.
pub(super) enum Source<'a> {
    /// On the hub, as far as the caller may read them.
    Hub,
    /// In files.
    Files(&'a [PathBuf], &'a SchemaArguments),
}

/// The rules that are needed.
///
/// # Errors
/// A file cannot be read, or a definition in one has errors.
pub(super) async fn rules(
    hub: &Hub,
    source: Source<'_>,
    registration: &Registration,
    output: &mut Output,
) -> anyhow::Result<Rules> {
    let secret = (registration.namespace.as_str(), registration.name.as_str());
    let mut rules = registration.service_account().map(|account| grants::base(&account)).unwrap_or_default();
    let needed = match source {
        Source::Files(paths, schemas) => grants::from_definitions(paths, schemas, secret, output)?,
        Source::Hub => of_the_hub(hub, secret, output).await?,
    };
    grants::merge(&mut rules, needed);
    Ok(rules)
}

/// The rules of the definitions on the hub. Those that do not compile are left out: `kross validate` is for them.
async fn of_the_hub(hub: &Hub, secret: (&str, &str), output: &mut Output) -> anyhow::Result<Rules> {
    let Some(definitions) = hub.definitions().await else {
        output.note("note: you may not list definitions, so what their graphs need is not checked; pass them with `--from-definitions`");
        return Ok(Rules::new());
    };
    let crds = match hub.kind("customresourcedefinitions") {
        Ok(kind) => hub.list(&kind, None, None).await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let users = users(hub, secret).await?;
    let address = SecretAddress {
        namespace: secret.0.to_owned(),
        name: secret.1.to_owned(),
        key: kross_api::KUBECONFIG_KEY.to_owned(),
    };
    let is_user = |definition: &Definition| {
        users.iter().any(|instance| {
            let version = text(instance, "/apiVersion").unwrap_or_default();
            definition.serves(version, InstanceView(instance).kind()) && definition.has_instance(instance)
        })
    };
    let mut rules = Rules::new();
    // A definition whose instances choose their clusters needs something here only if one of them chose this one.
    for definition in definitions.iter().filter(|it| it.names_statically(&address) || is_user(it)) {
        let mut input = Input::default();
        input.add_text(definition.name(), &kross_api::to_yaml(&definition.0));
        for crd in &crds {
            input.add_text("CustomResourceDefinition", &kross_api::to_yaml(crd));
        }
        let schemas = input.schemas(&SchemaArguments::default())?;
        match rbac::remote_rules(input, &schemas, secret) {
            Ok(found) => grants::merge(&mut rules, found),
            Err(_) => output.note(format_args!(
                "note: what definition `{}` needs is not checked: it does not compile with the kinds of the hub",
                definition.name()
            )),
        }
    }
    Ok(rules)
}

/// The instances that use a Secret, as far as the caller may list them.
async fn users(hub: &Hub, (namespace, name): (&str, &str)) -> anyhow::Result<Vec<Json>> {
    let (mut instances, _) = listable_instances(hub, None).await?;
    instances.retain(|instance| names(instance, namespace, name));
    Ok(instances)
}
