//! Completes the names of contexts, namespaces, kinds, objects and clusters: those of the hub that the line so far leads to. What
//! cannot be read in time is not completed.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use serde_json::Value as Json;

use crate::hub::{ClusterConnections, ConnectionFlags, DEFINITIONS, Hub, text};

/// How long the hub may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Makes a command complete names, and its subcommands.
pub(super) fn with_names(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command.mut_args(|argument| complete(argument, &name)).mut_subcommands(with_names)
}

fn complete(argument: clap::Arg, command: &str) -> clap::Arg {
    let completer = match (argument.get_id().as_str(), argument.is_positional()) {
        ("namespace", false) => ArgValueCompleter::new(namespaces),
        ("context", false) => ArgValueCompleter::new(contexts),
        ("location", false) => ArgValueCompleter::new(clusters),
        ("object", true) => ArgValueCompleter::new(objects),
        ("kind", true) if command == "get" => ArgValueCompleter::new(kinds),
        ("names", true) if command == "get" => ArgValueCompleter::new(names),
        ("name", true) if matches!(command, "affected" | "remove" | "check" | "rotate") => {
            ArgValueCompleter::new(clusters)
        }
        _ => return argument,
    };
    argument.add(completer)
}

fn namespaces(current: &OsStr) -> Vec<CompletionCandidate> {
    matching(current, on_hub(async |hub| named(&hub, "namespaces", None).await))
}

fn contexts(current: &OsStr) -> Vec<CompletionCandidate> {
    matching(current, Line::of_process().flags().contexts())
}

fn clusters(current: &OsStr) -> Vec<CompletionCandidate> {
    matching(current, on_hub(async |hub| cluster_names(&hub).await))
}

/// `KIND/NAME`, or the name after a kind.
fn objects(current: &OsStr) -> Vec<CompletionCandidate> {
    let line = Line::of_process();
    let before = line.positionals().pop().filter(|word| !word.contains('/'));
    let typed = current.to_string_lossy().into_owned();
    let found = on_hub(async |hub| match (before, typed.split_once('/')) {
        (Some(kind), _) => named(&hub, &kind, Some(&hub.namespace)).await,
        (None, Some((kind, _))) => {
            let names = named(&hub, kind, Some(&hub.namespace)).await;
            names.into_iter().map(|name| format!("{kind}/{name}")).collect()
        }
        (None, None) => kind_names(&hub).await.into_iter().map(|kind| format!("{kind}/")).collect(),
    });
    matching(current, found)
}

fn kinds(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut found: BTreeSet<String> =
        ["instances", "definitions", "clusters"].map(str::to_owned).into_iter().collect();
    found.extend(on_hub(async |hub| kind_names(&hub).await));
    matching(current, found)
}

/// The names of what `kross get` lists.
fn names(current: &OsStr) -> Vec<CompletionCandidate> {
    let positionals = Line::of_process().positionals();
    let Some(kind) = positionals.first() else { return Vec::new() };
    let found = on_hub(async |hub| match kind.as_str() {
        "clusters" | "cluster" => cluster_names(&hub).await,
        "instances" | "instance" | "all" => Vec::new(),
        kind => named(&hub, kind, Some(&hub.namespace)).await,
    });
    matching(current, found)
}

/// The kinds of instances, and that of definitions.
async fn kind_names(hub: &Hub) -> Vec<String> {
    let definitions = hub.definitions().await.unwrap_or_default();
    let mut kinds: Vec<String> =
        definitions.iter().map(|definition| definition.served_kind().1.to_lowercase()).collect();
    kinds.push("rgd".to_owned());
    kinds
}

/// The names of the objects of a kind.
async fn named(hub: &Hub, kind: &str, namespace: Option<&str>) -> Vec<String> {
    let kind = if kind == "definitions" { DEFINITIONS } else { kind };
    let Ok(kind) = hub.kind(kind) else { return Vec::new() };
    let listed = hub.list(&kind, namespace, None).await.unwrap_or_default();
    let name = |object: &Json| text(object, "/metadata/name").map(str::to_owned);
    listed.iter().filter_map(name).collect()
}

