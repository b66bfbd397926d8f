//! Keeps the dependencies between crates as ARCHITECTURE.md draws them: each crate knows only those before it, and pure crates
//! never reach the network.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The crates in the order of ARCHITECTURE.md. Each may depend on those before it.
const LAYERS: [&str; 10] = [
    "kross-diagnostics",
    "kross-value",
    "kross-cel",
    "kross-api",
    "kross-schema",
    "kross-graph",
    "kross-plan",
    "kross-cluster",
    "kross-controller",
    "kross-server",
];

/// How many of the layers are pure, counted from the first.
const PURE: usize = 7;

/// Crates that only exist to talk to a network.
const NETWORK: [&str; 3] = ["tokio", "hyper", "kube-client"];

/// Whether a crate may depend directly on another crate of the workspace. Dev-dependencies are not limited.
fn may_depend_on(name: &str, other: &str) -> bool {
    let layer = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    match name {
        "kross" => layer(other).is_some() || ["kross-local", "kross-lsp"].contains(&other),
        // Beside the crates that reach clusters: an editor is served offline.
        "kross-lsp" => layer(other).is_some_and(|layer| layer < PURE),
        "kross-local" => false,
        "kross-testing" => ["kross-diagnostics", "kross-value", "kross-api", "kross-local"].contains(&other),
        // Wire types and expressions are independent of each other.
        "kross-api" if other == "kross-cel" => false,
        _ => {
            layer(name).unwrap_or_else(|| panic!("ARCHITECTURE.md has no layer for {name}"))
                > layer(other).unwrap_or(LAYERS.len())
        }
    }
}

/// The platform that the tests run on. A fresh machine has downloaded the crates of no other platform.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// Package name → names of the packages that it depends on, without dev-dependencies.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &host()])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (package["id"].as_str().unwrap(), package["name"].as_str().unwrap()))
        .collect();
    let is_not_dev = |dependency: &Value| {
        dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].as_str() != Some("dev"))
    };
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        let found = graph.entry(names[node["id"].as_str().unwrap()].to_owned()).or_default();
        let dependencies =
            node["deps"].as_array().unwrap().iter().filter(|dependency| is_not_dev(dependency));
        found.extend(dependencies.map(|dependency| names[dependency["pkg"].as_str().unwrap()].to_owned()));
    }
    graph
}

#[test]
fn crates_depend_only_on_crates_of_earlier_layers() {
    let graph = dependencies();
    for (name, dependencies) in graph.iter().filter(|(name, _)| name.starts_with("kross")) {
        for dependency in dependencies.iter().filter(|dependency| dependency.starts_with("kross")) {
            assert!(
                may_depend_on(name, dependency),
                "{name} must not depend on {dependency}: see the drawing in ARCHITECTURE.md"
            );
        }
    }
}

#[test]
fn pure_crates_never_reach_the_network() {
    let graph = dependencies();
    for start in LAYERS.into_iter().take(PURE).chain(["kross-lsp"]) {
        let mut dependents: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = vec![start];
        while let Some(name) = queue.pop() {
            assert!(!NETWORK.contains(&name), "{start} reaches {name} through {:?}", path(&dependents, name));
            for dependency in graph.get(name).into_iter().flatten() {
                if dependency != start && !dependents.contains_key(dependency.as_str()) {
                    dependents.insert(dependency, name);
                    queue.push(dependency);
                }
            }
        }
    }
}

/// The chain of dependents from a crate back to where the search began.
fn path<'a>(dependents: &BTreeMap<&'a str, &'a str>, name: &'a str) -> Vec<&'a str> {
    std::iter::successors(Some(name), |name| dependents.get(name).copied()).collect()
}

#[test]
fn kross_is_the_only_binary() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let targets = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|package| package["targets"].as_array().unwrap());
    let binaries: BTreeSet<&str> = targets
        .filter(|target| target["kind"].as_array().unwrap().iter().any(|kind| kind == "bin"))
        .map(|target| target["name"].as_str().unwrap())
        .filter(|name| *name != "xtask")
        .collect();
    assert_eq!(binaries, BTreeSet::from(["kross"]));
}
