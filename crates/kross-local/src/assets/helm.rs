//! Finds or builds Helm, which renders and checks the chart. Looks at `KROSS_HELM`, then in the cache, then in `PATH`, then
//! builds the pinned Go module.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::{self, Recipe};
use super::{AssetsError, Sources, cache};
use crate::Progress;

const PROGRAM: &str = "helm";

/// Helm's command line.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
}

impl Helm {
    /// The version of Helm.
    pub const VERSION: &'static str = "v4.2.4";
    /// The environment variable with the path of another Helm to use.
    pub const VARIABLE: &'static str = "KROSS_HELM";

    /// Finds or builds Helm. Blocks, for minutes when it has to build.
    ///
    /// # Errors
    /// `KROSS_HELM` is not a file, or the build failed. The error says what to install or set.
    pub fn find_or_build(progress: &Progress) -> Result<Self, AssetsError> {
        if let Some(program) = std::env::var_os(Self::VARIABLE).filter(|value| !value.is_empty()) {
            let program = PathBuf::from(program);
            return if program.is_file() { Ok(Self { program }) } else { Err(AssetsError::NoHelm(program)) };
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
        Self::find_or_build_from(&Sources::from_environment()?, &directories, progress)
    }

    /// Like [`Helm::find_or_build`], with the cache and Go command of `sources`, and the directories of `PATH`. A Helm in one of
    /// them is used if it has the same version: another one formats what it prints differently.
    ///
    /// # Errors
    /// The build failed.
    pub fn find_or_build_from(
        sources: &Sources,
        path: &[PathBuf],
        progress: &Progress,
    ) -> Result<Self, AssetsError> {
        let version = Self::VERSION.trim_start_matches('v');
        let entry = cache::CacheEntry::new(&sources.cache, PROGRAM, version, vec![PROGRAM]);
        if entry.ready().is_none()
            && let Some(program) = path.iter().map(|directory| directory.join(PROGRAM)).find(is_pinned)
        {
            return Ok(Self { program });
        }
        let directory = entry.get_or_fill(progress, |workspace| {
            progress
                .say(format!("building Helm {} from source, once; this takes 1 to 5 minutes", Self::VERSION));
            let recipe = Recipe {
                go_mod: include_str!("../../helm/go.mod"),
                go_sum: include_str!("../../helm/go.sum"),
                packages: vec!["helm.sh/helm/v4/cmd/helm"],
                linker: format!("-X helm.sh/helm/v4/internal/version.version={}", Self::VERSION),
                rename: (PROGRAM, PROGRAM),
            };
            build::build(&sources.go, &recipe, workspace, progress)
                .map_err(|error| AssetsError::Helm(Box::new(error)))
        })?;
        Ok(Self { program: directory.join(PROGRAM) })
    }

    /// The path of the program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A command that neither reads nor writes the user's configuration, plugins and repositories.
    #[must_use]
    pub fn command(&self) -> Command {
        let home = cache::default_directory().unwrap_or_else(std::env::temp_dir).join(PROGRAM).join("home");
        let mut command = Command::new(&self.program);
        for (variable, folder) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(variable, home.join(folder));
        }
        command.env_remove("KUBECONFIG").env_remove("HELM_NAMESPACE").env_remove("HELM_DRIVER");
        command
    }
}

/// Whether a path is a Helm of the pinned version.
fn is_pinned(program: &PathBuf) -> bool {
    let output = Command::new(program).args(["version", "--template={{.Version}}"]).output();
    output
        .is_ok_and(|output| output.status.success() && output.stdout.trim_ascii() == Helm::VERSION.as_bytes())
}
