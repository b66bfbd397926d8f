//! Checks of an installation: CRDs, the controller and its permissions, definitions, clusters and instances.

use jiff::Timestamp;
use kross_api::ServiceAccount;
use serde_json::{Value as Json, json};

use super::access::{Permission, account_may};
use super::report::Report;
use crate::commands::get::all_instances;
use crate::commands::version::differs;
use crate::hub::{
    ClusterConnectionView, ClusterConnections, ControllerLease, Hub, InstanceView, age, controller_lease,
    failed_condition, for_people, text,
};

const CRDS: &str = "custom resource definitions";
const CONTROLLER: &str = "controller";
const PERMISSIONS: &str = "permissions of the controller";
const DEFINITIONS: &str = "definitions";
const CLUSTERS: &str = "clusters";
const INSTANCES: &str = "instances";

/// How many objects one check names.
const NAMED: usize = 5;
/// How many seconds before its expiry a credential is worth a warning.
const EXPIRES_SOON: i64 = 7 * 24 * 60 * 60;

/// What the controller always needs in the whole cluster.
const NEEDED: [Permission; 13] = [
    Permission::new("list", "kro.run", "resourcegraphdefinitions"),
    Permission::new("watch", "kro.run", "resourcegraphdefinitions"),
    Permission::new("patch", "kro.run", "resourcegraphdefinitions"),
    Permission::new("list", "internal.kro.run", "graphrevisions"),
    Permission::new("watch", "internal.kro.run", "graphrevisions"),
    Permission::new("create", "internal.kro.run", "graphrevisions"),
    Permission::new("list", "apiextensions.k8s.io", "customresourcedefinitions"),
    Permission::new("watch", "apiextensions.k8s.io", "customresourcedefinitions"),
    Permission::new("create", "apiextensions.k8s.io", "customresourcedefinitions"),
    Permission::new("list", "kro.run", "clusterconnections"),
    Permission::new("watch", "kro.run", "clusterconnections"),
    Permission::new("create", "kro.run", "clusterconnections"),
    Permission::new("create", "events.k8s.io", "events"),
];

pub(super) async fn check(hub: &Hub, report: &mut Report) {
    crds(hub, report).await;
    controller(hub, report).await;
    definitions(hub, report).await;
    clusters(hub, report).await;
    instances(hub, report).await;
}

async fn crds(hub: &Hub, report: &mut Report) {
    let targets = kross_api::target_crds();
    for crd in kross_api::crds() {
        let name = crd.metadata.name.clone().unwrap_or_default();
        let check = format!("`{name}` is installed, in the version of kross {}", env!("CARGO_PKG_VERSION"));
        let install = "run `kross crds | kubectl apply --server-side -f -`";
        let kind = match hub.kind("customresourcedefinitions.apiextensions.k8s.io") {
            Ok(kind) => kind,
            Err(error) => return report.unknown(CRDS, &check, error.to_string(), "install.md"),
        };
        match hub.get(&kind, None, &name).await {
            Ok(found) if is_same(&found, &serde_json::to_value(&crd).unwrap_or_default()) => {
                report.ok(CRDS, check);
            }
            Ok(_) => {
                let message = format!("it is that of another version, or of kro: {install}");
                report.fail(CRDS, &check, message, "install.md#upgrade");
            }
            Err(error) if error.is_object_not_found() && targets.contains(&crd) => {
                report.ok(CRDS, format!("`{name}` is not installed, which is optional"));
            }
            Err(error) if error.is_object_not_found() && is_connections(&name) => {
                let message = format!("the state of clusters is not published: {install}");
                report.warn(CRDS, &check, message, "clusters.md#the-state-of-clusters");
            }
            Err(error) if error.is_object_not_found() => report.fail(CRDS, &check, install, "install.md"),
            Err(error) => report.unknown(CRDS, &check, error.message(), "install.md"),
        }
    }
}

