//! Suspends and resumes the reconciliation of instances, and requests one: each is an annotation that the controller reads.

use anyhow::bail;
use jiff::Timestamp;
use kross_api::annotations;
use kross_cluster::ApiError;
use kross_value::Value;
use serde_json::{Value as Json, json};

use crate::hub::{ConnectionFlags, Hub, InstanceView, ObjectReference, Owner, is_definition, text};
use crate::output::{Outcome, Output};

/// The field manager of annotations that commands set.
const FIELD_MANAGER: &str = "kross-cli";
/// How often an annotation is tried to set while others change the object.
const ATTEMPTS: u32 = 10;

pub(super) const SUSPEND_EXAMPLES: &str = "\
Examples:
  # Stop creating, repairing and pruning the objects of an instance
  kross suspend shop/web -n team

  # Continue
  kross resume shop/web -n team";

pub(super) const RESUME_EXAMPLES: &str = "\
Examples:
  # Continue to reconcile a suspended instance
  kross resume shop/web -n team";

pub(super) const RECONCILE_EXAMPLES: &str = "\
Examples:
  # Reconcile an instance now, instead of after its backoff
  kross reconcile shop/web -n team

  # Check a definition again
  kross reconcile rgd/shop";

/// Arguments of `kross suspend`, `kross resume` and `kross reconcile`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Instance, such as `shop/web`
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    object: Vec<String>,

    #[command(flatten)]
    connection: ConnectionFlags,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Suspend,
    Resume,
    Reconcile,
}

pub(super) fn run(action: Action, arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let reference = ObjectReference::parse(&arguments.object)?;
    crate::hub::block_on(async {
        let hub = arguments.connection.hub().await?;
        let mut attempts = 1;
        loop {
            match annotate(&hub, &reference, action, output).await {
                // The controller has written its status meanwhile: decide again.
                Err(error) if attempts < ATTEMPTS && is_conflict(&error) => attempts += 1,
                ended => return ended.map(|()| Outcome::Success),
            }
        }
    })
}

fn is_conflict(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ApiError>().is_some_and(|error| error.code() == Some(409))
}

/// Reads the object and changes its annotation, only if nobody has changed the object in between, so that no other decision is undone.
async fn annotate(
    hub: &Hub,
    reference: &ObjectReference,
    action: Action,
    output: &mut Output,
) -> anyhow::Result<()> {
    let (kind, object) = super::managed::on_hub(hub, reference).await?;
    let view = InstanceView(&object);
    check(hub, action, &object).await?;
    let title = format!("{}/{}", kind.kind.to_lowercase(), view.name());
    let Some(change) = change(action, view) else {
        let state = if action == Action::Suspend { "suspended" } else { "not suspended" };
        output.note(format_args!("{title} is {state} already"));
        return Ok(());
    };
    let version = text(&object, "/metadata/resourceVersion").unwrap_or_default();
    let patch = json!({"metadata": {"resourceVersion": version, "annotations": change}});
    let patch: Value = serde_json::from_value(patch)?;
    let namespace = hub.namespace_of(&kind, None);
    hub.client.merge_patch(&kind, namespace, view.name(), None, FIELD_MANAGER, &patch).await?;
    output.data(match action {
        Action::Suspend => format!("{title} suspended"),
        Action::Resume => format!("{title} resumed"),
        Action::Reconcile => format!("{title}: reconciliation requested"),
    })?;
    if action == Action::Reconcile && view.is_suspended() {
        output.note(format_args!("note: it is suspended; run `kross resume {}`", view.argument()));
    }
    Ok(())
}

/// Refuses what the controller would not react to.
async fn check(hub: &Hub, action: Action, object: &Json) -> anyhow::Result<()> {
    let view = InstanceView(object);
    if is_definition(object) {
        if action == Action::Reconcile {
            return Ok(());
        }
        bail!("a definition cannot be suspended; suspend its instances: `kross get {}`", served(object));
    }
    let version = text(object, "/apiVersion").unwrap_or_default();
    let definitions = hub.definitions().await;
    let is_served =
        definitions.as_ref().is_none_or(|all| all.iter().any(|known| known.serves(version, view.kind())));
    if is_served
        || version.starts_with("workload.crossplane.io/")
        || version.starts_with("compute.crossplane.io/")
    {
        return Ok(());
    }
    match Owner::of(object) {
        Some(owner) => {
            let namespace = owner.namespace.map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
            bail!(
                "{} is a resource of {}/{}{namespace}: name the instance",
                view.title(),
                owner.kind.to_lowercase(),
                owner.name
            )
        }
        None => {
            bail!("{} is not an instance: no ResourceGraphDefinition serves `{}`", view.title(), view.kind())
        }
    }
}

fn served(definition: &Json) -> String {
    text(definition, "/spec/schema/kind").unwrap_or("instances").to_lowercase()
}

/// The annotations to change; none if there is nothing to change.
fn change(action: Action, view: InstanceView<'_>) -> Option<Json> {
    match action {
        Action::Suspend if view.is_suspended() => None,
        Action::Suspend => Some(json!({annotations::RECONCILE: annotations::RECONCILE_PAUSED.first()})),
        Action::Resume if !view.is_suspended() => None,
        Action::Resume => Some(json!({annotations::RECONCILE: null})),
        Action::Reconcile => Some(json!({annotations::RECONCILE_REQUESTED: Timestamp::now().to_string()})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_so_already_is_changed() {
        let plain = json!({"metadata": {}});
        let paused = json!({"metadata": {"annotations": {"kro.run/reconcile": "Disabled"}}});
        assert_eq!(
            change(Action::Suspend, InstanceView(&plain)),
            Some(json!({"kro.run/reconcile": "suspended"}))
        );
        assert_eq!(change(Action::Suspend, InstanceView(&paused)), None);
        assert_eq!(change(Action::Resume, InstanceView(&paused)), Some(json!({"kro.run/reconcile": null})));
        assert_eq!(change(Action::Resume, InstanceView(&plain)), None);
    }
}
