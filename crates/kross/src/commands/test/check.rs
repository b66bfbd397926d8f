//! Checks the expectations of a step. Every one that is not met is reported, with the place in the definition that led to it.

use kross_diagnostics::{Code, Place, Problem};
use kross_plan::simulate::Action;
use kross_value::{Text, Value};

use super::compare::{differences, short};
use super::expectation::{Done, Expectation, Expectations, Expected, Named};
use super::fields::Located;
use super::objects;
use super::situation::{Cause, Situation, Unmet};

/// The expectations that are not met. Snapshots are not checked here.
pub(super) fn check(expected: &Expectations, situation: &Situation<'_>) -> Vec<Unmet> {
    expected.0.iter().flat_map(|expectation| check_one(expectation, situation)).collect()
}

/// An expectation at this place is not met.
pub(super) fn unmet(at: &Located, message: impl Into<String>) -> Unmet {
    Unmet::new(Problem::new(Code::ExpectationNotMet, Place::value(&at.path), message))
}

fn check_one(expectation: &Expectation, situation: &Situation<'_>) -> Vec<Unmet> {
    let Expectation { at, kind } = expectation;
    match kind {
        Expected::State(state) => check_state(at, state, situation),
        Expected::Message(text) => check_message(at, text, situation),
        Expected::Status => check_status(at, situation),
        Expected::Conditions(conditions) => {
            conditions.iter().flat_map(|(name, at)| check_condition(name, at, situation)).collect()
        }
        Expected::Resources(resources) => {
            resources.iter().flat_map(|(id, at)| check_resource(id, at, situation)).collect()
        }
        Expected::Objects { cluster, objects, all } => {
            objects::check(at, cluster, (objects, *all), situation)
        }
        Expected::Absent(absent) => {
            absent.iter().flat_map(|(cluster, at)| objects::check_absent(at, cluster, situation)).collect()
        }
        Expected::Actions { what, names } => check_actions(at, *what, names, situation),
        Expected::Order { what, groups } => check_order(*what, groups, situation),
        Expected::Failures(failures) => check_failures(at, failures, situation),
        Expected::Waiting(waiting) => check_waiting(waiting, situation),
        Expected::InstanceDeleted(expected) => check_deleted(at, *expected, situation),
        Expected::Snapshot => Vec::new(),
    }
}

fn check_state(at: &Located, state: &str, situation: &Situation<'_>) -> Vec<Unmet> {
    let found = situation.simulator.status().get("state").and_then(Value::as_str).unwrap_or("not set");
    if found == state {
        return Vec::new();
    }
    let unmet = unmet(at, format!("the state of the instance is `{found}`, expected `{state}`"));
    vec![unmet.because(situation.first_incomplete())]
}

fn conditions<'s>(situation: &Situation<'s>) -> &'s [Value] {
    situation.simulator.status().get("conditions").and_then(Value::as_list).unwrap_or_default()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn check_message(at: &Located, expected: &str, situation: &Situation<'_>) -> Vec<Unmet> {
    let ready = conditions(situation).iter().find(|condition| text(condition, "type") == "Ready");
    let found = ready.map_or("", |ready| text(ready, "message"));
    if found.contains(expected) {
        return Vec::new();
    }
    let message = format!("the message of `Ready` is `{found}`, expected a part `{expected}`");
    vec![unmet(at, message).because(situation.first_incomplete())]
}

fn check_status(at: &Located, situation: &Situation<'_>) -> Vec<Unmet> {
    let root = kross_diagnostics::Path::root().key("spec").key("schema").key("status");
    let found = differences(&at.value, Some(situation.simulator.status()));
    let report = |difference: super::compare::Difference| {
        let place = Located { value: Value::Null, path: difference.path.under(&at.path) };
        let message = format!("`status.{}` {}", difference.path, difference.in_words());
        let cause = Cause {
            path: difference.path.under(&root),
            text: difference
                .found
                .as_ref()
                .map_or("no value".to_owned(), |found| format!("the value is {}", short(found))),
        };
        let is_authors = situation.definition.exact_span(&cause.path).is_some();
        unmet(&place, message)
            .because(Some(cause).filter(|_| is_authors).or_else(|| situation.first_incomplete()))
    };
    found.into_iter().map(report).collect()
}

