//! The users of a target: the instances and the resources of applications whose inventories name it, from the index or, before a
//! release, from complete lists.

use std::collections::BTreeSet;

use kross_api::labels;
use kross_cluster::{ApiError, ApiKind, ObjectKey};
use kross_value::Text;
use tokio::time::Instant;

use crate::context::Context;
use crate::key::WorkloadKey;
use crate::kinds;
use crate::secret_protection::existing_kind;
use crate::secret_users::{InventoryReference, may_reference};
use crate::workload::WorkloadKind;

/// The users of a target that the index knows.
pub(super) fn indexed(context: &Context, key: &WorkloadKey) -> Vec<ObjectKey> {
    let mut users = context.secret_users.of_target(&key.namespace, &key.name);
    users.retain(|user| may_use(user, &key.namespace));
    sorted(users)
}

/// An instance uses targets of its own namespace, or has none. An inventory is written by whoever may edit the instance, and must
/// not keep the targets of others.
fn may_use(user: &ObjectKey, namespace: &Text) -> bool {
    user.namespace.as_ref().is_none_or(|own| own == namespace)
}

/// The users of a target by complete lists of every kind that can have one; none while those kinds are not known.
///
/// # Errors
/// A list fails.
pub(super) async fn listed(context: &Context, key: &WorkloadKey) -> Result<Option<Vec<ObjectKey>>, ApiError> {
    let Some(kinds) = kinds_of_users(context).await? else { return Ok(None) };
    let target = InventoryReference::Target { namespace: key.namespace.clone(), name: key.name.clone() };
    let mut users = Vec::new();
    for kind in kinds {
        let selector = format!("{}={}", labels::OWNED, labels::OWNED_TRUE);
        // Every resource of an application counts, with the label or without.
        let is_resource = WorkloadKind::find(&kind.group, &kind.kind).is_some();
        let selector = (!is_resource).then_some(selector.as_str());
        let namespace = kind.namespaced.then_some(&*key.namespace);
        let listed = match context.client.list_with_outlines(&kind, namespace, selector).await {
            Ok(listed) => listed,
            // Its CRD was deleted, and its objects with it.
            Err(error) if error.is_kind_not_served() => continue,
            Err(error) => return Err(error),
        };
        let using = listed.iter().filter(|user| may_reference(user, &target));
        users.extend(using.map(|user| user.key(context.client.cluster())));
    }
    Ok(Some(sorted(users)))
}

/// Every kind whose objects can use a target: those of the CRDs that definitions own, the existing kinds that definitions name,
/// and the resources of applications.
async fn kinds_of_users(context: &Context) -> Result<Option<Vec<ApiKind>>, ApiError> {
    let (Some(crds), Some(definitions)) = (context.crds.list_readable(), context.definitions.list_readable())
    else {
        return Ok(None);
    };
    // One that is not established may have been, and may have objects.
    let ours = crds.iter().filter(|crd| crd.label(labels::OWNED).is_some());
    let mut kinds: Vec<ApiKind> = ours.filter_map(|crd| kinds::served_by(crd.value())).collect();
    let existing: BTreeSet<(&str, &str)> =
        definitions.iter().filter_map(|definition| existing_kind(definition)).collect();
    for (group, kind) in existing {
        if let Some(served) = context.client.served_kind(group, kind, Instant::now()).await? {
            kinds.push(ApiKind::clone(&served));
        }
    }
    kinds.push(WorkloadKind::ApplicationResource.api_kind());
    Ok(Some(kinds))
}

fn sorted(mut users: Vec<ObjectKey>) -> Vec<ObjectKey> {
    users.sort_by_key(describe);
    users
}

/// Kind and name of a user, for messages.
pub(super) fn describe(user: &ObjectKey) -> String {
    format!("{} `{}`", user.kind, user.namespaced_name())
}
