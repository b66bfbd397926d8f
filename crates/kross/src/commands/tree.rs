//! Turns an instance, a definition, an application, a claim or a target into the tree of its objects: the cluster, state and
//! reason of each. With `--watch`, draws the tree again on every change.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use clap::ValueEnum;
use kross_cluster::{ApiKind, CacheOptions, Caches, Selection};
use serde_json::Value as Json;

use super::managed::{self, Found};
use crate::hub::{
    ConnectionFlags, Definition, Hub, InstanceView, ObjectReference, Owner, is_definition, text,
};
use crate::output::{Outcome, Output};

mod definition;
mod draw;
mod load;
mod row;
mod workload;

pub(super) use draw::{Style, draw};

use definition::DefinitionTree;
use workload::Workload;

const EXAMPLES: &str = "\
Examples:
  # Show the objects of an instance in every cluster
  kross tree shop/web -n team

  # Show the instance that an object belongs to, in any cluster
  kross tree deployment/web -n team

  # Show a definition and its instances
  kross tree rgd/shop

  # Draw the tree again on every change
  kross tree shop/web --watch";

/// Arguments of `kross tree`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Instance, definition, application, claim or target, or an object of an instance, such as `shop/web` or `rgd/shop`
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    object: Vec<String>,

    /// Draw the tree again on every change, until Ctrl-C
    #[arg(short, long)]
    watch: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// A tree
    Text,
    /// The state, conditions, resources and clusters as JSON
    Json,
}

/// What a tree is drawn of.
enum Shown {
    Instance(Json),
    Workload(Workload),
    Definition(DefinitionTree),
}

impl Shown {
    fn is_ready(&self) -> bool {
        match self {
            Self::Instance(instance) => InstanceView(instance).is_ready(),
            Self::Workload(workload) => InstanceView(&workload.object).is_ready(),
            Self::Definition(tree) => tree.is_ready(),
        }
    }

    fn draw(&self, style: Style) -> String {
        match self {
            Self::Instance(instance) => draw(instance, style),
            Self::Workload(workload) => workload::draw(workload, style),
            Self::Definition(tree) => tree.draw(style),
        }
    }

