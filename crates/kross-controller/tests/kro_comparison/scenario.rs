//! Scenarios: YAML files with the steps that run on both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value as Json, json};

/// A kind, as in `apiVersion` and `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    pub api_version: String,
    pub kind: String,
}

/// Requests that are sent to both sides, and the conditions to wait for before the comparison.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The name of the step in `differences.yaml`.
    pub name: String,
    /// Objects to create. A namespaced object without a namespace is created in that of the scenario.
    #[serde(default)]
    pub create: Vec<Json>,
    /// Objects that the API server rejects; both messages must be the same.
    #[serde(default)]
    pub refused: Vec<Json>,
    /// Merge patches by object: `Kind/name` or `Kind/namespace/name`.
    #[serde(default)]
    pub patch: BTreeMap<String, Json>,
    /// Merge patches that the API server rejects.
    #[serde(default)]
    pub refused_patch: BTreeMap<String, Json>,
    /// Merge patches of the status, as another controller would write it.
    #[serde(default)]
    pub status: BTreeMap<String, Json>,
    /// Objects to delete.
    #[serde(default)]
    pub delete: Vec<String>,
    /// What must hold on both sides, by object; see [`holds`].
    #[serde(default)]
    pub until: BTreeMap<String, Json>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// What the scenario is about, in a sentence.
    about: String,
    /// Kinds of children to compare besides ConfigMaps, as `apiVersion/Kind`.
    #[serde(default)]
    kinds: Vec<String>,
    steps: Vec<Step>,
}

/// A parsed file.
pub struct Scenario {
    /// The name of the file and of the namespace, and the prefix of all cluster-scoped names.
    pub name: String,
    pub about: String,
    pub steps: Vec<Step>,
    pub kinds: BTreeSet<Kind>,
    pub namespaces: BTreeSet<String>,
}

impl Scenario {
    /// All scenarios in a directory, or those that `KROSS_SCENARIO` lists, separated by commas.
    pub fn all(folder: &Path) -> Vec<Self> {
        let chosen = std::env::var("KROSS_SCENARIO").ok();
        let mut files: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
        files
            .iter()
            .filter(|path| {
                chosen.as_ref().is_none_or(|chosen| chosen.split(',').any(|one| one == name(path)))
            })
            .map(|path| Self::parse(name(path), &std::fs::read_to_string(path).unwrap()))
            .collect()
    }

    fn parse(name: String, text: &str) -> Self {
        let file: File = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut kinds: BTreeSet<Kind> = [
            "v1/ConfigMap",
            "kro.run/v1alpha1/ResourceGraphDefinition",
            "internal.kro.run/v1alpha1/GraphRevision",
            "apiextensions.k8s.io/v1/CustomResourceDefinition",
        ]
        .into_iter()
        .chain(file.kinds.iter().map(String::as_str))
        .map(Kind::parse)
        .collect();
        let mut file = file;
        for step in &mut file.steps {
            for object in step.create.iter_mut().chain(&mut step.refused) {
                add_defaults(&name, object);
            }
        }
        let mut namespaces = BTreeSet::from([name.clone()]);
        for object in file.steps.iter().flat_map(|step| &step.create) {
            kinds.insert(Kind::of(object));
            kinds.extend(generated(object));
            if object["kind"] == "Namespace" {
                namespaces.insert(text_of(&object["metadata"]["name"]));
            }
        }
        Self { name, about: file.about, steps: file.steps, kinds, namespaces }
    }

    /// Kind, namespace and name of a reference `Kind/name` or `Kind/namespace/name`.
    pub fn reference(&self, text: &str) -> (&Kind, String, String) {
        let parts: Vec<&str> = text.split('/').collect();
        let kind = self.kinds.iter().find(|kind| kind.kind == parts[0]);
        let kind = kind.unwrap_or_else(|| panic!("{}: unknown kind in `{text}`", self.name));
        match parts[..] {
            [_, name] => (kind, self.name.clone(), name.to_owned()),
            [_, namespace, name] => (kind, namespace.to_owned(), name.to_owned()),
            _ => panic!("{}: `{text}` is not a reference", self.name),
        }
    }
}

impl Kind {
    fn parse(text: &str) -> Self {
        let (api_version, kind) = text.rsplit_once('/').unwrap();
        Self { api_version: api_version.to_owned(), kind: kind.to_owned() }
    }

    pub fn of(object: &Json) -> Self {
        Self { api_version: text_of(&object["apiVersion"]), kind: text_of(&object["kind"]) }
    }
}

/// Adds defaults: a definition has the name of its scenario, and its kind the scenario's group and version `v1alpha1`. An
/// object without a version is of the core group or of such a kind.
fn add_defaults(scenario: &str, object: &mut Json) {
    let group = format!("{scenario}.example.com");
    let default = |value: &mut Json, key: &str, text: &str| {
        if value[key].is_null() {
            value[key] = json!(text);
        }
    };
    let core = ["ConfigMap", "Secret", "Service", "Namespace"];
    match object["kind"].as_str().unwrap() {
        "ResourceGraphDefinition" => {
            default(object, "apiVersion", "kro.run/v1alpha1");
            default(&mut object["metadata"], "name", scenario);
            default(&mut object["spec"]["schema"], "apiVersion", "v1alpha1");
            default(&mut object["spec"]["schema"], "group", &group);
        }
        kind if core.contains(&kind) => default(object, "apiVersion", "v1"),
        _ => default(object, "apiVersion", &format!("{group}/v1alpha1")),
    }
}

/// The kind that a definition generates.
fn generated(object: &Json) -> Option<Kind> {
    if object["kind"] != "ResourceGraphDefinition" {
        return None;
    }
    let schema = &object["spec"]["schema"];
    let group = schema["group"].as_str().unwrap_or("kro.run");
    let version = schema["apiVersion"].as_str()?;
    Some(Kind { api_version: format!("{group}/{version}"), kind: schema["kind"].as_str()?.to_owned() })
}

/// Whether an object is as a step expects: `deleted` if it does not exist, or a map in which every entry must hold.
/// - `Ready: "True"`: the condition has this status in the current generation.
/// - `Ready.reason: x`: the condition has this reason in the current generation.
/// - `/status/state: x`: the value at this path; `null` if there is none.
pub fn holds(object: Option<&Json>, expected: &Json) -> bool {
    let (Some(object), Some(expected)) = (object, expected.as_object()) else {
        return object.is_none() && expected == "deleted";
    };
    expected.iter().all(|(key, value)| {
        if key.starts_with('/') {
            return object.pointer(key).unwrap_or(&Json::Null) == value;
        }
        let (kind, field) = key.split_once('.').unwrap_or((key, "status"));
        let condition = crate::setup::condition(object, kind);
        condition[field] == *value && condition["observedGeneration"] == object["metadata"]["generation"]
    })
}

pub fn text_of(value: &Json) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