fn is_connections(crd: &str) -> bool {
    kross_api::connection_crd().metadata.name.as_deref() == Some(crd)
}

/// Whether an installed CRD serves the same versions with the same schemas.
fn is_same(found: &Json, expected: &Json) -> bool {
    let versions = |crd: &Json| {
        let mut versions = crd.pointer("/spec/versions").cloned().unwrap_or_default();
        whole_numbers(&mut versions);
        let schema =
            |version: &Json| (version["name"].clone(), version["served"].clone(), version["schema"].clone());
        versions.as_array().map(|versions| versions.iter().map(schema).collect::<Vec<_>>())
    };
    versions(found) == versions(expected)
}

/// `1.0` and `1` are the same number.
fn whole_numbers(value: &mut Json) {
    match value {
        Json::Object(map) => map.values_mut().for_each(whole_numbers),
        Json::Array(items) => items.iter_mut().for_each(whole_numbers),
        Json::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|number| number.fract() == 0.0) {
                *value = json!(whole);
            }
        }
        _ => {}
    }
}

/// A Deployment of kross or kro.
#[derive(Debug)]
pub(in crate::commands) struct Deployed {
    namespace: String,
    name: String,
    label: String,
    image: String,
    version: String,
    account: String,
    pub(super) replicas: i64,
    ready: i64,
}

impl Deployed {
    fn new(deployment: &Json) -> Self {
        let field = |path: &str| text(deployment, path).unwrap_or_default().to_owned();
        let count = |path: &str| deployment.pointer(path).and_then(Json::as_i64);
        Self {
            namespace: field("/metadata/namespace"),
            name: field("/metadata/name"),
            label: field("/metadata/labels/app.kubernetes.io~1name"),
            image: field("/spec/template/spec/containers/0/image"),
            version: field("/metadata/labels/app.kubernetes.io~1version"),
            account: field("/spec/template/spec/serviceAccountName"),
            replicas: count("/spec/replicas").unwrap_or(1),
            ready: count("/status/readyReplicas").unwrap_or(0),
        }
    }

    pub(in crate::commands) fn is_kro(&self) -> bool {
        self.label == "kro"
    }

    /// The ServiceAccount of its Pods.
    pub(in crate::commands) fn account(&self) -> Option<ServiceAccount> {
        ServiceAccount::new(&self.namespace, &self.account)
    }

    /// `Deployment kro-system/kross (registry/kross:0.1.0)`.
    pub(super) fn title(&self) -> String {
        format!("Deployment {}/{} ({})", self.namespace, self.name, self.image)
    }
}

/// The Deployments of kross and kro, by the label of their charts. None if they may not be listed.
pub(in crate::commands) async fn deployed(hub: &Hub) -> Option<Vec<Deployed>> {
    let kind = hub.kind("deployments.apps").ok()?;
    let listed = hub.list(&kind, None, Some("app.kubernetes.io/name in (kross, kro)")).await.ok()?;
    Some(listed.iter().map(Deployed::new).collect())
}

