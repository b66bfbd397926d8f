//! Downloads the published envtest archive and verifies its checksum. The archives have no `kube-controller-manager`: it comes
//! from the Kubernetes release site, and is built where it is not published.

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

/// Much larger than any archive published so far.
const MAX_DOWNLOAD_SIZE: u64 = 1 << 30;
const MAX_TEXT_SIZE: u64 = 4 << 20;

/// Why a download failed.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The request failed.
    #[error("cannot fetch {address}")]
    Fetch {
        /// The URL.
        address: String,
        /// The cause.
        #[source]
        source: Box<ureq::Error>,
    },
    /// The connection was closed too early.
    #[error("the download of {address} ended after {received} bytes")]
    Interrupted {
        /// The URL.
        address: String,
        /// The number of bytes received.
        received: u64,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The checksum differs from the published one.
    #[error("{address} has the wrong checksum: expected sha512 {expected}, got {actual}")]
    Checksum {
        /// The URL.
        address: String,
        /// The published checksum.
        expected: String,
        /// The checksum of the download.
        actual: String,
    },
    /// The download is too large.
    #[error("{address} is larger than {limit} bytes")]
    TooLarge {
        /// The URL.
        address: String,
        /// The limit.
        limit: u64,
    },
    /// The index of archives is invalid.
    #[error("cannot read the index of archives at {address}")]
    Index {
        /// The URL of the index.
        address: String,
        /// The cause.
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    /// There is no archive for this platform.
    #[error("no archive of Kubernetes {minor} is published for {platform}")]
    Unpublished {
        /// The minor version.
        minor: &'static str,
        /// The platform.
        platform: String,
    },
    /// The archive is invalid.
    #[error("cannot unpack {address}")]
    Archive {
        /// The URL of the archive.
        address: String,
        /// The cause.
        #[source]
        source: archive::ArchiveError,
    },
    /// `kube-controller-manager` could be neither downloaded nor built.
    #[error("cannot build `kube-controller-manager`, which is not in the archive")]
    ControllerManager(#[source] Box<build::BuildError>),
    /// A file could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// Downloads all four programs into `<workspace>/bin`.
pub(super) fn fetch(
    sources: &Sources,
    version: KubernetesVersion,
    workspace: &Path,
    progress: &Progress,
) -> Result<(), DownloadError> {
    let downloader = Downloader::new(sources.connect_timeout, progress);
    let text = downloader.text(&sources.releases)?;
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
    downloader.file(&archive.address, &archive.sha512, &packed)?;
    let bin = workspace.join("bin");
    std::fs::create_dir_all(&bin).map_err(write_error(&bin))?;
    let wanted = [Binary::Etcd, Binary::ApiServer, Binary::Kubectl].map(Binary::file_name);
    archive::unpack(&packed, &wanted, &bin)
        .map_err(|source| DownloadError::Archive { address: archive.address.clone(), source })?;

    if let Err(error) = controller_manager(sources, &downloader, &archive.version, &bin) {
        progress
            .say(format!("download of `kube-controller-manager` failed: {}; building it", describe(&error)));
        let recipe = Recipe::control_plane(version, &[Binary::ControllerManager]);
        build::build(&sources.go, &recipe, workspace, progress)
            .map_err(|error| DownloadError::ControllerManager(Box::new(error)))?;
    }
    Ok(())
}

/// Downloads one file and verifies its SHA-512.
pub(super) fn verified(
    sources: &Sources,
    address: &str,
    sha512: &str,
    path: &Path,
    progress: &Progress,
) -> Result<(), DownloadError> {
    Downloader::new(sources.connect_timeout, progress).file(address, sha512, path)
}

/// Whether a file has a SHA-512; none if it cannot be read.
pub(super) fn has_checksum(path: &Path, sha512: &str) -> Option<bool> {
    let content = std::fs::read(path).ok()?;
    Some(hexadecimal(&Sha512::digest(content)) == sha512)
}

fn controller_manager(
    sources: &Sources,
    downloader: &Downloader<'_>,
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
    let published = downloader.text(&format!("{address}.sha512"))?;
    let checksum = published.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let path = bin.join(Binary::ControllerManager.file_name());
    downloader.file(&address, &checksum, &path)?;
    archive::make_executable(&path).map_err(write_error(&path))
}

/// An HTTP client with timeouts and size limits.
struct Downloader<'a> {
    agent: Agent,
    progress: &'a Progress,
}

impl<'a> Downloader<'a> {
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
            .limit(MAX_TEXT_SIZE)
            .read_to_string()
            .map_err(|source| DownloadError::Fetch { address: address.to_owned(), source: Box::new(source) })
    }

    /// Downloads a file and verifies its SHA-512. Removes a file that differs.
    fn file(&self, address: &str, sha512: &str, path: &Path) -> Result<(), DownloadError> {
        let response = self.open(address)?;
        let mut body = response.into_body().into_with_config().limit(u64::MAX).reader();
        let mut file = File::create(path).map_err(write_error(path))?;
        let mut hasher = Sha512::new();
        let mut buffer = vec![0_u8; 1 << 16];
        let mut received = 0_u64;
        let mut reported = Instant::now();
        loop {
            let count = body.read(&mut buffer).map_err(|source| DownloadError::Interrupted {
                address: address.to_owned(),
                received,
                source,
            })?;
            let Some(chunk) = buffer.get(..count).filter(|chunk| !chunk.is_empty()) else { break };
            received += count as u64;
            if received > MAX_DOWNLOAD_SIZE {
                return Err(DownloadError::TooLarge {
                    address: address.to_owned(),
                    limit: MAX_DOWNLOAD_SIZE,
                });
            }
            hasher.update(chunk);
            file.write_all(chunk).map_err(write_error(path))?;
            if reported.elapsed() > Duration::from_secs(5) {
                self.progress.say(format!("received {} MB", received >> 20));
                reported = Instant::now();
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