fn check_condition(name: &str, at: &Located, situation: &Situation<'_>) -> Vec<Unmet> {
    let Some(found) = conditions(situation).iter().find(|condition| text(condition, "type") == name) else {
        let known: Vec<&str> =
            conditions(situation).iter().map(|condition| text(condition, "type")).collect();
        let mut missing = unmet(at, format!("the instance has no condition `{name}`"));
        missing.problem = missing.problem.note(format!("its conditions are {}", known.join(", ")));
        return vec![missing];
    };
    let mut wrong = Vec::new();
    for (field, expected) in parts(at, "status") {
        let actual = text(found, field);
        let holds = if field == "message" { actual.contains(&expected) } else { actual == expected };
        if !holds {
            let place = at.field(field).unwrap_or_else(|| at.clone());
            let part = if field == "message" { "a part " } else { "" };
            let message =
                format!("the {field} of condition `{name}` is `{actual}`, expected {part}`{expected}`");
            let mut unmet = unmet(&place, message).because(situation.first_incomplete());
            if field != "message" {
                unmet.problem = unmet.problem.note(format!("its message is: {}", text(found, "message")));
            }
            wrong.push(unmet);
        }
    }
    wrong
}

/// What a short or long expectation says about each field.
fn parts(at: &Located, short: &'static str) -> Vec<(&'static str, String)> {
    let as_text = |value: &Value| match value {
        Value::String(text) => text.to_string(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        other => other.to_string(),
    };
    if at.value.as_object().is_none() {
        return vec![(short, as_text(&at.value))];
    }
    let fields = ["status", "state", "reason", "message", "cluster"];
    fields.into_iter().filter_map(|field| Some((field, as_text(at.value.get(field)?)))).collect()
}

fn check_resource(id: &str, at: &Located, situation: &Situation<'_>) -> Vec<Unmet> {
    let found = situation.resource_status(id);
    let cause = || situation.reconcile.plan.node(id).and_then(|node| situation.cause(node));
    let mut wrong = Vec::new();
    for (field, expected) in parts(at, "state") {
        let actual = text(&found, field);
        let holds = match field {
            "message" => actual.contains(&expected),
            "cluster" => actual == expected || actual.split('/').any(|part| part == expected),
            _ => actual == expected,
        };
        if !holds {
            let place = at.field(field).unwrap_or_else(|| at.clone());
            let message = format!("the {field} of resource `{id}` is `{actual}`, expected `{expected}`");
            wrong.push(unmet(&place, message).because(cause()));
        }
    }
    wrong
}

fn verb(what: Done) -> &'static str {
    match what {
        Done::Applied => "applied",
        Done::Created => "created",
        Done::Updated => "updated",
        Done::Pruned => "pruned",
        Done::Deleted => "deleted",
        Done::Released => "released",
        Done::Orphaned => "orphaned",
        Done::Hooks => "run as a deletion hook",
    }
}

fn cause_of_action(action: &Action, situation: &Situation<'_>) -> Option<Cause> {
    let path = situation.resource(&action.node)?;
    Some(Cause { path: path.key("id"), text: action.to_string() })
}

fn check_actions(at: &Located, what: Done, names: &[Named], situation: &Situation<'_>) -> Vec<Unmet> {
    let done = situation.done(what);
    let mut wrong = Vec::new();
    let meant = |named: &Named, action: &Action| situation.is_meant(named, &action.node, &action.key);
    let mut unexpected: Vec<&Action> = Vec::new();
    for action in &done {
        let is_known = unexpected.iter().any(|known| known.key == action.key);
        if !is_known && !names.iter().any(|named| meant(named, action)) {
            unexpected.push(action);
        }
    }
    for action in unexpected {
        let message = format!("unexpected: {action}");
        wrong.push(unmet(at, message).because(cause_of_action(action, situation)));
    }
    for named in names.iter().filter(|named| !done.iter().any(|action| meant(named, action))) {
        let node = situation.reconcile.plan.node(&named.what);
        let message = format!("`{}` was not {}", text_of(named), verb(what));
        let mut missing = unmet(&named.at, message).because(node.and_then(|node| situation.cause(node)));
        missing.problem = missing.problem.note(situation.history());
        wrong.push(missing);
    }
    wrong
}

