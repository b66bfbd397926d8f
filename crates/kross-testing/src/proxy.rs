//! An HTTPS proxy in front of a control plane that injects faults, which can change at run time, and records the requests
//! that pass through it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use http::Uri;
use http::uri::Authority;
use kross_local::{CertificateAuthority, CertificateError, Credential, Kubeconfig, Validity};
use tokio::sync::{mpsc, watch};

mod forward;
mod request;
mod request_log;
mod reset;
mod rules;
mod server;
mod throttle;
mod tls;
mod virtual_cluster;

pub use request::{Request, Verb};
pub use request_log::{Counts, Record};
pub use rules::{Action, Answer, Requests, RuleId};
pub use tls::TlsError;

use forward::Upstream;
use request_log::RequestLog;
use rules::Rules;
use server::{Certificates, Command, Confirm, Server};

/// How long the proxy's thread may take to carry out a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// A fault of the connection to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault: requests are forwarded.
    Pass,
    /// New connections are refused and existing ones are reset.
    Refuse,
    /// New connections are accepted, but no data passes on any connection. Stalled connections continue when this ends.
    Hang,
    /// Packets are dropped: new connections are neither accepted nor refused, and no data passes on existing ones. Stalled
    /// connections continue when this ends.
    Drop,
    /// The server presents a certificate of an unknown authority; existing connections are reset.
    WrongCertificate,
    /// Every request is delayed by this time before it is forwarded.
    Latency(Duration),
    /// Every connection carries this many bytes per second in each direction.
    Bandwidth(u32),
    /// A connection is reset as soon as it has sent this many bytes of a response body.
    CutAfter(u64),
}

/// Which connections a diversion affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Diverted {
    /// Those that are opened from now on, as after a change of DNS.
    New,
    /// All, as after a change behind a load balancer that forwards requests.
    All,
}

/// Why a proxy did not start or a kubeconfig cannot be used through it.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The kubeconfig has no valid API server address.
    #[error("`{0}` is not the address of an API server")]
    Address(String),
    /// A certificate could not be created.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The proxy could not listen or run.
    #[error("cannot run a proxy")]
    Run(#[source] std::io::Error),
}

/// A proxy in front of one control plane. It stops when dropped.
///
/// # Guarantees
/// A fault is in effect when [`FaultProxy::set`] returns. The proxy forwards credentials: tokens unchanged, client
/// certificates of kubeconfigs that [`FaultProxy::kubeconfig`] returned. Clients may use HTTP/1.1 and HTTP/2.
///
/// # Assumptions
/// Connections are not upgraded: `exec`, `attach` and `port-forward` do not work through it.
#[derive(Debug)]
pub struct FaultProxy {
    shared: Arc<Shared>,
    authority: String,
    address: SocketAddr,
    commands: Option<mpsc::UnboundedSender<Command>>,
    thread: Option<JoinHandle<()>>,
}

/// The certificate authority of the proxies of this process: several proxies in front of one control plane are one cluster.
fn shared_authority() -> Result<&'static CertificateAuthority, CertificateError> {
    static AUTHORITY: OnceLock<CertificateAuthority> = OnceLock::new();
    if let Some(authority) = AUTHORITY.get() {
        return Ok(authority);
    }
    let authority = CertificateAuthority::new("kross-fault-proxy")?;
    Ok(AUTHORITY.get_or_init(|| authority))
}

