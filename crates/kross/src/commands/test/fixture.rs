//! Turns a fixture, a YAML file beside a definition, into tests: for each an instance, and steps with what changes and what is
//! expected then.

use std::time::Duration;

use kross_api::FailureReason;
use kross_plan::simulate::{Connection, Location, Refusal};
use kross_value::Value;

use super::expectation::Expectations;
use super::fields::{Located, Problems, quoted};

/// The tests of one file.
#[derive(Debug)]
pub(super) struct Fixture {
    /// The file with the definition, relative to the fixture. By default its name is that of the fixture, without `_test`.
    pub(super) definition: Option<Located>,
    pub(super) tests: Vec<Test>,
}

/// One test: an instance, and what happens to it.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) name: String,
    pub(super) instance: Located,
    pub(super) steps: Vec<Step>,
}

/// A step: time passes, something changes, the controller reconciles, and expectations are checked.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: Option<String>,
    pub(super) at: Located,
    pub(super) after: Option<Duration>,
    /// The file with the changed definition.
    pub(super) definition: Option<Located>,
    /// The changes of the instance, as a merge patch.
    pub(super) instance: Option<Located>,
    pub(super) delete: bool,
    pub(super) clusters: Vec<(String, Connection, Located)>,
    pub(super) objects: Vec<(Location, Located)>,
    pub(super) remove: Vec<(Location, Located)>,
    pub(super) status: Vec<(String, Located)>,
    pub(super) refuse: Vec<(String, Option<Refusal>, Located)>,
    pub(super) expect: Expectations,
}

/// The name of the instance's own cluster in fixtures.
pub(super) const LOCAL: &str = "local";

impl Fixture {
    /// Reads a fixture. None if it has no test; the reasons are among the problems.
    pub(super) fn read(document: &Value, problems: &mut Problems) -> Option<Self> {
        let root = Located::new(document, kross_diagnostics::Path::root());
        if !root.has_only(&["definition", "instance", "tests"], problems) {
            return None;
        }
        let Some(tests) = root.field("tests") else {
            problems.push(root.problem("the fixture has no `tests`").help("add `tests`, a list"));
            return None;
        };
        let shared = root.field("instance");
        let tests: Vec<Test> = tests
            .items(problems)
            .iter()
            .filter_map(|test| Test::read(test, shared.as_ref(), problems))
            .collect();
        let definition = root.field("definition").filter(|it| it.text(problems).is_some());
        Some(Self { definition, tests })
    }
}

impl Test {
    fn read(at: &Located, shared: Option<&Located>, problems: &mut Problems) -> Option<Self> {
        if !at.has_only(&["name", "instance", "steps"], problems) {
            return None;
        }
        let Some(name) = at.field("name") else {
            problems.push(at.problem("the test has no `name`").help("add `name`, a sentence"));
            return None;
        };
        let Some(instance) = at.field("instance").or_else(|| shared.cloned()) else {
            problems.push(at.problem("the test has no `instance`").help("add the instance to reconcile"));
            return None;
        };
        let Some(steps) = at.field("steps") else {
            problems.push(at.problem("the test has no `steps`").help("add `steps`, a list"));
            return None;
        };
        let instance = instance.object(&[&["kind"], &["metadata", "name"]], problems)?;
        let steps = steps.items(problems).iter().filter_map(|step| Step::read(step, problems)).collect();
        Some(Self { name: name.text(problems)?, instance, steps })
    }
}

impl Step {
    fn read(at: &Located, problems: &mut Problems) -> Option<Self> {
        const FIELDS: [&str; 11] = [
            "name",
            "after",
            "definition",
            "instance",
            "delete",
            "clusters",
            "objects",
            "remove",
            "status",
            "refuse",
            "expect",
        ];
        if !at.has_only(&FIELDS, problems) {
            return None;
        }
        let entries = |field: &str, problems: &mut Problems| {
            at.field(field).map_or_else(Vec::new, |field| field.entries(problems))
        };
        let clusters = entries("clusters", problems);
        let clusters = clusters.into_iter().filter_map(|(name, it)| {
            let connection = connection(&name, &it, problems)?;
            Some((name, connection, it))
        });
        let clusters = clusters.collect();
        let refuse = entries("refuse", problems);
        let refuse =
            refuse.into_iter().filter_map(|(id, it)| Some((id, refusal(&it, problems)?, it))).collect();
        Some(Self {
            name: at.field("name").and_then(|name| name.text(problems)),
            after: at.field("after").and_then(|after| after.duration(problems)),
            definition: at.field("definition").filter(|it| it.text(problems).is_some()),
            instance: at.field("instance"),
            delete: at.field("delete").and_then(|it| it.flag(problems)).unwrap_or_default(),
            clusters,
            objects: objects(entries("objects", problems), &[API_VERSION, KIND, NAME], problems),
            remove: objects(entries("remove", problems), &[API_VERSION, KIND, NAME], problems),
            status: entries("status", problems),
            refuse,
            expect: at
                .field("expect")
                .map_or_else(Expectations::default, |it| Expectations::read(&it, problems)),
            at: at.clone(),
        })
    }
}

