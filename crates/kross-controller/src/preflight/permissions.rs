//! Asks a cluster what we may do there. What it does not tell is no reason to stop: the first request will.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use kross_cluster::{ApiError, ClusterClient};
use kross_schema::SchemaResolver;
use kross_value::Text;
use serde::Deserialize;
use serde_json::json;

use super::needs::{Name, Need, Needs, Place};
use super::site::Site;

/// Questions that are asked at once.
const QUESTIONS_AT_ONCE: usize = 8;
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Something that we may not do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Denied {
    /// `deployments.apps`.
    pub(crate) resource: Text,
    /// In which namespace; none for all of them, or for a resource without namespaces.
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

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Question {
    group: Text,
    resource: Text,
    namespace: Option<Text>,
    name: Option<Text>,
    verb: &'static str,
    /// Whether a "no" is one: a permission in all namespaces may be missing although those that count are permitted.
    definite: bool,
}

impl Question {
    /// Whether it is about less than all objects of the resource.
    fn is_narrow(&self) -> bool {
        self.namespace.is_some() || self.name.is_some()
    }
}

#[derive(Default, Deserialize)]
struct Review {
    #[serde(default)]
    status: ReviewStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReviewStatus {
    allowed: bool,
    evaluation_error: String,
}

/// What we lack, of all that is needed. Answers that are known already are good for some time.
pub(super) async fn missing(
    client: &ClusterClient,
    site: &Site,
    needs: &Needs,
    schemas: &dyn SchemaResolver,
    age: Duration,
) -> Result<Vec<Denied>, ApiError> {
    let questions = questions(needs, schemas);
    let everything = Question {
        group: "*".into(),
        resource: "*".into(),
        namespace: None,
        name: None,
        verb: "*",
        definite: true,
    };
    if questions.is_empty() || find_out(client, site, &everything, age).await? == Some(true) {
        return Ok(Vec::new());
    }
    let answers: Vec<(Question, Option<bool>)> = stream::iter(questions)
        .map(|question| async move {
            let everywhere = Question { namespace: None, name: None, definite: true, ..question.clone() };
            let answer = match find_out(client, site, &everywhere, age).await? {
                // Who may everywhere may there, and that need be asked only once.
                answer if answer == Some(true) || !question.is_narrow() => answer,
                _ => find_out(client, site, &question, age).await?,
            };
            Ok::<_, ApiError>((question, answer))
        })
        .buffered(QUESTIONS_AT_ONCE)
        .try_collect()
        .await?;
    let mut denied: BTreeMap<(Text, Option<Text>), Vec<&'static str>> = BTreeMap::new();
    for (question, answer) in answers {
        if answer == Some(false) && question.definite {
            let resource = if question.group.is_empty() {
                question.resource
            } else {
                format!("{}.{}", question.resource, question.group).into()
            };
            denied.entry((resource, question.namespace)).or_default().push(question.verb);
        }
    }
    Ok(denied
        .into_iter()
        .map(|((resource, namespace), verbs)| Denied { resource, namespace, verbs })
        .collect())
}

fn questions(needs: &Needs, schemas: &dyn SchemaResolver) -> Vec<Question> {
    let mut questions = Vec::new();
    for need in needs.iter() {
        // A kind that is not there is reported as such.
        let Some(kind) = schemas.resolve(&need.kind) else { continue };
        for verb in verbs(need) {
            // Copies of what we write span all namespaces.
            let spans = need.written && matches!(verb, "list" | "watch");
            let (namespace, definite) = match &need.place {
                _ if !kind.namespaced || spans => (None, true),
                Place::Namespace(namespace) => (Some(namespace.clone()), true),
                Place::Everywhere => (None, true),
                Place::Anywhere => (None, false),
            };
            // What is not there yet has no name that a rule could give, nor has a copy of many.
            let (name, definite) = match &need.name {
                Name::Literal(name) if !spans && verb != "create" => (Some(name.clone()), definite),
                // Whoever names objects to read elsewhere may well be allowed these alone.
                Name::Some if !need.written => (None, false),
                Name::Any | Name::Some | Name::Literal(_) => (None, definite),
            };
            let (group, resource) = (need.kind.group.clone(), kind.plural.clone());
            questions.push(Question { group, resource, namespace, name, verb, definite });
        }
    }
    questions.sort();
    questions.dedup();
    questions
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

/// Asks, unless the answer is known.
async fn find_out(
    client: &ClusterClient,
    site: &Site,
    question: &Question,
    age: Duration,
) -> Result<Option<bool>, ApiError> {
    if let Some(answer) = site.answer(question, age) {
        return Ok(answer);
    }
    let answer = ask(client, question).await?;
    site.keep(question.clone(), answer);
    Ok(answer)
}

/// Whether we may; none where the cluster cannot tell.
async fn ask(client: &ClusterClient, question: &Question) -> Result<Option<bool>, ApiError> {
    let Question { group, resource, namespace, name, verb, definite: _ } = question;
    let attributes = json!({"group": group.as_str(), "resource": resource.as_str(), "verb": verb,
        "namespace": namespace.as_deref().unwrap_or_default(), "name": name.as_deref().unwrap_or_default()});
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes}});
    match client.submit(ACCESS_REVIEWS, review.to_string().into()).await {
        Ok(answer) => {
            let Ok(Review { status }) = serde_json::from_slice(&answer) else { return Ok(None) };
            Ok((status.allowed || status.evaluation_error.is_empty()).then_some(status.allowed))
        }
        // Whoever may not ask is not told; an answer of this kind is one, though.
        Err(error) if error.code().is_some_and(|code| code < 500) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use kross_schema::Bundle;

    use super::*;

    /// The questions about a resource, one line each: verb, resource, where, which, and `?` where a "no" would say nothing.
    fn asked(resource: &serde_json::Value, watched: bool, home: &Place) -> Vec<String> {
        let spec = json!({"schema": {"apiVersion": "v1alpha1", "kind": "App"}, "resources": [resource]});
        let spec = serde_json::from_value(spec).unwrap();
        let questions = questions(&Needs::of(&spec, [(0, watched)], home), &*Bundle::latest());
        let line = |question: &Question| {
            let Question { resource, namespace, name, verb, definite, .. } = question;
            let (namespace, name) = (namespace.as_deref().unwrap_or("*"), name.as_deref().unwrap_or("*"));
            format!("{verb} {resource} {namespace}/{name}{}", if *definite { "" } else { "?" })
        };
        questions.iter().map(line).collect()
    }

    fn made(metadata: &serde_json::Value) -> serde_json::Value {
        json!({"id": "one", "template": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}})
    }

    fn read(metadata: &serde_json::Value) -> serde_json::Value {
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        json!({"id": "one", "externalRef": reference})
    }

    #[test]
    fn what_is_made_is_followed_everywhere_and_written_where_it_is() {
        let metadata = json!({"name": "${schema.metadata.name}", "namespace": "shop"});
        assert_eq!(
            asked(&made(&metadata), true, &Place::Anywhere),
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
            asked(&made(&metadata), false, &Place::Anywhere),
            [
                "create deployments */*?",
                "list deployments */*",
                "delete deployments */web?",
                "get deployments */web?",
                "patch deployments */web?",
            ],
            "where it goes only an instance knows"
        );
    }

    #[test]
    fn what_is_read_may_be_allowed_by_its_name_alone() {
        let home = Place::Namespace("shop".into());
        assert_eq!(
            asked(&read(&json!({"name": "settings"})), true, &home),
            [
                "get configmaps shop/settings",
                "list configmaps shop/settings",
                "watch configmaps shop/settings"
            ]
        );
        assert_eq!(
            asked(&read(&json!({"name": "${schema.spec.name}"})), false, &home),
            ["get configmaps shop/*?", "list configmaps shop/*?"]
        );
        assert_eq!(
            asked(&read(&json!({"selector": {"matchLabels": {"a": "b"}}})), false, &home),
            ["get configmaps */*", "list configmaps */*"]
        );
    }
    #[test]
    fn namespaces_that_a_selector_finds_are_read_as_well() {
        let selector = json!({"matchLabels": {"env": "production"}});
        let reference =
            json!({"apiVersion": "apps/v1", "kind": "DeploymentList", "namespaceSelector": selector});
        assert_eq!(
            asked(&json!({"id": "one", "externalRef": reference}), true, &Place::Anywhere),
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
