//! A running control plane: certificates, etcd, the API server and, optionally, the controller manager.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rcgen::KeyPair;

use crate::certificates::CertificateAuthority;
use crate::kubeconfig::{ClientError, Kubeconfig};
use crate::{Assets, Binary};

pub(crate) mod directory;
mod error;
mod forwarder;
mod identity;
mod options;
pub(crate) mod processes;
pub(crate) mod ready;
mod snapshot;
mod start;

pub use directory::DirectoryError;
pub use error::StartError;
pub use options::Options;
pub use processes::SpawnError;
pub use snapshot::Snapshot;

use directory::RunDirectory;
use forwarder::Forwarder;
use options::Files;
use processes::{Member, ProcessGroup};

/// A running control plane. Its processes are killed and its directory is removed when this is dropped, and when the process
/// that started it dies.
///
/// Without a controller manager ([`Options::controller_manager`]) deleted namespaces stay `Terminating` and nothing is
/// garbage collected.
pub struct ControlPlane {
    name: String,
    // Fields are dropped in this order: no process may write into the directory when it is removed.
    _forwarder: Option<Forwarder>,
    processes: ProcessGroup,
    etcd: Member,
    api_server: Member,
    directory: RunDirectory,
    authority: CertificateAuthority,
    account_key: KeyPair,
    address: SocketAddr,
    second_url: Option<String>,
    assets: Assets,
    admin: Kubeconfig,
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ControlPlane({} at {})", self.name, self.url())
    }
}

impl ControlPlane {
    /// Options for a control plane with this name, which is part of its directory and kubeconfigs.
    #[must_use]
    pub fn named(name: &str) -> Options {
        Options::new(name)
    }

    /// Kills its processes and removes its directory.
    pub async fn stop(self) {
        // A runtime that is shutting down drops the closure, which does the same.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL of the API server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.admin.server
    }

    /// The API server's socket address, for a proxy in front of it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the API server at its second address, if it has one.
    #[must_use]
    pub fn second_url(&self) -> Option<&str> {
        self.second_url.as_deref()
    }

    /// The authority that signs the certificates of the server and its clients.
    #[must_use]
    pub fn authority(&self) -> &CertificateAuthority {
        &self.authority
    }

    /// The private key that signs ServiceAccount tokens, in PEM (PKCS #8, P-256).
    #[must_use]
    pub fn account_key(&self) -> String {
        self.account_key.serialize_pem()
    }

    /// The directory with its logs and files, which is removed with it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its programs, and `kubectl`.
    #[must_use]
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// The IDs of its processes.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.processes.pids()
    }

    /// The end of the log of a program so far.
    #[must_use]
    pub fn log(&self, binary: Binary) -> String {
        ready::last_lines(&self.directory.path().join(log_name(binary)))
    }

    /// A kubeconfig with all permissions.
    #[must_use]
    pub fn admin(&self) -> &Kubeconfig {
        &self.admin
    }

    /// The path of a file with [`ControlPlane::admin`].
    #[must_use]
    pub fn admin_path(&self) -> PathBuf {
        self.directory.path().join(Files::ADMIN)
    }

    /// A client with all permissions. It belongs to the runtime it is created on.
    ///
    /// # Errors
    /// The client cannot be created.
    pub async fn client(&self) -> Result<kube::Client, ClientError> {
        self.admin.client().await
    }
}

fn log_name(binary: Binary) -> String {
    format!("{}.log", binary.file_name())
}
