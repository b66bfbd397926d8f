//! Builds the binary of a target, without shared libraries and without the paths of the machine that builds it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::VERSION;
use crate::image;
use crate::process::run_command;

/// What a binary is built for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// As Rust names it.
    pub(super) triple: String,
    /// As Go, and with it OCI, names the processor.
    pub(super) architecture: &'static str,
}

impl Target {
    pub(super) fn parse(triple: &str) -> anyhow::Result<Self> {
        let architecture = match triple.split('-').next() {
            Some("x86_64") => "amd64",
            Some("aarch64") => "arm64",
            _ => bail!("unknown target `{triple}`: releases are for x86_64 and aarch64"),
        };
        if !triple.contains("-linux-") {
            bail!("unknown target `{triple}`: releases are for Linux");
        }
        Ok(Self { triple: triple.to_owned(), architecture })
    }

    pub(super) fn of_this_machine() -> anyhow::Result<Self> {
        let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let host = printed.lines().find_map(|line| line.strip_prefix("host: "));
        Self::parse(host.context("`rustc -vV` prints no host")?)
    }

    /// The part of the names of files.
    pub(super) fn platform(&self) -> String {
        format!("linux-{}", self.architecture)
    }

    /// Builds the binary. Returns its path.
    pub(super) fn build(&self, root: &Path) -> anyhow::Result<PathBuf> {
        // Panics name the files of crates. Wherever those are on this machine, the binary is the same.
        let cargo_home = std::env::var("CARGO_HOME")
            .ok()
            .or_else(|| Some(format!("{}/.cargo", std::env::var("HOME").ok()?)));
        let cargo_home =
            cargo_home.context("cannot determine the folder of cargo: set `HOME` or `CARGO_HOME`")?;
        let flags = [
            // glibc and not musl: the allocator of musl slows down a controller with many threads.
            "-Ctarget-feature=+crt-static".to_owned(),
            format!("--remap-path-prefix={cargo_home}=/cargo"),
            format!("--remap-path-prefix={}=/kross", root.display()),
        ];
        run_command(
            Command::new("cargo")
                .current_dir(root)
                .args(["build", "--release", "--locked", "--package", "kross", "--bin", "kross"])
                // With a target, the flags are not those of build scripts and macros, which cannot be static.
                .args(["--target", &self.triple])
                .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
                .env_remove("RUSTFLAGS"),
        )?;
        let directory =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let binary = directory.join(&self.triple).join("release/kross");
        image::require_static(&binary)?;
        Ok(binary)
    }
}

/// Fails if a binary that runs on this machine is one of another version.
pub(super) fn version_of(target: &Target, binary: &Path) -> anyhow::Result<()> {
    if *target != Target::of_this_machine()? {
        return Ok(());
    }
    let output = Command::new(binary)
        .arg("--version")
        .output()
        .with_context(|| format!("cannot run {}", binary.display()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if printed.trim() != format!("kross {VERSION}") {
        bail!("{} is `{}`, and not version {VERSION}", binary.display(), printed.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_the_images() {
        assert_eq!(Target::parse("x86_64-unknown-linux-gnu").unwrap().platform(), "linux-amd64");
        assert_eq!(Target::parse("aarch64-unknown-linux-musl").unwrap().platform(), "linux-arm64");
        for triple in ["riscv64gc-unknown-linux-gnu", "aarch64-apple-darwin"] {
            assert!(Target::parse(triple).unwrap_err().to_string().starts_with("unknown target"), "{triple}");
        }
    }
}