/// The Secrets of clusters: by their names in the namespace of the line, and with their namespaces elsewhere.
async fn cluster_names(hub: &Hub) -> Vec<String> {
    let Ok(ClusterConnections::Listed(_, views)) = ClusterConnections::list(hub).await else {
        return Vec::new();
    };
    let name = |secret: &kross_api::SecretAddress| match secret.namespace == hub.namespace {
        true => secret.name.clone(),
        false => secret.status_text(),
    };
    views.iter().map(|view| name(&view.secret)).collect()
}

/// Asks the hub that the flags of the line lead to.
fn on_hub(ask: impl AsyncFnOnce(Hub) -> Vec<String>) -> Vec<String> {
    let flags = Line::of_process().flags();
    let asked = crate::hub::block_on(async {
        let answer = async { anyhow::Ok(ask(flags.hub().await?).await) };
        tokio::time::timeout(TIMEOUT, answer).await?
    });
    // There is nobody to tell in the middle of a line.
    asked.unwrap_or_default()
}

fn matching(current: &OsStr, found: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy();
    let sorted: BTreeSet<String> =
        found.into_iter().filter(|candidate| candidate.starts_with(&*typed)).collect();
    sorted.into_iter().map(CompletionCandidate::new).collect()
}

/// The line before the word that is completed.
#[derive(Debug)]
struct Line(Vec<OsString>);

impl Line {
    /// The shell passes it after `--`, and the index of the word in a variable.
    fn of_process() -> Self {
        let mut words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
        let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
        // Fish passes the words up to the cursor.
        words.truncate(index.unwrap_or_else(|| words.len().saturating_sub(1)));
        Self(words)
    }

    /// What the line says about the connection. A flag that cannot be read counts as absent.
    fn flags(&self) -> ConnectionFlags {
        let command = ConnectionFlags::augment_args(Command::new("kross").no_binary_name(true));
        let (flags, _) = self.split(&command);
        let matches: Result<ArgMatches, _> = command.try_get_matches_from(flags);
        matches.ok().and_then(|matches| ConnectionFlags::from_arg_matches(&matches).ok()).unwrap_or_default()
    }

    /// The words after the command that are neither flags nor their values.
    fn positionals(&self) -> Vec<String> {
        let root = super::super::command(None);
        let mut command = &root;
        let mut depth = 0;
        for word in self.0.iter().skip(1) {
            let Some(found) = command.find_subcommand(word) else { break };
            command = found;
            depth += 1;
        }
        let (_, words) = self.split(command);
        words.into_iter().skip(depth).collect()
    }

    /// The flags that a command knows, with their values, and the words that are no flags.
    fn split(&self, command: &Command) -> (Vec<OsString>, Vec<String>) {
        let (mut flags, mut words) = (Vec::new(), Vec::new());
        let mut line = self.0.iter().skip(1);
        while let Some(word) = line.next() {
            let typed = word.to_string_lossy();
            if !typed.starts_with('-') {
                words.push(typed.into_owned());
                continue;
            }
            let (flag, value) =
                typed.split_once('=').map_or((&*typed, None), |(flag, value)| (flag, Some(value)));
            let is_it = |argument: &&clap::Arg| {
                let long = argument.get_long().map(|long| format!("--{long}"));
                let short = argument.get_short().map(|short| format!("-{short}"));
                long.as_deref() == Some(flag) || short.as_deref() == Some(flag)
            };
            let Some(argument) = command.get_arguments().find(is_it) else { continue };
            flags.push(word.clone());
            if value.is_none() && argument.get_action().takes_values() {
                flags.extend(line.next().cloned());
            }
        }
        (flags, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line(text.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn flags_of_the_connection_are_read_wherever_they_are() {
        let line = line("kross get shop -o wide -n team --context=eu --nonsense");
        assert_eq!(line.flags().namespace(), Some("team"));
        assert_eq!(line.positionals(), ["shop"]);
    }

    #[test]
    fn values_of_flags_are_no_arguments() {
        assert_eq!(line("kross tree -n team shop").positionals(), ["shop"]);
        assert_eq!(line("kross cluster affected -o json").positionals(), Vec::<String>::new());
        assert_eq!(line("kross cluster affected eu --namespace x").positionals(), ["eu"]);
    }
}
