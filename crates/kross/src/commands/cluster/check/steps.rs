//! The steps of connecting to a cluster, in order: each with its result and how long it took. What fails ends the check.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kross_api::labels;
use kross_cluster::{Accepted, ApiKind, ClientOptions, ClusterClient, ClusterId, is_offered};
use serde_json::{Value as Json, json};

use super::super::grants::Rules;
use super::super::registration::Registration;
use crate::hub::{age, text};

/// How long each step may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The most missing permissions that are listed.
const MAX_LISTED: usize = 20;

const USER_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ok,
    /// The controller works with it, in part.
    Warning,
    Failed,
}

/// One step.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) state: State,
    /// None for steps that send nothing.
    pub(super) took: Option<Duration>,
    pub(super) text: String,
    pub(super) more: Vec<String>,
}

impl Check {
    fn new(name: &'static str, state: State, took: Option<Duration>, text: impl Into<String>) -> Self {
        Self { name, state, took, text: text.into(), more: Vec::new() }
    }

    pub(super) fn json(&self) -> Json {
        let state = match self.state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Failed => "failed",
        };
        let millis = self.took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        json!({"step": self.name, "result": state, "milliseconds": millis, "message": self.text, "details": self.more})
    }
}

/// Runs the steps until one fails. The Secret was read already.
pub(super) async fn run(registration: &Registration, read: Duration, needed: &Rules) -> Vec<Check> {
    let mut checks = vec![secret(registration, read)];
    let failed = |checks: &[Check]| checks.last().is_some_and(|check| check.state == State::Failed);
    if failed(&checks) {
        return checks;
    }
    let accepted = match registration.accepted() {
        Ok(accepted) => accepted,
        Err(error) => {
            checks.push(Check::new("Kubeconfig", State::Failed, None, error.to_string()));
            return checks;
        }
    };
    let client = match connect(&accepted, &mut checks).await {
        Some(client) => client,
        None => return checks,
    };
    checks.push(user(registration, &accepted, &client).await);
    if failed(&checks) {
        return checks;
    }
    checks.push(identity(registration, &client).await);
    if failed(&checks) {
        return checks;
    }
    checks.push(permissions(&client, needed).await);
    checks.push(schemas(&client, needed).await);
    checks
}

fn secret(registration: &Registration, read: Duration) -> Check {
    let label = registration.label(labels::CLUSTER_CREDENTIALS);
    let title = registration.title();
    if !is_offered(&registration.name, label) {
        let text = format!(
            "Secret `{title}` is not offered to cluster references: add the label `{}=true`",
            labels::CLUSTER_CREDENTIALS
        );
        return Check::new("Secret", State::Failed, Some(read), text);
    }
    let text = match registration.allowed_namespaces() {
        Some(allowed) => format!("`{title}`, for instances in: {allowed}"),
        None => format!("`{title}`"),
    };
    Check::new("Secret", State::Ok, Some(read), text)
}

/// The steps up to TLS. None if one fails.
async fn connect(accepted: &Accepted, checks: &mut Vec<Check>) -> Option<ClusterClient> {
    let server = accepted.server().to_string();
    let prepared = match accepted.prepare().await {
        Ok(prepared) => prepared,
        Err(error) => {
            checks.push(Check::new("Kubeconfig", State::Failed, None, error.to_string()));
            return None;
        }
    };
    let mut check = Check::new(
        "Kubeconfig",
        State::Ok,
        None,
        format!("{}, by {}", server.trim_end_matches('/'), accepted.method()),
    );
    for warning in accepted.warnings() {
        check.state = State::Warning;
        check.more.push(warning.to_string());
    }
    checks.push(check);
    for step in prepared.0.connect_step_by_step(LIMIT).await {
        let (state, text) = match step.result {
            Ok(text) => (State::Ok, text),
            Err(error) => (State::Failed, error.to_string()),
        };
        checks.push(Check::new(step.name, state, Some(step.took), text));
        if state == State::Failed {
            return None;
        }
    }
    let mut options = ClientOptions::for_remotes(env!("CARGO_PKG_VERSION"));
    options.user_agent = format!("kross/{}", env!("CARGO_PKG_VERSION"));
    (options.request_timeout, options.list_timeout, options.read_timeout) = (LIMIT, LIMIT, LIMIT);
    match ClusterClient::new(ClusterId::new(&server), &prepared.0, prepared.1, options) {
        Ok(client) => Some(client),
        Err(error) => {
            checks.push(Check::new("Credential", State::Failed, None, error.to_string()));
            None
        }
    }
}

/// As whom the cluster authenticates the credential, and until when it is valid.
async fn user(registration: &Registration, accepted: &Accepted, client: &ClusterClient) -> Check {
    let began = Instant::now();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = client.submit(USER_REVIEWS, review.to_string().into()).await;
    let took = Some(began.elapsed());
    let now = Timestamp::now();
    let renewed = match registration.service_account() {
        Some(_) => "renewed by the controller",
        None => "not renewed",
    };
    let validity = match accepted.lifetime().expires_at {
        Some(until) if until <= now => format!("expired {} ago", age(until, now)),
        Some(until) => format!("expires in {}, {renewed}", age(now, until)),
        None => "does not expire".to_owned(),
    };
    let failed = |text: String| Check::new("Credential", State::Failed, took, text);
    let name = registration.name.as_str();
    let advice = match registration.service_account() {
        Some(_) => format!(
            "`kross cluster add CONTEXT --name {name} -n {}` registers it again",
            registration.namespace
        ),
        None => "store a new kubeconfig in the Secret".to_owned(),
    };
    match answer {
        Ok(body) => {
            let review: Json = serde_json::from_slice(&body).unwrap_or_default();
            match review.pointer("/status/userInfo/username").and_then(Json::as_str) {
                Some("system:anonymous") => {
                    failed(format!("the cluster does not know the credential ({validity}); {advice}"))
                }
                Some(user) => Check::new("Credential", State::Ok, took, format!("`{user}`, {validity}")),
                None => Check::new(
                    "Credential",
                    State::Warning,
                    took,
                    format!("the cluster does not tell the user; {validity}"),
                ),
            }
        }
        Err(error) if error.code() == Some(401) => {
            failed(format!("the cluster does not accept the credential ({validity}); {advice}"))
        }
        Err(error) => failed(error.to_string()),
    }
}

