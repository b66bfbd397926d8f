//! Lists definitions, instances of every definition, and clusters of the hub, with what is the matter with each.

use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::ValueEnum;
use jiff::Timestamp;
use kross_cluster::{CacheOptions, Caches, Selection};
use serde_json::{Value as Json, json};

use crate::hub::{ConnectionFlags, Hub, ObjectReference};
use crate::output::{Outcome, Output};

mod clusters;
mod list;
mod table;

pub(super) use list::{Item, Listed, all_instances, listable_instances};
pub(super) use table::Table;

const EXAMPLES: &str = "\
Examples:
  # List the instances of every definition, in all namespaces
  kross get instances -A

  # List what is not ready, with the reason; exits 1 if there is any
  kross get instances -A --failing -o wide

  # List the instances of one kind, or one of them
  kross get shop -n team
  kross get shop/web shop/api -n team

  # List definitions and whether they are accepted
  kross get definitions

  # List the remote clusters, whether they are connected, and how many instances use them
  kross get clusters -A

  # List those that are not connected, since when and why; exits 1 if there is any
  kross get clusters -A --failing -o wide";

/// How long changes are collected before the list is printed again.
const DEBOUNCE: Duration = Duration::from_millis(300);

/// Arguments of `kross get`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// `instances`, `definitions`, `clusters`, or the kind of instances, such as `shop` or `shop/web`
    #[arg(value_name = "TYPE", required = true)]
    kind: String,

    /// Names of objects (default: all)
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// List the objects of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Only objects with these labels, such as `team=a,stage!=test`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,

    /// Only what is not ready; exits 1 if there is any
    #[arg(long)]
    failing: bool,

    /// Print the list again on every change, until Ctrl-C
    #[arg(short, long)]
    watch: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// A table
    Table,
    /// A table with more columns, and the reason of what is not ready
    Wide,
    /// The objects as JSON
    Json,
    /// The objects as YAML
    Yaml,
    /// Only the names
    Name,
}

/// What to list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Requested {
    Definitions,
    Instances(Option<String>),
    Clusters,
}

