//! Builds a static binary and writes it as a container image: an OCI archive, without a container daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::process::run_command;

mod archive;
mod layer;

/// The name of the image with its tag, as the chart has it.
const NAME: &str = concat!("ghcr.io/kross-run/kross:", env!("CARGO_PKG_VERSION"));

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Cargo profile of the binary
    #[arg(long, value_name = "PROFILE", default_value = "release")]
    profile: String,
    /// Put this binary into the image instead of building one
    #[arg(long, value_name = "PATH", conflicts_with = "profile")]
    binary: Option<PathBuf>,
    /// The archive to write (default: `target/kross-VERSION-ARCHITECTURE.oci.tar`)
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Name and tag of the image in the archive
    #[arg(long, value_name = "NAME", default_value = NAME)]
    name: String,
    /// Root certificates for `--kubeconfig-system-roots`, as a PEM file; the image has none without it
    #[arg(long, value_name = "PATH")]
    certificates: Option<PathBuf>,
    /// Do not compress the layer, for an archive that stays on this machine
    #[arg(long)]
    uncompressed: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { profile, binary, output, name, certificates, uncompressed } = arguments;
    let root = repository();
    let binary = match binary {
        Some(binary) => binary.clone(),
        None => {
            let binary = build(&root, profile)?;
            require_static(&binary)?;
            binary
        }
    };
    let architecture = archive::architecture();
    let output = output.clone().unwrap_or_else(|| {
        root.join(format!("target/kross-{}-{architecture}.oci.tar", env!("CARGO_PKG_VERSION")))
    });
    write_archive(&binary, architecture, name, &output, certificates.as_deref(), !uncompressed)
}

/// Writes the image of a release.
pub(crate) fn write(
    binary: &Path,
    architecture: &str,
    output: &Path,
    certificates: Option<&Path>,
) -> anyhow::Result<()> {
    write_archive(binary, architecture, NAME, output, certificates, true)
}

fn write_archive(
    binary: &Path,
    architecture: &str,
    name: &str,
    output: &Path,
    certificates: Option<&Path>,
    compress: bool,
) -> anyhow::Result<()> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let certificates = certificates.map(read).transpose()?;
    let layer = layer::layer(&read(binary)?, certificates.as_deref(), compress)?;
    let archive = archive::archive(&layer, name, architecture)?;
    fs::write(output, archive.bytes).with_context(|| format!("cannot write {}", output.display()))?;
    eprintln!("wrote {} ({name}, {})", output.display(), archive.digest);
    Ok(())
}

/// Builds the binary without shared libraries. The flag is only for the binary itself, so that the crates that it depends on are
/// those of every other build. glibc and not musl: the allocator of musl slows down a controller with many threads.
fn build(root: &Path, profile: &str) -> anyhow::Result<PathBuf> {
    let directory = root.join("target").join("image");
    run_command(
        Command::new("cargo")
            .current_dir(root)
            .args(["rustc", "--package", "kross", "--bin", "kross", "--locked", "--profile", profile])
            .args(["--", "-C", "target-feature=+crt-static"]),
    )?;
    let folder = if profile == "dev" { "debug" } else { profile };
    // A copy: the next build of the workspace replaces the file.
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let (built, copy) = (root.join("target").join(folder).join("kross"), directory.join("kross"));
    fs::copy(&built, &copy).with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(copy)
}

/// Fails if the binary needs shared libraries, which the image does not have.
pub(crate) fn require_static(binary: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    if layer::interpreter(&bytes).is_some() {
        bail!(
            "{} is not static: install the static libraries of the C library (libc6-dev)",
            binary.display()
        );
    }
    Ok(())
}

fn repository() -> PathBuf {
    let task = Path::new(env!("CARGO_MANIFEST_DIR"));
    task.parent().unwrap_or(task).to_owned()
}
