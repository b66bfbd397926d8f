//! Schedules an application to a target: only Ready ones that its selector matches, the preferred ones first, then the least
//! loaded, then by name. A choice is recorded and kept.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use kross_api::{KubernetesApplicationSpec, LabelSelector, Reason, annotations};
use kross_value::Value;

use crate::desired::hash;

/// A target of the application's namespace.
#[derive(Clone, Copy, Debug)]
pub struct PublishedTarget<'a>(pub &'a Value);

impl<'a> PublishedTarget<'a> {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.0.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it can be used: its condition `Ready` is True, and it is not being deleted.
    #[must_use]
    pub fn is_ready(self) -> bool {
        let conditions = self.0.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
        let text = |condition: &Value, field| condition.get(field).and_then(Value::as_str).map(str::to_owned);
        let is_true = |condition: &Value| {
            text(condition, "type").as_deref() == Some("Ready")
                && text(condition, "status").as_deref() == Some("True")
        };
        !self.is_deleting() && conditions.iter().any(is_true)
    }

    fn is_deleting(self) -> bool {
        self.0.at(&["metadata", "deletionTimestamp"]).is_some()
    }

    /// Whether a selector matches its labels; no selector matches every target.
    #[must_use]
    pub fn is_selected(self, selector: Option<&LabelSelector>) -> bool {
        let label = |key: &str| self.0.at(&["metadata", "labels"])?.get(key)?.as_str();
        selector.is_none_or(|selector| selector.matches(label))
    }
}

/// What the scheduler knows beside the application.
pub struct Surroundings<'a> {
    /// The targets of its namespace.
    pub targets: &'a [PublishedTarget<'a>],
    /// How many resources other applications have, or will have, in a target.
    pub load: &'a dyn Fn(&str) -> usize,
    /// The targets in whose clusters the application has objects.
    pub used: &'a BTreeSet<String>,
}

/// Where an application is scheduled to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// The target; none if there is none to choose.
    pub target: Option<String>,
    /// The annotation that records the choice; none if the target is the author's, or there is none.
    pub record: Option<String>,
    /// The request for another choice that is served now.
    pub served: Option<String>,
    /// Why there is no target, or why it cannot be used.
    pub problem: Option<(Reason, String)>,
}

/// Schedules an application.
#[must_use]
pub fn schedule(
    application: &Value,
    spec: &KubernetesApplicationSpec,
    surroundings: &Surroundings<'_>,
) -> Scheduling {
    let annotation = |key: &str| application.at(&["metadata", "annotations"])?.get(key)?.as_str();
    let namespace = application.at(&["metadata", "namespace"]).and_then(Value::as_str).unwrap_or_default();
    let request = annotation(annotations::RESCHEDULE);
    let served = request.map(str::to_owned);
    let record = annotation(annotations::SCHEDULED).and_then(|record| record.rsplit_once('/'));
    let in_spec = spec.target_ref.as_ref().map(|target| target.name.as_str());
    if let Some(name) = in_spec.filter(|name| record.is_none_or(|(recorded, _)| recorded != *name)) {
        let problem = not_ready(surroundings, namespace, name);
        return Scheduling { target: Some(name.to_owned()), record: None, served, problem };
    }
    let selector = Selector { spec, hash: hash(&spec.target_selector).chars().take(16).collect() };
    let is_requested = request.is_some() && request != annotation(annotations::RESCHEDULED);
    let only_used = surroundings.used.first().filter(|_| surroundings.used.len() == 1).map(String::as_str);
    let current = in_spec.or(record.map(|(target, _)| target)).or(only_used);
    let Some(current) = current else {
        return match selector.choose(surroundings, namespace, None) {
            Ok(target) => selector.chosen(target, served),
            Err(problem) => Scheduling { served, problem: Some(problem), ..Scheduling::default() },
        };
    };
    let existing = surroundings.targets.iter().find(|target| target.name() == current);
    let is_unchanged = record.is_none_or(|(_, recorded)| recorded == selector.hash);
    let is_kept = match existing {
        Some(target) => is_unchanged || target.is_selected(spec.target_selector.as_ref()),
        None => surroundings.used.contains(current),
    };
    let kept = |problem| Scheduling { problem, ..selector.chosen(current, served.clone()) };
    if is_kept && !is_requested {
        return kept(not_ready(surroundings, namespace, current));
    }
    match selector.choose(surroundings, namespace, Some(current)) {
        Ok(target) => selector.chosen(target, served),
        // Nothing else can be used: a request is served by the same target.
        Err(_) if is_kept => kept(not_ready(surroundings, namespace, current)),
        Err(problem) if existing.is_some() => {
            // Its objects stay where they are. The record keeps the old selector, so that the choice is made again.
            let record = record.map(|(target, hash)| format!("{target}/{hash}"));
            Scheduling { record, ..kept(Some(problem)) }
        }
        Err(problem) => Scheduling { served, problem: Some(problem), ..Scheduling::default() },
    }
}

