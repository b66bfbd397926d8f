//! Turns a name into a running control plane: certificates, etcd, the API server and, when asked for, the controller manager.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::KeyPair;

use crate::certificates::{CertificateAuthority, CertificateError, Validity};
use crate::kubeconfig::{ClientError, Credential, Kubeconfig};
use crate::{Assets, AssetsError, Binary, KubernetesVersion, UnknownVersion};

mod directory;
mod forwarder;
mod identity;
mod options;
mod processes;
mod ready;

pub use directory::DirectoryError;
pub use options::Options;
pub use processes::SpawnError;

use directory::RunDirectory;
use forwarder::Forwarder;
use options::{Files, LOOPBACK};
use processes::ProcessGroup;
use ready::{Outcome, Waiting};

/// How many ports are tried before giving up. Each try fails only when somebody else takes the port in the few
/// milliseconds between choosing and using it.
const PORT_ATTEMPTS: u32 = 8;

/// The longest path a socket can have on every system.
const LONGEST_SOCKET_PATH: usize = 100;

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

    async fn start(options: Options) -> Result<Self, StartError> {
        let name = options.name.clone();
        let cancelled = |_| StartError::Cancelled(name.clone());
        let (options, prepared) = tokio::task::spawn_blocking(move || {
            let prepared = Prepared::new(&options);
            (options, prepared)
        })
        .await
        .map_err(cancelled)?;
        let Prepared { assets, directory, files, authority, account_key, mut processes } = prepared?;

        processes.spawn(
            &assets.path(Binary::Etcd)?,
            &files.etcd_arguments(),
            &files.path(&log_name(Binary::Etcd)),
        )?;
        let admin = authority.client("kross-admin", Some("system:masters"), Validity::Current)?;
        let (address, admin) = start_api_server(
            &options,
            &assets,
            &files,
            &authority,
            &mut processes,
            Credential::Certificate(admin),
        )
        .await?;
        write(&files.path(Files::ADMIN), &admin.to_string())?;
        if options.controller_manager {
            start_controller_manager(&options, &assets, &files, &authority, &mut processes, &admin).await?;
        }
        let forwarder = options
            .second_address
            .map(|second| {
                Forwarder::start(second, address).map_err(|source| StartError::Listen {
                    name: options.name.clone(),
                    address: second.to_string(),
                    source,
                })
            })
            .transpose()?;
        Ok(Self {
            name: options.name,
            second_url: forwarder.as_ref().map(|forwarder| format!("https://{}", forwarder.address())),
            _forwarder: forwarder,
            processes,
            directory,
            authority,
            account_key,
            address,
            assets,
            admin,
        })
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

/// What is there before the first program starts.
struct Prepared {
    assets: Assets,
    directory: RunDirectory,
    files: Files,
    authority: CertificateAuthority,
    account_key: KeyPair,
    processes: ProcessGroup,
}

impl Prepared {
    fn new(options: &Options) -> Result<Self, StartError> {
        let assets = match &options.assets {
            Some(assets) => assets.clone(),
            None => {
                let version = options.version.map_or_else(KubernetesVersion::from_environment, Ok)?;
                Assets::resolve(version, &options.progress)?
            }
        };
        let directory = RunDirectory::claim(&options.root, &options.name)
            .map_err(|source| StartError::Directory { name: options.name.clone(), source })?;
        let files = Files::new(directory.path());
        if files.etcd_socket().as_os_str().len() > LONGEST_SOCKET_PATH {
            return Err(StartError::LongPath(files.etcd_socket()));
        }
        let authority = CertificateAuthority::new(&format!("{}-ca", options.name))?;
        let server = authority.server(&options.server_names(), Validity::Current)?;
        let account_key = KeyPair::generate().map_err(StartError::Key)?;
        write(&files.path(Files::AUTHORITY), &authority.certificate())?;
        write(&files.path(Files::SERVER_CERTIFICATE), &server.certificate)?;
        write(&files.path(Files::SERVER_KEY), &server.key)?;
        write(&files.path(Files::ACCOUNT_KEY), &account_key.serialize_pem())?;
        write(&files.path(Files::ACCOUNT_PUBLIC_KEY), &account_key.public_key_pem())?;
        let processes = ProcessGroup::new(directory.path())?;
        Ok(Self { assets, directory, files, authority, account_key, processes })
    }
}

async fn start_api_server(
    options: &Options,
    assets: &Assets,
    files: &Files,
    authority: &CertificateAuthority,
    processes: &mut ProcessGroup,
    credential: Credential,
) -> Result<(SocketAddr, Kubeconfig), StartError> {
    let program = assets.path(Binary::ApiServer)?;
    let log = files.path(&log_name(Binary::ApiServer));
    let mut attempt = 0;
    loop {
        attempt += 1;
        let address = free_address().map_err(|source| StartError::Listen {
            name: options.name.clone(),
            address: LOOPBACK.to_string(),
            source,
        })?;
        let member = processes.spawn(&program, &options.api_server_arguments(files, address), &log)?;
        let admin = Kubeconfig {
            name: options.name.clone(),
            server: format!("https://{address}"),
            authority: authority.certificate(),
            credential: credential.clone(),
        };
        let client = admin.client().await?;
        let waiting = Waiting { name: &options.name, binary: Binary::ApiServer, member, log: &log };
        match waiting.until(processes, || ready::api_server(&client)).await {
            Outcome::Ready => return Ok((address, admin)),
            Outcome::Ended(StartError::Ended { log, .. })
                if attempt < PORT_ATTEMPTS && log.contains("address already in use") => {}
            Outcome::Ended(error) | Outcome::TooLate(error) => return Err(error),
        }
    }
}

async fn start_controller_manager(
    options: &Options,
    assets: &Assets,
    files: &Files,
    authority: &CertificateAuthority,
    processes: &mut ProcessGroup,
    admin: &Kubeconfig,
) -> Result<(), StartError> {
    let program = assets.path(Binary::ControllerManager)?;
    let identity =
        authority.client("system:kube-controller-manager", Some("system:masters"), Validity::Current)?;
    let kubeconfig = Kubeconfig { credential: Credential::Certificate(identity), ..admin.clone() };
    write(&files.path(Files::CONTROLLER_MANAGER), &kubeconfig.to_string())?;
    let log = files.path(&log_name(Binary::ControllerManager));
    let member = processes.spawn(&program, &files.controller_manager_arguments(), &log)?;
    let client = admin.client().await?;
    let waiting = Waiting { name: &options.name, binary: Binary::ControllerManager, member, log: &log };
    match waiting.until(processes, || ready::controller_manager(&client)).await {
        Outcome::Ready => Ok(()),
        Outcome::Ended(error) | Outcome::TooLate(error) => Err(error),
    }
}

fn log_name(binary: Binary) -> String {
    format!("{}.log", binary.file_name())
}

/// A port nobody uses at this moment.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((LOOPBACK, 0))?.local_addr()
}

/// Writes a file that only the user can read: some of them are keys.
fn write(path: &Path, text: &str) -> Result<(), StartError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let error = |source| StartError::Write { path: path.to_owned(), source };
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(error)?;
    file.write_all(text.as_bytes()).map_err(error)
}

/// How long each program may take. Generous: three API servers on two busy cores are slow.
const PATIENCE: Duration = Duration::from_secs(90);
