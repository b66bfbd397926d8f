//! Merges the Events about an instance and its objects, of the hub and of the remote clusters that the caller may read, into
//! one list in the order of time.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use kross_cluster::ClusterClient;
use kross_diagnostics::render::{Format, neutral_line};
use serde::Serialize;
use serde_json::Value as Json;

use super::managed::{self, Found};
use crate::hub::{
    ConnectionFlags, DEFINITIONS, Hub, InstanceView, ObjectReference, Owner, RemoteClusters, Tone, age,
    for_people, is_definition, text,
};
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # What happened to an instance and its objects, in every cluster
  kross events shop/web -n team

  # Only warnings
  kross events shop/web --warnings

  # What happened to a definition
  kross events rgd/shop

  # What happens from now on
  kross events shop/web --watch

  # The Events of all instances and definitions, for a script
  kross events -A -o json";

/// How often `--watch` looks for new Events.
const INTERVAL: Duration = Duration::from_secs(2);

/// Arguments of `kross events`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Instance or definition, such as `shop/web` (default: all instances and definitions)
    #[arg(value_name = "KIND/NAME", num_args = 0..=2)]
    object: Vec<String>,

    /// Only warnings
    #[arg(long)]
    warnings: bool,

    /// The Events of instances in all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Then print new Events as they happen, until Ctrl-C
    #[arg(short, long)]
    watch: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OutputFormat {
    /// A table, the newest Event last
    Table,
    /// The Events as JSON
    Json,
}

/// One Event of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// When it happened last.
    time: Timestamp,
    /// How often it happened.
    count: i64,
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    cluster: String,
    object: String,
    message: String,
}

/// Which objects Events are wanted about.
#[derive(Debug, Default)]
struct Wanted {
    /// Cluster, namespace (empty for cluster-scoped objects), kind and name.
    objects: BTreeSet<(Option<String>, String, String, String)>,
    clusters: Vec<kross_api::ClusterStatus>,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let reference = match arguments.object.is_empty() {
        true => None,
        false => Some(ObjectReference::parse(&arguments.object)?),
    };
    crate::hub::block_on(async {
        let hub = arguments.connection.hub().await?;
        let mut notes = Notes::default();
        let rows = rows(&hub, reference.as_ref(), arguments, &mut notes, output).await?;
        print(&rows, arguments, output)?;
        if arguments.watch {
            return watch(&hub, reference.as_ref(), arguments, (rows, notes), output).await;
        }
        if rows.is_empty() && arguments.output == OutputFormat::Table {
            output.note("no Events found; API servers keep them for an hour by default");
        }
        Ok(Outcome::Success)
    })
}

/// What could not be read. Each is said once.
#[derive(Debug, Default)]
struct Notes(BTreeSet<String>);

impl Notes {
    fn add(&mut self, note: String, output: &mut Output) {
        if !self.0.contains(&note) {
            output.note(format_args!("note: {note}"));
            self.0.insert(note);
        }
    }
}

/// The Events in the order of time.
async fn rows(
    hub: &Hub,
    reference: Option<&ObjectReference>,
    arguments: &Arguments,
    notes: &mut Notes,
    output: &mut Output,
) -> anyhow::Result<Vec<Row>> {
    let wanted = wanted(hub, reference, arguments.all_namespaces, notes, output).await?;
    let mut rows = collect(hub, &wanted, notes, output).await?;
    rows.retain(|row| !arguments.warnings || row.kind == "Warning");
    rows.sort_by(|a, b| a.time.cmp(&b.time).then_with(|| a.object.cmp(&b.object)));
    Ok(rows)
}

fn print(rows: &[Row], arguments: &Arguments, output: &mut Output) -> anyhow::Result<()> {
    match arguments.output {
        OutputFormat::Json => output.data(serde_json::to_string_pretty(&rows)?)?,
        OutputFormat::Table if rows.is_empty() => {}
        OutputFormat::Table => {
            let drawn = draw(rows, Timestamp::now(), output.format() == Format::Coloured);
            output.data(drawn.trim_end())?;
        }
    }
    Ok(())
}