/// How an application selects its target.
struct Selector<'a> {
    spec: &'a KubernetesApplicationSpec,
    hash: String,
}

impl Selector<'_> {
    fn chosen(&self, target: &str, served: Option<String>) -> Scheduling {
        let record = Some(format!("{target}/{}", self.hash));
        Scheduling { target: Some(target.to_owned()), record, served, problem: None }
    }

    /// Chooses a target, not the current one.
    fn choose<'t>(
        &self,
        surroundings: &Surroundings<'t>,
        namespace: &str,
        current: Option<&str>,
    ) -> Result<&'t str, (Reason, String)> {
        let selector = self.spec.target_selector.as_ref();
        let selected: Vec<PublishedTarget<'t>> =
            surroundings.targets.iter().copied().filter(|target| target.is_selected(selector)).collect();
        let usable = selected.iter().filter(|target| target.is_ready() && Some(target.name()) != current);
        let best = usable.min_by_key(|target| {
            let load = (surroundings.load)(target.name());
            (Reverse(self.preference(**target)), load, target.name())
        });
        best.map(|target| target.name()).ok_or_else(|| {
            let names = |targets: &[PublishedTarget<'_>]| {
                let mut names: Vec<&str> = targets.iter().map(|target| target.name()).collect();
                names.sort_unstable();
                quoted(&names)
            };
            let message = if surroundings.targets.is_empty() {
                format!("namespace `{namespace}` has no KubernetesTarget; publish a cluster there")
            } else if selected.is_empty() {
                let all = names(surroundings.targets);
                format!(
                    "no KubernetesTarget of namespace `{namespace}` matches `spec.targetSelector`; there are {all}"
                )
            } else {
                format!("no selected KubernetesTarget is Ready; waiting for {}", names(&selected))
            };
            (Reason::NoTarget, message)
        })
    }

    fn preference(&self, target: PublishedTarget<'_>) -> i64 {
        let matching = self.spec.target_preferences.iter();
        matching
            .filter(|preference| target.is_selected(Some(&preference.label_selector)))
            .map(|preference| preference.weight)
            .sum()
    }
}

/// Why a target that is chosen cannot be used.
fn not_ready(surroundings: &Surroundings<'_>, namespace: &str, name: &str) -> Option<(Reason, String)> {
    let target = surroundings.targets.iter().find(|target| target.name() == name);
    let message = match target {
        Some(target) if target.is_ready() => return None,
        Some(target) if target.is_deleting() => format!(
            "KubernetesTarget `{name}` is being deleted, and nothing is applied in its cluster any more; move the \
             application to another target, or delete it"
        ),
        Some(_) => format!("KubernetesTarget `{name}` is not Ready; see its conditions"),
        None if surroundings.used.contains(name) => format!(
            "KubernetesTarget `{name}` does not exist in namespace `{namespace}`, and the application has objects in \
             its cluster; create it again"
        ),
        None => format!("KubernetesTarget `{name}` does not exist in namespace `{namespace}`"),
    };
    Some((Reason::TargetNotReady, message))
}

/// The first names, quoted.
pub(super) fn quoted(names: &[&str]) -> String {
    const LISTED: usize = 5;
    let listed: Vec<String> = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(LISTED);
    if more == 0 { listed.join(", ") } else { format!("{} and {more} more", listed.join(", ")) }
}

#[cfg(test)]
mod tests;
