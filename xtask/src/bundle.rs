//! Writes the schemas of built-in kinds that `kross-schema` includes: one bundle for each supported minor version, from the
//! OpenAPI documents of a real API server.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kross_local::{Binary, ControlPlane, KubernetesVersion, Progress};
use kross_schema::documentation;
use kross_schema::resolver::{self, Bundle};
use serde_json::{Map, Value};

/// The folder of the bundles in the repository.
const FOLDER: &str = "crates/kross-schema/src/resolver/bundle";

/// The documentation of the built-in kinds of the newest version.
const DOCUMENTATION: &str = "crates/kross-schema/src/documentation.bin";

/// How long an API server may take to publish its OpenAPI documents.
const OPENAPI_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Starts an API server of every supported version and writes its bundle.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for version in KubernetesVersion::all() {
        let generated = runtime.block_on(generate(version))?;
        let is_newest = Bundle::versions().next().is_none_or(|newest| newest == version.minor());
        if is_newest {
            write_file(root, DOCUMENTATION, &generated.documentation)?;
        }
        if !write_file(root, &format!("{FOLDER}/{}.bin", version.minor()), &generated.bundle)? {
            continue;
        }
        if !Bundle::versions().any(|minor| minor == version.minor()) {
            eprintln!("add {} to the table in crates/kross-schema/src/resolver/bundle.rs", version.minor());
        }
    }
    Ok(())
}

/// Writes a file. Returns whether it is different from before.
fn write_file(root: &Path, path: &str, bytes: &[u8]) -> anyhow::Result<bool> {
    if fs::read(root.join(path)).ok().as_deref() == Some(bytes) {
        return Ok(false);
    }
    fs::write(root.join(path), bytes).with_context(|| format!("cannot write {path}"))?;
    eprintln!("generated {path}");
    Ok(true)
}

/// What is generated from an API server.
struct Generated {
    bundle: Vec<u8>,
    documentation: Vec<u8>,
}

/// Checks, without an API server, that every bundle has the version in its name and is compiled into the binary.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let folder = root.join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {FOLDER}"))?;
    for entry in entries {
        let name = entry.with_context(|| format!("cannot read {FOLDER}"))?.file_name();
        let name = name.to_string_lossy().into_owned();
        let minor = name.trim_end_matches(".bin");
        let bundle = Bundle::of_version(minor)
            .with_context(|| format!("{FOLDER}/{name} is not compiled into the binary"))?;
        if !bundle.server_version().starts_with(&format!("v{minor}.")) {
            bail!(
                "{FOLDER}/{name} has version `{}`; run `cargo xtask generate --bundles`",
                bundle.server_version()
            );
        }
    }
    Ok(())
}

async fn generate(version: KubernetesVersion) -> anyhow::Result<Generated> {
    let plane = ControlPlane::named("bundle").version(version).progress(Progress::stderr()).start().await?;
    let generated = documents(&plane).and_then(|(version, documents)| {
        let documentation = documentation::generate(&documents)?;
        Ok(Generated { bundle: resolver::generate(&version, documents)?, documentation })
    });
    plane.stop().await;
    generated
}

/// The version of the API server, and its OpenAPI v3 documents.
fn documents(plane: &ControlPlane) -> anyhow::Result<(String, Vec<Vec<u8>>)> {
    let version: Value = serde_json::from_slice(&get(plane, "/version")?)?;
    let version = version
        .get("gitVersion")
        .and_then(Value::as_str)
        .context("the API server returned no version")?
        .to_owned();
    let index = complete_index(plane)?;
    let groups = index.iter().filter(|(path, _)| path.starts_with("api/") || path.starts_with("apis/"));
    let urls = groups.filter_map(|(_, entry)| entry.get("serverRelativeURL").and_then(Value::as_str));
    let documents = urls.map(|url| get(plane, url)).collect::<anyhow::Result<_>>()?;
    Ok((version, documents))
}

/// The index of documents, once it is complete. The API server publishes some documents only after it is ready.
fn complete_index(plane: &ControlPlane) -> anyhow::Result<Map<String, Value>> {
    let started = Instant::now();
    loop {
        let mut index: Value = serde_json::from_slice(&get(plane, "/openapi/v3")?)?;
        let Some(Value::Object(paths)) = index.get_mut("paths").map(Value::take) else {
            bail!("the API server serves no OpenAPI v3");
        };
        match served(plane)?.into_iter().find(|path| !paths.contains_key(path)) {
            None => return Ok(paths),
            Some(path) if started.elapsed() > OPENAPI_TIMEOUT => {
                bail!("the API server publishes no document for {path}")
            }
            Some(_) => thread::sleep(POLL_INTERVAL),
        }
    }
}

/// The index paths of all groups and versions that are served.
fn served(plane: &ControlPlane) -> anyhow::Result<Vec<String>> {
    let list: Value = serde_json::from_slice(&get(plane, "/apis")?)?;
    let groups = list.get("groups").and_then(Value::as_array).context("the API server lists no groups")?;
    let versions =
        groups.iter().filter_map(|group| group.get("versions").and_then(Value::as_array)).flatten();
    let names = versions.filter_map(|version| version.get("groupVersion").and_then(Value::as_str));
    Ok(names.map(|name| format!("apis/{name}")).chain(["api/v1".to_owned()]).collect())
}

fn get(plane: &ControlPlane, path: &str) -> anyhow::Result<Vec<u8>> {
    let output = Command::new(plane.assets().path(Binary::Kubectl)?)
        .arg("--kubeconfig")
        .arg(plane.admin_path())
        .args(["get", "--raw", path])
        .output()
        .context("cannot run kubectl")?;
    if !output.status.success() {
        bail!("cannot get {path}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}
