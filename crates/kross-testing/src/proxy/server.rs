//! Turns connections into answered requests, and the listening socket into a closed one and back. Runs on the proxy's own
//! thread.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustix::net::sockopt::set_socket_linger;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::forward::Forward;
use super::gate::Gate;
use super::{Fault, Shared};

/// As many streams as an API server allows on one connection, so that clients meet the same limit here.
const STREAMS: u32 = 100;
const BACKLOG: u32 = 1024;
/// A connection that takes so long on this machine found a full queue.
const FULL: Duration = Duration::from_millis(300);

/// What the proxy's owner can tell it. Each is confirmed when it has taken effect.
pub(super) enum Command {
    Set(Fault, Confirm),
    Cut(Confirm),
}

pub(super) type Confirm = std::sync::mpsc::Sender<std::io::Result<()>>;

/// The certificates the proxy can show.
pub(super) struct Certificates {
    pub(super) right: Arc<ServerConfig>,
    pub(super) wrong: Arc<ServerConfig>,
}

/// The listening socket. A socket that is bound but does not listen keeps the port and refuses every connection.
enum Door {
    Open(TcpListener),
    Shut(TcpSocket),
    /// Nobody accepts, and the queue is full: what comes is dropped.
    Full {
        _listener: TcpListener,
        _queue: Vec<TcpStream>,
    },
}

/// The proxy at work.
pub(super) struct Server {
    shared: Arc<Shared>,
    certificates: Certificates,
    address: SocketAddr,
    door: Option<Door>,
    connections: Vec<Connection>,
}

struct Connection {
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
        Ok(Self { shared, certificates, address, door: Some(Door::Open(listener)), connections: Vec::new() })
    }

    /// Works until the owner is gone.
    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Set(fault, confirm)) => {
                        let outcome = self.set(fault).await;
                        let _ = confirm.send(outcome);
                    }
                    Some(Command::Cut(confirm)) => {
                        self.cut().await;
                        let _ = confirm.send(Ok(()));
                    }
                    None => break,
                },
                stream = accept(self.door.as_ref()) => self.connect(stream),
            }
        }
        self.cut().await;
    }

    async fn set(&mut self, fault: Fault) -> std::io::Result<()> {
        self.shared.set_fault(fault);
        match fault {
            Fault::Refuse => self.shut()?,
            Fault::Drop => self.fill().await?,
            _ => self.open()?,
        }
        if matches!(fault, Fault::Refuse | Fault::WrongCertificate) {
            self.cut().await;
        }
        Ok(())
    }

    fn shut(&mut self) -> std::io::Result<()> {
        if self.door.take_if(|door| !matches!(door, Door::Shut(_))).is_some() {
            self.door = Some(Door::Shut(bind(self.address)?));
        }
        Ok(())
    }

    async fn fill(&mut self) -> std::io::Result<()> {
        if self.door.take_if(|door| !matches!(door, Door::Full { .. })).is_some() {
            let listener = bind(self.address)?.listen(0)?;
            // How many fit into a queue of no length is for the system to say.
            let mut queue = Vec::new();
            while let Ok(connected) = timeout(FULL, TcpStream::connect(self.address)).await {
                queue.push(connected?);
            }
            self.door = Some(Door::Full { _listener: listener, _queue: queue });
        }
        Ok(())
    }

    fn open(&mut self) -> std::io::Result<()> {
        let listener = match self.door.take() {
            Some(Door::Open(listener)) => listener,
            Some(Door::Shut(socket)) => socket.listen(BACKLOG)?,
            Some(full @ Door::Full { .. }) => {
                drop(full);
                bind(self.address)?.listen(BACKLOG)?
            }
            None => bind(self.address)?.listen(BACKLOG)?,
        };
        self.door = Some(Door::Open(listener));
        Ok(())
    }

    /// Breaks every connection there is.
    async fn cut(&mut self) {
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
            Fault::WrongCertificate => &self.certificates.wrong,
            _ => &self.certificates.right,
        };
        let acceptor = TlsAcceptor::from(Arc::clone(certificate));
        let cut = Arc::new(Notify::new());
        let task = tokio::spawn(hold(stream, acceptor, Arc::clone(&self.shared), Arc::clone(&cut)));
        self.connections.push(Connection { cut, task });
    }
}

/// A socket that has the port and does not listen yet.
fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// The next connection; none ever comes through a shut door.
async fn accept(door: Option<&Door>) -> TcpStream {
    let Some(Door::Open(listener)) = door else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Too many open files, most likely: some will be closed again.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Serves a connection until it ends or is cut. A cut connection ends with a reset, as one does whose network is gone.
async fn hold(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>, cut: Arc<Notify>) {
    let Ok(socket) = stream.as_fd().try_clone_to_owned() else { return };
    tokio::select! {
        () = serve(stream, acceptor, shared, Arc::clone(&cut)) => {}
        () = async {
            cut.notified().await;
            let _ = set_socket_linger(&socket, Some(Duration::ZERO));
        } => {}
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>, cut: Arc<Notify>) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(Gate::new(stream, &shared.faults())).await else { return };
    let presented = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let upstream = shared.upstream(presented.map(|certificate| certificate.as_ref()));
    let forward = Arc::new(Forward { shared, upstream, cut });
    let service = service_fn(move |request| Arc::clone(&forward).answer(request));
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(STREAMS);
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}
