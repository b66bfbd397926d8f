//! Turns a Kubernetes version into a directory with `etcd`, `kube-apiserver`, `kube-controller-manager` and `kubectl`.
//! Looks in `KUBEBUILDER_ASSETS`, then in the project's cache, then downloads, then builds.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::{KubernetesVersion, Progress};

mod archive;
mod axe;
mod build;
mod cache;
mod download;
mod helm;
mod index;
mod kro;
mod platform;

use build::Recipe;

/// A program of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Binary {
    /// The database.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers: garbage collection, namespaces, deployments and so on.
    ControllerManager,
    /// The command line client.
    Kubectl,
}

impl Binary {
    /// Every program, in the order in which they are built.
    pub const ALL: [Self; 4] = [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Kubectl];

    /// The name of the file.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
        }
    }
}

/// Why the programs of a control plane could not be found, downloaded or built.
#[derive(Debug, thiserror::Error)]
pub enum AssetsError {
    /// The directory in `KUBEBUILDER_ASSETS` lacks a program.
    #[error(
        "`{}` has no `{file}`: add it, or unset `KUBEBUILDER_ASSETS` to download or build the control plane",
        directory.display()
    )]
    Incomplete {
        /// The directory.
        directory: PathBuf,
        /// The missing program.
        file: &'static str,
    },
    /// There is no directory for the cache.
    #[error("cannot determine the cache directory: set `XDG_CACHE_HOME`, `HOME` or `KUBEBUILDER_ASSETS`")]
    NoCache,
    /// A file system operation failed.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Both the download and the build failed.
    #[error(
        "cannot get the control plane of Kubernetes {version}: download: {}; build: {}; or set `KUBEBUILDER_ASSETS` to a directory with `etcd`, `kube-apiserver`, `kube-controller-manager` and `kubectl`",
        describe(download),
        describe(build)
    )]
    Unobtainable {
        /// The version.
        version: KubernetesVersion,
        /// Why it could not be downloaded.
        download: Box<DownloadError>,
        /// Why it could not be built.
        #[source]
        build: Box<BuildError>,
    },
    /// kro could not be built.
    #[error(
        "cannot build kro {}: {}; or set `KROSS_KRO` to its controller, with its CRDs in the folder `crds` beside it",
        Kro::VERSION,
        describe(.0)
    )]
    Kro(#[source] Box<BuildError>),
    /// `KROSS_KRO` is not a file.
    #[error("`KROSS_KRO` is `{}`, which is not a file; unset it to build kro", .0.display())]
    NoKro(PathBuf),
    /// Helm could not be built.
    #[error("cannot build Helm {}: {}; or set `KROSS_HELM` to a Helm of that version", Helm::VERSION, describe(.0))]
    Helm(#[source] Box<BuildError>),
    /// `KROSS_HELM` is not a file.
    #[error("`KROSS_HELM` is `{}`, which is not a file; unset it to build Helm", .0.display())]
    NoHelm(PathBuf),
    /// axe-core could not be downloaded.
    #[error(
        "cannot download axe-core {}: {}; install npm, or set `KROSS_AXE` to an `axe.min.js`",
        Axe::VERSION,
        describe(.0)
    )]
    Axe(#[source] Box<DownloadError>),
    /// `KROSS_AXE` is not a file.
    #[error("`KROSS_AXE` is `{}`, which is not a file; unset it to download axe-core", .0.display())]
    NoAxe(PathBuf),
}

pub use axe::Axe;
pub use build::BuildError;
pub use download::DownloadError;
pub use helm::Helm;
pub use kro::Kro;

/// Where programs may come from: [`Sources::from_environment`], except in tests.
#[derive(Clone, Debug)]
pub struct Sources {
    /// `KUBEBUILDER_ASSETS`: a directory that takes precedence over everything else.
    pub directory: Option<PathBuf>,
    /// The project's cache.
    pub cache: PathBuf,
    /// The index of published envtest archives.
    pub releases: String,
    /// The site with the single binaries of each Kubernetes release.
    pub binaries: String,
    /// The timeout for a connection attempt of a download.
    pub connect_timeout: Duration,
    /// The Go command.
    pub go: PathBuf,
}

