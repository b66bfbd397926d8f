//! Why a control plane did not start: the step that failed, and the end of the log of the program that did.

use std::path::PathBuf;

use super::directory::DirectoryError;
use super::processes::SpawnError;
use crate::certificates::CertificateError;
use crate::kubeconfig::ClientError;
use crate::{AssetsError, UnknownVersion};

/// Why a control plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The version is not supported.
    #[error(transparent)]
    Version(#[from] UnknownVersion),
    /// The programs could not be found, downloaded or built.
    #[error(transparent)]
    Assets(#[from] AssetsError),
    /// Its directory could not be created.
    #[error("cannot create a directory for control plane `{name}`")]
    Directory {
        /// The control plane.
        name: String,
        /// The cause.
        #[source]
        source: DirectoryError,
    },
    /// The path of its directory is too long for a socket.
    #[error("the path `{}` is too long for a socket: use a shorter directory", .0.display())]
    LongPath(PathBuf),
    /// A file could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A certificate could not be issued.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The key for ServiceAccount tokens could not be generated.
    #[error("cannot generate a key for ServiceAccount tokens")]
    Key(#[source] rcgen::Error),
    /// A program could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// No port was free, or the second address could not be listened on.
    #[error("cannot listen on {address} for control plane `{name}`")]
    Listen {
        /// The control plane.
        name: String,
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A client could not be created.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A program exited before it was ready.
    #[error("`{program}` of control plane `{name}` exited ({status}); the end of its log:\n{log}")]
    Exited {
        /// The control plane.
        name: String,
        /// The program.
        program: &'static str,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// A program was not ready in time.
    #[error(
        "control plane `{name}` is not ready after {seconds}s: {last}; the end of the log of `{program}`:\n{log}"
    )]
    NotReady {
        /// The control plane.
        name: String,
        /// The program.
        program: &'static str,
        /// The timeout.
        seconds: u64,
        /// The result of the last check.
        last: String,
        /// The end of its log.
        log: String,
    },
    /// The task that prepares the control plane was cancelled.
    #[error("starting control plane `{0}` was cancelled")]
    Cancelled(String),
}
