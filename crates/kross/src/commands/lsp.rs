//! Serves an editor: diagnostics, completion and navigation for definitions and instances, with the language server protocol.

use std::path::PathBuf;

use kross_graph::ReportAs;
use kross_lsp::server::{self, Configuration};

use crate::input::Level;
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # Serve an editor that starts the server itself
  kross lsp

  # With the custom kinds that your definitions use
  kross lsp --crds crds/ --unknown-kinds warn";

/// Arguments of `kross lsp`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// CustomResourceDefinitions in addition to those of the workspace: a file or a folder
    #[arg(long, value_name = "PATH")]
    crds: Vec<PathBuf>,
    /// Kubernetes version whose built-in kinds to validate against (default: the latest included version)
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
    /// How to report resources that do not match these schemas, if their cluster depends on the instance (default: error)
    #[arg(long, value_name = "LEVEL", value_enum)]
    deferred_checks: Option<Level>,
    /// How to report kinds without a schema (default: error, or warn if the cluster depends on the instance)
    #[arg(long, value_name = "LEVEL", value_enum)]
    unknown_kinds: Option<Level>,
    /// Serve on standard input and output, which is the default: some editors pass this flag to every server
    #[arg(long, hide = true)]
    stdio: bool,
}

/// Serves until the editor asks to stop.
///
/// # Errors
/// The schemas cannot be loaded, or the connection fails.
pub(crate) fn run(arguments: &Arguments, _: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { crds, kubernetes, deferred_checks, unknown_kinds, stdio: _ } = arguments;
    let level = |level: Option<Level>| level.map(ReportAs::from);
    server::run(Configuration {
        crds: crds.clone(),
        kubernetes: kubernetes.clone(),
        unknown_kinds: level(*unknown_kinds),
        deferred_checks: level(*deferred_checks),
    })?;
    Ok(Outcome::Success)
}