/// Prints Events that are new, or happened again, until Ctrl-C. Clusters that cannot be read for a while are read again later.
async fn watch(
    hub: &Hub,
    reference: Option<&ObjectReference>,
    arguments: &Arguments,
    (mut known, mut notes): (Vec<Row>, Notes),
    output: &mut Output,
) -> anyhow::Result<Outcome> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            ended = tokio::signal::ctrl_c() => return Ok(ended.map(|()| Outcome::Success)?),
        }
        let found = rows(hub, reference, arguments, &mut notes, output).await?;
        let new: Vec<Row> = found.iter().filter(|row| !known.contains(row)).cloned().collect();
        if !new.is_empty() {
            print(&new, arguments, output)?;
            known.extend(new);
        }
    }
}

/// The objects that Events are wanted about.
async fn wanted(
    hub: &Hub,
    reference: Option<&ObjectReference>,
    all: bool,
    notes: &mut Notes,
    output: &mut Output,
) -> anyhow::Result<Wanted> {
    let mut wanted = Wanted::default();
    match reference {
        Some(reference) => {
            let Found { mut object, note, .. } = managed::find(hub, reference).await?;
            if let Some(note) = note {
                notes.add(note, output);
            }
            if let (Some(owner), false) = (Owner::of(&object), is_definition(&object)) {
                wanted.add(&object);
                if let Some(kind) = hub.kind_of(&owner.api_version(), &owner.kind) {
                    object = hub.get(&kind, owner.namespace.as_deref(), &owner.name).await?;
                }
            }
            wanted.add(&object);
        }
        None => {
            let namespace = (!all).then_some(hub.namespace.as_str());
            let (instances, problems) = super::get::listable_instances(hub, namespace).await?;
            instances.iter().for_each(|instance| wanted.add(instance));
            problems.into_iter().for_each(|problem| notes.add(problem, output));
            if let Ok(kind) = hub.kind(DEFINITIONS) {
                hub.list(&kind, None, None).await.unwrap_or_default().iter().for_each(|it| wanted.add(it));
            }
        }
    }
    Ok(wanted)
}

impl Wanted {
    /// Adds an object, and the objects and clusters of its status.
    fn add(&mut self, object: &Json) {
        let view = InstanceView(object);
        let own = |text: Option<&str>| text.unwrap_or_default().to_owned();
        self.objects.insert((None, own(view.namespace()), view.kind().to_owned(), view.name().to_owned()));
        for entry in view.resources() {
            let (Some(kind), Some(name)) = (entry.kind, entry.name) else { continue };
            self.objects.insert((entry.cluster, own(entry.namespace.as_deref()), kind, name));
        }
        for cluster in view.clusters() {
            if !self.clusters.iter().any(|known| known.name == cluster.name) {
                self.clusters.push(cluster);
            }
        }
    }

    /// The namespaces in a cluster that have wanted objects. Events about cluster-scoped objects are in `default`.
    fn namespaces(&self, cluster: Option<&str>) -> BTreeSet<&str> {
        let here = self.objects.iter().filter(|(place, ..)| place.as_deref() == cluster);
        here.map(|(_, namespace, ..)| if namespace.is_empty() { "default" } else { namespace }).collect()
    }
}

