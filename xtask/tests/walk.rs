//! Keeps the workspace in the shape of ARCHITECTURE.md: pure crates stay pure, and dependencies follow the walk.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The walk: each crate may know those before it.
const WALK: [&str; 10] = [
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

/// Whether a crate may depend directly on another of ours. Tests may use more.
fn may_know(name: &str, other: &str) -> bool {
    let place = |name: &str| WALK.iter().position(|step| *step == name);
    match name {
        "kross" => place(other).is_some() || other == "kross-local",
        "kross-local" => false,
        "kross-testing" => ["kross-diagnostics", "kross-value", "kross-api", "kross-local"].contains(&other),
        // Wire types and expressions stand side by side.
        "kross-api" if other == "kross-cel" => false,
        _ => {
            place(name).unwrap_or_else(|| panic!("{name} has no place in ARCHITECTURE.md yet"))
                > place(other).unwrap_or(WALK.len())
        }
    }
}

/// How many of them are pure, from the first on.
const PURE: usize = 7;

const IMPURE: [&str; 3] = ["tokio", "hyper", "kube-client"];

/// The platform that the tests run on. Crates of other platforms are not downloaded on a fresh machine.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// Package name → names of the packages it needs outside of tests.
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
    let needed_outside_tests = |dependency: &Value| {
        dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].as_str() != Some("dev"))
    };
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        let needs = graph.entry(names[node["id"].as_str().unwrap()].to_owned()).or_default();
        let dependencies =
            node["deps"].as_array().unwrap().iter().filter(|dependency| needed_outside_tests(dependency));
        needs.extend(dependencies.map(|dependency| names[dependency["pkg"].as_str().unwrap()].to_owned()));
    }
    graph
}

#[test]
fn dependencies_follow_the_walk() {
    let graph = dependencies();
    for (name, needs) in graph.iter().filter(|(name, _)| name.starts_with("kross")) {
        for need in needs.iter().filter(|need| need.starts_with("kross")) {
            assert!(may_know(name, need), "{name} must not depend on {need}: it runs against the walk");
        }
    }
}

#[test]
fn pure_crates_never_reach_the_network() {
    let graph = dependencies();
    for start in WALK.into_iter().take(PURE) {
        let mut path: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = vec![start];
        while let Some(name) = queue.pop() {
            assert!(!IMPURE.contains(&name), "{start} reaches {name} through {:?}", trail(&path, name));
            for need in graph.get(name).into_iter().flatten() {
                if need != start && !path.contains_key(need.as_str()) {
                    path.insert(need, name);
                    queue.push(need);
                }
            }
        }
    }
}

fn trail<'a>(path: &BTreeMap<&'a str, &'a str>, name: &'a str) -> Vec<&'a str> {
    std::iter::successors(Some(name), |name| path.get(name).copied()).collect()
}

#[test]
fn there_is_one_binary_and_it_is_called_kross() {
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
