//! Releases a managed object: removes our labels, annotations and managed fields, and leaves everything else as it is.

use http::Method;
use kross_api::{FailureReason, Operation};
use kross_value::Value;
use serde_json::{Value as Json, json};

use super::rest::{MERGE_PATCH, Target, body, with_manager};
use crate::client::{ApiRequest, ClusterClient};
use crate::discovery::ApiKind;
use crate::error::ApiError;

/// How often a release is retried after a conflict.
const MAX_ATTEMPTS: u32 = 5;

/// What marks an object as ours.
#[derive(Clone, Copy, Debug)]
pub struct OwnershipMarks<'a> {
    /// The field manager whose managed fields are removed.
    pub manager: &'a str,
    /// Whether a label or annotation with this key and value is removed.
    pub is_mark: fn(&str, &str) -> bool,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The object has no ownership marks any more.
    Released,
    /// The object does not exist, or another one has its name.
    NotFound,
}

impl ClusterClient {
    /// Removes all ownership marks from the object with this UID.
    ///
    /// # Errors
    /// The cluster rejects the request or does not answer, or the object keeps changing.
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
                Err(error) if error.reason() == FailureReason::Conflict && attempts < MAX_ATTEMPTS => {
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
        // From the server: cached objects have no managed fields.
        let response = self.perform(&target, ApiRequest::get(target.path(self, None)?)).await?;
        // A response that is not the object does not prove that another one has its name.
        let bytes = response.body.clone();
        self.object_or_outline(&target, response).await?;
        let object: Json = serde_json::from_slice(&bytes).unwrap_or_default();
        let Some(metadata) =
            object.get("metadata").filter(|metadata| metadata.get("uid") == Some(&uid.into()))
        else {
            return Ok(ReleaseOutcome::NotFound);
        };
        let Some(patch) = patch(metadata, marks) else { return Ok(ReleaseOutcome::Released) };
        let path = with_manager(target.path(self, None)?, marks.manager);
        let patch = Value::from(patch);
        self.perform(&target, ApiRequest::write(Method::PATCH, path, MERGE_PATCH, body(&patch))).await?;
        Ok(ReleaseOutcome::Released)
    }
}

/// A merge patch that removes the ownership marks; `None` if there are none.
fn patch(metadata: &Json, marks: OwnershipMarks<'_>) -> Option<Json> {
    let nulls = |field: &str| {
        let entries = metadata.get(field).and_then(Json::as_object).into_iter().flatten();
        let ours = entries.filter(|(key, value)| (marks.is_mark)(key, value.as_str().unwrap_or_default()));
        ours.map(|(key, _)| (key.clone(), Json::Null)).collect::<serde_json::Map<_, _>>()
    };
    let (labels, annotations) = (nulls("labels"), nulls("annotations"));
    let managed_fields =
        metadata.get("managedFields").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let is_ours = |entry: &&Json| entry.get("manager").and_then(Json::as_str) == Some(marks.manager);
    let is_managed = managed_fields.iter().any(|entry| is_ours(&entry));
    if labels.is_empty() && annotations.is_empty() && !is_managed {
        return None;
    }
    let mut released = json!({
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
        "labels": labels,
        "annotations": annotations,
    });
    if is_managed {
        let mut others: Vec<Json> = managed_fields.iter().filter(|entry| !is_ours(entry)).cloned().collect();
        if others.is_empty() {
            // An empty list would change nothing; a list with one empty entry removes all managed fields.
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
    fn the_patch_removes_only_ownership_marks() {
        let metadata = json!({"uid": "1", "resourceVersion": "7", "labels": {"ours/a": "x", "theirs": "y"},
            "annotations": {"note": "z"}, "managedFields": [{"manager": "us", "operation": "Apply"}, {"manager": "kubectl"}]});
        assert_eq!(
            patch(&metadata, MARKS).unwrap(),
            json!({"metadata": {"uid": "1", "resourceVersion": "7", "labels": {"ours/a": null}, "annotations": {},
                "managedFields": [{"manager": "kubectl"}]}})
        );
    }

    #[test]
    fn the_last_manager_leaves_an_empty_entry_and_an_unmarked_object_needs_no_patch() {
        let metadata = json!({"uid": "1", "managedFields": [{"manager": "us"}]});
        assert_eq!(patch(&metadata, MARKS).unwrap()["metadata"]["managedFields"], json!([{}]));
        assert!(patch(&json!({"uid": "1", "managedFields": [{"manager": "kubectl"}]}), MARKS).is_none());
    }
}
