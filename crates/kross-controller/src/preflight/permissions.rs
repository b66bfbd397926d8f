//! Reviews our access to a cluster with SelfSubjectAccessReviews. An access that the cluster does not decide is no reason to
//! stop: the first request will tell.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use kross_cluster::{ApiError, ClusterClient};
use kross_schema::SchemaResolver;
use kross_value::Text;
use serde::Deserialize;
use serde_json::json;

use super::cluster::ClusterPreflight;
use super::needs::{Name, Need, Needs, Place};

/// How many reviews of one preflight run at once.
const CONCURRENT_REVIEWS: usize = 8;
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// An access that is denied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Denied {
    /// `deployments.apps`.
    pub(crate) resource: Text,
    /// The namespace; none for all namespaces, or for a cluster-scoped resource.
    pub(crate) namespace: Option<Text>,
    /// `get`, `list` and so on.
    pub(crate) verbs: Vec<&'static str>,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.verbs.join(", "), self.resource)?;
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace `{namespace}`"),
            None => Ok(()),
        }
    }
}

/// One access to review.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct AccessReview {
    group: Text,
    resource: Text,
    namespace: Option<Text>,
    name: Option<Text>,
    verb: &'static str,
    /// Whether a denial counts: access to all namespaces may be denied although the one that is needed is allowed.
    definite: bool,
}

impl AccessReview {
    /// Access to everything.
    fn cluster_admin() -> Self {
        Self {
            group: "*".into(),
            resource: "*".into(),
            namespace: None,
            name: None,
            verb: "*",
            definite: true,
        }
    }

    /// The same access to all objects of the resource.
    fn cluster_wide(&self) -> Self {
        Self { namespace: None, name: None, definite: true, ..self.clone() }
    }

    /// Whether it is about less than all objects of the resource.
    fn is_narrow(&self) -> bool {
        self.namespace.is_some() || self.name.is_some()
    }
}

#[derive(Default, Deserialize)]
struct Response {
    #[serde(default)]
    status: ResponseStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResponseStatus {
    allowed: bool,
    evaluation_error: String,
}

/// The accesses that are needed and denied. Responses of other preflights of the cluster are reused up to `max_age`.
pub(super) async fn denied(
    client: &ClusterClient,
    cluster: &ClusterPreflight,
    needs: &Needs,
    schemas: &dyn SchemaResolver,
    max_age: Duration,
) -> Result<Vec<Denied>, ApiError> {
    let reviews = reviews(needs, schemas);
    let everything = AccessReview::cluster_admin();
    if reviews.is_empty() || review(client, cluster, &everything, max_age).await? == Some(true) {
        return Ok(Vec::new());
    }
    let reviewed: Vec<(AccessReview, Option<bool>)> = stream::iter(reviews)
        .map(|narrow| async move {
            let allowed = match review(client, cluster, &narrow.cluster_wide(), max_age).await? {
                // Access to all objects includes these, and is reviewed once for all of them.
                allowed if allowed == Some(true) || !narrow.is_narrow() => allowed,
                _ => review(client, cluster, &narrow, max_age).await?,
            };
            Ok::<_, ApiError>((narrow, allowed))
        })
        .buffered(CONCURRENT_REVIEWS)
        .try_collect()
        .await?;
    let denied = reviewed.into_iter().filter(|(review, allowed)| *allowed == Some(false) && review.definite);
    Ok(by_resource(denied.map(|(review, _)| review)))
}

/// One entry for each resource and namespace, with all verbs.
fn by_resource(reviews: impl Iterator<Item = AccessReview>) -> Vec<Denied> {
    let mut denied: BTreeMap<(Text, Option<Text>), Vec<&'static str>> = BTreeMap::new();
    for AccessReview { group, resource, namespace, verb, .. } in reviews {
        let resource = if group.is_empty() { resource } else { format!("{resource}.{group}").into() };
        denied.entry((resource, namespace)).or_default().push(verb);
    }
    let entries = denied.into_iter();
    entries.map(|((resource, namespace), verbs)| Denied { resource, namespace, verbs }).collect()
}

/// The accesses that are needed.
fn reviews(needs: &Needs, schemas: &dyn SchemaResolver) -> Vec<AccessReview> {
    let mut reviews = Vec::new();
    for need in needs.iter() {
        // A kind that the cluster does not serve is reported as such.
        let Some(kind) = schemas.resolve(&need.kind) else { continue };
        for verb in verbs(need) {
            // The caches of objects that we apply span all namespaces.
            let cached = need.written && matches!(verb, "list" | "watch");
            let (namespace, definite) = match &need.place {
                _ if !kind.namespaced || cached => (None, true),
                Place::Namespace(namespace) => (Some(namespace.clone()), true),
                Place::Everywhere => (None, true),
                Place::Anywhere => (None, false),
            };
            // A rule cannot restrict by name the creation of an object, nor a list of many.
            let (name, definite) = match &need.name {
                Name::Literal(name) if !cached && verb != "create" => (Some(name.clone()), definite),
                // Access may be granted to the external objects that instances name, and to no others.
                Name::Some if !need.written => (None, false),
                Name::Any | Name::Some | Name::Literal(_) => (None, definite),
            };
            let (group, resource) = (need.kind.group.clone(), kind.plural.clone());
            reviews.push(AccessReview { group, resource, namespace, name, verb, definite });
        }
    }
    reviews.sort();
    reviews.dedup();
    reviews
}

fn verbs(need: &Need) -> Vec<&'static str> {
    let mut verbs = vec!["get", "list"];
    if need.watched {
        verbs.push("watch");
    }
    if need.written {
        verbs.extend(["create", "patch", "delete"]);
    }
    verbs
}

