//! The bill of materials: every crate in the binaries, as a CycloneDX document.
//!
//! Written by hand: `cargo-cyclonedx` writes a file into the folder of each crate of the workspace and names crates by their path on
//! the machine; `cargo-sbom` gives each document a random id. Neither gives the same bytes twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Value as Json, json};

use super::VERSION;
use super::binary::Target;

/// Crates by the id that cargo gives them.
type Packages<'m> = BTreeMap<&'m str, &'m Json>;

/// The document for the binaries of these targets.
pub(super) fn document(root: &Path, targets: &[Target]) -> anyhow::Result<String> {
    let mut crates: BTreeMap<String, Json> = BTreeMap::new();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let checksums = checksums(root)?;
    for target in targets {
        let metadata = metadata(root, target)?;
        let packages: Packages<'_> =
            list(&metadata, "/packages").iter().map(|package| (text(package, "id"), package)).collect();
        for (id, dependencies) in reachable(&metadata, &packages)? {
            let Some(package) = packages.get(id) else { continue };
            let reference = purl(package);
            let depends_on =
                dependencies.iter().filter_map(|id| packages.get(id)).map(|package| purl(package));
            edges.entry(reference.clone()).or_default().extend(depends_on);
            crates.insert(reference, component(package, &checksums));
        }
    }
    let own = format!("pkg:cargo/kross@{VERSION}");
    let main = crates.remove(&own).context("cargo does not know the crate `kross`")?;
    let dependencies = edges.iter().map(|(reference, on)| json!({"ref": reference, "dependsOn": on}));
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": main},
        "components": crates.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    });
    Ok(format!("{document:#}\n"))
}

fn metadata(root: &Path, target: &Target) -> anyhow::Result<Json> {
    let output = Command::new("cargo")
        .current_dir(root)
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", &target.triple])
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cannot run `cargo metadata`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("`cargo metadata` printed no JSON")
}

/// The crates that the binary is built from, each with those that it depends on. Crates for tests are none of them.
fn reachable<'m>(
    metadata: &'m Json,
    packages: &Packages<'m>,
) -> anyhow::Result<BTreeMap<&'m str, BTreeSet<&'m str>>> {
    let nodes: BTreeMap<&str, &Json> =
        list(metadata, "/resolve/nodes").iter().map(|node| (text(node, "id"), node)).collect();
    let is_own = |package: &&&Json| text(package, "name") == "kross" && package["source"].is_null();
    let main = packages.values().find(is_own).context("cargo does not know the crate `kross`")?;
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut next = vec![text(main, "id")];
    while let Some(id) = next.pop() {
        if found.contains_key(id) {
            continue;
        }
        let node = nodes.get(id).with_context(|| format!("cargo did not resolve `{id}`"))?;
        let is_for_tests =
            |dependency: &&Json| list(dependency, "/dep_kinds").iter().all(|kind| kind["kind"] == "dev");
        let dependencies = list(node, "/deps").iter().filter(|dependency| !is_for_tests(dependency));
        let dependencies: BTreeSet<&str> = dependencies.map(|dependency| text(dependency, "pkg")).collect();
        next.extend(&dependencies);
        found.insert(id, dependencies);
    }
    Ok(found)
}

fn component(package: &Json, checksums: &BTreeMap<(String, String), String>) -> Json {
    let (name, version) = (text(package, "name"), text(package, "version"));
    let string = |field: &str| package.get(field).and_then(Json::as_str);
    // `/` between licences is an old spelling of `OR`.
    let expression =
        string("license").map(|text| text.split('/').map(str::trim).collect::<Vec<_>>().join(" OR "));
    let description = string("description").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let checksum = checksums.get(&(name.to_owned(), version.to_owned()));
    let repository = string("repository");
    let fields = [
        ("type", Some(json!(if name == "kross" { "application" } else { "library" }))),
        ("bom-ref", Some(json!(purl(package)))),
        ("name", Some(json!(name))),
        ("version", Some(json!(version))),
        ("purl", Some(json!(purl(package)))),
        ("scope", Some(json!("required"))),
        ("licenses", expression.map(|expression| json!([{"expression": expression}]))),
        ("description", description.map(Json::from)),
        ("hashes", checksum.map(|checksum| json!([{"alg": "SHA-256", "content": checksum}]))),
        ("externalReferences", repository.map(|url| json!([{"type": "vcs", "url": url}]))),
    ];
    fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?))).collect()
}

/// The checksums of crates from the registry, by name and version.
fn checksums(root: &Path) -> anyhow::Result<BTreeMap<(String, String), String>> {
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let field = |package: &str, name: &str| {
        let mut lines = package.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
        Some(value.trim_end_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").filter_map(|package| {
        Some(((field(package, "name")?, field(package, "version")?), field(package, "checksum")?))
    });
    Ok(packages.collect())
}

/// The name of a crate that every tool understands.
fn purl(package: &Json) -> String {
    format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version"))
}

fn list<'v>(value: &'v Json, pointer: &str) -> &'v [Json] {
    value.pointer(pointer).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Json, field: &str) -> &'v str {
    value.get(field).and_then(Json::as_str).unwrap_or_default()
}
