//! Turns an object of ours into one that belongs to nobody: our labels, annotations and claims on fields go, everything else
//! stays as it is.

use http::Method;
use kross_api::{FailureReason, Operation};
use kross_value::Value;
use serde_json::{Value as Json, json};

use super::rest::{MERGE_PATCH, Target, body, managed};
use crate::client::{ApiRequest, ClusterClient};
use crate::discovery::ApiKind;
use crate::error::ApiError;

/// How often somebody may change the object in between before that is an error.
const ATTEMPTS: u32 = 5;

/// What makes an object somebody's.
#[derive(Clone, Copy, Debug)]
pub struct OwnershipMarks<'a> {
    /// The field manager whose claims go.
    pub manager: &'a str,
    /// Whether a label or an annotation with this key and value goes.
    pub is_mark: fn(&str, &str) -> bool,
}

/// What became of an object that was to be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// It belongs to nobody now.
    Released,
    /// It is not there any more, or another one is in its place.
    NotFound,
}

impl ClusterClient {
    /// Takes every mark off the object with this UID.
    ///
    /// # Errors
    /// The cluster refuses or does not answer, or others change the object all the time.
    pub async fn release(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
        uid: &str,
        marks: OwnershipMarks<'_>,
    ) -> Result<ReleaseOutcome, ApiError> {
        let mut attempts = 1;
        loop {
            let released = self.release_once(kind, namespace, name, uid, marks).await;
            match released {
                Err(error) if error.is_object_not_found() => return Ok(ReleaseOutcome::NotFound),
                Err(error) if error.reason() == FailureReason::Conflict && attempts < ATTEMPTS => {
                    attempts += 1;
                }
                released => return released,
            }
        }
    }

    async fn release_once(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        name: &str,
        uid: &str,
        marks: OwnershipMarks<'_>,
    ) -> Result<ReleaseOutcome, ApiError> {
        let target = Target { kind, namespace, name, operation: Operation::Update };
        // As the server has it: our copies are without managed fields.
        let response = self.perform(&target, ApiRequest::get(target.path(self, None)?)).await?;
        let object: Json = serde_json::from_slice(&response.body).unwrap_or_default();
        let Some(metadata) =
            object.get("metadata").filter(|metadata| metadata.get("uid") == Some(&uid.into()))
        else {
            return Ok(ReleaseOutcome::NotFound);
        };
        let Some(patch) = patch(metadata, marks) else { return Ok(ReleaseOutcome::Released) };
        let path = managed(target.path(self, None)?, marks.manager);
        let patch = Value::from(patch);
        self.perform(&target, ApiRequest::write(Method::PATCH, path, MERGE_PATCH, body(&patch))).await?;
        Ok(ReleaseOutcome::Released)
    }
}

/// A merge patch that takes the marks off; none where there is no mark.
fn patch(metadata: &Json, marks: OwnershipMarks<'_>) -> Option<Json> {
    let nulls = |field: &str| {
        let entries = metadata.get(field).and_then(Json::as_object).into_iter().flatten();
        let ours = entries.filter(|(key, value)| (marks.is_mark)(key, value.as_str().unwrap_or_default()));
        ours.map(|(key, _)| (key.clone(), Json::Null)).collect::<serde_json::Map<_, _>>()
    };
    let (labels, annotations) = (nulls("labels"), nulls("annotations"));
    let claims = metadata.get("managedFields").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let is_ours = |claim: &&Json| claim.get("manager").and_then(Json::as_str) == Some(marks.manager);
    let claimed = claims.iter().any(|claim| is_ours(&claim));
    if labels.is_empty() && annotations.is_empty() && !claimed {
        return None;
    }
    let mut released = json!({
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
        "labels": labels,
        "annotations": annotations,
    });
    if claimed {
        let mut others: Vec<Json> = claims.iter().filter(|claim| !is_ours(claim)).cloned().collect();
        if others.is_empty() {
            // An empty list would leave them as they are; one empty entry is how a server is told that there are none.
            others.push(json!({}));
        }
        if let Some(released) = released.as_object_mut() {
            released.insert("managedFields".to_owned(), others.into());
        }
    }
    Some(json!({"metadata": released}))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: OwnershipMarks<'_> =
        OwnershipMarks { manager: "us", is_mark: |key, _| key.starts_with("ours/") };

    #[test]
    fn only_marks_are_in_the_patch() {
        let metadata = json!({"uid": "1", "resourceVersion": "7", "labels": {"ours/a": "x", "theirs": "y"},
            "annotations": {"note": "z"}, "managedFields": [{"manager": "us", "operation": "Apply"}, {"manager": "kubectl"}]});
        assert_eq!(
            patch(&metadata, MARKS).unwrap(),
            json!({"metadata": {"uid": "1", "resourceVersion": "7", "labels": {"ours/a": null}, "annotations": {},
                "managedFields": [{"manager": "kubectl"}]}})
        );
    }

    #[test]
    fn the_last_claim_leaves_an_empty_entry_and_no_mark_leaves_no_patch() {
        let metadata = json!({"uid": "1", "managedFields": [{"manager": "us"}]});
        assert_eq!(patch(&metadata, MARKS).unwrap()["metadata"]["managedFields"], json!([{}]));
        assert!(patch(&json!({"uid": "1", "managedFields": [{"manager": "kubectl"}]}), MARKS).is_none());
    }
}
