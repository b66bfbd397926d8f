//! Turns the published envtest archive into program files, trusting nothing but its checksum. The archives have no
//! `kube-controller-manager`, so that one comes from the Kubernetes release site, and is built where it is not published.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha512};
use ureq::Agent;

use super::build::Recipe;
use super::{Binary, Sources, archive, build, describe, index, platform};
use crate::{KubernetesVersion, Progress};

/// The site with the programs of every Kubernetes release.
pub(super) const BINARIES: &str = "https://dl.k8s.io";

/// Larger than any archive published so far, by far.
const LARGEST_DOWNLOAD: u64 = 1 << 30;
const LARGEST_TEXT: u64 = 4 << 20;

/// Why a download did not happen.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The address could not be read.
    #[error("cannot fetch {address}")]
    Fetch {
        /// What was asked for.
        address: String,
        /// What went wrong.
        #[source]
        source: Box<ureq::Error>,
    },
    /// The connection broke off.
    #[error("{address} broke off after {received} bytes")]
    BrokeOff {
        /// What was asked for.
        address: String,
        /// How far it got.
        received: u64,
        /// What went wrong.
        #[source]
        source: std::io::Error,
    },
    /// The content is not what was published.
    #[error("{address} has the wrong checksum: expected sha512 {expected}, got {actual}")]
    Checksum {
        /// What was asked for.
        address: String,
        /// The published checksum.
        expected: String,
        /// The checksum of what arrived.
        actual: String,
    },
    /// More arrived than can be right.
    #[error("{address} is larger than {limit} bytes")]
    TooLarge {
        /// What was asked for.
        address: String,
        /// Where reading stopped.
        limit: u64,
    },
    /// The index of archives cannot be understood.
    #[error("cannot read the index of archives at {address}")]
    Index {
        /// Where the index is.
        address: String,
        /// What went wrong.
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    /// There is no archive for this machine.
    #[error("no archive of Kubernetes {minor} is published for {platform}")]
    Unpublished {
        /// The minor version.
        minor: &'static str,
        /// This machine.
        platform: String,
    },
    /// The archive is not what it should be.
    #[error("cannot unpack {address}")]
    Archive {
        /// What was fetched.
        address: String,
        /// What went wrong.
        #[source]
        source: archive::ArchiveError,
    },
    /// The one program that is not in the archive could not be built either.
    #[error("cannot add `kube-controller-manager`, which the archive does not have")]
    ControllerManager(#[source] Box<build::BuildError>),
    /// A file could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Fills `<workspace>/bin` with all four programs.
pub(super) fn fetch(
    sources: &Sources,
    version: KubernetesVersion,
    workspace: &Path,
    progress: &Progress,
) -> Result<(), DownloadError> {
    let site = Site::new(sources.connect_timeout, progress);
    let text = site.text(&sources.releases)?;
    let (system, machine) = (platform::operating_system(), platform::architecture());
    let archive = index::choose(&text, version, system, machine)
        .map_err(|source| DownloadError::Index {
            address: sources.releases.clone(),
            source: Box::new(source),
        })?
        .ok_or_else(|| DownloadError::Unpublished {
            minor: version.minor(),
            platform: format!("{system}-{machine}"),
        })?;
    progress.say(format!(
        "Kubernetes {} is the newest published patch release of {}",
        archive.version,
        version.minor()
    ));

    let packed = workspace.join("envtest.tar.gz");
    site.file(&archive.address, &archive.sha512, &packed)?;
    let bin = workspace.join("bin");
    std::fs::create_dir_all(&bin).map_err(write_error(&bin))?;
    archive::unpack(&packed, &[Binary::Etcd, Binary::ApiServer, Binary::Kubectl], &bin)
        .map_err(|source| DownloadError::Archive { address: archive.address.clone(), source })?;

    if let Err(error) = controller_manager(sources, &site, &archive.version, &bin) {
        progress.say(format!("cannot download `kube-controller-manager`: {}; building it", describe(&error)));
        let recipe = Recipe::control_plane(version, &[Binary::ControllerManager]);
        build::build(&sources.go, &recipe, workspace, progress)
            .map_err(|error| DownloadError::ControllerManager(Box::new(error)))?;
    }
    Ok(())
}

fn controller_manager(
    sources: &Sources,
    site: &Site<'_>,
    version: &str,
    bin: &Path,
) -> Result<(), DownloadError> {
    let address = format!(
        "{}/v{version}/bin/{}/{}/{}",
        sources.binaries,
        platform::operating_system(),
        platform::architecture(),
        Binary::ControllerManager.file_name()
    );
    let published = site.text(&format!("{address}.sha512"))?;
    let checksum = published.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let path = bin.join(Binary::ControllerManager.file_name());
    site.file(&address, &checksum, &path)?;
    archive::make_executable(&path).map_err(write_error(&path))
}

/// The network, with its limits.
struct Site<'a> {
    agent: Agent,
    progress: &'a Progress,
}

impl<'a> Site<'a> {
    fn new(connect_timeout: Duration, progress: &'a Progress) -> Self {
        let agent = Agent::config_builder()
            .timeout_resolve(Some(connect_timeout))
            .timeout_connect(Some(connect_timeout))
            .timeout_recv_response(Some(Duration::from_secs(30)))
            .timeout_recv_body(Some(Duration::from_secs(900)))
            .user_agent(concat!("kross/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Self { agent, progress }
    }

    fn open(&self, address: &str) -> Result<http::Response<ureq::Body>, DownloadError> {
        self.progress.say(format!("fetching {address}"));
        self.agent
            .get(address)
            .call()
            .map_err(|source| DownloadError::Fetch { address: address.to_owned(), source: Box::new(source) })
    }

    fn text(&self, address: &str) -> Result<String, DownloadError> {
        let mut response = self.open(address)?;
        response
            .body_mut()
            .with_config()
            .limit(LARGEST_TEXT)
            .read_to_string()
            .map_err(|source| DownloadError::Fetch { address: address.to_owned(), source: Box::new(source) })
    }

    /// Fetches a file and compares its SHA-512; a file that differs is removed again.
    fn file(&self, address: &str, sha512: &str, path: &Path) -> Result<(), DownloadError> {
        let response = self.open(address)?;
        let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut file = File::create(path).map_err(write_error(path))?;
        let mut hasher = Sha512::new();
        let mut buffer = vec![0_u8; 1 << 16];
        let mut received = 0_u64;
        let mut said = Instant::now();
        loop {
            let count = body.read(&mut buffer).map_err(|source| DownloadError::BrokeOff {
                address: address.to_owned(),
                received,
                source,
            })?;
            let Some(chunk) = buffer.get(..count).filter(|chunk| !chunk.is_empty()) else { break };
            received += count as u64;
            if received > LARGEST_DOWNLOAD {
                return Err(DownloadError::TooLarge { address: address.to_owned(), limit: LARGEST_DOWNLOAD });
            }
            hasher.update(chunk);
            file.write_all(chunk).map_err(write_error(path))?;
            if said.elapsed() > Duration::from_secs(5) {
                self.progress.say(format!("received {} MB", received >> 20));
                said = Instant::now();
            }
        }
        let actual = hexadecimal(&hasher.finalize());
        if actual == sha512 {
            return Ok(());
        }
        std::fs::remove_file(path).map_err(write_error(path))?;
        Err(DownloadError::Checksum { address: address.to_owned(), expected: sha512.to_owned(), actual })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write_error(path: &Path) -> impl FnOnce(std::io::Error) -> DownloadError {
    let path = path.to_owned();
    move |source| DownloadError::Write { path, source }
}
