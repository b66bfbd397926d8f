//! Finds or builds kro's controller and CRDs, for tests and benchmarks that compare kross with kro. Looks at `KROSS_KRO`, then
//! in the cache, then builds the pinned Go module.

use std::path::{Path, PathBuf};

use super::build::{self, BuildError, Recipe};
use super::{AssetsError, Sources, cache};
use crate::program::ProgramError;
use crate::{Program, Progress};

const MODULE: &str = "github.com/kubernetes-sigs/kro";
const PROGRAM: &str = "kro";
const CRDS: [&str; 2] =
    ["crds/internal.kro.run_graphrevisions.yaml", "crds/kro.run_resourcegraphdefinitions.yaml"];

/// kro's controller with its CRDs.
#[derive(Clone, Debug)]
pub struct Kro {
    program: PathBuf,
}

impl Kro {
    /// The version of kro.
    pub const VERSION: &'static str = "v0.9.4";
    /// The environment variable with the path of another controller to use.
    pub const VARIABLE: &'static str = "KROSS_KRO";
    /// Flags that raise kro's rate limits and concurrency.
    pub const TUNED: [&'static str; 8] = [
        "--resource-graph-definition-concurrent-reconciles=32",
        "--graph-revision-concurrent-reconciles=32",
        "--dynamic-controller-concurrent-reconciles=32",
        "--dynamic-controller-rate-limiter-min-delay=5ms",
        "--dynamic-controller-rate-limiter-rate-limit=100000",
        "--dynamic-controller-rate-limiter-burst-limit=100000",
        "--client-qps=100000",
        "--client-burst=100000",
    ];

    /// Finds or builds kro. Blocks, for minutes when it has to build.
    ///
    /// # Errors
    /// `KROSS_KRO` is not a file, or the build failed. The error says what to install or set.
    pub fn find_or_build(progress: &Progress) -> Result<Self, AssetsError> {
        if let Some(program) = std::env::var_os(Self::VARIABLE).filter(|value| !value.is_empty()) {
            let program = PathBuf::from(program);
            return if program.is_file() { Ok(Self { program }) } else { Err(AssetsError::NoKro(program)) };
        }
        Self::find_or_build_from(&Sources::from_environment()?, progress)
    }

    /// Like [`Kro::find_or_build`], with the cache and Go command of `sources`.
    ///
    /// # Errors
    /// The build failed.
    pub fn find_or_build_from(sources: &Sources, progress: &Progress) -> Result<Self, AssetsError> {
        let files = [PROGRAM].into_iter().chain(CRDS).collect();
        let entry =
            cache::CacheEntry::new(&sources.cache, "kro", Self::VERSION.trim_start_matches('v'), files);
        let directory = entry.get_or_fill(progress, |workspace| {
            progress
                .say(format!("building kro {} from source, once; this takes 1 to 5 minutes", Self::VERSION));
            fill(&sources.go, workspace, progress).map_err(|error| AssetsError::Kro(Box::new(error)))
        })?;
        Ok(Self { program: directory.join(PROGRAM) })
    }

    /// The path of the controller.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its CRDs, as YAML.
    ///
    /// # Errors
    /// The files are not in the folder of the controller.
    pub fn crds(&self) -> Result<Vec<String>, AssetsError> {
        let directory = self.program.parent().unwrap_or(Path::new("."));
        CRDS.iter()
            .map(|file| {
                let path = directory.join(file);
                std::fs::read_to_string(&path).map_err(cache::file_error("read kro's CRD", &path))
            })
            .collect()
    }

    /// Starts the controller with a kubeconfig file, without metrics and probes unless `flags` enable them. Dropping the
    /// result kills it.
    ///
    /// # Errors
    /// The controller does not start.
    pub fn start<Flag: AsRef<str>>(
        &self,
        kubeconfig: &Path,
        flags: &[Flag],
    ) -> Result<Program, ProgramError> {
        let disabled = ["--metrics-bind-address=0", "--health-probe-bind-address=0"];
        let arguments = [format!("--kubeconfig={}", kubeconfig.display())]
            .into_iter()
            .chain(disabled.map(str::to_owned))
            .chain(flags.iter().map(|flag| flag.as_ref().to_owned()))
            .collect::<Vec<_>>();
        Program::start(PROGRAM, &self.program, &arguments)
    }
}

/// Builds the controller and copies the CRDs into `<workspace>/bin`.
fn fill(go: &Path, workspace: &Path, progress: &Progress) -> Result<(), BuildError> {
    let recipe = Recipe {
        go_mod: include_str!("../../kro/go.mod"),
        go_sum: include_str!("../../kro/go.sum"),
        packages: vec!["github.com/kubernetes-sigs/kro/cmd/controller"],
        linker: String::new(),
        rename: ("controller", PROGRAM),
    };
    build::build(go, &recipe, workspace, progress)?;
    let from = build::sources_of(go, MODULE, workspace)?.join("helm");
    let to = workspace.join("bin");
    for file in CRDS {
        let target = to.join(file);
        let parent = target.parent().unwrap_or(&to);
        // Not `fs::copy`: it would copy the permissions of the read-only module cache as well.
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::read(from.join(file)))
            .and_then(|text| std::fs::write(&target, text))
            .map_err(|source| BuildError::Write { path: target.clone(), source })?;
    }
    Ok(())
}
