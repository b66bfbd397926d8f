//! Connects to a server step by step, for people who want to know which step fails and how long each takes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::dial::{tls_error, within};
use super::{Endpoint, TransportError};
use crate::cidr::is_denied;

/// One step of opening a connection.
#[derive(Clone, Debug)]
pub struct ConnectionStep {
    /// `DNS`, `TCP` or `TLS`.
    pub name: &'static str,
    /// What was found, or why it failed.
    pub result: Result<String, TransportError>,
    /// How long it took.
    pub took: Duration,
}

impl Endpoint {
    /// Resolves the name of the server, opens a socket, and shakes hands. Ends with the step that fails. Sends no request, and no
    /// credential but a client certificate.
    pub async fn connect_step_by_step(&self, limit: Duration) -> Vec<ConnectionStep> {
        let mut steps = Vec::new();
        let began = Instant::now();
        let addresses = within(self, limit, self.resolve()).await;
        let found = addresses.as_ref().map(|addresses| list(addresses)).map_err(Clone::clone);
        steps.push(ConnectionStep { name: "DNS", result: found, took: began.elapsed() });
        let Ok(addresses) = addresses else { return steps };
        let began = Instant::now();
        let socket = within(self, limit, self.connect_to(&addresses)).await;
        let found = socket.as_ref().map(|(_, address)| format!("connected to {address}"));
        let result = found.map_err(Clone::clone);
        steps.push(ConnectionStep { name: "TCP", result, took: began.elapsed() });
        let (Ok((socket, _)), Some((tls, name))) = (socket, self.tls()) else { return steps };
        let began = Instant::now();
        let connector = TlsConnector::from(Arc::clone(tls));
        let shaken = within(self, limit, async {
            connector.connect(name.clone(), socket).await.map_err(|error| tls_error(self, &error))
        });
        let result = shaken.await.map(|stream| {
            let version =
                stream.get_ref().1.protocol_version().and_then(|version| version.as_str().map(str::to_owned));
            format!(
                "{}, certificate of `{}` is trusted",
                version.unwrap_or_default().replace('_', "."),
                name.to_str()
            )
        });
        steps.push(ConnectionStep { name: "TLS", result, took: began.elapsed() });
        steps
    }

    async fn resolve(&self) -> Result<Vec<SocketAddr>, TransportError> {
        let unresolved = |problem: &str| self.unresolved(problem);
        let addresses = self.addresses().await.map_err(|_| unresolved("no such host"))?;
        if addresses.is_empty() { Err(unresolved("no address")) } else { Ok(addresses) }
    }

    async fn connect_to(&self, addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), TransportError> {
        let mut last = self.unresolved("no address");
        for address in addresses {
            if is_denied(address.ip(), self.denied()) {
                last = TransportError::Denied { authority: self.authority().to_owned() };
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(socket) => return Ok((socket, *address)),
                Err(error) => last = self.unreachable(&error),
            }
        }
        Err(last)
    }
}

fn list(addresses: &[SocketAddr]) -> String {
    let shown: Vec<String> = addresses.iter().take(3).map(|address| address.ip().to_string()).collect();
    let more = addresses.len().saturating_sub(shown.len());
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}
