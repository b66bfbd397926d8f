//! SubjectAccessReviews: whether a ServiceAccount may do something, as the API server's authorizers decide.

use kross_api::{Operation, ServiceAccount};
use serde::Deserialize;
use serde_json::json;

use super::ClusterClient;
use crate::error::{ApiError, Attempt};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// What a ServiceAccount may or may not do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceAccess {
    /// The verb, such as `get`.
    pub verb: &'static str,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name of the kind.
    pub resource: String,
    /// The namespace; none for all of them, and for kinds without namespaces.
    pub namespace: Option<String>,
    /// The name of the object; none for all of them.
    pub name: Option<String>,
}

#[derive(Deserialize)]
struct Review {
    status: ReviewStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewStatus {
    allowed: bool,
    #[serde(default)]
    denied: bool,
}

impl ClusterClient {
    /// Whether a ServiceAccount may do something. A response that does not say so clearly is an error, and not a yes.
    ///
    /// # Errors
    /// The cluster rejects the request, does not answer, or answers something else.
    pub async fn review_access(
        &self,
        account: &ServiceAccount,
        access: &ResourceAccess,
    ) -> Result<bool, ApiError> {
        let ResourceAccess { verb, group, resource, namespace, name } = access;
        let attributes = json!({"verb": verb, "group": group, "resource": resource,
            "namespace": namespace.as_deref().unwrap_or_default(), "name": name.as_deref().unwrap_or_default()});
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": account.user(), "groups": account.groups(), "resourceAttributes": attributes}});
        let response = self.as_itself().submit(REVIEWS, review.to_string().into()).await?;
        match serde_json::from_slice(&response) {
            Ok(Review { status: ReviewStatus { allowed, denied } }) => Ok(allowed && !denied),
            Err(_) => {
                let (cluster, target) = (self.cluster().clone(), "`subjectaccessreviews`".to_owned());
                let attempt = Attempt { cluster, operation: Operation::Create, target };
                Err(ApiError::unexpected_response(attempt, "the response is not a SubjectAccessReview"))
            }
        }
    }
}
