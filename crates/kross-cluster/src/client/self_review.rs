//! Turns a refusal without a reason into one that says who may not do what. Older API servers give none when an apply would
//! create an object and its sender may only patch.

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
    /// Who we are there, if the cluster tells.
    pub async fn user(&self) -> Option<Text> {
        let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let response = self.submit(REVIEWS, question.to_string().into()).await.ok()?;
        let review: Review = serde_json::from_slice(&response).ok()?;
        Some(review.status.user_info.username).filter(|name| !name.is_empty()).map(Into::into)
    }

    /// The same refusal, with its reason where the cluster gave none.
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
        let place = match target.namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let (resource, group) = (&target.kind.plural, &target.kind.group);
        error.with_reason(&format!(
            "User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}"
        ))
    }
}
