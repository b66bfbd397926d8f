//! Turns a control plane into one with faults: an HTTPS proxy in front of it whose behaviour changes at run time, and which
//! counts the requests that go by.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use http::Uri;
use http::uri::Authority;
use kross_local::{CertificateAuthority, CertificateError, Credential, Kubeconfig, Validity};
use tokio::sync::{mpsc, watch};

mod forward;
mod gate;
mod journal;
mod request;
mod rules;
mod server;
mod tls;

pub use journal::{Counts, Record};
pub use request::{Request, Verb};
pub use rules::{Action, Answer, Requests, RuleId};
pub use tls::TlsError;

use forward::Upstream;
use journal::Journal;
use rules::Rules;
use server::{Certificates, Command, Confirm, Server};

const PATIENCE: Duration = Duration::from_secs(60);

/// What is wrong with the way to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    Pass,
    /// Connections are refused, and those there are were reset.
    Refuse,
    /// Connections are accepted and nothing is ever answered; those there are stand still. What stood still goes on when
    /// this ends.
    Hang,
    /// Packets are dropped: new connections are neither accepted nor refused, and those there are stand still. What stood
    /// still goes on when this ends.
    Drop,
    /// The server shows a certificate that another authority signed; connections there are were reset.
    WrongCertificate,
    /// Every request waits this long before it is passed on.
    Latency(Duration),
    /// Every connection carries this many bytes per second in each direction.
    Bandwidth(u32),
    /// A connection is reset when an answer's body is longer than this many bytes.
    CutAfter(u64),
}

/// Why a proxy did not start or a kubeconfig cannot go through it.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The address of the API server is not one.
    #[error("`{0}` is not the address of an API server")]
    Address(String),
    /// A certificate could not be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The proxy could not listen or run.
    #[error("cannot run a proxy")]
    Run(#[source] std::io::Error),
}

/// A proxy in front of one control plane. Ends when dropped.
///
/// # Guarantees
/// A fault that [`FaultProxy::set`] sets is in force when it returns. Credentials pass through: tokens as they are, client
/// certificates of kubeconfigs that were made by [`FaultProxy::kubeconfig`]. Clients may speak HTTP/1.1 and HTTP/2.
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

impl FaultProxy {
    /// Starts a proxy in front of the API server that `to` leads to.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub fn start(to: &Kubeconfig) -> Result<Self, ProxyError> {
        let shared = Arc::new(Shared::new(to)?);
        let authority = CertificateAuthority::new("kross-fault-proxy")?;
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let stranger = CertificateAuthority::new("kross-stranger")?;
        let certificates = Certificates {
            right: tls::server(&authority.server(&names, Validity::Current)?)?,
            wrong: tls::server(&stranger.server(&names, Validity::Current)?)?,
        };
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).map_err(ProxyError::Run)?;
        let address = listener.local_addr().map_err(ProxyError::Run)?;
        let (commands, received) = mpsc::unbounded_channel();
        // A runtime of its own: a proxy outlives no owner, but it may outlive the runtime it was started on.
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ProxyError::Run)?;
        let server = {
            let _inside = runtime.enter();
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

    /// The same user, through the proxy.
    ///
    /// # Errors
    /// The kubeconfig's client certificate is not readable.
    pub fn kubeconfig(&self, direct: &Kubeconfig) -> Result<Kubeconfig, ProxyError> {
        if let Credential::Certificate(identity) = &direct.credential {
            let config = tls::client(&self.shared.authority, Some(identity))?;
            let upstream = Upstream::new(config, self.shared.address.clone());
            lock(&self.shared.identities).insert(tls::presented(identity)?, upstream);
        }
        Ok(direct.through(&self.url(), &self.authority))
    }

    /// Changes what is wrong. The new fault is in force when this returns, and replaces the one before; rules stay.
    ///
    /// # Panics
    /// The proxy's port was taken by somebody else while it refused connections.
    pub fn set(&self, fault: Fault) {
        self.tell(|confirm| Command::Set(fault, confirm));
    }

    /// Resets every connection there is, once. New ones are served.
    ///
    /// # Panics
    /// The proxy is gone, which cannot be while its owner has it.
    pub fn cut_connections(&self) {
        self.tell(Command::Cut);
    }

    /// From now on does `action` to all `requests`. Of several rules that fit the first one counts.
    pub fn on(&self, requests: Requests, action: Action) -> RuleId {
        self.shared.rules().add(requests, action, None)
    }

    /// Does `action` to the next so many `requests`.
    pub fn on_next(&self, times: u32, requests: Requests, action: Action) -> RuleId {
        self.shared.rules().add(requests, action, Some(times))
    }

    /// Takes a rule away.
    pub fn remove(&self, rule: RuleId) {
        self.shared.rules().remove(rule);
    }

    /// Takes all rules away and passes everything on.
    ///
    /// # Panics
    /// As [`FaultProxy::set`].
    pub fn clear(&self) {
        self.shared.rules().clear();
        self.set(Fault::Pass);
    }

    /// How many requests went by, by verb and resource. Those a rule or a latency holds up are counted when they come.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.journal().counts()
    }

    /// How many such requests went by.
    #[must_use]
    pub fn count(&self, requests: &Requests) -> usize {
        self.requests(requests).len()
    }

    /// The requests that went by, in order.
    #[must_use]
    pub fn requests(&self, requests: &Requests) -> Vec<Arc<Record>> {
        self.shared.journal().matching(requests)
    }

    /// Forgets the requests that went by so far.
    pub fn forget(&self) {
        self.shared.journal().forget();
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "a test whose fault is not in force must not go on")]
    fn tell(&self, command: impl FnOnce(Confirm) -> Command) {
        let (confirm, confirmed) = std::sync::mpsc::channel();
        let sent = self.commands.as_ref().is_some_and(|commands| commands.send(command(confirm)).is_ok());
        match sent.then(|| confirmed.recv_timeout(PATIENCE)) {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => panic!("the fault proxy cannot do that: {error}"),
            Some(Err(_)) | None => panic!("the fault proxy does not answer"),
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
    /// The way to the API server for each client certificate that is known.
    identities: Mutex<HashMap<Vec<u8>, Upstream>>,
    fault: watch::Sender<Fault>,
    rules: Mutex<Rules>,
    journal: Mutex<Journal>,
}

impl Shared {
    fn new(to: &Kubeconfig) -> Result<Self, ProxyError> {
        let wrong = || ProxyError::Address(to.server.clone());
        let uri: Uri = to.server.parse().map_err(|_| wrong())?;
        let address = uri.authority().cloned().ok_or_else(wrong)?;
        Ok(Self {
            anonymous: Upstream::new(tls::client(&to.authority, None)?, address.clone()),
            address,
            authority: to.authority.clone(),
            identities: Mutex::default(),
            fault: watch::Sender::new(Fault::Pass),
            rules: Mutex::default(),
            journal: Mutex::default(),
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

    fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }

    /// The way to the API server for a client that presents this certificate, or none.
    fn upstream(&self, presented: Option<&[u8]>) -> Upstream {
        presented
            .and_then(|certificate| lock(&self.identities).get(certificate).cloned())
            .unwrap_or_else(|| self.anonymous.clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
