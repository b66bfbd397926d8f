//! Adds who may not do what to a Forbidden error without an explanation. Older API servers give none when an apply
//! would create an object and its user may only patch.

use kross_api::{FailureReason, Operation};
use kross_value::Text;
use serde::Deserialize;
use serde_json::json;

use super::rest::Target;
use crate::client::ClusterClient;
use crate::error::ApiError;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[derive(Deserialize)]
struct Review {
    status: ReviewStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewStatus {
    user_info: UserInfo,
}

#[derive(Deserialize)]
struct UserInfo {
    username: String,
}

impl ClusterClient {
    /// The user name of our credential in the cluster, if the cluster reports it.
    pub async fn user(&self) -> Option<Text> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let response = self.submit(REVIEWS, review.to_string().into()).await.ok()?;
        let reviewed: Review = serde_json::from_slice(&response).ok()?;
        Some(reviewed.status.user_info.username).filter(|name| !name.is_empty()).map(Into::into)
    }

    /// Adds an explanation to a Forbidden error that has none.
    pub(super) async fn explain_forbidden(&self, target: &Target<'_>, error: ApiError) -> ApiError {
        if error.reason() != FailureReason::Forbidden || !error.message().ends_with("is forbidden:") {
            return error;
        }
        let Some(user) = self.user().await else { return error };
        let verb = match target.operation {
            Operation::Create => "create",
            Operation::Delete => "delete",
            Operation::Update => "patch",
            _ => "get",
        };
        let scope = match target.namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let (resource, group) = (&target.kind.plural, &target.kind.group);
        error.with_reason(&format!(
            "User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
        ))
    }
}
