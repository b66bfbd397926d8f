//! Says what an outage of a cluster touches: instances and which of their objects, definitions that name the cluster, targets that
//! publish it, and applications on those targets.

use clap::ValueEnum;
use jiff::Timestamp;
use kross_api::SecretAddress;
use serde_json::{Value as Json, json};

use super::registration::address;
use super::users::{TARGETS, names};
use crate::commands::get::{all_instances, listable_instances};
use crate::hub::{
    ClusterConnectionView, ClusterConnections, ConnectionFlags, Hub, InstanceView, for_people, since, text,
};
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # What an outage of the cluster of Secret `eu` in namespace `team` touches
  kross cluster affected eu -n team

  # The same for a program
  kross cluster affected team/eu -o json";

const APPLICATIONS: &str = "kubernetesapplications.workload.crossplane.io";

/// Arguments of `kross cluster affected`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The cluster: the name of its Secret, or `NAMESPACE/NAME`, or the name of its ClusterConnection
    #[arg(value_name = "NAME")]
    name: String,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// What people read
    Text,
    /// What programs read
    Json,
}

/// What uses a cluster.
#[derive(Debug, Default)]
struct Affected {
    connection: Option<ClusterConnectionView>,
    instances: Vec<AffectedInstance>,
    /// Names of definitions with static references.
    definitions: Vec<String>,
    targets: Vec<Json>,
    applications: Vec<Json>,
    /// What could not be listed.
    notes: Vec<String>,
}

impl Affected {
    /// Whether nobody knows the cluster.
    fn is_empty(&self) -> bool {
        let Self { connection, instances, definitions, targets, applications, notes: _ } = self;
        connection.is_none()
            && instances.is_empty()
            && definitions.is_empty()
            && targets.is_empty()
            && applications.is_empty()
    }
}

/// Whether a Secret does not exist. One that may not be read does.
async fn is_missing(hub: &Hub, secret: &SecretAddress) -> bool {
    let Ok(kind) = hub.kind("secrets") else { return false };
    let found = hub.get(&kind, Some(&secret.namespace), &secret.name).await;
    matches!(found, Err(error) if error.is_object_not_found())
}

#[derive(Debug)]
struct AffectedInstance {
    object: Json,
    /// The objects in the cluster, as the status lists them.
    here: Vec<kross_api::ManagedResource>,
    /// How many it has there, as the status counts them; none if it does not.
    counted: Option<i64>,
    /// How many it has elsewhere.
    elsewhere: usize,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    crate::hub::block_on(async {
        let hub = arguments.connection.hub().await?;
        let (secret, connection) = find(&hub, &arguments.name).await?;
        let affected = Affected { connection, ..affected(&hub, &secret).await? };
        for note in &affected.notes {
            output.note(format_args!("note: {note}"));
        }
        if affected.is_empty() && is_missing(&hub, &secret).await {
            anyhow::bail!(
                "there is no cluster `{}`: no Secret has this name, and nothing refers to it; `kross get clusters -A` lists all",
                secret.status_text()
            );
        }
        match arguments.output {
            OutputFormat::Json => output.data(serde_json::to_string_pretty(&summary(&secret, &affected))?)?,
            OutputFormat::Text => output.data(drawn(&secret, &affected, Timestamp::now()).trim_end())?,
        }
        Ok(Outcome::Success)
    })
}

/// The Secret of a cluster, and what the controller publishes of it.
async fn find(hub: &Hub, typed: &str) -> anyhow::Result<(SecretAddress, Option<ClusterConnectionView>)> {
    if let ClusterConnections::Listed(_, views) = ClusterConnections::list(hub).await?
        && let Some(view) = views.into_iter().find(|view| view.is_named(typed, &hub.namespace))
    {
        return Ok((view.secret.clone(), Some(view)));
    }
    let (namespace, name) = address(hub, typed)?;
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    Ok((SecretAddress { namespace, name, key: kross_api::KUBECONFIG_KEY.to_owned() }, None))
}

