//! Turns an address as Go writes it (`:8078`, `127.0.0.1:0`, `0` for none) into a socket that listens.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use tokio::net::TcpListener;

/// Where a page is served, if at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// Nowhere.
    Off,
    /// On every interface.
    Everywhere {
        /// The port.
        port: u16,
    },
    /// On one address.
    At(SocketAddr),
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no address to listen on: write `:8080`, `127.0.0.1:8080`, or `0` for none")]
pub struct InvalidAddress {
    text: String,
}

/// A page that cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on `{address}` for the {page}")]
pub struct BindError {
    page: &'static str,
    address: BindAddress,
    #[source]
    source: io::Error,
}

/// A socket that listens.
#[derive(Debug)]
pub struct Listener(pub(crate) TcpListener);

impl FromStr for BindAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = || InvalidAddress { text: text.to_owned() };
        if text.is_empty() || text == "0" {
            return Ok(Self::Off);
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let port: u16 = port.parse().map_err(|_| invalid())?;
        let host = match host {
            "" => return Ok(Self::Everywhere { port }),
            "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            host => host.trim_matches(['[', ']']).parse().map_err(|_| invalid())?,
        };
        Ok(Self::At(SocketAddr::new(host, port)))
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::Everywhere { port } => write!(f, ":{port}"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl BindAddress {
    /// Begins to listen; nothing if the page is off. `page` is what an error calls it.
    ///
    /// # Errors
    /// The address is taken, or not ours.
    pub async fn listen(self, page: &'static str) -> Result<Option<Listener>, BindError> {
        let listening = match self {
            Self::Off => return Ok(None),
            Self::At(address) => TcpListener::bind(address).await,
            // Both families where the machine has both.
            Self::Everywhere { port } => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
                }
                answer => answer,
            },
        };
        let listener = listening.map_err(|source| BindError { page, address: self, source })?;
        Ok(Some(Listener(listener)))
    }
}

impl Listener {
    /// Where it listens, with the port that the system chose if it was left to it.
    ///
    /// # Errors
    /// The system does not know.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_in_go() {
        for (text, address) in [
            ("", BindAddress::Off),
            ("0", BindAddress::Off),
            (":8078", BindAddress::Everywhere { port: 8078 }),
            ("127.0.0.1:80", BindAddress::At(([127, 0, 0, 1], 80).into())),
            ("localhost:80", BindAddress::At(([127, 0, 0, 1], 80).into())),
            ("[::1]:80", BindAddress::At((Ipv6Addr::LOCALHOST, 80).into())),
        ] {
            assert_eq!(text.parse(), Ok(address), "{text}");
        }
        for text in ["8078", ":x", ":70000", "example.com:80"] {
            let error = text.parse::<BindAddress>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
