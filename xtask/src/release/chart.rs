//! Packages the chart. Helm decides what belongs into it; the times that it writes are removed.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::{env, fs, process};

use anyhow::{Context, bail};
use flate2::read::GzDecoder;
use kross_local::Helm;

use super::VERSION;
use super::tarball::Tarball;

/// The package of the chart.
pub(super) fn package(helm: &Helm, root: &Path) -> anyhow::Result<Vec<u8>> {
    let folder = env::temp_dir().join(format!("kross-chart-{}", process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let packaged = package_in(helm, root, &folder);
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    packaged
}

fn package_in(helm: &Helm, root: &Path, folder: &Path) -> anyhow::Result<Vec<u8>> {
    let output = helm
        .command()
        .args(["package", "--destination"])
        .arg(folder)
        .arg(root.join("charts/kross"))
        .output()
        .with_context(|| format!("cannot run `{}`", helm.program().display()))?;
    if !output.status.success() {
        bail!("cannot package the chart: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let package = folder.join(format!("kross-{VERSION}.tgz"));
    let package = fs::read(&package).context("Helm did not write the package of this version")?;
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(GzDecoder::new(package.as_slice())).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents)?;
        files.insert(path, contents);
    }
    // Helm reads the first file of a package before all others.
    let mut archive = Tarball::new();
    let first = "kross/Chart.yaml".to_owned();
    let chart = files.remove(&first).context("the package has no Chart.yaml")?;
    for (path, contents) in [(first, chart)].into_iter().chain(files) {
        archive.file(&path, 0o644, &contents)?;
    }
    archive.finish()
}
