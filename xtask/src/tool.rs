//! Installs a program from the crate registry into the user's cache, in a fixed version, the first time that it is needed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

use crate::process::run_command;

/// A program and how it is installed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    /// The crate, and the program in it.
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Of its own features; separated by commas.
    pub(crate) features: &'static str,
}

impl Tool {
    /// The path of the program.
    ///
    /// # Errors
    /// It cannot be installed.
    pub(crate) fn installed(self) -> anyhow::Result<PathBuf> {
        let Self { name, version, features } = self;
        let root = directory()?.join(format!("{name}-{version}"));
        let tool = root.join("bin").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        if tool.is_file() {
            return Ok(tool);
        }
        eprintln!("installing {name} {version} into {}, once; this takes a few minutes", root.display());
        run_command(
            Command::new("cargo")
                .args(["install", name, "--version", version, "--locked", "--no-default-features"])
                .args(["--features", features, "--root"])
                .arg(&root),
        )?;
        if !tool.is_file() {
            bail!("`cargo install` did not create {}", tool.display());
        }
        Ok(tool)
    }
}

fn directory() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .context("cannot determine the cache directory: set `HOME` or `XDG_CACHE_HOME`")?;
    Ok(cache.join("kross").join("tools"))
}
