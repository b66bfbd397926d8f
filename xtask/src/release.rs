//! Turns the sources into the files of a release: static binaries, images, the chart, the manifest, a bill of materials, notes and
//! checksums, all with the version of the workspace. The same sources give the same bytes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kross_local::{Helm, Progress};
use ring::digest::{SHA256, digest};

use crate::generate;
use crate::image;

mod binary;
mod chart;
mod checks;
mod sbom;
mod tarball;

use binary::{Target, version_of};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
const CHECKSUMS: &str = "SHA256SUMS";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rust target to build; repeatable (default: that of this machine)
    #[arg(long = "target", value_name = "TRIPLE")]
    targets: Vec<String>,
    /// Put this binary, built for this machine, into the release instead of building one
    #[arg(long, value_name = "PATH", conflicts_with = "targets")]
    binary: Option<PathBuf>,
    /// The tag that the release is for, which must be `v` and the version of the workspace
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Folder to write, which must be empty or missing (default: `target/release-VERSION`)
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Root certificates for the image, as a PEM file
    #[arg(long, value_name = "PATH")]
    certificates: Option<PathBuf>,
    /// Also release changes that are not committed, outdated generated files, or a version that the changelog calls unreleased
    #[arg(long)]
    allow_dirty: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { targets, binary, tag, output, certificates, allow_dirty } = arguments;
    let root = repository();
    checks::versions_agree(&root, tag.as_deref())?;
    if !allow_dirty {
        checks::tree_is_clean(&root)?;
        generate::check().context("a release has to be made from generated files that are up to date")?;
    }
    let notes = checks::notes(&root, *allow_dirty)?;
    let output = output.clone().unwrap_or_else(|| root.join(format!("target/release-{VERSION}")));
    create_empty(&output)?;

    let targets = match targets.as_slice() {
        [] => vec![Target::of_this_machine()?],
        triples => triples.iter().map(|triple| Target::parse(triple)).collect::<Result<_, _>>()?,
    };
    for target in &targets {
        let binary = match binary {
            Some(binary) => binary.clone(),
            None => target.build(&root)?,
        };
        version_of(target, &binary)?;
        let name = format!("kross-{VERSION}-{}", target.platform());
        let archive = tarball::of_binary(&root, &binary)?;
        write(&output.join(format!("{name}.tar.gz")), &archive)?;
        let image = output.join(format!("{name}.oci.tar"));
        image::write(&binary, target.architecture, &image, certificates.as_deref())?;
    }
    let helm = Helm::find_or_build(&Progress::stderr())?;
    write(&output.join(format!("kross-{VERSION}.tgz")), &chart::package(&helm, &root)?)?;
    let manifest = root.join("deploy/kross.yaml");
    let manifest = fs::read(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    write(&output.join(format!("kross-{VERSION}.yaml")), &manifest)?;
    let sbom = sbom::document(&root, &targets)?;
    write(&output.join(format!("kross-{VERSION}.cdx.json")), sbom.as_bytes())?;
    write(&output.join(format!("kross-{VERSION}-notes.md")), notes.as_bytes())?;
    let sums = checksums(&output)?;
    write(&output.join(CHECKSUMS), sums.as_bytes())?;
    eprintln!("wrote {}\n\n{}", output.display(), sums.trim_end());
    Ok(())
}

/// The checksums of all files in a folder, as `sha256sum` prints them.
fn checksums(folder: &Path) -> anyhow::Result<String> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut lines = Vec::new();
    for entry in entries {
        let entry = entry?;
        let bytes =
            fs::read(entry.path()).with_context(|| format!("cannot read {}", entry.path().display()))?;
        lines.push((entry.file_name().to_string_lossy().into_owned(), sha256(&bytes)));
    }
    lines.sort();
    Ok(lines.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect())
}

fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A folder without files: those of an older release would be in the checksums.
fn create_empty(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    if entries.next().is_some() {
        bail!("{} is not empty: delete it, or choose another folder with `--output`", folder.display());
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn repository() -> PathBuf {
    let task = Path::new(env!("CARGO_MANIFEST_DIR"));
    task.parent().unwrap_or(task).to_owned()
}
