//! Accepts and serves client connections on the proxy's thread, and opens, closes and stalls the listening socket as the
//! fault demands.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::FutureExt;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::forward::Forwarder;
use super::reset::ResetStream;
use super::throttle::ThrottledStream;
use super::{Diverted, Fault, Shared};

/// The API server's limit of concurrent streams per connection, so that clients hit the same limit here.
const MAX_CONCURRENT_STREAMS: u32 = 100;
const BACKLOG: u32 = 1024;
/// A local connection attempt that takes this long means that the accept queue is full.
const QUEUE_FULL_AFTER: Duration = Duration::from_millis(300);

/// A command of the proxy's owner. Each is confirmed once it is in effect.
pub(super) enum Command {
    Set(Fault, Confirm),
    Cut(Confirm),
}

pub(super) type Confirm = std::sync::mpsc::Sender<std::io::Result<()>>;

/// The certificates that the proxy can present.
pub(super) struct Certificates {
    pub(super) trusted: Arc<ServerConfig>,
    pub(super) untrusted: Arc<ServerConfig>,
}

/// The listening socket.
enum Socket {
    /// Accepts connections.
    Listening(TcpListener),
    /// Bound but not listening, which keeps the port and refuses every connection.
    Refusing(TcpSocket),
    /// Listening with a full accept queue that nobody empties, so that the kernel drops new connections.
    Dropping { _listener: TcpListener, _queue: Vec<TcpStream> },
}

/// The server part of the proxy.
pub(super) struct Server {
    shared: Arc<Shared>,
    certificates: Certificates,
    address: SocketAddr,
    socket_state: Option<Socket>,
    connections: Vec<ClientConnection>,
}

struct ClientConnection {
    cut: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Server {
    pub(super) fn new(
        listener: std::net::TcpListener,
        certificates: Certificates,
        shared: Arc<Shared>,
    ) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        Ok(Self {
            shared,
            certificates,
            address,
            socket_state: Some(Socket::Listening(listener)),
            connections: Vec::new(),
        })
    }

    /// Serves until the owner drops the proxy.
    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Set(fault, confirm)) => {
                        let outcome = self.set(fault).await;
                        let _ = confirm.send(outcome);
                    }
                    Some(Command::Cut(confirm)) => {
                        self.reset_all().await;
                        let _ = confirm.send(Ok(()));
                    }
                    None => break,
                },
                stream = accept(self.socket_state.as_ref()) => self.connect(stream),
            }
        }
        self.reset_all().await;
    }

    async fn set(&mut self, fault: Fault) -> std::io::Result<()> {
        self.shared.set_fault(fault);
        match fault {
            Fault::Refuse => self.refuse_connections()?,
            Fault::Drop => self.drop_connections().await?,
            _ => self.accept_connections()?,
        }
        if matches!(fault, Fault::Refuse | Fault::WrongCertificate) {
            self.reset_all().await;
        }
        Ok(())
    }

    fn refuse_connections(&mut self) -> std::io::Result<()> {
        if self.socket_state.take_if(|socket_state| !matches!(socket_state, Socket::Refusing(_))).is_some() {
            self.socket_state = Some(Socket::Refusing(bind(self.address)?));
        }
        Ok(())
    }

    async fn drop_connections(&mut self) -> std::io::Result<()> {
        if self
            .socket_state
            .take_if(|socket_state| !matches!(socket_state, Socket::Dropping { .. }))
            .is_some()
        {
            let listener = bind(self.address)?.listen(0)?;
            // The real length of a queue with backlog 0 depends on the kernel.
            let mut queue = Vec::new();
            while let Ok(connected) = timeout(QUEUE_FULL_AFTER, TcpStream::connect(self.address)).await {
                queue.push(connected?);
            }
            self.socket_state = Some(Socket::Dropping { _listener: listener, _queue: queue });
        }
        Ok(())
    }

    fn accept_connections(&mut self) -> std::io::Result<()> {
        let listener = match self.socket_state.take() {
            Some(Socket::Listening(listener)) => listener,
            Some(Socket::Refusing(socket)) => socket.listen(BACKLOG)?,
            Some(full @ Socket::Dropping { .. }) => {
                drop(full);
                bind(self.address)?.listen(BACKLOG)?
            }
            None => bind(self.address)?.listen(BACKLOG)?,
        };
        self.socket_state = Some(Socket::Listening(listener));
        Ok(())
    }

    /// Resets all connections.
    async fn reset_all(&mut self) {
        for connection in &self.connections {
            connection.cut.notify_one();
        }
        for connection in self.connections.drain(..) {
            let _ = connection.task.await;
        }
    }

    fn connect(&mut self, stream: TcpStream) {
        self.connections.retain(|connection| !connection.task.is_finished());
        let certificate = match self.shared.fault() {
            Fault::WrongCertificate => &self.certificates.untrusted,
            _ => &self.certificates.trusted,
        };
        let acceptor = TlsAcceptor::from(Arc::clone(certificate));
        let cut = Arc::new(Notify::new());
        let task =
            tokio::spawn(serve_until_cut(stream, acceptor, Arc::clone(&self.shared), Arc::clone(&cut)));
        self.connections.push(ClientConnection { cut, task });
    }
}

/// A socket that is bound to the port but does not listen.
fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// The next connection; pending while the socket does not accept any.
async fn accept(socket_state: Option<&Socket>) -> TcpStream {
    let Some(Socket::Listening(listener)) = socket_state else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Most likely too many open files, which passes when some are closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Serves a connection until it ends or is cut. A cut connection is reset (RST), not closed.
async fn serve_until_cut(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>, cut: Arc<Notify>) {
    let is_cut = Arc::new(AtomicBool::new(false));
    let _ = stream.set_nodelay(true);
    let stream = ResetStream::new(stream, Arc::clone(&is_cut));
    tokio::select! {
        () = serve(stream, acceptor, shared, Arc::clone(&cut)) => {}
        // Before the other branch is dropped, and with it the stream.
        () = cut.notified().map(|()| is_cut.store(true, Ordering::Release)) => {}
    }
}

async fn serve(stream: ResetStream, acceptor: TlsAcceptor, shared: Arc<Shared>, cut: Arc<Notify>) {
    let Ok(stream) = acceptor.accept(ThrottledStream::new(stream, &shared.faults())).await else { return };
    let presented = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let diverted = shared.diverted(Diverted::New);
    let upstream = shared.upstream(presented.map(|certificate| certificate.as_ref()));
    let forwarder = Arc::new(Forwarder { shared, upstream, diverted, cut });
    let service = service_fn(move |request| Arc::clone(&forwarder).answer(request));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(MAX_CONCURRENT_STREAMS);
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}