async fn affected(hub: &Hub, secret: &SecretAddress) -> anyhow::Result<Affected> {
    let mut affected = Affected::default();
    let instances = match all_instances(hub, None).await {
        Ok(instances) => instances,
        Err(_) => {
            affected.notes.push(format!(
                "you may not list instances in all namespaces; those in namespace `{}` are shown",
                hub.namespace
            ));
            let (found, problems) = listable_instances(hub, Some(&hub.namespace)).await?;
            affected.notes.extend(problems);
            found
        }
    };
    let uses = |instance: &Json| names(instance, &secret.namespace, &secret.name);
    affected.instances = instances.into_iter().filter(uses).map(|it| instance(it, secret)).collect();
    affected.instances.sort_by_key(|it| InstanceView(&it.object).title());
    match hub.definitions().await {
        Some(definitions) => {
            let named = definitions.iter().filter(|definition| definition.names_statically(secret));
            affected.definitions = named.map(|definition| definition.name().to_owned()).collect();
        }
        None => {
            affected.notes.push("you may not list ResourceGraphDefinitions; they are not shown".to_owned());
        }
    }
    let listed = |plural: &'static str| async move {
        match hub.kind(plural) {
            Ok(kind) => hub.list(&kind, Some(&secret.namespace), None).await.ok(),
            Err(_) => Some(Vec::new()),
        }
    };
    match (listed(TARGETS).await, listed(APPLICATIONS).await) {
        (Some(targets), Some(applications)) => {
            let is_it = |target: &Json| text(target, "/spec/connectionSecretRef/name") == Some(&secret.name);
            affected.targets = targets.into_iter().filter(is_it).collect();
            let names: Vec<&str> =
                affected.targets.iter().map(|target| InstanceView(target).name()).collect();
            let is_there = |application: &Json| {
                text(application, "/spec/targetRef/name").is_some_and(|target| names.contains(&target))
            };
            affected.applications = applications.into_iter().filter(is_there).collect();
        }
        _ => affected.notes.push(format!(
            "you may not list targets and applications in namespace `{}`; they are not shown",
            secret.namespace
        )),
    }
    Ok(affected)
}

fn instance(object: Json, secret: &SecretAddress) -> AffectedInstance {
    let view = InstanceView(&object);
    let secret = secret.status_text();
    let entries: Vec<_> =
        view.clusters().into_iter().filter(|cluster| cluster.secret.as_deref() == Some(&secret)).collect();
    let is_here = |resource: &kross_api::ManagedResource| {
        entries.iter().any(|cluster| resource.cluster.as_deref() == Some(&cluster.name))
    };
    let (here, elsewhere): (Vec<_>, Vec<_>) = view.resources().into_iter().partition(is_here);
    let counted = (!entries.is_empty()).then(|| entries.iter().map(|cluster| cluster.total).sum());
    AffectedInstance { here, counted, elsewhere: elsewhere.len(), object }
}

fn summary(secret: &SecretAddress, affected: &Affected) -> Json {
    let outline = |object: &Json| {
        let view = InstanceView(object);
        json!({"kind": view.kind(), "namespace": view.namespace(), "name": view.name(),
            "state": view.state(), "ready": view.is_ready()})
    };
    let instances: Vec<Json> = affected
        .instances
        .iter()
        .map(|it| {
            let view = InstanceView(&it.object);
            json!({"kind": view.kind(), "namespace": view.namespace(), "name": view.name(),
                "state": view.state(), "ready": view.is_ready(), "objects": it.here, "count": it.counted,
                "elsewhere": it.elsewhere})
        })
        .collect();
    let connection = affected.connection.as_ref();
    json!({
        "cluster": {"secret": secret.status_text(), "connection": connection.map(|view| &view.name),
            "state": connection.and_then(|view| view.status.state), "since": connection.and_then(|view| view.status.since.as_ref())},
        "instances": instances,
        "definitions": affected.definitions,
        "targets": affected.targets.iter().map(outline).collect::<Vec<_>>(),
        "applications": affected.applications.iter().map(outline).collect::<Vec<_>>(),
    })
}

