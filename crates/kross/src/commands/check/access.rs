//! Asks the hub whether the caller, or the controller's ServiceAccount, may do something.

use kross_api::ServiceAccount;
use kross_cluster::ResourceAccess;
use serde_json::{Value as Json, json};

use crate::hub::Hub;

const SELF_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Something on a resource: `create` on `clusterroles.rbac.authorization.k8s.io`.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct Permission {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
}

impl Permission {
    pub(in crate::commands) const fn new(
        verb: &'static str,
        group: &'static str,
        resource: &'static str,
    ) -> Self {
        Self { verb, group, resource }
    }

    /// As people write it.
    pub(super) fn text(self) -> String {
        let Self { verb, group, resource } = self;
        if group.is_empty() { format!("{verb} {resource}") } else { format!("{verb} {resource}.{group}") }
    }
}

/// Whether the caller has a permission. None if the hub does not tell.
pub(super) async fn caller_may(hub: &Hub, permission: Permission, namespace: Option<&str>) -> Option<bool> {
    let Permission { verb, group, resource } = permission;
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource,
            "subresource": subresource, "namespace": namespace.unwrap_or_default()}}});
    let answer = hub.client.submit(SELF_REVIEWS, review.to_string().into()).await.ok()?;
    let answer: Json = serde_json::from_slice(&answer).ok()?;
    answer.pointer("/status/allowed").and_then(Json::as_bool)
}

/// Whether a ServiceAccount has a permission in a namespace, or in all.
///
/// # Errors
/// The caller may not ask.
pub(in crate::commands) async fn account_may(
    hub: &Hub,
    account: &ServiceAccount,
    permission: Permission,
    namespace: Option<&str>,
) -> Result<bool, kross_cluster::ApiError> {
    let access = ResourceAccess {
        verb: permission.verb,
        group: permission.group.to_owned(),
        resource: permission.resource.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: None,
    };
    hub.client.review_access(account, &access).await
}
