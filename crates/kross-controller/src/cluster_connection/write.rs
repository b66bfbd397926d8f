//! Creates, updates and deletes ClusterConnections.

use kross_api::{
    ClusterConnectionSpec, ClusterConnectionStatus, ConnectionSecretReference, SecretAddress,
    cluster_connection_name, managers,
};
use kross_cluster::{ApiError, Cache, ClusterClient, Delete, StoredObject};
use kross_value::Value;
use serde_json::json;

use crate::kinds;

/// The status that an object has.
pub(super) fn status_of(object: &StoredObject) -> Option<ClusterConnectionStatus> {
    let status = serde_json::to_value(object.value().get("status")?).ok()?;
    serde_json::from_value(status).ok()
}

/// Whether an object is of this Secret.
pub(super) fn is_of(object: &StoredObject, secret: &SecretAddress) -> bool {
    let spec = object.value().get("spec").and_then(|spec| serde_json::to_value(spec).ok());
    let spec = spec.and_then(|spec| serde_json::from_value::<ClusterConnectionSpec>(spec).ok());
    spec.is_some_and(|spec| spec.secret_ref == ConnectionSecretReference::from(secret))
}

/// Creates the object of a Secret, and then its status, which is another request.
pub(super) async fn create(
    client: &ClusterClient,
    cache: &Cache,
    secret: &SecretAddress,
    status: &ClusterConnectionStatus,
) -> Result<(), ApiError> {
    let (kind, name) = (kinds::cluster_connection(), cluster_connection_name(secret));
    let object = json!({"apiVersion": "kro.run/v1alpha1", "kind": &*kind.kind, "metadata": {"name": name},
        "spec": ClusterConnectionSpec { secret_ref: secret.into() }});
    let created = client.create(&kind, &object.into(), managers::CONNECTIONS).await?;
    update(client, cache, &created, status).await
}

/// Replaces the status of exactly this version of an object.
pub(super) async fn update(
    client: &ClusterClient,
    cache: &Cache,
    object: &StoredObject,
    status: &ClusterConnectionStatus,
) -> Result<(), ApiError> {
    let mut updated = object.value().clone();
    if let Some(fields) = updated.as_object_mut() {
        fields.insert("status", Value::from(json!(status)));
    }
    let kind = kinds::cluster_connection();
    let written = client.replace(&kind, &updated, Some("status"), managers::CONNECTIONS).await?;
    cache.observe(&written);
    Ok(())
}

/// Deletes exactly this object.
pub(super) async fn delete(client: &ClusterClient, object: &StoredObject) -> Result<(), ApiError> {
    let options = Delete { uid: Some(object.uid()), ..Delete::default() };
    client.delete(&kinds::cluster_connection(), None, object.name(), options).await?;
    Ok(())
}
