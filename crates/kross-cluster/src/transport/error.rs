//! Errors of requests that got no complete response.

use std::error::Error as _;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use kross_api::FailureReason;

/// No response, or an incomplete one. Cheap to clone: all requests that waited for a connection fail with its error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The address of the server, or the path of the request, is invalid.
    #[error("invalid address")]
    Address,
    /// The host name does not resolve.
    #[error("cannot resolve `{host}`: {problem}")]
    Resolve {
        /// The host name.
        host: String,
        /// The error of the resolver.
        problem: String,
    },
    /// The socket cannot be opened.
    #[error("cannot connect to `{authority}`: {problem}")]
    Connect {
        /// The server.
        authority: String,
        /// The error of the operating system.
        problem: String,
    },
    /// The operator denies the address of the server.
    #[error("cannot connect to `{authority}`: `{address}` is a denied address (`--kubeconfig-deny-cidr`)")]
    Denied {
        /// The server.
        authority: String,
        /// The address that the host name resolved to.
        address: IpAddr,
    },
    /// The TLS handshake failed: the certificate of the server or of the client was not accepted.
    #[error("the TLS handshake with `{authority}` failed: {problem}")]
    Tls {
        /// The server.
        authority: String,
        /// The cause.
        problem: String,
        /// Whether a certificate is the cause, not the network.
        certificate: bool,
    },
    /// No response in time.
    #[error("no answer after {:.1}s", after.as_secs_f64())]
    Timeout {
        /// The timeout.
        after: Duration,
    },
    /// The connection broke while a request was in flight.
    #[error("the connection broke: {problem}")]
    Broken {
        /// The error of the protocol.
        problem: String,
    },
    /// The response is too large.
    #[error("the response is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The credentials could not be obtained; nothing was sent.
    #[error("cannot obtain the credentials: {problem}")]
    Credentials {
        /// The cause, without any part of a credential.
        problem: String,
    },
    /// The cluster is not connected; nothing was sent.
    #[error("{problem}")]
    NotConnected {
        /// The class of the failure.
        reason: FailureReason,
        /// The cause.
        problem: String,
    },
    /// This process does not hold the Lease, so it may not write; nothing was sent.
    #[error("this process does not hold the lease any more")]
    Fenced,
    /// A new connection cannot be verified; nothing was sent over it.
    #[error("cannot verify the cluster: {problem}")]
    Unverified {
        /// The class of the failure.
        reason: FailureReason,
        /// The cause.
        problem: String,
    },
    /// A new connection leads to another cluster; nothing was sent over it.
    #[error("{problem}")]
    OtherCluster {
        /// Which one, as far as it is known.
        problem: String,
    },
    /// The connection is no longer used; nothing was sent.
    #[error("the connection is closed because it is no longer used")]
    Closed,
}

impl TransportError {
    /// Whether the connection to the server is in doubt, not only one request.
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

    /// From an error of `hyper`, with its causes, which have the interesting part.
    pub(super) fn broken(error: &hyper::Error) -> Self {
        let mut problem = stable(&error.to_string());
        let mut source = error.source();
        while let Some(cause) = source {
            let text = stable(&cause.to_string());
            if !problem.contains(&text) {
                problem = format!("{problem}: {text}");
            }
            source = cause.source();
        }
        Self::Broken { problem }
    }
}

/// An error of the operating system in words that do not depend on the C library. Authors match them in expressions.
pub(super) fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        _ => stable(&error.to_string()),
    }
}

/// The text of an error without the number of the system's error, and in lower case like all others.
fn stable(text: &str) -> String {
    let text = text.split_once(" (os error ").map_or(text, |(text, _)| text);
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        // An acronym stays as it is.
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain([second]).chain(characters).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_operating_system_are_lower_case_and_have_no_number() {
        for (code, expected) in [
            (111, "connection refused"),
            (104, "connection reset by peer"),
            (113, "no route to host"),
            (101, "network is unreachable"),
            (110, "connection timed out"),
            (24, "too many open files"),
        ] {
            assert_eq!(describe(&io::Error::from_raw_os_error(code)), expected);
        }
        assert_eq!(describe(&io::Error::other("TLS is not supported")), "TLS is not supported");
        assert_eq!(stable("Connection reset by peer (os error 104)"), "connection reset by peer");
    }
}