    fn summary(&self) -> Json {
        match self {
            Self::Instance(instance) => summary(instance),
            Self::Workload(workload) => workload.summary(),
            Self::Definition(tree) => tree.summary(),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let reference = ObjectReference::parse(&arguments.object)?;
    crate::hub::block_on(async {
        let hub = arguments.connection.hub().await?;
        let Found { kind, object, note } = managed::find(&hub, &reference).await?;
        if let Some(note) = note {
            output.note(format_args!("{note}:"));
        }
        let (kind, object) = shown_object(&hub, kind, object, output).await?;
        let shown = load(&hub, &kind, object).await;
        print(&shown, arguments, output)?;
        if arguments.watch {
            return watch(&hub, &kind, shown, arguments, output).await;
        }
        Ok(if shown.is_ready() { Outcome::Success } else { Outcome::No })
    })
}

/// The object to draw: for a resource of an instance, the instance.
async fn shown_object(
    hub: &Hub,
    kind: Arc<ApiKind>,
    object: Json,
    output: &mut Output,
) -> anyhow::Result<(Arc<ApiKind>, Json)> {
    if load::is_workload(&kind) || is_definition(&object) || is_instance(hub, &object).await {
        return Ok((kind, object));
    }
    let title = InstanceView(&object).title();
    let Some(owner) = Owner::of(&object) else {
        bail!("{title} is not an instance: no ResourceGraphDefinition serves `{}`", kind.kind);
    };
    let Some(owner_kind) = hub.kind_of(&owner.api_version(), &owner.kind) else {
        bail!("{title} is a resource of {} `{}`, a kind that is not served", owner.kind, owner.name);
    };
    let instance = hub.get(&owner_kind, owner.namespace.as_deref(), &owner.name).await?;
    output.note(format_args!("{title} is resource `{}` of {}:", owner.node, InstanceView(&instance).title()));
    Ok((owner_kind, instance))
}

/// Whether kross reconciles an object as an instance. Users of instances may not read definitions: then anything may be one.
async fn is_instance(hub: &Hub, object: &Json) -> bool {
    let view = InstanceView(object);
    if view.annotation(kross_api::annotations::STATE).is_some()
        || view.kind() == "KubernetesApplicationResource"
    {
        return true;
    }
    let version = text(object, "/apiVersion").unwrap_or_default();
    match hub.definitions().await {
        None => Owner::of(object).is_none(),
        Some(definitions) => definitions
            .iter()
            .any(|definition| definition.serves(version, view.kind()) && definition.has_instance(object)),
    }
}

/// Reads what is shown with an object.
async fn load(hub: &Hub, kind: &ApiKind, object: Json) -> Shown {
    if load::is_workload(kind) {
        return Shown::Workload(load::load(&hub.client, kind, object).await);
    }
    if !is_definition(&object) {
        return Shown::Instance(object);
    }
    let definition = Definition::new(object);
    let (group, kind) = definition.served_kind();
    let instances = match hub.kind_of(&format!("{group}/"), kind) {
        None => Ok(Vec::new()),
        Some(served) => hub.list(&served, None, None).await.map_err(|error| error.to_string()),
    };
    let instances = instances.map(|all| all.into_iter().filter(|it| definition.has_instance(it)).collect());
    Shown::Definition(DefinitionTree { definition, instances })
}

/// Draws the tree again on every change, until the object is deleted or Ctrl-C.
async fn watch(
    hub: &Hub,
    kind: &Arc<ApiKind>,
    mut shown: Shown,
    arguments: &Arguments,
    output: &mut Output,
) -> anyhow::Result<Outcome> {
    let object = match &shown {
        Shown::Instance(object) => object,
        Shown::Workload(workload) => &workload.object,
        Shown::Definition(tree) => &tree.definition.0,
    };
    let (namespace, name) =
        (text(object, "/metadata/namespace").map(str::to_owned), InstanceView(object).name().to_owned());
    let caches = Caches::new(CacheOptions::default());
    let mut events = caches.subscribe();
    let this =
        Selection::Name { namespace: namespace.as_deref().map(Into::into), name: name.as_str().into() };
    let mut held = vec![caches.watch(&hub.client, kind, this)];
    let related = match &shown {
        Shown::Instance(_) => Vec::new(),
        Shown::Workload(_) => load::related_kinds(&hub.client, kind),
        Shown::Definition(tree) => {
            let (group, kind) = tree.definition.served_kind();
            hub.kind_of(&format!("{group}/"), kind).into_iter().collect()
        }
    };
    let selection =
        Selection::Labels { namespace: namespace.as_deref().map(Into::into), selector: "".into() };
    held.extend(related.iter().map(|kind| caches.watch(&hub.client, kind, selection.clone())));
    loop {
        tokio::select! {
            event = events.recv() => event.ok_or_else(|| anyhow!("the watch ended"))?,
            ended = tokio::signal::ctrl_c() => {
                return Ok(ended.map(|()| Outcome::Success)?);
            }
        };
        // Everything that has come since is shown at once.
        while events.try_recv().is_ok() {}
        let found = match hub.get(kind, namespace.as_deref(), &name).await {
            Err(error) if error.is_object_not_found() => {
                output.note(format_args!("{}/{name} was deleted", kind.kind));
                return Ok(Outcome::Success);
            }
            found => found?,
        };
        let next = load(hub, kind, found).await;
        // Most changes of an object do not change what is shown.
        let is_same = shown.summary() == next.summary();
        shown = next;
        if !is_same {
            output.redraw();
            print(&shown, arguments, output)?;
        }
    }
}

fn print(shown: &Shown, arguments: &Arguments, output: &mut Output) -> anyhow::Result<()> {
    match arguments.output {
        OutputFormat::Text => output.data(shown.draw(Style::of(output)).trim_end())?,
        OutputFormat::Json => output.data(serde_json::to_string_pretty(&shown.summary())?)?,
    }
    Ok(())
}

/// The parts of an instance that are shown.
fn summary(instance: &Json) -> Json {
    let at = |path: &str| instance.pointer(path).cloned().unwrap_or_default();
    let view = InstanceView(instance);
    serde_json::json!({
        "kind": at("/kind"),
        "namespace": at("/metadata/namespace"),
        "name": at("/metadata/name"),
        "state": view.state(),
        "ready": view.is_ready(),
        "conditions": at("/status/conditions"),
        "managedResources": at("/status/managedResources"),
        "clusters": at("/status/clusters"),
    })
}
