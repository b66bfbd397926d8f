//! What a step of a fixture expects. Only what is written is checked.

use kross_plan::simulate::Location;
use kross_value::Value;

use super::fields::{Located, Problems, quoted};
use super::fixture::{KIND, NAME, location, objects};

/// The expectations of a step.
#[derive(Debug, Default)]
pub(super) struct Expectations(pub(super) Vec<Expectation>);

/// One expectation, with its place.
#[derive(Debug)]
pub(super) struct Expectation {
    pub(super) at: Located,
    pub(super) kind: Expected,
}

/// What is expected.
#[derive(Debug)]
pub(super) enum Expected {
    /// `status.state` of the instance.
    State(String),
    /// A part of the message of `Ready`.
    Message(String),
    /// A part of the status.
    Status,
    /// Conditions by type.
    Conditions(Vec<(String, Located)>),
    /// Resources by id: their state, or a map with more.
    Resources(Vec<(String, Located)>),
    /// The objects in a cluster: all of them, or some.
    Objects { cluster: Location, objects: Vec<Located>, all: bool },
    /// Objects that must not exist.
    Absent(Vec<(Location, Located)>),
    /// What happened to which objects, and nothing else.
    Actions { what: Done, names: Vec<Named> },
    /// The order in which objects were applied or deleted.
    Order { what: Done, groups: Vec<Vec<Named>> },
    /// The resources that failed, with a part of the message; no other failed.
    Failures(Vec<(String, Located)>),
    /// Resources that are waited for, with a part of the message.
    Waiting(Vec<(String, Located)>),
    /// Whether the instance was deleted.
    InstanceDeleted(bool),
    /// The outcome is the one in the snapshot.
    Snapshot,
}

/// What was done to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Applied,
    Created,
    Updated,
    Pruned,
    Deleted,
    Released,
    Orphaned,
    Hooks,
}

/// An object as fixtures name it: the id of its resource, or its kind and name, with or without its cluster.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) at: Located,
    pub(super) what: String,
    pub(super) cluster: Option<Location>,
}

const FIELDS: [&str; 22] = [
    "state",
    "message",
    "status",
    "conditions",
    "resources",
    "objects",
    "contains",
    "absent",
    "applied",
    "created",
    "updated",
    "order",
    "pruned",
    "deleted",
    "deletionOrder",
    "released",
    "orphaned",
    "hooks",
    "failures",
    "waiting",
    "instanceDeleted",
    "snapshot",
];

impl Expectations {
    pub(super) fn read(at: &Located, problems: &mut Problems) -> Self {
        let mut found = Vec::new();
        if !at.has_only(&FIELDS, problems) {
            return Self(found);
        }
        for name in FIELDS {
            let Some(field) = at.field(name) else { continue };
            let before = problems.len();
            let kinds = read(name, &field, problems);
            if problems.len() == before {
                found.extend(kinds.into_iter().map(|kind| Expectation { at: field.clone(), kind }));
            }
        }
        Self(found)
    }
}

fn read(name: &str, field: &Located, problems: &mut Problems) -> Vec<Expected> {
    let one = |kind: Option<Expected>| kind.into_iter().collect();
    match name {
        "state" => one(field.text(problems).map(Expected::State)),
        "message" => one(field.text(problems).map(Expected::Message)),
        "status" => vec![Expected::Status],
        "conditions" => {
            let entries = field.entries(problems);
            check(&entries, &["status", "reason", "message"], problems);
            vec![Expected::Conditions(entries)]
        }
        "resources" => {
            let entries = field.entries(problems);
            check(&entries, &["state", "reason", "message", "cluster"], problems);
            vec![Expected::Resources(entries)]
        }
        "objects" | "contains" => {
            let clusters = field.entries(problems).into_iter();
            let in_cluster = clusters.map(|(cluster, list)| Expected::Objects {
                cluster: location(&cluster),
                objects: objects(vec![(cluster, list)], &[KIND, NAME], problems)
                    .into_iter()
                    .map(|(_, object)| object)
                    .collect(),
                all: name == "objects",
            });
            in_cluster.collect()
        }
        "absent" => {
            let entries = field.entries(problems);
            vec![Expected::Absent(objects(entries, &[KIND], problems))]
        }
        "order" => vec![Expected::Order { what: Done::Applied, groups: groups(field, problems) }],
        "deletionOrder" => vec![Expected::Order { what: Done::Deleted, groups: groups(field, problems) }],
        "failures" => vec![Expected::Failures(texts(field, problems))],
        "waiting" => vec![Expected::Waiting(texts(field, problems))],
        "instanceDeleted" => one(field.flag(problems).map(Expected::InstanceDeleted)),
        "snapshot" => match field.flag(problems) {
            Some(true) => vec![Expected::Snapshot],
            _ => Vec::new(),
        },
        other => {
            let what = match other {
                "applied" => Done::Applied,
                "created" => Done::Created,
                "updated" => Done::Updated,
                "pruned" => Done::Pruned,
                "deleted" => Done::Deleted,
                "released" => Done::Released,
                "orphaned" => Done::Orphaned,
                _ => Done::Hooks,
            };
            vec![Expected::Actions { what, names: names(&field.items(problems), problems) }]
        }
    }
}

/// Reports entries that are neither a text nor a map with these fields.
fn check(entries: &[(String, Located)], known: &[&'static str], problems: &mut Problems) {
    for (_, entry) in entries {
        match &entry.value {
            Value::Object(_) => {
                entry.has_only(known, problems);
            }
            Value::String(_) => {}
            // `True` without quotes is a boolean.
            Value::Bool(_) if known.contains(&"status") => {}
            other => {
                let message = format!("`{}` must be a string or a map, found {}", entry.path, other.kind());
                problems.push(
                    entry.problem(message).help(format!("the fields of the map are {}", quoted(known))),
                );
            }
        }
    }
}

fn texts(field: &Located, problems: &mut Problems) -> Vec<(String, Located)> {
    let entries = field.entries(problems);
    entries.into_iter().filter(|(_, entry)| entry.text(problems).is_some()).collect()
}

fn names(items: &[Located], problems: &mut Problems) -> Vec<Named> {
    items.iter().filter_map(|item| named(item, problems)).collect()
}

fn named(item: &Located, problems: &mut Problems) -> Option<Named> {
    let text = item.text(problems)?;
    let (what, cluster) = match text.split_once(" in ") {
        Some((what, cluster)) => (what.trim(), Some(location(cluster.trim()))),
        None => (text.trim(), None),
    };
    Some(Named { at: item.clone(), what: what.to_owned(), cluster })
}

/// Groups of names. What is in one group may happen at once.
fn groups(field: &Located, problems: &mut Problems) -> Vec<Vec<Named>> {
    let items = field.items(problems);
    let group = |item: &Located| match &item.value {
        Value::List(_) => names(&item.items(problems), problems),
        _ => named(item, problems).into_iter().collect(),
    };
    items.iter().map(group).collect()
}
