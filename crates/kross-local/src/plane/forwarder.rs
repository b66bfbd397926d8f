//! Forwards TCP connections from a second loopback address to the API server. The API server binds either one address or all,
//! and all would include addresses outside of loopback.

use std::net::{IpAddr, SocketAddr};
use std::thread::JoinHandle;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Forwards connections until it is dropped. Has its own thread and runtime, so that it outlives the test that started it.
#[derive(Debug)]
pub(super) struct Forwarder {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Listens on a free port of `address` and forwards every connection to `to`.
    pub(super) fn start(address: IpAddr, to: SocketAddr) -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind((address, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("kross-forwarder".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = forward(listener, to) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn forward(listener: std::net::TcpListener, to: SocketAddr) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    while let Ok((mut client, _)) = listener.accept().await {
        tokio::spawn(async move {
            if let Ok(mut server) = TcpStream::connect(to).await {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}