pub(super) const API_VERSION: &[&str] = &["apiVersion"];
pub(super) const KIND: &[&str] = &["kind"];
pub(super) const NAME: &[&str] = &["metadata", "name"];

/// Objects by cluster. Each needs these fields.
pub(super) fn objects(
    entries: Vec<(String, Located)>,
    needed: &[&[&str]],
    problems: &mut Problems,
) -> Vec<(Location, Located)> {
    let mut found = Vec::new();
    for (cluster, list) in entries {
        for item in list.items(problems) {
            if let Some(object) = item.object(needed, problems) {
                found.push((location(&cluster), object));
            }
        }
    }
    found
}

/// The cluster of this name.
pub(super) fn location(cluster: &str) -> Location {
    if cluster == LOCAL { Location::Local } else { Location::Cluster(cluster.to_owned()) }
}

/// `Connected`, the reason of a failure, or a reason with a message.
fn connection(name: &str, at: &Located, problems: &mut Problems) -> Option<Connection> {
    if name == LOCAL {
        problems.push(at.problem("the cluster of the instance is always connected"));
        return None;
    }
    let (word, message) = match at.value.as_object() {
        Some(_) => {
            at.has_only(&["reason", "message"], problems);
            let message = at.field("message").and_then(|it| it.text(problems));
            (at.field("reason").and_then(|it| it.text(problems))?, message)
        }
        None => (at.text(problems)?, None),
    };
    if word == "Connected" {
        return Some(Connection::Connected);
    }
    let reasons = [
        FailureReason::Unreachable,
        FailureReason::Timeout,
        FailureReason::Credentials,
        FailureReason::Unauthorized,
    ];
    let Some(reason) = reasons.into_iter().find(|reason| reason.as_str() == word) else {
        let known: Vec<&str> = reasons.iter().map(|reason| reason.as_str()).collect();
        let problem = at.problem(format!("`{word}` is no state of a cluster"));
        problems.push(problem.help(format!("write `Connected` or one of {}", quoted(&known))));
        return None;
    };
    let cause = message.unwrap_or_else(|| {
        match reason {
            FailureReason::Unreachable => "connection refused",
            FailureReason::Timeout => "no response in time",
            FailureReason::Credentials => "the Secret does not exist",
            _ => "the cluster does not accept the credentials",
        }
        .to_owned()
    });
    Some(Connection::NotConnected { reason, cause: cause.into() })
}

/// A message, or a map with more; null ends the refusal.
fn refusal(at: &Located, problems: &mut Problems) -> Option<Option<Refusal>> {
    if at.value.is_null() {
        return Some(None);
    }
    if let Some(message) = at.value.as_str() {
        let message = message.into();
        return Some(Some(Refusal { deletions: false, reason: FailureReason::Forbidden, message }));
    }
    if !at.has_only(&["operation", "reason", "message"], problems) {
        return None;
    }
    let deletions = match at.field("operation").and_then(|it| it.text(problems)).as_deref() {
        None | Some("Apply") => false,
        Some("Delete") => true,
        Some(other) => {
            problems
                .push(at.problem(format!("unknown operation `{other}`")).help("write `Apply` or `Delete`"));
            return None;
        }
    };
    let reason = match at.field("reason") {
        None => FailureReason::Forbidden,
        Some(word) => match FailureReason::parse(&word.text(problems)?) {
            Some(reason) => reason,
            None => {
                let known: Vec<&str> = FailureReason::ALL.iter().map(|reason| reason.as_str()).collect();
                let problem = word.problem("unknown reason of a failure");
                problems.push(problem.help(format!("write one of {}", quoted(&known))));
                return None;
            }
        },
    };
    let message = at.field("message").and_then(|it| it.text(problems));
    let message = message.unwrap_or_else(|| "refused by the fixture".to_owned()).into();
    Some(Some(Refusal { deletions, reason, message }))
}
