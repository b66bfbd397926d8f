//! Chooses the class that a claim is provisioned from: `classRef`, else the first class by name that `classSelector` matches,
//! else the default class.

use kross_api::{BindingPhase, ManagedClusterReference, Reason, annotations};
use kross_value::Value;

use super::{Claim, ClaimAction, ClaimClass, ClaimPlan, refused};
use crate::simulate::selects;

/// Chooses the class, and the name of the managed resource that will be created from it.
pub(super) fn choose(claim: &Claim<'_>, classes: Option<&[ClaimClass]>) -> ClaimPlan {
    let Some(classes) = classes else { return ClaimPlan::wait() };
    match find(claim, classes) {
        Ok(class) => ClaimPlan::act(ClaimAction::Reference {
            class: class.name.clone(),
            resource: ManagedClusterReference {
                api_version: class.spec.template.api_version.clone(),
                kind: class.spec.template.kind.clone(),
                name: claim.managed_name(),
                namespace: None,
            },
        }),
        Err(message) => refused(claim, BindingPhase::Unbindable, Reason::NoClass, message),
    }
}

/// The class of a claim, or why there is none.
pub(super) fn find<'c>(claim: &Claim<'_>, classes: &'c [ClaimClass]) -> Result<&'c ClaimClass, String> {
    if let Some(reference) = &claim.spec.class_ref {
        let name = &reference.name;
        return classes.iter().find(|class| class.name == *name).ok_or_else(|| {
            format!("KubernetesClusterClass `{name}` does not exist; create it, or set another `classRef`")
        });
    }
    let first = |matches: &dyn Fn(&&ClaimClass) -> bool| {
        classes.iter().filter(matches).min_by(|one, other| one.name.cmp(&other.name))
    };
    if let Some(selector) = &claim.spec.class_selector {
        if let Some(mistake) = selector.mistake() {
            return Err(format!("`classSelector` is invalid: {mistake}"));
        }
        let matching = |class: &&ClaimClass| selects(selector, Some(&Value::from(class.labels.clone())));
        return first(&matching)
            .ok_or_else(|| "no KubernetesClusterClass matches `classSelector`; label a class".to_owned());
    }
    first(&|class: &&ClaimClass| class.is_default).ok_or_else(|| {
        format!(
            "the claim has neither `classRef`, `classSelector` nor `resourceRef`, and there is no default class; set one of them, or annotate a KubernetesClusterClass with `{}: \"true\"`",
            annotations::DEFAULT_CLASS
        )
    })
}