async fn collect(
    hub: &Hub,
    wanted: &Wanted,
    notes: &mut Notes,
    output: &mut Output,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = events(&hub.client, None, wanted).await?;
    let remotes = RemoteClusters::new(hub);
    for cluster in &wanted.clusters {
        if wanted.namespaces(Some(&cluster.name)).is_empty() {
            continue;
        }
        let found = match remotes.client(cluster).await {
            Ok(client) => {
                events(&client, Some(&cluster.name), wanted).await.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match found {
            Ok(found) => rows.extend(found),
            Err(error) => notes.add(error, output),
        }
    }
    Ok(rows)
}

/// The wanted Events of one cluster.
async fn events(client: &ClusterClient, cluster: Option<&str>, wanted: &Wanted) -> anyhow::Result<Vec<Row>> {
    let kind = client.kind("events.k8s.io", Some("v1"), "Event").await?;
    let mut rows = Vec::new();
    for namespace in wanted.namespaces(cluster) {
        for event in client.list(&kind, Some(namespace), None).await? {
            let event = serde_json::to_value(event.value())?;
            let field = |path: &str| text(&event, path).unwrap_or_default().to_owned();
            let about = (
                cluster.map(str::to_owned),
                field("/regarding/namespace"),
                field("/regarding/kind"),
                field("/regarding/name"),
            );
            if wanted.objects.contains(&about) {
                rows.extend(row(&event, cluster));
            }
        }
    }
    Ok(rows)
}

fn row(event: &Json, cluster: Option<&str>) -> Option<Row> {
    let field = |path: &str| text(event, path).filter(|text| !text.is_empty());
    let times =
        ["/series/lastObservedTime", "/deprecatedLastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    let time = times.iter().find_map(|path| field(path)?.parse().ok())?;
    let count = ["/series/count", "/deprecatedCount"].iter().find_map(|path| event.pointer(path)?.as_i64());
    let namespace =
        field("/regarding/namespace").map(|namespace| format!("{namespace}/")).unwrap_or_default();
    Some(Row {
        time,
        count: count.unwrap_or(1).max(1),
        kind: field("/type")?.to_owned(),
        reason: field("/reason").unwrap_or_default().to_owned(),
        cluster: cluster.unwrap_or("hub").to_owned(),
        object: format!(
            "{} {namespace}{}",
            field("/regarding/kind").unwrap_or_default(),
            field("/regarding/name").unwrap_or_default()
        ),
        message: field("/note").unwrap_or_default().to_owned(),
    })
}

fn draw(rows: &[Row], now: Timestamp, coloured: bool) -> String {
    let last_seen = |row: &Row| match row.count {
        1 => age(row.time, now),
        count => format!("{} (x{count})", age(row.time, now)),
    };
    // The Events of another cluster may say anything.
    let plain = |text: &str| neutral_line(text).into_owned();
    let cells = |row: &Row| {
        [last_seen(row), plain(&row.kind), plain(&row.reason), row.cluster.clone(), plain(&row.object)]
    };
    let headers = ["LAST SEEN", "TYPE", "REASON", "CLUSTER", "OBJECT"].map(str::to_owned);
    let all: Vec<[String; 5]> = rows.iter().map(cells).collect();
    let widths: Vec<usize> = (0..5)
        .map(|column| {
            let cells = all.iter().chain([&headers]).filter_map(|cells| cells.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &[String; 5], tone: Tone, message: &str| {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let padded = format!("{cell:width$}   ");
            line.push_str(&if column == 1 { tone.paint(&padded, coloured) } else { padded });
        }
        format!("{}\n", format!("{line}{message}").trim_end())
    };
    let mut drawn = line(&headers, Tone::Plain, "MESSAGE");
    for (row, cells) in rows.iter().zip(&all) {
        let tone = if row.kind == "Warning" { Tone::Bad } else { Tone::Faint };
        drawn.push_str(&line(cells, tone, &for_people(&row.message, now).replace('\n', " ")));
    }
    drawn
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_drawn_with_their_cluster_and_count() {
        let event = json!({"type": "Warning", "reason": "Failed", "note": "refused",
            "regarding": {"kind": "Pod", "namespace": "team", "name": "web"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "series": {"count": 3, "lastObservedTime": "2026-01-01T00:04:00.000000Z"}});
        let row = row(&event, Some("eu")).unwrap();
        let drawn = draw(&[row], "2026-01-01T00:05:00Z".parse().unwrap(), false);
        assert_eq!(
            drawn,
            "LAST SEEN   TYPE      REASON   CLUSTER   OBJECT         MESSAGE\n\
             60s (x3)    Warning   Failed   eu        Pod team/web   refused\n"
        );
    }
}
