//! Turns an address in Go's notation (`:8078`, `127.0.0.1:0`, `0` for none) into a listening socket.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use tokio::net::TcpListener;

/// Where pages are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// Nowhere: the pages are disabled.
    Disabled,
    /// On every interface.
    AllInterfaces {
        /// The port.
        port: u16,
    },
    /// On one address.
    At(SocketAddr),
}

/// A text that is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid address `{text}`: use `:8080`, `127.0.0.1:8080`, or `0` to disable the pages")]
pub struct InvalidAddress {
    text: String,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on `{address}` for {pages}")]
pub struct BindError {
    pages: &'static str,
    address: BindAddress,
    #[source]
    source: io::Error,
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener(pub(crate) TcpListener);

impl FromStr for BindAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = || InvalidAddress { text: text.to_owned() };
        if text.is_empty() || text == "0" {
            return Ok(Self::Disabled);
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let port: u16 = port.parse().map_err(|_| invalid())?;
        let host = match host {
            "" => return Ok(Self::AllInterfaces { port }),
            "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            host => host.trim_matches(['[', ']']).parse().map_err(|_| invalid())?,
        };
        Ok(Self::At(SocketAddr::new(host, port)))
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("0"),
            Self::AllInterfaces { port } => write!(f, ":{port}"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl BindAddress {
    /// Whether only processes on this machine, or in this pod, can connect.
    #[must_use]
    pub fn is_local(self) -> bool {
        match self {
            Self::Disabled => true,
            Self::AllInterfaces { .. } => false,
            Self::At(address) => address.ip().to_canonical().is_loopback(),
        }
    }

    /// Starts to listen. Returns nothing if the pages are disabled. `pages` names them in the error.
    ///
    /// # Errors
    /// The address is in use, or not an address of this machine.
    pub async fn listen(self, pages: &'static str) -> Result<Option<Listener>, BindError> {
        let listening = match self {
            Self::Disabled => return Ok(None),
            Self::At(address) => TcpListener::bind(address).await,
            // An IPv6 socket also accepts IPv4, where the machine has both.
            Self::AllInterfaces { port } => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
                }
                result => result,
            },
        };
        let listener = listening.map_err(|source| BindError { pages, address: self, source })?;
        Ok(Some(Listener(listener)))
    }
}

impl Listener {
    /// The address, with the port that the system chose for port 0.
    ///
    /// # Errors
    /// The system cannot tell the address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_as_in_go() {
        for (text, address) in [
            ("", BindAddress::Disabled),
            ("0", BindAddress::Disabled),
            (":8078", BindAddress::AllInterfaces { port: 8078 }),
            ("127.0.0.1:80", BindAddress::At(([127, 0, 0, 1], 80).into())),
            ("localhost:80", BindAddress::At(([127, 0, 0, 1], 80).into())),
            ("[::1]:80", BindAddress::At((Ipv6Addr::LOCALHOST, 80).into())),
        ] {
            assert_eq!(text.parse(), Ok(address), "{text}");
        }
        for (text, local) in
            [("0", true), ("127.0.0.2:1", true), ("[::1]:1", true), ("[::ffff:127.0.0.1]:1", true)]
                .into_iter()
                .chain([(":1", false), ("0.0.0.0:1", false), ("10.0.0.1:1", false), ("[::]:1", false)])
        {
            assert_eq!(text.parse::<BindAddress>().unwrap().is_local(), local, "{text}");
        }
        for text in ["8078", ":x", ":70000", "example.com:80"] {
            let error = text.parse::<BindAddress>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
