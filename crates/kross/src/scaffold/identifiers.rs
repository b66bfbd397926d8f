//! Names: ids of resources, the name that the objects have in common, the kind of the instances.

use serde_json::{Value as Json, json};

use super::{Resource, visit};

/// Names that cannot be ids: kro or CEL reserves them.
const RESERVED: &[&str] = &[
    "namespace",
    "resource",
    "resources",
    "item",
    "items",
    "object",
    "instance",
    "schema",
    "each",
    "graph",
    "kind",
    "metadata",
    "spec",
    "status",
    "version",
    "context",
    "runtime",
    "root",
    "self",
    "this",
    "function",
    "import",
    "package",
    "return",
    "variables",
    "vars",
    "dependency",
    "dependencies",
];

/// Gives every resource an id: its kind, with its name where several have the kind.
pub(super) fn assign(resources: &mut [Resource]) {
    let base = base(resources);
    let kinds: Vec<String> = resources.iter().map(|resource| resource.kind.clone()).collect();
    let mut taken: Vec<String> = Vec::new();
    for resource in resources {
        let is_only = kinds.iter().filter(|kind| **kind == resource.kind).count() == 1;
        let mut rest = without_base(&resource.name, &base).to_owned();
        if is_only {
            rest.clear();
        }
        let mut id = camel(&rest);
        if id.is_empty() {
            id = camel(&split_capitals(&resource.kind));
        } else if !id.to_lowercase().ends_with(&resource.kind.to_lowercase()) {
            id.push_str(&pascal(&split_capitals(&resource.kind)));
        }
        if id.starts_with(|letter: char| letter.is_ascii_digit()) {
            id = format!("{}{id}", camel(&split_capitals(&resource.kind)));
        }
        if RESERVED.contains(&id.as_str()) {
            id.push_str("Object");
        }
        let mut number = 2;
        let first = id.clone();
        while taken.contains(&id) {
            id = format!("{first}{number}");
            number += 1;
        }
        taken.push(id.clone());
        resource.id = id;
    }
}

/// What the names of the objects have in common: the longest beginning, up to a dash, that most of them have.
pub(super) fn base(resources: &[Resource]) -> String {
    let names: Vec<&str> = resources.iter().map(|resource| resource.name.as_str()).collect();
    let mut best = (0, 0, "");
    for name in &names {
        let ends = name.match_indices('-').map(|(at, _)| at).chain([name.len()]);
        for candidate in ends.filter_map(|end| name.get(..end)).filter(|candidate| candidate.len() > 1) {
            let count = names.iter().filter(|other| without_base(other, candidate) != **other).count();
            if (count, candidate.len()) > (best.0, best.1) {
                best = (count, candidate.len(), candidate);
            }
        }
    }
    if best.2.is_empty() { names.first().copied().unwrap_or_default().to_owned() } else { best.2.to_owned() }
}

/// What follows the base in a name; the name itself if it does not begin with it.
fn without_base<'n>(name: &'n str, base: &str) -> &'n str {
    match name.strip_prefix(base) {
        Some("") => "",
        Some(rest) => rest.strip_prefix('-').unwrap_or(name),
        None => name,
    }
}

/// The text with the name of the instance in place of the base: `web-config` becomes `${schema.metadata.name}-config`.
pub(super) fn renamed(text: &str, base: &str) -> Option<String> {
    let rest = without_base(text, base);
    match rest {
        "" => Some("${schema.metadata.name}".to_owned()),
        rest if rest.len() < text.len() => Some(format!("${{schema.metadata.name}}-{rest}")),
        _ => None,
    }
}

/// Names and labels that begin with the base follow the name of the instance.
pub(super) fn rename(resources: &mut [Resource], base: &str) {
    for resource in resources {
        if resource.external {
            continue;
        }
        visit(&mut resource.object, &mut Vec::new(), &mut |path, value| {
            let Some(text) = value.as_str() else { return };
            if is_name(path)
                && let Some(renamed) = renamed(text, base)
            {
                *value = json!(renamed);
            }
        });
    }
}

/// Whether a string is the name of the object, or a label or a selector.
fn is_name(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(
        path.as_slice(),
        ["metadata", "name"]
            | ["spec", "selector", _]
            | [.., "labels" | "matchLabels", _]
            | [.., "matchExpressions", _, "values", _]
    )
}

/// The name as that of an object.
pub(super) fn definition_name(base: &str) -> String {
    let lower: String = base
        .to_lowercase()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' })
        .collect();
    lower.trim_matches(['-', '.']).to_owned()
}

/// `web-application` as `WebApplication`.
pub(crate) fn pascal(name: &str) -> String {
    let mut out = String::new();
    for word in name.split(|letter: char| !letter.is_ascii_alphanumeric()) {
        let mut letters = word.chars();
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.extend(letters);
    }
    if out.starts_with(|letter: char| letter.is_ascii_alphabetic()) { out } else { format!("App{out}") }
}

/// `web-application` as `webApplication`; `DATABASE_URL` as `databaseUrl`.
pub(super) fn camel(name: &str) -> String {
    let is_shouting = !name.chars().any(|letter| letter.is_ascii_lowercase());
    let name = if is_shouting { name.to_lowercase() } else { name.to_owned() };
    let mut out = String::new();
    for word in name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let mut letters = word.chars();
        let first = letters.next();
        if out.is_empty() {
            out.extend(first.map(|first| first.to_ascii_lowercase()));
        } else {
            out.extend(first.map(|first| first.to_ascii_uppercase()));
        }
        out.extend(letters);
    }
    out
}

/// `HTTPRoute` as `http-Route`, `ConfigMap` as `Config-Map`: the words of a kind.
fn split_capitals(kind: &str) -> String {
    let letters: Vec<char> = kind.chars().collect();
    let leading = letters.iter().take_while(|letter| letter.is_ascii_uppercase()).count();
    let acronym = if leading > 1 && leading < letters.len() { leading - 1 } else { leading };
    let first: String = letters.iter().take(acronym.max(1)).collect();
    let rest: String = letters.iter().skip(acronym.max(1)).collect();
    if leading > 1 {
        return format!("{}-{rest}", first.to_lowercase());
    }
    format!("{first}{rest}")
}

/// The value at a path of keys and indexes.
pub(super) fn at_mut<'v>(value: &'v mut Json, path: &[String]) -> Option<&'v mut Json> {
    path.iter().try_fold(value, |value, key| match value {
        Json::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
        other => other.get_mut(key),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_ids_and_kinds() {
        for (kind, id) in [
            ("ConfigMap", "configMap"),
            ("HTTPRoute", "httpRoute"),
            ("Deployment", "deployment"),
            ("CSIDriver", "csiDriver"),
            ("APIService", "apiService"),
        ] {
            assert_eq!(camel(&split_capitals(kind)), id);
        }
        assert_eq!(camel("DATABASE_URL"), "databaseUrl");
        assert_eq!(pascal("web-application"), "WebApplication");
        assert_eq!(pascal("3-tier"), "App3Tier");
        assert_eq!(renamed("web-config", "web").as_deref(), Some("${schema.metadata.name}-config"));
        assert_eq!(renamed("website", "web"), None);
    }
}