async fn controller(hub: &Hub, report: &mut Report) {
    let now = Timestamp::now();
    let check = "a controller holds the Lease";
    match controller_lease(hub, now).await {
        ControllerLease::Held { .. } => report.ok(CONTROLLER, check),
        ControllerLease::Lost { lease, renewed, .. } => {
            let message =
                format!("Lease `{lease}` was renewed {} ago: start the controller", age(renewed, now));
            report.fail(CONTROLLER, check, message, "alerts.md#krosscontrollerdown");
        }
        ControllerLease::Unknown => {
            let message = "there is no Lease, or you may not list Leases; a controller without `--leader-elect` has none";
            report.unknown(CONTROLLER, check, message, "operating.md");
        }
    }
    let check = "the Pods of the controller are ready";
    let Some(found) = deployed(hub).await else {
        report.unknown(CONTROLLER, check, "you may not list Deployments", "operating.md");
        return;
    };
    let (kro, ours): (Vec<_>, Vec<_>) = found.into_iter().partition(Deployed::is_kro);
    for deployment in &ours {
        let check = format!("the Pods of {} are ready", deployment.title());
        let Deployed { ready, replicas, .. } = deployment;
        if ready >= replicas && *replicas > 0 {
            report.ok(CONTROLLER, check);
        } else {
            let message = format!("{ready} of {replicas} are ready");
            report.fail(CONTROLLER, &check, message, "alerts.md#krosscontrollerdown");
        }
        version(deployment, report);
    }
    if ours.is_empty() {
        let message = "there is no Deployment with the label `app.kubernetes.io/name=kross`: it runs somewhere else, or not at all";
        report.unknown(CONTROLLER, check, message, "install.md");
    }
    for deployment in kro.iter().filter(|deployment| deployment.replicas > 0) {
        let message = format!("{} reconciles the same definitions: scale it to 0", deployment.title());
        report.fail(CONTROLLER, "kro does not run on this cluster", message, "migrating.md");
    }
    permissions(hub, &ours, report).await;
}

/// Commands read what the controller writes.
fn version(deployment: &Deployed, report: &mut Report) {
    let program = env!("CARGO_PKG_VERSION");
    let check = format!("the controller has the version of this program, kross {program}");
    if differs(&deployment.version, program) {
        let message = format!("it is kross {}: use the program of that version", deployment.version);
        report.warn(CONTROLLER, &check, message, "versions.md#upgrade");
    } else if !deployment.version.is_empty() {
        report.ok(CONTROLLER, check);
    }
}

async fn permissions(hub: &Hub, controllers: &[Deployed], report: &mut Report) {
    for controller in controllers {
        let Deployed { namespace, account, .. } = controller;
        let title = format!("ServiceAccount {namespace}/{account} has what the controller always needs");
        let Some(account) = controller.account() else { continue };
        let mut missing = Vec::new();
        for permission in NEEDED {
            match account_may(hub, &account, permission, None).await {
                Ok(true) => {}
                Ok(false) => missing.push(format!("it may not {}", permission.text())),
                Err(error) => {
                    let message = format!("you may not ask: {}", error.message());
                    return report.unknown(PERMISSIONS, &title, message, "install.md#permissions");
                }
            }
        }
        if missing.is_empty() {
            report.ok(PERMISSIONS, title);
        } else {
            report.fail(PERMISSIONS, &title, missing.join("\n"), "install.md#permissions");
        }
    }
}

async fn definitions(hub: &Hub, report: &mut Report) {
    let check = "all definitions are active";
    let Some(definitions) = hub.definitions().await else {
        let message = "there are none, or you may not list ResourceGraphDefinitions";
        return report.unknown(DEFINITIONS, check, message, "operating.md#failures");
    };
    let failed = |state: &'static str| {
        definitions.iter().filter(move |definition| definition.state() != state && !definition.is_ready())
    };
    let inactive: Vec<String> = failed("Active")
        .map(|definition| named(definition.name(), failed_condition(&definition.0)))
        .collect();
    if inactive.is_empty() {
        report.ok(DEFINITIONS, format!("all definitions are active ({})", definitions.len()));
    } else {
        let message = listed(&inactive, "kross why rgd/NAME");
        report.fail(DEFINITIONS, check, message, "operating.md#failures");
    }
}

fn named(name: &str, condition: Option<&Json>) -> String {
    let why = condition.and_then(|condition| condition["message"].as_str()).unwrap_or("not reconciled yet");
    format!("`{name}`: {}", why.lines().next().unwrap_or_default())
}

