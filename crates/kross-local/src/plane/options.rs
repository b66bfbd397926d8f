//! Options of a control plane, and the arguments of its programs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::{ControlPlane, StartError, directory};
use crate::{Assets, KubernetesVersion, Progress};

/// The options of a control plane. Created by [`ControlPlane::named`].
#[derive(Clone, Debug)]
pub struct Options {
    pub(super) name: String,
    pub(super) root: PathBuf,
    pub(super) version: Option<KubernetesVersion>,
    pub(super) assets: Option<Assets>,
    pub(super) progress: Progress,
    pub(super) controller_manager: bool,
    pub(super) port: Option<u16>,
    pub(super) second_address: Option<IpAddr>,
    pub(super) names: Vec<String>,
    pub(super) flags: Vec<String>,
    pub(super) enabled_admission: Vec<String>,
    pub(super) disabled_admission: Vec<String>,
}

impl Options {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            root: directory::default_root(),
            version: None,
            assets: None,
            progress: Progress::stderr(),
            controller_manager: false,
            port: None,
            second_address: None,
            names: Vec::new(),
            flags: Vec::new(),
            enabled_admission: Vec::new(),
            disabled_admission: Vec::new(),
        }
    }

    /// Creates the directory of the control plane in `root` instead of the temporary directory. The path must be short,
    /// because the paths of sockets are limited.
    #[must_use]
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = root.into();
        self
    }

    /// Runs this Kubernetes version instead of the one in `KROSS_KUBERNETES`.
    #[must_use]
    pub fn version(mut self, version: KubernetesVersion) -> Self {
        self.version = Some(version);
        self
    }

    /// Runs the programs of `assets` instead of resolving them.
    #[must_use]
    pub fn assets(mut self, assets: Assets) -> Self {
        self.assets = Some(assets);
        self
    }

    /// Reports progress there instead of on standard error.
    #[must_use]
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Also runs `kube-controller-manager`: without it there is no garbage collection, deleted namespaces stay
    /// `Terminating`, Deployments create no Pods and namespaces get no default ServiceAccount.
    #[must_use]
    pub fn controller_manager(mut self) -> Self {
        self.controller_manager = true;
        self
    }

    /// Prefers this port for the API server. If it is in use, a free one is used.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Makes the API server reachable under a second loopback address, such as `127.0.0.2`.
    #[must_use]
    pub fn second_address(mut self, address: IpAddr) -> Self {
        self.second_address = Some(address);
        self
    }

    /// Adds a name to the server's certificate.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Passes a flag to the API server, such as `--max-requests-inflight=10`. A later flag wins over an earlier one.
    #[must_use]
    pub fn api_server_flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Enables an admission plugin beyond the default ones.
    #[must_use]
    pub fn enable_admission(mut self, plugin: impl Into<String>) -> Self {
        self.enabled_admission.push(plugin.into());
        self
    }

    /// Disables an admission plugin.
    #[must_use]
    pub fn disable_admission(mut self, plugin: impl Into<String>) -> Self {
        self.disabled_admission.push(plugin.into());
        self
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(self) -> Result<ControlPlane, StartError> {
        ControlPlane::start(self).await
    }

    /// Every name and address in the server's certificate.
    pub(super) fn server_names(&self) -> Vec<String> {
        let fixed = ["localhost", "127.0.0.1", "kubernetes.default.svc", "10.0.0.1"].map(str::to_owned);
        let second = self.second_address.map(|address| address.to_string());
        fixed.into_iter().chain(second).chain(self.names.iter().cloned()).collect()
    }

    pub(super) fn api_server_arguments(&self, files: &Files, address: SocketAddr) -> Vec<String> {
        let mut disabled = self.disabled_admission.clone();
        if !self.controller_manager {
            // The plugin requires ServiceAccounts that only the controller manager creates.
            disabled.push("ServiceAccount".to_owned());
        }
        let path = |name: &str| files.path(name).display().to_string();
        let mut arguments = vec![
            format!("--bind-address={}", address.ip()),
            format!("--secure-port={}", address.port()),
            "--advertise-address=127.0.0.1".to_owned(),
            // A loopback address is not a valid endpoint of the `kubernetes` Service.
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--etcd-servers={}", files.etcd_address()),
            format!("--cert-dir={}", path("certificates")),
            format!("--tls-cert-file={}", path(Files::SERVER_CERTIFICATE)),
            format!("--tls-private-key-file={}", path(Files::SERVER_KEY)),
            format!("--client-ca-file={}", path(Files::AUTHORITY)),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--anonymous-auth=true".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", path(Files::ACCOUNT_PUBLIC_KEY)),
            format!("--service-account-signing-key-file={}", path(Files::ACCOUNT_KEY)),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--profiling=false".to_owned(),
        ];
        if !self.enabled_admission.is_empty() {
            arguments.push(format!("--enable-admission-plugins={}", self.enabled_admission.join(",")));
        }
        if !disabled.is_empty() {
            arguments.push(format!("--disable-admission-plugins={}", disabled.join(",")));
        }
        arguments.extend(self.flags.iter().cloned());
        arguments
    }
}

/// The address API servers listen on.
pub(super) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The files of one control plane.
#[derive(Debug)]
pub(super) struct Files {
    directory: PathBuf,
}

impl Files {
    pub(super) const AUTHORITY: &'static str = "ca.crt";
    pub(super) const SERVER_CERTIFICATE: &'static str = "server.crt";
    pub(super) const SERVER_KEY: &'static str = "server.key";
    pub(super) const ACCOUNT_KEY: &'static str = "service-accounts.key";
    pub(super) const ACCOUNT_PUBLIC_KEY: &'static str = "service-accounts.pub";
    pub(super) const CONTROLLER_MANAGER: &'static str = "kube-controller-manager.kubeconfig";
    pub(super) const ADMIN: &'static str = "admin.kubeconfig";

    pub(super) const ETCD_DATA: &'static str = "etcd";

    /// etcd creates these two in its working directory. Before 3.6 it accepts only sockets that look like a host and a port.
    const ETCD_SOCKET: &'static str = "etcd.sock:0";
    const PEER_SOCKET: &'static str = "peer.sock:0";

    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// etcd listens on a socket in the directory: no port can be in use, and no other user can connect.
    pub(super) fn etcd_socket(&self) -> PathBuf {
        self.path(Self::ETCD_SOCKET)
    }

    fn etcd_address(&self) -> String {
        format!("unix://{}", self.etcd_socket().display())
    }

    pub(super) fn etcd_arguments(&self) -> Vec<String> {
        // The advertised URLs are never used: there is one member, and the API server connects to its socket.
        vec![
            "--name=kross".to_owned(),
            format!("--data-dir={}", self.path(Self::ETCD_DATA).display()),
            format!("--listen-client-urls=unix://{}", Self::ETCD_SOCKET),
            "--advertise-client-urls=http://localhost:2379".to_owned(),
            format!("--listen-peer-urls=unix://{}", Self::PEER_SOCKET),
            "--initial-advertise-peer-urls=http://localhost:2380".to_owned(),
            "--initial-cluster=kross=http://localhost:2380".to_owned(),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ]
    }

    pub(super) fn controller_manager_arguments(&self) -> Vec<String> {
        let path = |name: &str| self.path(name).display().to_string();
        vec![
            format!("--kubeconfig={}", path(Self::CONTROLLER_MANAGER)),
            format!("--root-ca-file={}", path(Self::AUTHORITY)),
            format!("--service-account-private-key-file={}", path(Self::ACCOUNT_KEY)),
            "--use-service-account-credentials=false".to_owned(),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--profiling=false".to_owned(),
        ]
    }
}
