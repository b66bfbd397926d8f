//! Runs cargo-deny on licences, bans and sources of every dependency, and on advisories where the network allows. Installs the
//! tool into the user's cache the first time.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::process::run_command;

const VERSION: &str = "0.20.2";

/// Check licences, bans, sources and (if the network allows) advisories of dependencies
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Fail if the advisory database cannot be fetched; for releases
    #[arg(long)]
    require_advisories: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let tool = installed()?;
    run_command(Command::new(&tool).args([
        "--workspace",
        "--log-level",
        "warn",
        "check",
        "licenses",
        "bans",
        "sources",
    ]))?;
    // The advisory database is a git repository. Without access to it, advisories are unknown, which is not a failure.
    let fetched = Command::new(&tool)
        .args(["--log-level", "off", "fetch", "db"])
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot start cargo-deny")?;
    if !fetched.success() {
        if arguments.require_advisories {
            bail!("cannot fetch the advisory database, so advisories are unknown");
        }
        // Loud, because a gate without it is green all the same.
        let rule = "!".repeat(72);
        eprintln!(
            "{rule}\nwarning: ADVISORIES ARE NOT CHECKED: cannot fetch the advisory database.\nRun `cargo xtask deny --require-advisories` with access to github.com before a release.\n{rule}"
        );
        return Ok(());
    }
    run_command(Command::new(&tool).args(["--workspace", "check", "--disable-fetch", "advisories"]))
}

fn installed() -> anyhow::Result<PathBuf> {
    let root = tools_directory()?.join(format!("cargo-deny-{VERSION}"));
    let tool = root.join("bin").join(format!("cargo-deny{}", std::env::consts::EXE_SUFFIX));
    if tool.is_file() {
        return Ok(tool);
    }
    eprintln!("installing cargo-deny {VERSION} into {}, once; this takes a few minutes", root.display());
    run_command(
        Command::new("cargo")
            .args([
                "install",
                "cargo-deny",
                "--version",
                VERSION,
                "--locked",
                "--no-default-features",
                "--root",
            ])
            .arg(&root),
    )?;
    if !tool.is_file() {
        bail!("`cargo install` did not create {}", tool.display());
    }
    Ok(tool)
}

fn tools_directory() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .context("cannot determine the cache directory: set `HOME` or `XDG_CACHE_HOME`")?;
    Ok(cache.join("kross").join("tools"))
}