/// Whether an access is allowed; none where the cluster cannot tell. Sends a request unless a fresh response is known.
async fn review(
    client: &ClusterClient,
    cluster: &ClusterPreflight,
    review: &AccessReview,
    max_age: Duration,
) -> Result<Option<bool>, ApiError> {
    if let Some(allowed) = cluster.reviewed(review, max_age) {
        return Ok(allowed);
    }
    let allowed = send(client, review).await?;
    cluster.store(review.clone(), allowed);
    Ok(allowed)
}

async fn send(client: &ClusterClient, review: &AccessReview) -> Result<Option<bool>, ApiError> {
    let AccessReview { group, resource, namespace, name, verb, definite: _ } = review;
    let attributes = json!({"group": group.as_str(), "resource": resource.as_str(), "verb": verb,
        "namespace": namespace.as_deref().unwrap_or_default(), "name": name.as_deref().unwrap_or_default()});
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes}});
    match client.submit(ACCESS_REVIEWS, review.to_string().into()).await {
        Ok(response) => {
            let Ok(Response { status }) = serde_json::from_slice(&response) else { return Ok(None) };
            Ok((status.allowed || status.evaluation_error.is_empty()).then_some(status.allowed))
        }
        // The cluster does not let us review our access. Only a server error is worth a retry.
        Err(error) if error.code().is_some_and(|code| code < 500) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use kross_schema::Bundle;

    use super::*;

    /// The reviews for a resource, one line each: verb, resource, namespace, name, and `?` where a denial does not count.
    fn reviewed(resource: &serde_json::Value, watched: bool, home: &Place) -> Vec<String> {
        let spec = json!({"schema": {"apiVersion": "v1alpha1", "kind": "App"}, "resources": [resource]});
        let spec = serde_json::from_value(spec).unwrap();
        let reviews = reviews(&Needs::of(&spec, [(0, watched)], home), &*Bundle::latest());
        let line = |review: &AccessReview| {
            let AccessReview { resource, namespace, name, verb, definite, .. } = review;
            let (namespace, name) = (namespace.as_deref().unwrap_or("*"), name.as_deref().unwrap_or("*"));
            format!("{verb} {resource} {namespace}/{name}{}", if *definite { "" } else { "?" })
        };
        reviews.iter().map(line).collect()
    }

    fn template(metadata: &serde_json::Value) -> serde_json::Value {
        json!({"id": "one", "template": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}})
    }

    fn external(metadata: &serde_json::Value) -> serde_json::Value {
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        json!({"id": "one", "externalRef": reference})
    }

    #[test]
    fn applied_objects_are_watched_in_all_namespaces_and_written_in_their_own() {
        let metadata = json!({"name": "${schema.metadata.name}", "namespace": "shop"});
        assert_eq!(
            reviewed(&template(&metadata), true, &Place::Anywhere),
            [
                "list deployments */*",
                "watch deployments */*",
                "create deployments shop/*",
                "delete deployments shop/*",
                "get deployments shop/*",
                "patch deployments shop/*",
            ]
        );
        let metadata = json!({"name": "web"});
        assert_eq!(
            reviewed(&template(&metadata), false, &Place::Anywhere),
            [
                "create deployments */*?",
                "list deployments */*",
                "delete deployments */web?",
                "get deployments */web?",
                "patch deployments */web?",
            ],
            "without an instance the namespace is unknown"
        );
    }

    #[test]
    fn access_to_external_objects_may_be_granted_by_name() {
        let home = Place::Namespace("shop".into());
        assert_eq!(
            reviewed(&external(&json!({"name": "settings"})), true, &home),
            [
                "get configmaps shop/settings",
                "list configmaps shop/settings",
                "watch configmaps shop/settings"
            ]
        );
        assert_eq!(
            reviewed(&external(&json!({"name": "${schema.spec.name}"})), false, &home),
            ["get configmaps shop/*?", "list configmaps shop/*?"]
        );
        assert_eq!(
            reviewed(&external(&json!({"selector": {"matchLabels": {"a": "b"}}})), false, &home),
            ["get configmaps */*", "list configmaps */*"]
        );
    }

    #[test]
    fn a_namespace_selector_needs_access_to_namespaces() {
        let selector = json!({"matchLabels": {"env": "production"}});
        let reference =
            json!({"apiVersion": "apps/v1", "kind": "DeploymentList", "namespaceSelector": selector});
        assert_eq!(
            reviewed(&json!({"id": "one", "externalRef": reference}), true, &Place::Anywhere),
            [
                "get namespaces */*",
                "list namespaces */*",
                "watch namespaces */*",
                "get deployments */*",
                "list deployments */*",
                "watch deployments */*",
            ]
        );
    }
}
