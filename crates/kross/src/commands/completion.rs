//! Prints the completion script of a shell.

use clap::ValueEnum;
use clap_complete::{Shell, generate};

use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # bash, for the current shell; put it into ~/.bashrc for every shell
  source <(kross completion bash)

  # zsh, into a folder of `fpath`
  kross completion zsh > \"${fpath[1]}/_kross\"

  # fish
  kross completion fish > ~/.config/fish/completions/kross.fish";

/// Arguments of `kross completion`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Supported,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Supported {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(
    arguments: &Arguments,
    mut command: clap::Command,
    output: &mut Output,
) -> anyhow::Result<Outcome> {
    let shell = match arguments.shell {
        Supported::Bash => Shell::Bash,
        Supported::Zsh => Shell::Zsh,
        Supported::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut command, "kross", &mut script);
    output.data(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Outcome::Success)
}
