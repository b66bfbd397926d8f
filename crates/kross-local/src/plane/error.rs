//! Why a control plane did not start, in words that say what was attempted and what the programs said.

use std::path::PathBuf;

use super::directory::DirectoryError;
use super::processes::SpawnError;
use crate::certificates::CertificateError;
use crate::kubeconfig::ClientError;
use crate::{AssetsError, UnknownVersion};

/// Why a control plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The version asked for is not known.
    #[error(transparent)]
    Version(#[from] UnknownVersion),
    /// The programs could not be had.
    #[error(transparent)]
    Assets(#[from] AssetsError),
    /// Its directory could not be made.
    #[error("cannot make a directory for control plane `{name}`")]
    Directory {
        /// The control plane.
        name: String,
        /// What went wrong.
        #[source]
        source: DirectoryError,
    },
    /// Its directory has a path too long for a socket.
    #[error("`{}` is too long for a socket's path; choose a shorter directory", .0.display())]
    LongPath(PathBuf),
    /// A file could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A certificate could not be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The key that signs ServiceAccount tokens could not be made.
    #[error("cannot make a key for ServiceAccount tokens")]
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
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A client could not be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A program ended while it was being waited for.
    #[error("`{program}` of control plane `{name}` ended with {status}; its last lines:\n{log}")]
    Ended {
        /// The control plane.
        name: String,
        /// The program.
        program: &'static str,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// It took too long.
    #[error(
        "control plane `{name}` is not ready after {seconds}s: {last}; the last lines of `{program}`:\n{log}"
    )]
    NotReady {
        /// The control plane.
        name: String,
        /// The program that was being waited for.
        program: &'static str,
        /// How long it was waited for.
        seconds: u64,
        /// What the last question was answered with.
        last: String,
        /// The end of its log.
        log: String,
    },
    /// The task that was doing the blocking part was cancelled.
    #[error("starting control plane `{0}` was cancelled")]
    Cancelled(String),
}
