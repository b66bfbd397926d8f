//! Turns options into a running control plane: certificates first, then etcd, the API server on a port that is free, and the
//! controller manager when asked for.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use rcgen::KeyPair;

use super::directory::RunDirectory;
use super::forwarder::Forwarder;
use super::options::{Files, LOOPBACK};
use super::processes::ProcessGroup;
use super::ready::{self, Outcome, Waiting};
use super::{ControlPlane, Options, StartError, log_name};
use crate::certificates::{CertificateAuthority, Validity};
use crate::kubeconfig::{Credential, Kubeconfig};
use crate::{Assets, Binary, KubernetesVersion};

/// How many ports are tried before giving up. Each try fails only when somebody else takes the port in the few
/// milliseconds between choosing and using it.
const PORT_ATTEMPTS: u32 = 8;

/// The longest path a socket can have on every system.
const LONGEST_SOCKET_PATH: usize = 100;

impl ControlPlane {
    pub(super) async fn start(options: Options) -> Result<Self, StartError> {
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
        let address = match options.port.filter(|_| attempt == 1) {
            Some(port) => SocketAddr::new(LOOPBACK, port),
            None => free_address().map_err(|source| StartError::Listen {
                name: options.name.clone(),
                address: LOOPBACK.to_string(),
                source,
            })?,
        };
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