impl Requested {
    fn parse(typed: &str) -> Self {
        match typed.to_lowercase().as_str() {
            "definitions"
            | "definition"
            | "rgd"
            | "rgds"
            | "resourcegraphdefinition"
            | "resourcegraphdefinitions" => Self::Definitions,
            "instances" | "instance" | "all" => Self::Instances(None),
            "clusters" | "cluster" | "clusterconnections" | "clusterconnection" => Self::Clusters,
            _ => Self::Instances(Some(typed.to_owned())),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let (typed, names) = kind_and_names(arguments)?;
    let requested = Requested::parse(&typed);
    crate::hub::block_on(async {
        let hub = arguments.connection.hub().await?;
        let listed = list(&hub, &requested, &names, arguments).await?;
        let outcome = print(&listed, arguments, output)?;
        if arguments.watch {
            return watch(&hub, &requested, &names, listed, arguments, output).await;
        }
        Ok(outcome)
    })
}

/// The kind and the names, as in kubectl: `shop web api`, or `shop/web shop/api`.
fn kind_and_names(arguments: &Arguments) -> anyhow::Result<(String, Vec<String>)> {
    let all: Vec<String> = std::iter::once(&arguments.kind).chain(&arguments.names).cloned().collect();
    if !all.iter().any(|argument| argument.contains('/')) {
        return Ok((arguments.kind.clone(), arguments.names.clone()));
    }
    let (mut kinds, mut names) = (Vec::new(), Vec::new());
    for argument in &all {
        let reference = ObjectReference::parse(std::slice::from_ref(argument))?;
        kinds.push(reference.kind);
        names.push(reference.name);
    }
    kinds.dedup_by(|a, b| a.eq_ignore_ascii_case(b));
    match kinds.as_slice() {
        [kind] => Ok((kind.clone(), names)),
        _ => bail!("one list is of one type, not of `{}`: use a command for each", kinds.join("` and `")),
    }
}

async fn list(
    hub: &Hub,
    requested: &Requested,
    names: &[String],
    arguments: &Arguments,
) -> anyhow::Result<Listed> {
    let namespace = (!arguments.all_namespaces).then_some(hub.namespace.as_str());
    let selector = arguments.selector.as_deref();
    let mut listed = match requested {
        Requested::Definitions => list::definitions(hub, selector).await?,
        Requested::Instances(kind) => list::instances(hub, kind.as_deref(), namespace, selector).await?,
        Requested::Clusters => clusters::clusters(hub, namespace, selector).await?,
    };
    for name in names {
        if !listed.items.iter().any(|item| item.is_named(name)) {
            listed.problems.push(format!("`{name}` does not exist{}", in_namespace(namespace)));
        }
    }
    listed.items.retain(|item| names.is_empty() || names.iter().any(|name| item.is_named(name)));
    listed.items.retain(|item| !arguments.failing || !item.ready);
    Ok(listed)
}

/// Where something was looked for.
fn in_namespace(namespace: Option<&str>) -> String {
    namespace.map(|namespace| format!(" in namespace `{namespace}`")).unwrap_or_default()
}

/// Prints a list. What could not be listed is an error after everything else.
fn print(listed: &Listed, arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    for note in &listed.notes {
        output.note(format_args!("note: {note}"));
    }
    let wide = arguments.output == OutputFormat::Wide;
    let objects = || {
        let items: Vec<&Json> = listed.items.iter().map(|item| &item.object).collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    };
    match arguments.output {
        OutputFormat::Json => output.data(serde_json::to_string_pretty(&objects())?)?,
        OutputFormat::Yaml => output.data(kross_api::to_yaml(&objects()).trim_end())?,
        OutputFormat::Name => {
            for item in &listed.items {
                output.data(&item.argument)?;
            }
        }
        // What could not be listed may exist.
        OutputFormat::Table | OutputFormat::Wide
            if listed.items.is_empty() && !listed.problems.is_empty() => {}
        OutputFormat::Table | OutputFormat::Wide if listed.items.is_empty() => {
            let what = if arguments.failing { "nothing is failing" } else { "no objects found" };
            let namespace = (!arguments.all_namespaces).then_some(listed.namespace.as_deref()).flatten();
            output.note(format_args!("{what}{}", in_namespace(namespace)));
        }
        OutputFormat::Table | OutputFormat::Wide => {
            let table = Table::of(listed, arguments.all_namespaces, wide, Timestamp::now());
            output.data(table.draw(output.format(), output.width()).trim_end())?;
        }
    }
    if !listed.problems.is_empty() {
        return Err(anyhow!("{}", listed.problems.join("\n")));
    }
    let failing = arguments.failing && !listed.items.is_empty();
    Ok(if failing { Outcome::No } else { Outcome::Success })
}

/// Prints the list again whenever it has changed.
async fn watch(
    hub: &Hub,
    requested: &Requested,
    names: &[String],
    mut listed: Listed,
    arguments: &Arguments,
    output: &mut Output,
) -> anyhow::Result<Outcome> {
    let caches = Caches::new(CacheOptions::default());
    let mut events = caches.subscribe();
    let namespace = (!arguments.all_namespaces).then_some(hub.namespace.as_str());
    let held: Vec<_> = listed
        .kinds
        .iter()
        .map(|kind| {
            let namespace = namespace.filter(|_| kind.namespaced).map(Into::into);
            let selector = arguments.selector.as_deref().unwrap_or_default().into();
            caches.watch(&hub.client, kind, Selection::Labels { namespace, selector })
        })
        .collect();
    loop {
        tokio::select! {
            event = events.recv() => event.ok_or_else(|| anyhow!("the watch ended"))?,
            ended = tokio::signal::ctrl_c() => {
                drop(held);
                return Ok(ended.map(|()| Outcome::Success)?);
            }
        };
        tokio::time::sleep(DEBOUNCE).await;
        while events.try_recv().is_ok() {}
        let next = list(hub, requested, names, arguments).await?;
        if next.rows() != listed.rows() {
            listed = next;
            output.redraw();
            print(&listed, arguments, output)?;
        }
    }
}
