//! Turns a kind from the command line into one that the cluster serves.

use std::sync::Arc;

use anyhow::bail;
use kross_cluster::ApiKind;
use kross_diagnostics::suggest;

/// Finds a kind by its name or plural, with or without its group, in any case.
pub(super) fn kind(kinds: &[Arc<ApiKind>], typed: &str) -> anyhow::Result<Arc<ApiKind>> {
    let (name, group) = typed.split_once('.').map_or((typed, None), |(name, group)| (name, Some(group)));
    let named = |kind: &&Arc<ApiKind>| {
        let same = |known: &str| known.eq_ignore_ascii_case(name);
        (same(&kind.kind) || same(&kind.plural)) && group.is_none_or(|group| *kind.group == *group)
    };
    let mut found: Vec<&Arc<ApiKind>> = kinds.iter().filter(named).collect();
    // Prefer the kind that kross serves: its instances are what this command shows.
    if found.len() > 1 && found.iter().filter(|kind| kind.group == *kross_api::DEFAULT_GROUP).count() == 1 {
        found.retain(|kind| kind.group == *kross_api::DEFAULT_GROUP);
    }
    match found.as_slice() {
        [kind] => Ok(Arc::clone(kind)),
        [] => match suggest(name, kinds.iter().map(|kind| kind.kind.as_str())) {
            Some(meant) => bail!("unknown kind `{typed}`; did you mean `{meant}`?"),
            None => bail!("unknown kind `{typed}`; run `kubectl api-resources` to list all kinds"),
        },
        [first, ..] => {
            let all: Vec<String> =
                found.iter().map(|kind| format!("`{}.{}`", kind.plural, kind.group)).collect();
            bail!(
                "`{typed}` is ambiguous ({}): use for example `{}.{}/NAME`",
                all.join(", "),
                first.plural,
                first.group
            )
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
        ]
    }

    #[test]
    fn a_kind_is_found_by_name_plural_or_group_in_any_case() {
        for typed in ["App", "app", "APPS", "apps.kro.run"] {
            assert_eq!(kind(&kinds(), typed).unwrap().group, *"kro.run", "{typed}");
        }
        assert_eq!(kind(&kinds(), "app.other.dev").unwrap().group, *"other.dev");
        assert_eq!(
            kind(&kinds(), "Cach").unwrap_err().to_string(),
            "unknown kind `Cach`; did you mean `Cache`?"
        );
        let many = kind(&kinds(), "cache").unwrap_err().to_string();
        assert!(many.contains("`caches.a.dev`, `caches.b.dev`"), "{many}");
    }
}
