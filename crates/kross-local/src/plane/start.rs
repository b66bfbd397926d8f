//! Starts a control plane: certificates, etcd, the API server on a free port, and the controller manager if requested.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use rcgen::KeyPair;

use super::directory::RunDirectory;
use super::forwarder::Forwarder;
use super::options::{Files, LOOPBACK};
use super::processes::{Member, ProcessGroup};
use super::ready::{self, Outcome, StartedProgram};
use super::{ControlPlane, Options, StartError, log_name};
use crate::certificates::{CertificateAuthority, Validity};
use crate::kubeconfig::{Credential, Kubeconfig};
use crate::{Assets, Binary, KubernetesVersion};

/// The number of ports to try. An attempt fails only if another process binds the port in the few milliseconds between
/// choosing and binding it.
const PORT_ATTEMPTS: u32 = 8;

/// The maximum length of the path of a socket on every system.
const MAX_SOCKET_PATH: usize = 100;

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

        let etcd = processes.spawn(
            &assets.path(Binary::Etcd)?,
            &files.etcd_arguments(),
            &files.path(&log_name(Binary::Etcd)),
        )?;
        let admin = authority.client("kross-admin", Some("system:masters"), Validity::Current)?;
        let (address, admin, api_server) = start_api_server(
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
            etcd,
            api_server,
            directory,
            authority,
            account_key,
            address,
            assets,
            admin,
        })
    }
}

/// Everything that is prepared before the first program starts.
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
        let directory = RunDirectory::create(&options.root, &options.name)
            .map_err(|source| StartError::Directory { name: options.name.clone(), source })?;
        let files = Files::new(directory.path());
        if files.etcd_socket().as_os_str().len() > MAX_SOCKET_PATH {
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
) -> Result<(SocketAddr, Kubeconfig, Member), StartError> {
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
        let started = StartedProgram { name: &options.name, binary: Binary::ApiServer, member, log: &log };
        match started.wait_until(processes, || ready::api_server(&client)).await {
            Outcome::Ready => return Ok((address, admin, member)),
            Outcome::Exited(StartError::Exited { log, .. })
                if attempt < PORT_ATTEMPTS && log.contains("address already in use") => {}
            Outcome::Exited(error) | Outcome::TimedOut(error) => return Err(error),
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
    let started =
        StartedProgram { name: &options.name, binary: Binary::ControllerManager, member, log: &log };
    match started.wait_until(processes, || ready::controller_manager(&client)).await {
        Outcome::Ready => Ok(()),
        Outcome::Exited(error) | Outcome::TimedOut(error) => Err(error),
    }
}

/// An address with a port that is free at the moment.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((LOOPBACK, 0))?.local_addr()
}

/// Writes a file that only the user can read, because it may be a key.
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
