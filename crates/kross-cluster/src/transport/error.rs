//! What can go wrong before a server has answered.

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;

use kross_api::FailureReason;

/// No answer, or half of one. Cheap to clone: requests that waited for one connection fail with one error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The address of the server or of the request makes no sense.
    #[error("the address is not valid")]
    Address,
    /// The server's name has no address.
    #[error("cannot find `{host}`: {problem}")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        problem: String,
    },
    /// No socket to the server.
    #[error("cannot connect to `{authority}`: {problem}")]
    Connect {
        /// The server.
        authority: String,
        /// What the system said.
        problem: String,
    },
    /// The server's address is one that the operator denies.
    #[error(
        "cannot connect to `{authority}`: `{address}` is an address that may not be connected to (`--kubeconfig-deny-cidr`)"
    )]
    Denied {
        /// The server.
        authority: String,
        /// What its name resolved to.
        address: IpAddr,
    },
    /// The server could not prove who it is, or did not accept the client's certificate.
    #[error("cannot secure the connection to `{authority}`: {problem}")]
    Tls {
        /// The server.
        authority: String,
        /// What went wrong.
        problem: String,
        /// Whether a certificate is at fault, not the network.
        certificate: bool,
    },
    /// No answer in time.
    #[error("no answer after {:.1}s", after.as_secs_f64())]
    Timeout {
        /// How long it was waited for.
        after: Duration,
    },
    /// The connection broke while a request was under way.
    #[error("the connection broke: {problem}")]
    Broken {
        /// What the protocol said.
        problem: String,
    },
    /// The answer is larger than anything a client should hold.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The credentials cannot be had, before anything is sent.
    #[error("cannot get the credentials: {problem}")]
    Credentials {
        /// What went wrong, without a byte of them.
        problem: String,
    },
    /// The cluster is known not to be connected, so nothing was sent.
    #[error("{problem}")]
    NotConnected {
        /// The class of what stands in the way.
        reason: FailureReason,
        /// What stands in the way.
        problem: String,
    },
    /// The connection is not used any more, so nothing was sent.
    #[error("the connection is closed, since nobody needs it any more")]
    Closed,
}

impl TransportError {
    /// Whether it casts doubt on the way to the server, and not only on one request.
    pub(crate) fn is_connection_failure(&self) -> bool {
        matches!(
            self,
            Self::Resolve { .. }
                | Self::Connect { .. }
                | Self::Tls { .. }
                | Self::Timeout { .. }
                | Self::Broken { .. }
                | Self::Credentials { .. }
        )
    }

    /// From an error of the protocol, with what caused it, since `hyper` keeps the interesting part there.
    pub(super) fn broken(error: &hyper::Error) -> Self {
        let mut problem = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !problem.contains(&text) {
                problem = format!("{problem}: {text}");
            }
            source = cause.source();
        }
        Self::Broken { problem }
    }
}