async fn identity(registration: &Registration, client: &ClusterClient) -> Check {
    let began = Instant::now();
    let namespaces = ApiKind::custom("", "v1", "Namespace", "namespaces", false);
    let found = client.get(&namespaces, None, "kube-system").await;
    let check = |state, text: String| Check::new("Identity", state, Some(began.elapsed()), text);
    match found {
        Ok(found) => {
            let uid = found.uid().to_string();
            match registration.cluster_uid() {
                Some(known) if known != uid => {
                    check(State::Failed, format!("another cluster answers: its UID is {uid}, and {known} was registered"))
                }
                _ => check(State::Ok, format!("UID {uid}")),
            }
        }
        Err(error) if error.code() == Some(403) => check(
            State::Warning,
            "the credential may not get namespace `kube-system`: the cluster is identified by its address only".to_owned(),
        ),
        Err(error) => check(State::Failed, error.to_string()),
    }
}

/// One review for each verb on each resource.
async fn permissions(client: &ClusterClient, needed: &Rules) -> Check {
    let began = Instant::now();
    let (mut asked, mut missing) = (0_usize, Vec::new());
    for (attributes, shown) in attributes(needed) {
        asked += 1;
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes}});
        match client.submit(ACCESS_REVIEWS, review.to_string().into()).await {
            Ok(body) => {
                let review: Json = serde_json::from_slice(&body).unwrap_or_default();
                if review.pointer("/status/allowed") != Some(&Json::Bool(true)) {
                    missing.push(shown);
                }
            }
            Err(error) => {
                return Check::new("Permissions", State::Failed, Some(began.elapsed()), error.to_string());
            }
        }
    }
    let took = Some(began.elapsed());
    if missing.is_empty() {
        return Check::new("Permissions", State::Ok, took, format!("all {asked} that are needed"));
    }
    let text = format!(
        "{} of {asked} are missing; `kross cluster add` with `--from-definitions` grants them",
        missing.len()
    );
    let mut check = Check::new("Permissions", State::Failed, took, text);
    let more = missing.len().saturating_sub(MAX_LISTED);
    missing.truncate(MAX_LISTED);
    check.more = missing;
    if more > 0 {
        check.more.push(format!("and {more} more"));
    }
    check
}

/// What to ask for, and how people read it.
fn attributes(needed: &Rules) -> Vec<(Json, String)> {
    let texts = |rule: &Json, field: &str| -> Vec<String> {
        let values = rule.get(field).and_then(Json::as_array).into_iter().flatten();
        values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
    };
    let mut found = Vec::new();
    for (namespace, rules) in needed {
        for rule in rules {
            let name = texts(rule, "resourceNames").into_iter().next();
            for (group, resource) in texts(rule, "apiGroups").iter().zip(texts(rule, "resources").iter()) {
                let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                for verb in texts(rule, "verbs") {
                    let attributes = json!({"verb": verb, "group": group, "resource": plural,
                        "subresource": subresource, "namespace": namespace, "name": name});
                    let place = namespace.as_ref().map(|namespace| format!(" in namespace `{namespace}`"));
                    let full =
                        if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
                    let name = name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
                    found.push((attributes, format!("{verb} {full}{name}{}", place.unwrap_or_default())));
                }
            }
        }
    }
    found
}

/// Whether the cluster serves the kinds that are needed, and their schemas.
async fn schemas(client: &ClusterClient, needed: &Rules) -> Check {
    let began = Instant::now();
    let check = |state, text: String| Check::new("Schemas", state, Some(began.elapsed()), text);
    if let Err(error) = client.refresh_discovery().await {
        return check(State::Failed, format!("cannot discover what the cluster serves: {}", error.message()));
    }
    if let Err(error) = client.fetch("/openapi/v3").await {
        return check(State::Failed, format!("cannot read the schemas of the cluster: {}", error.message()));
    }
    let kinds = client.discovery().kinds();
    let is_served = |attributes: &Json| {
        kinds.iter().any(|kind| {
            text(attributes, "/group") == Some(&*kind.group)
                && text(attributes, "/resource") == Some(&*kind.plural)
        })
    };
    let mut missing: Vec<String> = attributes(needed)
        .into_iter()
        .filter(|(attributes, _)| !is_served(attributes))
        .map(|(attributes, _)| {
            let group = text(&attributes, "/group").unwrap_or_default();
            format!("`{}.{group}`", text(&attributes, "/resource").unwrap_or_default())
        })
        .collect();
    missing.dedup();
    if missing.is_empty() {
        return check(State::Ok, format!("{} kinds are served", kinds.len()));
    }
    let text = format!(
        "the cluster does not serve {}: install the CustomResourceDefinitions there",
        missing.join(", ")
    );
    check(State::Failed, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_permission_is_asked_for_with_each_verb() {
        let rules = Rules::from([(
            Some("team".to_owned()),
            vec![json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "patch"]})],
        )]);
        let shown: Vec<String> = attributes(&rules).into_iter().map(|(_, shown)| shown).collect();
        assert_eq!(
            shown,
            ["get deployments.apps in namespace `team`", "patch deployments.apps in namespace `team`"]
        );
    }
}