impl Sources {
    /// The sources that the environment configures.
    ///
    /// # Errors
    /// Neither `KUBEBUILDER_ASSETS` nor a cache directory is set.
    pub fn from_environment() -> Result<Self, AssetsError> {
        let directory =
            std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = match (cache::default_directory(), &directory) {
            (Some(cache), _) => cache,
            (None, Some(directory)) => directory.clone(),
            (None, None) => return Err(AssetsError::NoCache),
        };
        Ok(Self {
            directory,
            cache,
            releases: index::PUBLISHED.to_owned(),
            binaries: download::BINARIES.to_owned(),
            connect_timeout: Duration::from_secs(4),
            go: PathBuf::from("go"),
        })
    }
}

/// A directory with the programs of one Kubernetes version.
#[derive(Clone, Debug)]
pub struct Assets {
    directory: PathBuf,
}

impl Assets {
    /// Finds, downloads or builds the programs of `version`. Blocks, for minutes when it has to build.
    ///
    /// # Errors
    /// Every source failed. The error says why, and what to install or set.
    pub fn resolve(version: KubernetesVersion, progress: &Progress) -> Result<Self, AssetsError> {
        Self::resolve_from(&Sources::from_environment()?, version, progress)
    }

    /// Like [`Assets::resolve`], with sources of the caller's choice.
    ///
    /// # Errors
    /// As [`Assets::resolve`].
    pub fn resolve_from(
        sources: &Sources,
        version: KubernetesVersion,
        progress: &Progress,
    ) -> Result<Self, AssetsError> {
        if let Some(directory) = &sources.directory {
            let assets = Self { directory: directory.clone() };
            // The published envtest archives have no controller manager: it may be missing until it is used.
            for binary in [Binary::Etcd, Binary::ApiServer, Binary::Kubectl] {
                assets.path(binary)?;
            }
            return Ok(assets);
        }
        let files = Binary::ALL.iter().map(|binary| binary.file_name()).collect();
        let entry = cache::CacheEntry::new(&sources.cache, "control-plane", version.exact(), files);
        let fill = |workspace: &Path| obtain(sources, version, workspace, progress);
        let was_missing = entry.ready().is_none();
        let directory = entry.get_or_fill(progress, fill)?;
        if was_missing {
            progress.say(format!("Kubernetes {version} is ready in {}", directory.display()));
        }
        Ok(Self { directory })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of a program.
    ///
    /// # Errors
    /// The directory does not have it.
    pub fn path(&self, binary: Binary) -> Result<PathBuf, AssetsError> {
        let path = self.directory.join(binary.file_name());
        if path.is_file() {
            Ok(path)
        } else {
            Err(AssetsError::Incomplete { directory: self.directory.clone(), file: binary.file_name() })
        }
    }
}

/// Downloads or builds all four programs into `<workspace>/bin`.
fn obtain(
    sources: &Sources,
    version: KubernetesVersion,
    workspace: &Path,
    progress: &Progress,
) -> Result<(), AssetsError> {
    let started = Instant::now();
    progress.say(format!(
        "Kubernetes {version} is not in {} yet: downloading it, which takes about a minute",
        sources.cache.display()
    ));
    let download = match download::fetch(sources, version, workspace, progress) {
        Ok(()) => {
            progress.say(format!("downloaded in {}", elapsed(started)));
            return Ok(());
        }
        Err(error) => error,
    };
    progress.say(format!("download failed: {}", describe(&download)));
    progress
        .say(format!("building Kubernetes {version} from source instead, once; this takes 5 to 15 minutes"));
    let recipe = Recipe::control_plane(version, &Binary::ALL);
    build::build(&sources.go, &recipe, workspace, progress).map_err(|build| AssetsError::Unobtainable {
        version,
        download: Box::new(download),
        build: Box::new(build),
    })
}

/// An error with all its sources on one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The time since an instant, as `8s` or `2m10s`.
fn elapsed(since: Instant) -> String {
    let seconds = since.elapsed().as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{:02}s", seconds / 60, seconds % 60) }
}
