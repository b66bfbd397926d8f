//! Turns the names by which objects refer to each other into expressions.

use serde_json::{Value as Json, json};

use super::identifiers::{at_mut, renamed};
use super::{Resource, visit, would_cycle};

/// A name in an object that may be that of another one.
struct Mention {
    path: Vec<String>,
    /// The kinds that it may be a name of.
    kind: String,
    name: String,
}

/// Replaces the names of other objects.
pub(super) fn link(resources: &mut [Resource], base: &str) {
    for reader in 0..resources.len() {
        let Some(resource) = resources.get_mut(reader).filter(|resource| !resource.external) else {
            continue;
        };
        for mention in mentions(&mut resource.object) {
            connect(resources, reader, &mention, base);
        }
    }
}

fn connect(resources: &mut [Resource], reader: usize, mention: &Mention, base: &str) {
    let is_meant = |resource: &Resource| resource.kind == mention.kind && resource.name == mention.name;
    let Some(read) = resources.iter().position(is_meant).filter(|read| *read != reader) else { return };
    let text = if would_cycle(resources, reader, read) {
        let is_external = resources.get(read).is_some_and(|resource| resource.external);
        renamed(&mention.name, base).filter(|_| !is_external)
    } else {
        resources.get(read).map(|resource| format!("${{{}.metadata.name}}", resource.id))
    };
    let (Some(text), Some(resource)) = (text, resources.get_mut(reader)) else { return };
    if text.starts_with("${schema") {
        set(&mut resource.object, &mention.path, &text);
        return;
    }
    if !resource.reads.contains(&read) {
        resource.reads.push(read);
    }
    set(&mut resource.object, &mention.path, &text);
}

fn set(object: &mut Json, path: &[String], text: &str) {
    if let Some(value) = at_mut(object, path) {
        *value = json!(text);
    }
}

fn mentions(object: &mut Json) -> Vec<Mention> {
    let mut found = Vec::new();
    visit(object, &mut Vec::new(), &mut |path, value| {
        let Json::Object(entries) = &*value else { return };
        let key = path.last().map(String::as_str).unwrap_or_default();
        let holder =
            path.len().checked_sub(2).and_then(|at| path.get(at)).map(String::as_str).unwrap_or_default();
        let mut add = |field: &str, kind: &str| {
            if let Some(name) = entries.get(field).and_then(Json::as_str) {
                let path = path.iter().cloned().chain([field.to_owned()]).collect();
                found.push(Mention { path, kind: kind.to_owned(), name: name.to_owned() });
            }
        };
        match key {
            "configMapKeyRef" | "configMapRef" | "configMap" => add("name", "ConfigMap"),
            "secretKeyRef" | "secretRef" => add("name", "Secret"),
            "secret" => {
                add("secretName", "Secret");
                add("name", "Secret");
            }
            "persistentVolumeClaim" => add("claimName", "PersistentVolumeClaim"),
            "service" => add("name", "Service"),
            _ => match holder {
                "imagePullSecrets" => add("name", "Secret"),
                "backendRefs" if !entries.contains_key("kind") => add("name", "Service"),
                _ => {}
            },
        }
        if !path.is_empty()
            && let Some(kind) = entries.get("kind").and_then(Json::as_str)
            && key != "metadata"
        {
            add("name", kind);
        }
        for (field, kind) in [
            ("serviceAccountName", "ServiceAccount"),
            ("serviceAccount", "ServiceAccount"),
            ("secretName", "Secret"),
            ("serviceName", "Service"),
            ("storageClassName", "StorageClass"),
            ("ingressClassName", "IngressClass"),
            ("priorityClassName", "PriorityClass"),
            ("namespace", "Namespace"),
        ] {
            if key != "secret" || field != "secretName" {
                add(field, kind);
            }
        }
    });
    found
}

/// Replaces the host names of Services in addresses: `http://web-api:8080`.
pub(super) fn link_services(resources: &mut [Resource], base: &str) {
    let services: Vec<(usize, String)> = resources
        .iter()
        .enumerate()
        .filter(|(_, resource)| resource.kind == "Service" && !resource.external)
        .map(|(at, resource)| (at, resource.name.clone()))
        .collect();
    for reader in 0..resources.len() {
        let Some(resource) = resources.get_mut(reader).filter(|resource| !resource.external) else {
            continue;
        };
        let mut addresses: Vec<(Vec<String>, String)> = Vec::new();
        visit(&mut resource.object, &mut Vec::new(), &mut |path, value| {
            if let Some(text) = value.as_str().filter(|_| is_free_text(path)) {
                addresses.push((path.to_vec(), text.to_owned()));
            }
        });
        for (path, mut text) in addresses {
            for (read, name) in services.iter().filter(|(read, _)| *read != reader) {
                let cycles = would_cycle(resources, reader, *read);
                let id = resources.get(*read).map(|resource| resource.id.clone()).unwrap_or_default();
                let written =
                    if cycles { renamed(name, base) } else { Some(format!("${{{id}.metadata.name}}")) };
                let Some(changed) = written.and_then(|written| with_host(&text, name, &written)) else {
                    continue;
                };
                text = changed;
                if let Some(resource) = resources.get_mut(reader) {
                    if !cycles && !resource.reads.contains(read) {
                        resource.reads.push(*read);
                    }
                    set(&mut resource.object, &path, &text);
                }
            }
        }
    }
}

/// Where addresses are: environment variables, arguments, configuration.
fn is_free_text(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(
        path.as_slice(),
        [.., "env", _, "value"] | [.., "args" | "command", _] | ["data" | "stringData", _]
    )
}

/// The text with another host in place of `name`, where it stands for a host: alone, behind `//` or `@`, or before a port.
fn with_host(text: &str, name: &str, host: &str) -> Option<String> {
    if name.len() < 2 {
        return None;
    }
    let (mut out, mut rest, mut found) = (String::new(), text, false);
    while let Some(at) = rest.find(name) {
        let (before, after) = (rest.get(..at)?, rest.get(at + name.len()..)?);
        let is_behind_scheme = before.ends_with("//") || before.ends_with('@');
        let is_start =
            before.is_empty() && out.is_empty() || before.ends_with([' ', '=', ',', '\n', '"', '\'']);
        let ends = after.is_empty() || after.starts_with([':', '/', '.', ',', '\n', ' ', '"', '\'']);
        let has_port = after
            .strip_prefix(':')
            .is_some_and(|port| port.starts_with(|digit: char| digit.is_ascii_digit()));
        let is_domain = after.starts_with(".svc") || after.contains(".svc.") && after.starts_with('.');
        let is_alone = text == name;
        out.push_str(before);
        if ends && (is_behind_scheme || is_start && (has_port || is_domain) || is_alone) {
            out.push_str(host);
            found = true;
        } else {
            out.push_str(name);
        }
        rest = after;
    }
    out.push_str(rest);
    found.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::with_host;

    #[test]
    fn host_names_are_replaced_where_they_are_hosts() {
        for (text, expected) in [
            ("http://api:80/x", Some("http://H:80/x")),
            ("api", Some("H")),
            ("api:8080", Some("H:8080")),
            ("a=api:80,b=api:81", Some("a=H:80,b=H:81")),
            ("postgres://user@api/db", Some("postgres://user@H/db")),
            ("api.default.svc.cluster.local", Some("H.default.svc.cluster.local")),
            ("an api for all", None),
            ("http://apis/", None),
            ("/api/v1", None),
        ] {
            assert_eq!(with_host(text, "api", "H").as_deref(), expected, "{text}");
        }
    }
}
