//! Runs cargo-deny on licences, bans and sources of every dependency, and on advisories where the network allows. Installs the
//! tool into the user's cache the first time.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::process::run_command;
use crate::tool::Tool;

const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", features: "" };

/// Check licences, bans, sources and (if the network allows) advisories of dependencies
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Fail if the advisory database cannot be fetched; for releases
    #[arg(long)]
    require_advisories: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let tool = CARGO_DENY.installed()?;
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
