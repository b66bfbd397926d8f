//! Writes what the chart shares with the rest of the repository, and renders the chart into the manifest for those who install
//! without Helm.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use kross_local::{Helm, Progress};

const CHART: &str = "charts/kross";
/// The CRDs of the chart. A chart cannot refer to files outside of its folder.
pub(crate) const CRDS: &str = "charts/kross/files/crds";
const ROLES: &str = "deploy/target-roles.yaml";
const MANIFEST: &str = "deploy/kross.yaml";

/// The values that differ in the manifest: nothing else creates the namespace, and the annotation is Helm's.
const VALUES: &str = "namespace.create=true,crds.keep=false";

/// Labels that only Helm has a use for.
const HELM_LABELS: [&str; 2] = ["helm.sh/chart: ", "app.kubernetes.io/managed-by: Helm"];

/// The files that the chart shares.
pub(crate) fn files(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let crds = kross_api::generated_files();
    let mut files: Vec<(String, String)> =
        crds.into_iter().map(|(path, contents)| (path.replacen("crds", CRDS, 1), contents)).collect();
    let roles = fs::read_to_string(root.join(ROLES)).with_context(|| format!("cannot read {ROLES}"))?;
    files.push((format!("{CHART}/files/target-roles.yaml"), roles));
    Ok(files)
}

/// The manifest: the chart with its default values, in the namespace `kro-system`.
pub(crate) fn manifest(root: &Path) -> anyhow::Result<(String, String)> {
    let helm = Helm::find_or_build(&Progress::stderr())?;
    let output = helm
        .command()
        .current_dir(root)
        .args(["template", "kross", CHART, "--namespace", "kro-system", "--set", VALUES])
        .output()
        .with_context(|| format!("cannot run `{}`", helm.program().display()))?;
    if !output.status.success() {
        bail!("cannot render {CHART}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let rendered = String::from_utf8(output.stdout).context("Helm printed invalid UTF-8")?;
    let mut text = format!(
        "# kross {}: the controller, its CRDs and its permissions, in the namespace kro-system. docs/install.md explains it.\n\
         # kubectl apply --server-side -f {MANIFEST}\n\
         #\n\
         # Generated from {CHART} by `cargo xtask generate`.\n",
        env!("CARGO_PKG_VERSION")
    );
    for line in rendered.lines().filter(|line| !is_helm_label(line)) {
        text.push_str(line);
        text.push('\n');
    }
    Ok((MANIFEST.to_owned(), text))
}

fn is_helm_label(line: &str) -> bool {
    HELM_LABELS.iter().any(|label| line.trim_start().starts_with(label))
}
