//! Keeps `Cargo.toml` free of dependencies that no code uses: each is named in the sources of its crate, a normal one in
//! `src`, a dev-dependency in `src`, `tests`, `benches` or `examples`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The text of all Rust files below a folder; empty where there is none.
fn sources(folder: &Path) -> String {
    let Ok(entries) = fs::read_dir(folder) else { return String::new() };
    let mut text = String::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            text.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
    text
}

/// Whether code names a crate: as the first segment of a path, or in a `use` of the crate itself.
fn names(code: &str, krate: &str) -> bool {
    code.match_indices(krate).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + krate.len()..]);
        let path = before.strip_suffix("::").unwrap_or(before);
        let begins = !path.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        let after_use = before.trim_end().ends_with("use") || before.trim_end().ends_with("extern crate");
        begins && (after.starts_with("::") || (after_use && after.starts_with([';', ' '])))
    })
}

fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// A package of the workspace: where it is, and its dependencies by the name that code uses, with the kind of each.
struct Package {
    name: String,
    folder: PathBuf,
    dependencies: Vec<(String, Option<String>)>,
}

/// The platform that the tests run on. A fresh machine has downloaded the crates of no other platform.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &host()])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let members = metadata["workspace_members"].as_array().unwrap();
    let of_workspace = |package: &&Value| members.contains(&package["id"]);
    let packages = metadata["packages"].as_array().unwrap().iter().filter(of_workspace);
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let package = |package: &Value| {
        let node = nodes.iter().find(|node| node["id"] == package["id"]).unwrap();
        let kinds = |dependency: &Value| {
            let name = dependency["name"].as_str().unwrap().to_owned();
            let kinds = dependency["dep_kinds"].as_array().unwrap().clone();
            kinds.into_iter().map(move |kind| (name.clone(), kind["kind"].as_str().map(str::to_owned)))
        };
        Package {
            name: package["name"].as_str().unwrap().to_owned(),
            folder: Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned(),
            dependencies: node["deps"].as_array().unwrap().iter().flat_map(kinds).collect(),
        }
    };
    packages.map(package).collect()
}

impl Package {
    /// The dependencies that no code names.
    fn unused(&self) -> Vec<String> {
        let code = without_comments(&sources(&self.folder.join("src")));
        // Examples in doc comments may use dev-dependencies.
        let with_tests =
            ["src", "tests", "benches", "examples"].map(|name| sources(&self.folder.join(name))).concat();
        let build = fs::read_to_string(self.folder.join("build.rs")).unwrap_or_default();
        let is_unused = |(name, kind): &&(String, Option<String>)| {
            let searched = match kind.as_deref() {
                Some("dev") => &with_tests,
                Some("build") => &build,
                _ => &code,
            };
            !names(searched, name)
        };
        let unused = self.dependencies.iter().filter(is_unused);
        unused.map(|(name, _)| format!("{}: {name}", self.name)).collect()
    }
}

#[test]
fn every_dependency_is_used() {
    let packages = packages();
    assert!(packages.len() > 10, "{}", packages.len());
    let unused: Vec<String> = packages.iter().flat_map(Package::unused).collect();
    assert!(unused.is_empty(), "remove from Cargo.toml what no code uses:\n{}", unused.join("\n"));
}

#[test]
fn a_crate_is_named_by_a_path_or_by_its_own_use() {
    for code in [
        "use serde::Serialize;",
        "#[derive(serde::Serialize)]",
        "use {std::fmt, serde::de};",
        "x(::serde::from())",
        "use serde;",
        "use serde as s;",
        "pub use serde;",
    ] {
        assert!(names(code, "serde"), "{code}");
    }
    for code in ["use serde_json::Value;", "crate::serde::x()", "let serde = 1;", "my_serde::x()"] {
        assert!(!names(code, "serde"), "{code}");
    }
}
