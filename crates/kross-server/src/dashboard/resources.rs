//! Turns the spec of a definition into its resources: what each is, where it is placed, and which expression reads which other
//! resource. The compiler is the authority on both; what is shown here explains its result.

use serde_json::Value as Json;

use crate::read_model::Definition;

/// A resource of a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) id: String,
    pub(super) kind: String,
    /// The name in the template, with its expressions.
    pub(super) name: String,
    pub(super) external: bool,
    pub(super) collection: bool,
    /// The cluster as it is written; empty for the cluster of the instance.
    pub(super) placement: String,
    /// What it reads: the id of another resource, and the expression.
    pub(super) reads: Vec<(String, String)>,
}

/// The resources of a definition, in its order.
pub(super) fn resources(definition: &Definition) -> Vec<Resource> {
    let spec = definition.0.get("spec").unwrap_or(&Json::Null);
    let listed: Vec<&Json> = spec["resources"].as_array().map(|all| all.iter().collect()).unwrap_or_default();
    let ids: Vec<&str> = listed.iter().filter_map(|resource| resource["id"].as_str()).collect();
    let inherited = reference(spec);
    listed.iter().filter_map(|resource| read(resource, &ids, &inherited)).collect()
}

fn read(resource: &Json, ids: &[&str], inherited: &str) -> Option<Resource> {
    let id = resource["id"].as_str()?;
    let external = resource.get("externalRef");
    let object = external.or_else(|| resource.get("template"))?;
    let text = |path: &str| object.pointer(path).and_then(Json::as_str).unwrap_or_default().to_owned();
    let own = external.map_or_else(String::new, reference);
    let own = if own.is_empty() { reference(resource) } else { own };
    // An external reference does not inherit the cluster of the definition.
    let placement = if own.is_empty() && external.is_none() { inherited.to_owned() } else { own };
    let mut reads = Vec::new();
    each_text(resource, &mut |text| {
        for expression in expressions(text) {
            for (other, path) in names(expression, ids) {
                if other != id && !reads.iter().any(|(known, _)| known == other) {
                    reads.push((other.to_owned(), path.to_owned()));
                }
            }
        }
    });
    Some(Resource {
        id: id.to_owned(),
        kind: text("/kind"),
        name: text("/metadata/name"),
        external: external.is_some(),
        collection: resource.get("forEach").is_some(),
        placement,
        reads,
    })
}

/// The cluster that a level names, as it is written.
fn reference(level: &Json) -> String {
    let text = |path: &str| level.pointer(path).and_then(Json::as_str).map(str::to_owned);
    text("/cluster/name")
        .or_else(|| text("/target/cluster/kubeconfigSecretName"))
        .or_else(|| text("/target/kubernetesTarget/name"))
        .or_else(|| level.pointer("/target/kubernetesTarget/selector").map(|_| "by selector".to_owned()))
        .unwrap_or_default()
}

fn each_text<'j>(value: &'j Json, found: &mut impl FnMut(&'j str)) {
    match value {
        Json::String(text) => found(text),
        Json::Array(items) => items.iter().for_each(|item| each_text(item, found)),
        Json::Object(fields) => fields.values().for_each(|field| each_text(field, found)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// The expressions in a text.
fn expressions(text: &str) -> impl Iterator<Item = &str> {
    text.split("${").skip(1).map(|after| {
        let mut depth = 0_i32;
        let end = after.char_indices().find(|(_, character)| {
            depth += i32::from(*character == '{') - i32::from(*character == '}');
            depth < 0
        });
        end.and_then(|(at, _)| after.get(..at)).unwrap_or(after)
    })
}

/// The ids that an expression names, each with the path that begins there.
fn names<'e>(expression: &'e str, ids: &[&'e str]) -> Vec<(&'e str, &'e str)> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut found = Vec::new();
    for id in ids {
        for (at, _) in expression.match_indices(id) {
            let (before, after) =
                (expression.get(..at).unwrap_or_default(), expression.get(at..).unwrap_or_default());
            let begins = !before.ends_with(|it: char| is_part(it) || it == '.' || it == '\'' || it == '"');
            let rest = after.get(id.len()..).unwrap_or_default();
            if begins && !rest.starts_with(is_part) {
                let end = after.find(|it: char| !(is_part(it) || ".?[]".contains(it))).unwrap_or(after.len());
                found.push((*id, after.get(..end).unwrap_or(after)));
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_reads_what_its_expressions_name() {
        let definition = Definition::new(
            json!({"spec": {"cluster": {"name": "eu-kubeconfig"}, "resources": [
                {"id": "db", "template": {"kind": "Service", "metadata": {"name": "${schema.metadata.name}-db"}}},
                {"id": "web", "forEach": [{"n": "${[1]}"}], "template": {"kind": "Deployment", "metadata": {"name": "web"},
                    "data": {"host": "http://${db.spec.clusterIP}:${string(db.spec.ports[0].port)}", "no": "${'db'}${schema.db}"}}},
                {"id": "seen", "externalRef": {"kind": "Secret", "metadata": {"name": "x"}}},
            ]}}),
        );
        let found = resources(&definition);
        let web = &found[1];
        assert_eq!(web.reads, [("db".to_owned(), "db.spec.clusterIP".to_owned())]);
        assert!(web.collection && web.placement == "eu-kubeconfig");
        assert!(found[2].external && found[2].placement.is_empty());
    }
}
