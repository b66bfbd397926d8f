//! Turns a second loopback address into a way to the same API server, byte for byte. The API server itself binds one address
//! or all of them, and all of them would leave loopback.

use std::net::{IpAddr, SocketAddr};
use std::thread::JoinHandle;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Passes connections on until dropped. It has a thread and a runtime of its own, so that it outlives the test that started it.
#[derive(Debug)]
pub(super) struct Forwarder {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Listens on a free port of `address` and passes every connection on to `to`.
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
    while let Ok((mut near, _)) = listener.accept().await {
        tokio::spawn(async move {
            if let Ok(mut far) = TcpStream::connect(to).await {
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            }
        });
    }
}
