//! Takes over the objects in remote clusters that the instances of this hub had on a hub that does not exist any more: moves
//! their label to the apply set of the instance here. Nothing is created, restarted or deleted by that.

use std::collections::BTreeSet;

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use kross_cluster::{ApiKind, ClusterClient};

use crate::hub::{ConnectionFlags, Hub, ObjectReference, text};
use crate::output::{Outcome, Output};

mod decision;
mod instances;
mod label;
mod search;

use decision::{Decision, Finding};
use instances::Instances;

const EXAMPLES: &str = "\
Examples:
  # What would the instances of this hub take over? Changes nothing
  kross adopt --from-hub 1a7cd54c-8a42-4c85-a7a6-1f1b93ac90a2 -A --dry-run

  # Take it over
  kross adopt --from-hub 1a7cd54c-8a42-4c85-a7a6-1f1b93ac90a2 -A

  # Begin with one instance
  kross adopt shop/web -n team --from-hub 1a7cd54c-8a42-4c85-a7a6-1f1b93ac90a2";

/// Arguments of `kross adopt`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Instance, such as `shop/web` (default: all instances)
    #[arg(value_name = "KIND/NAME", num_args = 0..=2)]
    object: Vec<String>,

    /// UID of the hub that the objects belong to: that of its `kube-system` namespace
    #[arg(long, value_name = "UID")]
    from_hub: String,

    /// Only show what would be adopted
    #[arg(long)]
    dry_run: bool,

    /// The instances in all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// One line for each object
    Text,
    /// The objects as JSON
    Json,
}

/// The hub that the objects belong to, and the one that takes them over, by their UIDs.
#[derive(Clone, Debug)]
struct Hubs {
    from: String,
    to: String,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let reference = match arguments.object.is_empty() {
        true => None,
        false => Some(ObjectReference::parse(&arguments.object)?),
    };
    crate::hub::block_on(async {
        let hub = arguments.connection.hub().await?;
        let hubs = hubs(&hub, &arguments.from_hub).await?;
        let namespace = (!arguments.all_namespaces).then_some(hub.namespace.as_str());
        let instances = match &reference {
            Some(reference) => Instances::one(&hub, reference).await?,
            None => Instances::all(&hub, namespace).await?,
        };
        let searched = search::search(&hub, &hubs, &instances).await?;
        let mut problems = searched.problems;
        let adopted = match arguments.dry_run {
            true => BTreeSet::new(),
            false => label::move_all(&hub, &searched.findings, &mut problems).await,
        };
        searched.notes.iter().for_each(|note| output.note(format_args!("note: {note}")));
        print(&searched.findings, &adopted, arguments, output)?;
        if !problems.is_empty() {
            return Err(anyhow!("{}", problems.join("\n")));
        }
        Ok(summarize(&searched.findings, &hubs, searched.clusters, arguments.dry_run, output))
    })
}

/// The UIDs of both hubs. They must differ.
async fn hubs(hub: &Hub, from: &str) -> anyhow::Result<Hubs> {
    if kross_api::pack_uid(from).is_none() {
        bail!(
            "`{from}` is not the UID of a hub: it is that of the hub's `kube-system` namespace, such as `1a7cd54c-8a42-4c85-a7a6-1f1b93ac90a2`"
        );
    }
    let to = hub_uid(hub).await.context("cannot determine the UID of this hub")?;
    if to == from {
        bail!("`{from}` is the UID of this hub: its instances own these objects already");
    }
    Ok(Hubs { from: from.to_owned(), to })
}

/// The UID of this hub, as the controller determines it: that of `kube-system` or, where that may not be read, of the CRD.
async fn hub_uid(hub: &Hub) -> anyhow::Result<String> {
    if let Some(uid) = cluster_uid(&hub.client).await {
        return Ok(uid);
    }
    let kind = hub.kind("customresourcedefinitions.apiextensions.k8s.io")?;
    let crd = hub.get(&kind, None, "resourcegraphdefinitions.kro.run").await?;
    text(&crd, "/metadata/uid").map(str::to_owned).context("the CustomResourceDefinition has no UID")
}

/// The UID of the `kube-system` namespace of a cluster, if it may be read.
async fn cluster_uid(client: &ClusterClient) -> Option<String> {
    let namespaces = ApiKind::custom("", "v1", "Namespace", "namespaces", false);
    let found = client.get(&namespaces, None, "kube-system").await.ok()?;
    Some(found.uid().to_string())
}

fn print(
    findings: &[Finding],
    adopted: &BTreeSet<usize>,
    arguments: &Arguments,
    output: &mut Output,
) -> anyhow::Result<()> {
    if arguments.output == OutputFormat::Json {
        let rows: Vec<_> =
            findings.iter().enumerate().map(|(at, finding)| finding.row(adopted.contains(&at))).collect();
        return Ok(output.data(serde_json::to_string_pretty(&rows)?)?);
    }
    for (at, finding) in findings.iter().enumerate() {
        let (object, cluster) = (finding.title(), &finding.cluster);
        match &finding.decision {
            Decision::Adopt { instance } if adopted.contains(&at) => {
                output.data(format_args!("adopted  {object} in cluster {cluster} by {instance}"))?;
            }
            Decision::Adopt { instance } if arguments.dry_run => {
                output
                    .data(format_args!("adopt    {object} in cluster {cluster} by {instance} (dry run)"))?;
            }
            // The problem is reported after everything else.
            Decision::Adopt { .. } => output.data(format_args!("failed   {object} in cluster {cluster}"))?,
            Decision::Leave { reason } => {
                output.data(format_args!("left     {object} in cluster {cluster}: {reason}"))?;
            }
        }
    }
    Ok(())
}

/// Says what was found where nothing was, and what comes next.
fn summarize(
    findings: &[Finding],
    hubs: &Hubs,
    clusters: usize,
    dry_run: bool,
    output: &mut Output,
) -> Outcome {
    let to_adopt =
        findings.iter().filter(|finding| matches!(finding.decision, Decision::Adopt { .. })).count();
    let clusters = count(clusters, "cluster");
    if findings.is_empty() {
        output.note(format_args!(
            "no object in {clusters} belongs to these instances on hub `{}`; objects of this hub and of others are not touched",
            hubs.from
        ));
        return Outcome::No;
    }
    let left = findings.len() - to_adopt;
    let objects = count(to_adopt, "object");
    let verb = if dry_run { "would be adopted" } else { "adopted" };
    output.note(format_args!("{objects} in {clusters} {verb}, {left} left"));
    if to_adopt == 0 { Outcome::No } else { Outcome::Success }
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