fn text_of(named: &Named) -> &str {
    named.at.value.as_str().unwrap_or(&named.what)
}

fn check_order(what: Done, groups: &[Vec<Named>], situation: &Situation<'_>) -> Vec<Unmet> {
    let mut done = situation.done(what);
    if what == Done::Deleted {
        // In the order of what happened, also where objects are pruned.
        done.extend(situation.done(Done::Pruned));
        done.sort_by_key(|action| action.wave);
    }
    let mut first: Vec<&Action> = Vec::new();
    for action in done {
        if !first.iter().any(|known| known.key == action.key) {
            first.push(action);
        }
    }
    let mut wrong = Vec::new();
    let mut last: Option<(usize, &Action)> = None;
    for group in groups {
        let mut highest: Option<(usize, &Action)> = None;
        for named in group {
            let own: Vec<&&Action> =
                first.iter().filter(|it| situation.is_meant(named, &it.node, &it.key)).collect();
            if own.is_empty() {
                let mut missing = unmet(&named.at, format!("`{}` was not {}", text_of(named), verb(what)));
                missing.problem = missing.problem.note(situation.history());
                let node = situation.reconcile.plan.node(&named.what);
                wrong.push(missing.because(node.and_then(|node| situation.cause(node))));
            }
            for action in own {
                if let Some((wave, before)) = last.filter(|(wave, _)| *wave >= action.wave) {
                    let how = if wave == action.wave { "at once with" } else { "before" };
                    let message = format!("{action} {how} `{}`, expected after it", before.node);
                    wrong.push(unmet(&named.at, message).because(cause_of_action(action, situation)));
                }
                if highest.is_none_or(|(wave, _)| wave < action.wave) {
                    highest = Some((action.wave, *action));
                }
            }
        }
        last = highest.or(last);
    }
    wrong
}

/// Checks that a message of this resource has the expected part.
fn check_messages(
    expected: &[(String, Located)],
    found: &[(Text, Text)],
    what: &str,
    situation: &Situation<'_>,
) -> Vec<Unmet> {
    let mut wrong = Vec::new();
    for (id, at) in expected {
        let own: Vec<&Text> = found.iter().filter(|(node, _)| **node == **id).map(|(_, it)| it).collect();
        let part = at.value.as_str().unwrap_or_default();
        if own.iter().any(|message| message.contains(part)) {
            continue;
        }
        let message = match own.first() {
            None => format!("`{id}` {what}, expected: {part}"),
            Some(found) => format!("`{id}`: the message is `{found}`, expected a part `{part}`"),
        };
        let node = situation.reconcile.plan.node(id);
        wrong.push(unmet(at, message).because(node.and_then(|node| situation.cause(node))));
    }
    wrong
}

fn check_failures(at: &Located, expected: &[(String, Located)], situation: &Situation<'_>) -> Vec<Unmet> {
    let found = situation.failures();
    let mut wrong = check_messages(expected, &found, "did not fail", situation);
    for (id, message) in &found {
        if !expected.iter().any(|(known, _)| **known == **id) {
            let node = situation.reconcile.plan.node(id);
            let unexpected = unmet(at, format!("`{id}` failed: {message}"));
            wrong.push(unexpected.because(node.and_then(|node| situation.cause(node))));
        }
    }
    wrong
}

fn check_waiting(expected: &[(String, Located)], situation: &Situation<'_>) -> Vec<Unmet> {
    check_messages(expected, &situation.waits(), "does not wait", situation)
}

fn check_deleted(at: &Located, expected: bool, situation: &Situation<'_>) -> Vec<Unmet> {
    if situation.simulator.is_deleted() == expected {
        return Vec::new();
    }
    let mut wrong =
        unmet(at, if expected { "the instance still exists" } else { "the instance was deleted" });
    for (id, message) in situation.waits().into_iter().chain(situation.failures()).take(5) {
        wrong.problem = wrong.problem.note(format!("`{id}`: {message}"));
    }
    vec![wrong]
}
