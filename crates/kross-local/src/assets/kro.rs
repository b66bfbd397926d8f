//! Turns the pinned Go module of kro into its controller and its CRDs, for tests and benchmarks that run both side by side.
//! Looks where `KROSS_KRO` points, then in the project's cache, then builds.

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
    /// The version that is built.
    pub const VERSION: &'static str = "v0.9.4";
    /// The environment variable that names a controller to use instead.
    pub const VARIABLE: &'static str = "KROSS_KRO";
    /// Flags that take kro's own throttles out of the way.
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
    /// `KROSS_KRO` names no file, or the build failed; the error says what to install or set.
    pub fn find_or_build(progress: &Progress) -> Result<Self, AssetsError> {
        if let Some(program) = std::env::var_os(Self::VARIABLE).filter(|value| !value.is_empty()) {
            let program = PathBuf::from(program);
            return if program.is_file() { Ok(Self { program }) } else { Err(AssetsError::NoKro(program)) };
        }
        Self::find_or_build_from(&Sources::from_environment()?, progress)
    }

    /// Like [`Kro::find_or_build`], in the cache and with the Go command of the caller's choice.
    ///
    /// # Errors
    /// The build failed.
    pub fn find_or_build_from(sources: &Sources, progress: &Progress) -> Result<Self, AssetsError> {
        let files = [PROGRAM].into_iter().chain(CRDS).collect();
        let slot = cache::Slot::new(&sources.cache, "kro", Self::VERSION.trim_start_matches('v'), files);
        let directory = slot.filled(progress, |workspace| {
            progress.say(format!(
                "building kro {} from source; this happens once and takes 1 to 5 minutes",
                Self::VERSION
            ));
            fill(&sources.go, workspace, progress).map_err(|error| AssetsError::Kro(Box::new(error)))
        })?;
        Ok(Self { program: directory.join(PROGRAM) })
    }

    /// Where the controller is.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The CRDs it was published with, as YAML.
    ///
    /// # Errors
    /// They are not beside the controller.
    pub fn crds(&self) -> Result<Vec<String>, AssetsError> {
        let directory = self.program.parent().unwrap_or(Path::new("."));
        CRDS.iter()
            .map(|file| {
                let path = directory.join(file);
                std::fs::read_to_string(&path).map_err(cache::file_error("read kro's CRD", &path))
            })
            .collect()
    }

    /// Starts the controller on the cluster that the kubeconfig file names, without metrics and probes unless `flags` say
    /// otherwise. It ends when the answer is dropped.
    ///
    /// # Errors
    /// It does not start.
    pub fn start<Flag: AsRef<str>>(
        &self,
        kubeconfig: &Path,
        flags: &[Flag],
    ) -> Result<Program, ProgramError> {
        let without = ["--metrics-bind-address=0", "--health-probe-bind-address=0"];
        let arguments = [format!("--kubeconfig={}", kubeconfig.display())]
            .into_iter()
            .chain(without.map(str::to_owned))
            .chain(flags.iter().map(|flag| flag.as_ref().to_owned()))
            .collect::<Vec<_>>();
        Program::start(PROGRAM, &self.program, &arguments)
    }
}

/// Puts the controller and the CRDs into `<workspace>/bin`.
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
        // Read and written rather than copied: the module cache is read-only, and a copy would be as well.
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::read(from.join(file)))
            .and_then(|text| std::fs::write(&target, text))
            .map_err(|source| BuildError::Write { path: target.clone(), source })?;
    }
    Ok(())
}