fn drawn(secret: &SecretAddress, affected: &Affected, now: Timestamp) -> String {
    let mut lines = vec![title(secret, affected.connection.as_ref(), now)];
    let Affected { instances, definitions, targets, applications, .. } = affected;
    if let Some(message) = affected.connection.as_ref().and_then(|view| view.status.message.as_deref()) {
        lines.push(format!("│ {}", for_people(message, now)));
    }
    if instances.is_empty() && definitions.is_empty() && targets.is_empty() && applications.is_empty() {
        lines.push("nothing uses it".to_owned());
    }
    section(&mut lines, "instances", instances.len());
    for instance in instances {
        draw_instance(&mut lines, instance);
    }
    section(
        &mut lines,
        "definitions that name it: their instances stay as they are, and new revisions wait",
        definitions.len(),
    );
    lines.extend(definitions.iter().map(|name| format!("  {name}")));
    section(&mut lines, "targets that publish it", targets.len());
    lines.extend(targets.iter().map(outlined));
    section(&mut lines, "applications on these targets", applications.len());
    lines.extend(applications.iter().map(outlined));
    lines.join("\n")
}

fn title(secret: &SecretAddress, connection: Option<&ClusterConnectionView>, now: Timestamp) -> String {
    let name = secret.status_text();
    let Some(ClusterConnectionView { status, .. }) = connection else {
        return format!("cluster {name}  (nothing is published of it)");
    };
    let state = status.state.map_or("unknown", |state| state.as_str());
    let reason = status.reason.map(|reason| format!(", {reason}")).unwrap_or_default();
    format!("cluster {name}  {state} for {}{reason}", since(status.since.as_deref(), now))
}

fn section(lines: &mut Vec<String>, title: &str, count: usize) {
    if count > 0 {
        lines.push(String::new());
        lines.push(format!("{title} ({count})"));
    }
}

fn draw_instance(lines: &mut Vec<String>, instance: &AffectedInstance) {
    let AffectedInstance { object, here, counted, elsewhere } = instance;
    let view = InstanceView(object);
    let objects = match counted {
        Some(1) => "1 object here".to_owned(),
        Some(count) => format!("{count} objects here"),
        // Only its inventory names the cluster.
        None => "objects here that its status does not list".to_owned(),
    };
    let elsewhere = if *elsewhere == 0 { String::new() } else { format!(", {elsewhere} elsewhere") };
    lines.push(format!("  {}  {}: {objects}{elsewhere}", view.title(), view.state()));
    for resource in here {
        let named = [resource.namespace.as_deref(), resource.name.as_deref()];
        let name = named.into_iter().flatten().collect::<Vec<_>>().join("/");
        let kind = resource.kind.as_deref().unwrap_or(&resource.id);
        lines.push(format!("    {kind} {name}  {}", resource.state).trim_end().to_owned());
    }
}

fn outlined(object: &Json) -> String {
    let view = InstanceView(object);
    let ready = if view.is_ready() { "" } else { "  not ready" };
    format!("  {}{ready}", view.title())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> SecretAddress {
        SecretAddress { namespace: "team".to_owned(), name: "eu".to_owned(), key: "kubeconfig".to_owned() }
    }

    #[test]
    fn the_objects_of_an_instance_are_split_by_cluster() {
        let object = json!({"kind": "Shop", "metadata": {"name": "web", "namespace": "team"}, "status": {
            "state": "ERROR",
            "clusters": [{"name": "team/eu", "secret": "team/eu", "mode": "Watch", "connected": false, "ready": 0, "total": 1},
                {"name": "team/us", "secret": "team/us", "mode": "Watch", "connected": true, "ready": 1, "total": 1}],
            "managedResources": [
                {"id": "web", "cluster": "team/eu", "kind": "Deployment", "namespace": "team", "name": "web", "state": "Error"},
                {"id": "web", "cluster": "team/us", "kind": "Deployment", "namespace": "team", "name": "web", "state": "Ready"},
                {"id": "note", "kind": "ConfigMap", "namespace": "team", "name": "note", "state": "Ready"}]}});
        let affected = Affected { instances: vec![instance(object, &secret())], ..Affected::default() };
        assert_eq!(
            drawn(&secret(), &affected, Timestamp::UNIX_EPOCH),
            "cluster team/eu  (nothing is published of it)\n\ninstances (1)\n  Shop team/web  ERROR: 1 object here, 2 elsewhere\n    Deployment team/web  Error"
        );
        assert_eq!(summary(&secret(), &affected)["instances"][0]["objects"][0]["kind"], "Deployment");
    }
}
