//! Runs a command with visible output. An error names the command that failed.

use std::process::Command;

use anyhow::{Context, bail};

pub(crate) fn run_command(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let arguments: Vec<_> =
        command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let line = format!("{name} {}", arguments.join(" "));
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}
