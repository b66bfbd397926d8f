//! Prints the script that completes the command line in a shell. The script asks this program, which completes commands, flags and
//! the names of what is on the hub.

use clap::ValueEnum;
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use crate::output::{Outcome, Output};

mod names;

/// The variable by which a script asks.
const VARIABLE: &str = "KROSS_COMPLETE";

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

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let shell: &dyn EnvCompleter = match arguments.shell {
        Supported::Bash => &Bash,
        Supported::Zsh => &Zsh,
        Supported::Fish => &Fish,
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "kross", "kross", "kross", &mut script)?;
    output.data(String::from_utf8_lossy(&script).trim())?;
    Ok(Outcome::Success)
}

/// Answers a script and returns true, if one asks.
///
/// # Errors
/// It asks in a way that no script does, or does not read the answer.
pub(crate) fn answer(command: impl Fn() -> clap::Command) -> clap::error::Result<bool> {
    let directory = std::env::current_dir().ok();
    CompleteEnv::with_factory(|| names::with_names(command()))
        .var(VARIABLE)
        .bin("kross")
        .try_complete(std::env::args_os(), directory.as_deref())
}
