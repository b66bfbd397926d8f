//! Renders the chart with Helm, and splits what it prints into documents.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use kross_local::{Helm, Progress};
use serde_json::Value as Json;

pub const NAMESPACE: &str = "kro-system";

pub fn repository() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", ".."].iter().collect()
}

pub fn chart() -> PathBuf {
    repository().join("charts/kross")
}

/// The values files of the tests, by name. `default` has none.
pub fn values_files() -> BTreeMap<String, Option<PathBuf>> {
    let files = std::fs::read_dir(chart().join("ci")).unwrap().map(|entry| entry.unwrap().path());
    let named = files.map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches("-values.yaml").to_owned();
        (name, Some(path))
    });
    named.chain([("default".to_owned(), None)]).collect()
}

pub fn helm(arguments: &[&str]) -> Output {
    let helm = Helm::find_or_build(&Progress::stderr()).unwrap();
    helm.command().current_dir(repository()).args(arguments).output().unwrap()
}

/// The output of a Helm command that succeeds.
pub fn helm_prints(arguments: &[&str]) -> String {
    let output = helm(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "helm {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// What the chart renders with a values file.
pub fn render(values: Option<&Path>, more: &[&str]) -> String {
    let mut arguments = vec!["template", "kross", "charts/kross", "--namespace", NAMESPACE];
    if let Some(values) = values {
        arguments.extend(["--values", values.to_str().unwrap()]);
    }
    arguments.extend(more);
    helm_prints(&arguments)
}

/// The documents of a manifest, as text and parsed.
pub fn documents(manifest: &str) -> Vec<(String, Json)> {
    let texts =
        format!("\n{manifest}").split("\n---\n").map(str::trim).map(str::to_owned).collect::<Vec<_>>();
    let parsed = |text: String| {
        let json: Json = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        (!json.is_null()).then_some((text, json))
    };
    texts.into_iter().filter(|text| !text.is_empty()).filter_map(parsed).collect()
}

/// The kind, namespace and name of an object.
pub fn key(object: &Json) -> String {
    let field = |path: &str| object.pointer(path).and_then(Json::as_str).unwrap_or_default();
    format!("{} {}/{}", field("/kind"), field("/metadata/namespace"), field("/metadata/name"))
}

/// The arguments of the controller in the Deployment.
pub fn arguments(documents: &[(String, Json)]) -> Vec<String> {
    let (_, deployment) = documents.iter().find(|(_, object)| object["kind"] == "Deployment").unwrap();
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    arguments.as_array().unwrap().iter().map(|argument| argument.as_str().unwrap().to_owned()).collect()
}
