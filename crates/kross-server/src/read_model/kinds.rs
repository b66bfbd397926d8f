//! Turns a kind from the command line into one that the cluster serves.

use std::sync::Arc;

use kross_cluster::ApiKind;
use kross_diagnostics::suggest;

/// Short names that kubectl knows from the CustomResourceDefinitions and that discovery does not keep.
const SHORT_NAMES: &[(&str, &str, &str)] = &[
    ("rgd", "resourcegraphdefinitions", "kro.run"),
    ("rgds", "resourcegraphdefinitions", "kro.run"),
    ("definition", "resourcegraphdefinitions", "kro.run"),
    ("definitions", "resourcegraphdefinitions", "kro.run"),
    ("gr", "graphrevisions", "internal.kro.run"),
    ("cm", "configmaps", ""),
    ("deploy", "deployments", "apps"),
    ("ds", "daemonsets", "apps"),
    ("sts", "statefulsets", "apps"),
    ("rs", "replicasets", "apps"),
    ("po", "pods", ""),
    ("svc", "services", ""),
    ("ns", "namespaces", ""),
    ("no", "nodes", ""),
    ("sa", "serviceaccounts", ""),
    ("pv", "persistentvolumes", ""),
    ("pvc", "persistentvolumeclaims", ""),
    ("cj", "cronjobs", "batch"),
    ("ing", "ingresses", "networking.k8s.io"),
    ("netpol", "networkpolicies", "networking.k8s.io"),
    ("hpa", "horizontalpodautoscalers", "autoscaling"),
    ("pdb", "poddisruptionbudgets", "policy"),
    ("crd", "customresourcedefinitions", "apiextensions.k8s.io"),
    ("crds", "customresourcedefinitions", "apiextensions.k8s.io"),
];

/// No kind has the name that was typed, or several have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnknownKind(String);

/// Finds a kind by its name, plural or short name, with or without its group, in any case.
///
/// # Errors
/// No kind has this name, or several have.
pub fn find(kinds: &[Arc<ApiKind>], typed: &str) -> Result<Arc<ApiKind>, UnknownKind> {
    let (name, group) = typed.split_once('.').map_or((typed, None), |(name, group)| (name, Some(group)));
    let short = SHORT_NAMES.iter().find(|(short, ..)| short.eq_ignore_ascii_case(typed));
    let named = |kind: &&Arc<ApiKind>| {
        let same = |known: &str| known.eq_ignore_ascii_case(name);
        (same(&kind.kind) || same(&kind.plural)) && group.is_none_or(|group| *kind.group == *group)
    };
    let mut found: Vec<&Arc<ApiKind>> = kinds.iter().filter(named).collect();
    if let (true, Some((_, plural, group))) = (found.is_empty(), short) {
        found.extend(kinds.iter().filter(|kind| *kind.plural == **plural && *kind.group == **group));
    }
    prefer(&mut found);
    match found.as_slice() {
        [kind] => Ok(Arc::clone(kind)),
        [] if short.is_some_and(|(_, _, group)| *group == kross_api::DEFAULT_GROUP) => {
            Err(UnknownKind(format!(
                "the cluster does not serve `{typed}`: kross is not installed there; run `kross crds | kubectl apply --server-side -f -`"
            )))
        }
        [] => Err(UnknownKind(match suggest(name, kinds.iter().map(|kind| kind.kind.as_str())) {
            Some(meant) => format!("unknown kind `{typed}`; did you mean `{meant}`?"),
            None => format!("unknown kind `{typed}`; run `kubectl api-resources` to list all kinds"),
        })),
        [first, ..] => {
            let all: Vec<String> =
                found.iter().map(|kind| format!("`{}.{}`", kind.plural, kind.group)).collect();
            Err(UnknownKind(format!(
                "`{typed}` is ambiguous ({}): use for example `{}.{}/NAME`",
                all.join(", "),
                first.plural,
                first.group
            )))
        }
    }
}

/// Of several kinds of one name, prefers the one that kross serves, whose instances the commands are about, and then that
/// of Kubernetes, as kubectl does.
fn prefer(found: &mut Vec<&Arc<ApiKind>>) {
    let is_served = |kind: &Arc<ApiKind>| *kind.group == *kross_api::DEFAULT_GROUP;
    let is_core = |kind: &Arc<ApiKind>| kind.group.is_empty() || !kind.group.contains('.');
    for is_preferred in [&is_served as &dyn Fn(&Arc<ApiKind>) -> bool, &is_core] {
        if found.len() > 1 && found.iter().filter(|kind| is_preferred(kind)).count() == 1 {
            found.retain(|kind| is_preferred(kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds() -> Vec<Arc<ApiKind>> {
        let kind = |group: &str, kind: &str, plural: &str| {
            Arc::new(ApiKind::custom(group, "v1", kind, plural, true))
        };
        vec![
            kind("kro.run", "App", "apps"),
            kind("other.dev", "App", "apps"),
            kind("a.dev", "Cache", "caches"),
            kind("b.dev", "Cache", "caches"),
            kind("apps", "Deployment", "deployments"),
            kind("", "Event", "events"),
            kind("events.k8s.io", "Event", "events"),
        ]
    }

    #[test]
    fn a_kind_is_found_by_name_plural_or_group_in_any_case() {
        for typed in ["App", "app", "APPS", "apps.kro.run"] {
            assert_eq!(find(&kinds(), typed).unwrap().group, *"kro.run", "{typed}");
        }
        assert_eq!(find(&kinds(), "app.other.dev").unwrap().group, *"other.dev");
        assert_eq!(find(&kinds(), "deploy").unwrap().plural, *"deployments");
        assert_eq!(find(&kinds(), "events").unwrap().group, *"");
        assert_eq!(
            find(&kinds(), "Cach").unwrap_err().to_string(),
            "unknown kind `Cach`; did you mean `Cache`?"
        );
        let many = find(&kinds(), "cache").unwrap_err().to_string();
        assert!(many.contains("`caches.a.dev`, `caches.b.dev`"), "{many}");
    }

    #[test]
    fn a_hub_without_definitions_says_how_to_install_them() {
        let error = find(&kinds(), "rgd").unwrap_err().to_string();
        assert!(error.contains("run `kross crds | kubectl apply --server-side -f -`"), "{error}");
    }
}