async fn clusters(hub: &Hub, report: &mut Report) {
    let check = "all clusters are connected";
    let page = "clusters.md#the-state-of-clusters";
    let views = match ClusterConnections::list(hub).await {
        Ok(ClusterConnections::Listed(_, views)) => views,
        Ok(ClusterConnections::NotServed) => {
            return report.unknown(CLUSTERS, check, "the hub has no ClusterConnections", page);
        }
        Ok(ClusterConnections::Forbidden) => {
            return report.unknown(CLUSTERS, check, "you may not list ClusterConnections", page);
        }
        Err(error) => return report.unknown(CLUSTERS, check, error.to_string(), page),
    };
    let now = Timestamp::now();
    let lost: Vec<String> = views
        .iter()
        .filter(|view| !view.is_connected())
        .map(|view| match &view.status.message {
            Some(message) => for_people(message, now),
            None => format!("cluster `{}` is not connected yet", view.secret),
        })
        .collect();
    if lost.is_empty() {
        report.ok(CLUSTERS, format!("all clusters are connected ({})", views.len()));
    } else {
        let message = listed(&lost, "kross get clusters -A --failing -o wide");
        report.fail(CLUSTERS, check, message, "clusters.md#when-a-cluster-becomes-unreachable");
    }
    credentials(&views, now, report);
}

fn credentials(views: &[ClusterConnectionView], now: Timestamp, report: &mut Report) {
    let check = "no credential expires within seven days";
    let (mut soon, mut expired) = (Vec::new(), Vec::new());
    for view in views {
        let credential = view.status.credential.as_ref();
        let expires =
            credential.and_then(|credential| credential.expires.as_ref()?.parse::<Timestamp>().ok());
        let Some(expires) = expires else { continue };
        if expires <= now {
            expired.push(format!("that of `{}` expired {} ago", view.secret, age(expires, now)));
        } else if expires.as_second() - now.as_second() < EXPIRES_SOON {
            soon.push(format!("that of `{}` expires in {}", view.secret, age(now, expires)));
        }
    }
    let page = "clusters.md#when-a-kubeconfig-changes";
    let advice = "put new kubeconfigs into the Secrets";
    match (expired.is_empty(), soon.is_empty()) {
        (true, true) => report.ok(CLUSTERS, check),
        (true, false) => report.warn(CLUSTERS, check, listed(&soon, advice), page),
        (false, _) => {
            expired.extend(soon);
            report.fail(CLUSTERS, check, listed(&expired, advice), page);
        }
    }
}

async fn instances(hub: &Hub, report: &mut Report) {
    let check = "all instances are ready";
    let found = match all_instances(hub, None).await {
        Ok(found) => found,
        Err(error) => return report.unknown(INSTANCES, check, error.to_string(), "operating.md#failures"),
    };
    let total = found.len();
    let (mut failed, mut waiting) = (Vec::new(), Vec::new());
    let now = Timestamp::now();
    for view in found.iter().map(InstanceView).filter(|view| !view.is_ready()) {
        let why = view.message().map(|message| for_people(message, now)).unwrap_or_default();
        let text =
            format!("{} is {}: {}", view.argument(), view.state(), why.lines().next().unwrap_or_default());
        let list = if matches!(view.state(), "ERROR" | "Failed") { &mut failed } else { &mut waiting };
        list.push(text);
    }
    let page = "operating.md#failures";
    match (failed.is_empty(), waiting.is_empty()) {
        (true, true) => report.ok(INSTANCES, format!("all instances are ready ({total})")),
        (true, false) => report.warn(INSTANCES, check, listed(&waiting, "kross why KIND/NAME"), page),
        (false, _) => report.fail(INSTANCES, check, listed(&failed, "kross why KIND/NAME"), page),
    }
}

/// The first of many lines, and the command that has the others.
fn listed(lines: &[String], command: &str) -> String {
    let mut text = lines.iter().take(NAMED).cloned().collect::<Vec<_>>().join("\n");
    if let Some(more @ 1..) = lines.len().checked_sub(NAMED) {
        text.push_str(&format!("\nand {more} more"));
    }
    let help =
        if command.starts_with("kross ") { format!("`{command}` has more") } else { command.to_owned() };
    format!("{text}\n{help}")
}
