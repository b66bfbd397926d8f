//! Turns a name into a running control plane: certificates, etcd, the API server and, when asked for, the controller manager.

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
mod start;

pub use directory::DirectoryError;
pub use error::StartError;
pub use options::Options;
pub use processes::SpawnError;

use directory::RunDirectory;
use forwarder::Forwarder;
use options::Files;
use processes::ProcessGroup;

/// A running control plane. Dropping it ends its processes and removes its directory, and so does the death of the process
/// that started it.
///
/// Without a controller manager ([`Options::controller_manager`]) deleted namespaces stay `Terminating` and nothing is
/// garbage collected.
pub struct ControlPlane {
    name: String,
    // Dropped in this order: nothing may write into the directory when it is removed.
    _forwarder: Option<Forwarder>,
    processes: ProcessGroup,
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
    /// Begins to describe a control plane. The name is part of its directory and of its kubeconfigs.
    #[must_use]
    pub fn named(name: &str) -> Options {
        Options::new(name)
    }

    /// Ends its processes and removes its directory, and returns when both are done.
    pub async fn stop(self) {
        // Should the runtime be shutting down, dropping the closure does the same.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }

    /// The name it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of the API server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.admin.server
    }

    /// The API server's socket address, for a proxy in front of it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same API server under its second address, if it has one.
    #[must_use]
    pub fn second_url(&self) -> Option<&str> {
        self.second_url.as_deref()
    }

    /// The authority that signs the server's certificate and its clients'.
    #[must_use]
    pub fn authority(&self) -> &CertificateAuthority {
        &self.authority
    }

    /// The private key that signs ServiceAccount tokens, in PEM (PKCS #8, P-256).
    #[must_use]
    pub fn account_key(&self) -> String {
        self.account_key.serialize_pem()
    }

    /// The directory with its logs and files, which goes away with it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The programs it runs, and `kubectl`.
    #[must_use]
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// The numbers of its processes.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.processes.numbers()
    }

    /// The end of what a program has logged so far.
    #[must_use]
    pub fn log(&self, binary: Binary) -> String {
        ready::last_lines(&self.directory.path().join(log_name(binary)))
    }

    /// A kubeconfig that may do everything.
    #[must_use]
    pub fn admin(&self) -> &Kubeconfig {
        &self.admin
    }

    /// The file with [`ControlPlane::admin`], for programs that want one.
    #[must_use]
    pub fn admin_path(&self) -> PathBuf {
        self.directory.path().join(Files::ADMIN)
    }

    /// A client that may do everything. It belongs to the runtime it is made on.
    ///
    /// # Errors
    /// The client cannot be set up.
    pub async fn client(&self) -> Result<kube::Client, ClientError> {
        self.admin.client().await
    }
}

fn log_name(binary: Binary) -> String {
    format!("{}.log", binary.file_name())
}