impl FaultProxy {
    /// Starts a proxy in front of the API server of this kubeconfig. All proxies that are started like this have certificates of one
    /// authority.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub fn start(kubeconfig: &Kubeconfig) -> Result<Self, ProxyError> {
        Self::start_under(shared_authority()?, kubeconfig)
    }

    /// Starts a proxy with an authority of its own, as somebody else's server has, or a cluster after a rotation.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub fn start_under_own_authority(kubeconfig: &Kubeconfig) -> Result<Self, ProxyError> {
        Self::start_under(&CertificateAuthority::new("kross-other-fault-proxy")?, kubeconfig)
    }

    fn start_under(authority: &CertificateAuthority, kubeconfig: &Kubeconfig) -> Result<Self, ProxyError> {
        let shared = Arc::new(Shared::new(kubeconfig)?);
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let unknown = CertificateAuthority::new("kross-unknown-authority")?;
        let certificates = Certificates {
            trusted: tls::server(&authority.server(&names, Validity::Current)?)?,
            untrusted: tls::server(&unknown.server(&names, Validity::Current)?)?,
        };
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(ProxyError::Run)?;
        let address = listener.local_addr().map_err(ProxyError::Run)?;
        let (commands, received) = mpsc::unbounded_channel();
        // A separate runtime: a proxy that tests share outlives the runtime of the test that started it.
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ProxyError::Run)?;
        let server = {
            let _guard = runtime.enter();
            Server::new(listener, certificates, Arc::clone(&shared)).map_err(ProxyError::Run)?
        };
        let thread = std::thread::Builder::new()
            .name("kross-fault-proxy".to_owned())
            .spawn(move || runtime.block_on(server.run(received)))
            .map_err(ProxyError::Run)?;
        let authority = authority.certificate();
        Ok(Self { shared, authority, address, commands: Some(commands), thread: Some(thread) })
    }

    /// The proxy's address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A kubeconfig of the same user that goes through the proxy.
    ///
    /// # Errors
    /// The kubeconfig's client certificate cannot be read.
    pub fn kubeconfig(&self, direct: &Kubeconfig) -> Result<Kubeconfig, ProxyError> {
        if let Credential::Certificate(identity) = &direct.credential {
            let config = tls::client(&self.shared.authority, Some(identity))?;
            let upstream = Upstream::new(config, self.shared.address.clone());
            lock(&self.shared.identities).insert(tls::presented(identity)?, upstream);
        }
        Ok(direct.through(&self.url(), &self.authority))
    }

    /// A kubeconfig of the same user for a virtual cluster: the same control plane under another UID, of which lists in all
    /// namespaces have only the namespace of this name.
    ///
    /// # Errors
    /// The kubeconfig's client certificate cannot be read.
    pub fn virtual_cluster(&self, direct: &Kubeconfig, name: &str) -> Result<Kubeconfig, ProxyError> {
        let mut kubeconfig = self.kubeconfig(direct)?;
        kubeconfig.server = format!("{}{}{name}", kubeconfig.server, virtual_cluster::PREFIX);
        Ok(kubeconfig)
    }

    /// Replaces the fault. The new one is in effect when this returns; rules are kept.
    ///
    /// # Panics
    /// The proxy cannot listen on its port again.
    pub fn set(&self, fault: Fault) {
        self.send(|confirm| Command::Set(fault, confirm));
    }

    /// Resets all existing connections, once. New ones are served.
    ///
    /// # Panics
    /// The proxy's thread does not respond.
    pub fn cut_connections(&self) {
        self.send(Command::Cut);
    }

    /// From now on connections lead to the API server of another kubeconfig and act as its user, whatever credential they
    /// present: another cluster that accepts the same credential took over the address.
    ///
    /// # Errors
    /// The kubeconfig's address or client certificate cannot be read.
    pub fn divert(&self, connections: Diverted, other: &Kubeconfig) -> Result<(), ProxyError> {
        let identity = match &other.credential {
            Credential::Certificate(identity) => Some(identity),
            _ => None,
        };
        let upstream = Upstream::new(tls::client(&other.authority, identity)?, address_of(other)?);
        *lock(&self.shared.diversion) = Some((connections, upstream));
        Ok(())
    }

    /// Ends the diversion: new connections lead to the proxy's own API server again.
    pub fn end_diversion(&self) {
        *lock(&self.shared.diversion) = None;
    }

    /// Adds a rule that does `action` to all `requests`. Of several rules that match, the oldest applies.
    pub fn on(&self, requests: Requests, action: Action) -> RuleId {
        self.shared.rules().add(requests, action, None)
    }

    /// Adds a rule that does `action` to the next `times` of these `requests`.
    pub fn on_next(&self, times: u32, requests: Requests, action: Action) -> RuleId {
        self.shared.rules().add(requests, action, Some(times))
    }

    /// Removes a rule.
    pub fn remove(&self, rule: RuleId) {
        self.shared.rules().remove(rule);
    }

    /// Removes all rules and the fault.
    ///
    /// # Panics
    /// As [`FaultProxy::set`].
    pub fn clear(&self) {
        self.shared.rules().clear();
        self.set(Fault::Pass);
    }

    /// The number of requests by verb and resource. Delayed and held requests are counted when they arrive.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.request_log().counts()
    }

    /// The number of these requests.
    #[must_use]
    pub fn count(&self, requests: &Requests) -> usize {
        self.requests(requests).len()
    }

    /// These requests, in the order of their arrival.
    #[must_use]
    pub fn requests(&self, requests: &Requests) -> Vec<Arc<Record>> {
        self.shared.request_log().matching(requests)
    }

    /// Clears the recorded requests.
    pub fn clear_requests(&self) {
        self.shared.request_log().clear();
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "a test must not continue without the fault that it injects")]
    fn send(&self, command: impl FnOnce(Confirm) -> Command) {
        let (confirm, confirmed) = std::sync::mpsc::channel();
        let sent = self.commands.as_ref().is_some_and(|commands| commands.send(command(confirm)).is_ok());
        match sent.then(|| confirmed.recv_timeout(COMMAND_TIMEOUT)) {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => panic!("the fault proxy cannot carry out the command: {error}"),
            Some(Err(_)) | None => panic!("the fault proxy does not respond"),
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        drop(self.commands.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the proxy's owner, its server and its connections share.
#[derive(Debug)]
struct Shared {
    address: Authority,
    authority: String,
    anonymous: Upstream,
    /// The upstream for each known client certificate.
    identities: Mutex<HashMap<Vec<u8>, Upstream>>,
    /// Where connections lead instead.
    diversion: Mutex<Option<(Diverted, Upstream)>>,
    fault: watch::Sender<Fault>,
    rules: Mutex<Rules>,
    request_log: Mutex<RequestLog>,
}

impl Shared {
    fn new(kubeconfig: &Kubeconfig) -> Result<Self, ProxyError> {
        let address = address_of(kubeconfig)?;
        Ok(Self {
            anonymous: Upstream::new(tls::client(&kubeconfig.authority, None)?, address.clone()),
            address,
            authority: kubeconfig.authority.clone(),
            identities: Mutex::default(),
            diversion: Mutex::default(),
            fault: watch::Sender::new(Fault::Pass),
            rules: Mutex::default(),
            request_log: Mutex::default(),
        })
    }

    fn fault(&self) -> Fault {
        *self.fault.borrow()
    }

    fn faults(&self) -> watch::Receiver<Fault> {
        self.fault.subscribe()
    }

    fn set_fault(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        lock(&self.rules)
    }

    fn request_log(&self) -> MutexGuard<'_, RequestLog> {
        lock(&self.request_log)
    }

    /// The upstream of a diversion of these connections, if there is one.
    fn diverted(&self, connections: Diverted) -> Option<Upstream> {
        let diversion = lock(&self.diversion);
        let (affected, upstream) = diversion.as_ref()?;
        (*affected == connections || *affected == Diverted::All).then(|| upstream.clone())
    }

    /// The upstream for a client that presents this certificate; anonymous if it presents none or an unknown one.
    fn upstream(&self, presented: Option<&[u8]>) -> Upstream {
        presented
            .and_then(|certificate| lock(&self.identities).get(certificate).cloned())
            .unwrap_or_else(|| self.anonymous.clone())
    }
}

/// The address of a kubeconfig's API server.
fn address_of(kubeconfig: &Kubeconfig) -> Result<Authority, ProxyError> {
    let invalid = || ProxyError::Address(kubeconfig.server.clone());
    let uri: Uri = kubeconfig.server.parse().map_err(|_| invalid())?;
    uri.authority().cloned().ok_or_else(invalid)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
