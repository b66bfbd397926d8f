//! What the hostile servers do. Each is a real API server for all that it does not attack with.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use clap::ValueEnum;
use flate2::Compression;
use flate2::write::GzEncoder;
use kross_testing::{Action, Answer, FaultProxy, Requests, Verb};
use serde_json::{Value as Json, json};

/// One kind of hostile server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Attack {
    /// Never answers lists and writes
    Silence,
    /// Answers lists byte by byte
    Drip,
    /// Answers lists without end
    EndlessList,
    /// Answers lists with a few bytes that decompress to many
    GzipBomb,
    /// Sends objects that nobody asked for
    WrongObjects,
    /// Sends events without end
    WatchFlood,
    /// Lets every version expire at once
    Expiry,
    /// Rejects writes, and asks for a pause of a year
    RetryAfter,
    /// Rejects the credential now and then
    Unauthorized,
    /// Serves 100,000 kinds
    Discovery,
    /// Has schemas that multiply
    Schemas,
}

const BEGIN: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"1"},"items":["#;
/// What an endless answer has at once, in bytes.
const CHUNK: usize = 64 << 10;
const PAUSE: Duration = Duration::from_millis(1);
/// How deep schemas refer to each other, twice each.
const LEVELS: usize = 40;

impl Attack {
    /// Makes a server hostile. Returns the requests that it attacks with.
    pub(super) fn begin(self, proxy: &FaultProxy, namespace: &str) -> anyhow::Result<Requests> {
        let of = |verb| Requests::any().verb(verb).resource("configmaps");
        let path = |path: &str| Requests::any().verb(Verb::Get).resource(path);
        let (list, watch, apply) = (of(Verb::List), of(Verb::Watch), of(Verb::Apply));
        let (attacked, answer) = match self {
            Self::Silence => {
                proxy.on(apply, Action::Hang);
                proxy.on(list.clone(), Action::Hang);
                return Ok(list);
            }
            Self::Drip => (list, Answer::endless(BEGIN, " ", Duration::from_millis(200))),
            Self::EndlessList => {
                (list, Answer::endless(BEGIN, &chunk(&(object(namespace).to_string() + ",")), PAUSE))
            }
            Self::GzipBomb => (list, Answer::gzip(200, bomb()?)),
            Self::WrongObjects => {
                let items: Vec<Json> = (0..2_000).map(|_| object("kube-system")).collect();
                (
                    list,
                    Answer::json(
                        200,
                        &json!({"apiVersion": "v1", "kind": "ConfigMapList",
                    "metadata": {"resourceVersion": "1"}, "items": items}),
                    ),
                )
            }
            Self::WatchFlood => {
                let event = json!({"type": "MODIFIED", "object": object(namespace)});
                (watch, Answer::endless("", &chunk(&format!("{event}\n")), PAUSE))
            }
            Self::Expiry => (watch, Answer::status(410)),
            Self::RetryAfter => (apply, Answer::status(429).retry_after(31_536_000)),
            Self::Unauthorized => (apply, Answer::status(401)),
            Self::Discovery => (path("/apis"), Answer::json(200, &discovery())),
            Self::Schemas => (path("/openapi/v3/api/v1"), Answer::json(200, &schemas())),
        };
        proxy.on(attacked.clone(), Action::Answer(answer));
        Ok(attacked)
    }
}

/// The name on the command line, which is that of the namespace as well.
impl fmt::Display for Attack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        formatter.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Repeats a text until it is long enough to be sent at once.
fn chunk(text: &str) -> String {
    text.repeat(CHUNK / text.len() + 1)
}

fn object(namespace: &str) -> Json {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flood", "namespace": namespace,
        "uid": "1a7cd54c-8a42-4c85-a7a6-1f1b93ac90a2", "resourceVersion": "5", "labels": {"kro.run/owned": "true"}},
        "data": {"x": "y"}})
}

/// A list with 256 MiB of spaces.
fn bomb() -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(BEGIN.as_bytes())?;
    let spaces = vec![b' '; 1 << 20];
    for _ in 0..256 {
        encoder.write_all(&spaces)?;
    }
    encoder.write_all(b"]}")?;
    Ok(encoder.finish()?)
}

fn discovery() -> Json {
    let resource = |number: usize| {
        json!({"resource": format!("kinds{number}"), "scope": "Namespaced", "verbs": ["list"],
            "responseKind": {"group": "", "version": "", "kind": format!("Kind{number}")}})
    };
    let resources: Vec<Json> = (0..1_000).map(resource).collect();
    let group = |number: usize| {
        json!({"metadata": {"name": format!("group{number}.example.com")},
            "versions": [{"version": "v1", "freshness": "Current", "resources": resources}]})
    };
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "items": (0..100).map(group).collect::<Vec<_>>()})
}

fn schemas() -> Json {
    let reference = |number: usize| json!({"$ref": format!("#/components/schemas/level{number}")});
    let level = |number: usize| {
        let (left, right) = (reference(number + 1), reference(number + 1));
        (format!("level{number}"), json!({"type": "object", "properties": {"left": left, "right": right}}))
    };
    let mut schemas: serde_json::Map<String, Json> = (0..LEVELS).map(level).collect();
    schemas.insert(format!("level{LEVELS}"), json!({"type": "string"}));
    let kind = json!({"type": "object", "properties": {"data": reference(0)},
        "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "ConfigMap"}]});
    schemas.insert("io.k8s.api.core.v1.ConfigMap".to_owned(), kind);
    json!({"openapi": "3.0.0", "info": {"title": "x", "version": "1"}, "paths": {}, "components": {"schemas": schemas}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attack_has_a_name_that_a_namespace_can_have() {
        for attack in Attack::value_variants() {
            let name = attack.to_string();
            assert!(
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
                "{name}"
            );
        }
    }

    #[test]
    fn the_compressed_list_is_small() {
        assert!(bomb().unwrap().len() < 2 << 20);
    }
}
