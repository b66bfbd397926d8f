//! Compares the objects of a cluster with those that a step expects.

use kross_api::ObjectKey;
use kross_diagnostics::Path;
use kross_plan::simulate::Location;
use kross_value::Value;

use super::check::unmet;
use super::compare::{Difference, differences, short};
use super::fields::Located;
use super::fixture::LOCAL;
use super::situation::{Cause, Situation, Unmet};

/// How many differences of one object are reported.
const SHOWN: usize = 10;

/// Checks the objects in a cluster: each expected one exists with the expected fields, and if `all` are listed, no other exists.
pub(super) fn check(
    at: &Located,
    cluster: &Location,
    (expected, all): (&[Located], bool),
    situation: &Situation<'_>,
) -> Vec<Unmet> {
    let objects = situation.simulator.objects();
    let mut open: Vec<(&ObjectKey, &Value)> = objects
        .iter()
        .filter(|(key, ..)| situation.is_in(cluster, key))
        .map(|(key, _, object)| (*key, &object.value))
        .collect();
    let here: Vec<String> = open.iter().map(|(key, _)| title(key)).collect();
    let mut wrong = Vec::new();
    for object in expected {
        let found = open.iter().position(|(key, found)| is_identity(&object.value, key, found));
        match found {
            Some(at) => {
                let (key, found) = open.remove(at);
                wrong.extend(compare(object, (key, found), cluster, situation));
            }
            None => wrong.push(missing(object, cluster, &here, situation)),
        }
    }
    if all {
        for (key, object) in open {
            let place = Located::new(&Value::Null, at.path.key(name(cluster)));
            let message = format!("unexpected {} in {}", title(key), in_words(cluster));
            let cause = node_of(object).and_then(|id| situation.resource(id));
            let cause =
                cause.map(|path| Cause { path: path.key("id"), text: "creates the object".to_owned() });
            wrong.push(unmet(&place, message).because(cause));
        }
    }
    wrong
}

/// Checks that no object in a cluster has these fields.
pub(super) fn check_absent(at: &Located, cluster: &Location, situation: &Situation<'_>) -> Vec<Unmet> {
    let objects = situation.simulator.objects();
    let here = objects.iter().filter(|(key, ..)| situation.is_in(cluster, key));
    let found = here.filter(|(_, _, object)| differences(&at.value, Some(&object.value)).is_empty());
    found
        .map(|(key, _, object)| {
            let message = format!("{} exists in {}, expected none", title(key), in_words(cluster));
            let cause = node_of(&object.value).and_then(|id| situation.resource(id));
            let cause =
                cause.map(|path| Cause { path: path.key("id"), text: "creates the object".to_owned() });
            unmet(at, message).because(cause)
        })
        .collect()
}

fn text<'v>(value: &'v Value, path: &[&str]) -> Option<&'v str> {
    value.at(path).and_then(Value::as_str)
}

/// Whether an object is the expected one: its kind, name, and the namespace and API version that are given.
fn is_identity(expected: &Value, key: &ObjectKey, found: &Value) -> bool {
    let given = |path: &[&str]| text(expected, path).is_none_or(|given| text(found, path) == Some(given));
    text(expected, &["kind"]) == Some(&key.kind)
        && text(expected, &["metadata", "name"]) == Some(&key.name)
        && given(&["metadata", "namespace"])
        && given(&["apiVersion"])
}

fn compare(
    expected: &Located,
    (key, found): (&ObjectKey, &Value),
    cluster: &Location,
    situation: &Situation<'_>,
) -> Vec<Unmet> {
    let found = differences(&expected.value, Some(found)).into_iter().map(|difference| (difference, found));
    let report = |(difference, object): (Difference, &Value)| {
        let place = Located::new(&Value::Null, difference.path.under(&expected.path));
        let message = format!(
            "{} in {}: `{}` {}",
            title(key),
            in_words(cluster),
            difference.path,
            difference.in_words()
        );
        unmet(&place, message).because(cause(&difference, object, situation))
    };
    found.take(SHOWN).map(report).collect()
}

/// The place in the template that the field comes from.
fn cause(difference: &Difference, object: &Value, situation: &Situation<'_>) -> Option<Cause> {
    let resource = situation.resource(node_of(object)?)?;
    let in_status = difference.path.to_string().starts_with("status");
    let path = if in_status { resource.key("id") } else { difference.path.under(&resource.key("template")) };
    let text = match &difference.found {
        Some(found) => format!("the value is {}", short(found)),
        None => "has no such field".to_owned(),
    };
    Some(Cause { path, text })
}

fn missing(expected: &Located, cluster: &Location, here: &[String], situation: &Situation<'_>) -> Unmet {
    let kind = text(&expected.value, &["kind"]).unwrap_or_default();
    let wanted = format!("{kind} {}", text(&expected.value, &["metadata", "name"]).unwrap_or_default());
    let mut unmet = unmet(expected, format!("{wanted} does not exist in {}", in_words(cluster)));
    let found = if here.is_empty() { "no object of the instance".to_owned() } else { here.join(", ") };
    unmet.problem = unmet.problem.note(format!("{} has {found}", in_words(cluster)));
    let of_kind = |node: &&kross_plan::NodePlan| {
        situation.graph.find(&node.id).is_some_and(|(_, node)| *node.kind.kind == *kind)
    };
    let mut nodes = situation.reconcile.plan.nodes.iter().filter(of_kind);
    let incomplete = nodes.clone().find(|node| !node.progress.is_ready());
    let cause = match incomplete {
        Some(node) => situation.cause(node),
        None => nodes.next().and_then(|node| elsewhere(&node.id, situation)),
    };
    unmet.because(cause)
}

/// Where the objects of a node are instead.
fn elsewhere(id: &str, situation: &Situation<'_>) -> Option<Cause> {
    let resource = situation.resource(id)?;
    let objects = situation.simulator.objects();
    let own = objects.iter().filter(|(_, _, object)| object.node() == Some(id));
    let places: Vec<String> = own
        .map(|(key, reference, _)| match reference {
            Some(reference) => format!("{} in cluster `{}`", title(key), reference.display),
            None => title(key),
        })
        .collect();
    let path = resource.key("cluster");
    let path: Path = if situation.definition.exact_span(&path).is_some() { path } else { resource.key("id") };
    let text =
        if places.is_empty() { "has no object".to_owned() } else { format!("applies {}", places.join(", ")) };
    Some(Cause { path, text })
}

fn node_of(object: &Value) -> Option<&str> {
    object.at(&["metadata", "labels"])?.get(kross_api::labels::NODE_ID)?.as_str()
}

fn title(key: &ObjectKey) -> String {
    format!("{} {}", key.kind, key.namespaced_name())
}

fn name(cluster: &Location) -> &str {
    match cluster {
        Location::Cluster(name) => name,
        Location::Local | Location::Anywhere => LOCAL,
    }
}

fn in_words(cluster: &Location) -> String {
    match cluster {
        Location::Cluster(name) => format!("cluster `{name}`"),
        Location::Local | Location::Anywhere => "the cluster of the instance".to_owned(),
    }
}
