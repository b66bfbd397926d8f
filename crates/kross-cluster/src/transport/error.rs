//! Errors of requests that got no complete response.

use std::error::Error as _;
use std::io;
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
        /// The cause, one of a closed set of words.
        problem: String,
    },
    /// The socket cannot be opened.
    #[error("cannot connect to `{authority}`: {problem}")]
    Connect {
        /// The server.
        authority: String,
        /// The cause, one of a closed set of words.
        problem: String,
    },
    /// The operator denies the address of the server. What the host name resolved to is not shown: names of the controller's
    /// network could be looked up with it.
    #[error("cannot connect to `{authority}`: it is a denied address (`--kubeconfig-deny-cidr`)")]
    Denied {
        /// The server.
        authority: String,
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
        /// The cause, one of a closed set of words.
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

    /// From an error of `hyper`. Its text can have bytes of the server, such as the debug data of a GOAWAY frame, so only its
    /// class is shown.
    pub(super) fn broken(error: &hyper::Error) -> Self {
        let mut source = error.source();
        let mut system = None;
        while let Some(cause) = source {
            system = system.or_else(|| cause.downcast_ref::<io::Error>().map(describe));
            source = cause.source();
        }
        let problem = if error.is_timeout() {
            "keep-alive timed out"
        } else if error.is_incomplete_message() {
            "connection closed before the response was complete"
        } else if error.is_parse() {
            "the response is not valid HTTP"
        } else if error.is_canceled() || error.is_closed() {
            "connection closed"
        } else {
            system.unwrap_or("HTTP protocol error")
        };
        Self::Broken { problem: problem.to_owned() }
    }
}

/// An error of the operating system as one of a closed set of words, which authors match in expressions.
pub(super) fn describe(error: &io::Error) -> &'static str {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused",
        ErrorKind::ConnectionReset => "connection reset by peer",
        ErrorKind::ConnectionAborted => "connection aborted",
        ErrorKind::BrokenPipe => "broken pipe",
        ErrorKind::UnexpectedEof => "unexpected end of the connection",
        ErrorKind::HostUnreachable => "no route to host",
        ErrorKind::NetworkUnreachable => "network is unreachable",
        ErrorKind::NetworkDown => "network is down",
        ErrorKind::TimedOut => "connection timed out",
        ErrorKind::PermissionDenied => "permission denied",
        ErrorKind::AddrNotAvailable => "address not available",
        ErrorKind::OutOfMemory => "out of memory",
        // Of the process, and of the system; there is no stable kind for them.
        _ if matches!(error.raw_os_error(), Some(23 | 24)) => "too many open files",
        _ => "network error",
    }
}

/// Why a TLS handshake failed, and whether a certificate is the cause. Names in the server's certificate are not shown.
pub(super) fn describe_tls(error: &io::Error) -> (&'static str, bool) {
    use rustls::{AlertDescription as Alert, CertificateError as Certificate, Error};
    let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return (describe(error), false);
    };
    match error {
        Error::InvalidCertificate(certificate) => {
            let problem = match certificate {
                Certificate::Expired | Certificate::ExpiredContext { .. } => {
                    "the server's certificate has expired"
                }
                Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
                    "the server's certificate is not valid yet"
                }
                Certificate::UnknownIssuer => "the server's certificate is not signed by a trusted authority",
                Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                    "the server's certificate is not valid for its name"
                }
                Certificate::Revoked => "the server's certificate was revoked",
                _ => "the server's certificate is invalid",
            };
            (problem, true)
        }
        Error::NoCertificatesPresented => ("the server has no certificate", true),
        Error::AlertReceived(
            Alert::BadCertificate
            | Alert::UnknownCA
            | Alert::CertificateExpired
            | Alert::CertificateRequired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::AccessDenied,
        ) => ("the server does not accept the client certificate", true),
        Error::AlertReceived(_) => ("the server ended the handshake", false),
        Error::PeerIncompatible(_) => ("the server supports no common version or cipher", false),
        _ => ("the server's answer is not valid TLS", false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_operating_system_are_a_closed_set_of_words() {
        for (code, expected) in [
            (111, "connection refused"),
            (104, "connection reset by peer"),
            (113, "no route to host"),
            (101, "network is unreachable"),
            (110, "connection timed out"),
            (24, "too many open files"),
            (95, "network error"),
        ] {
            assert_eq!(describe(&io::Error::from_raw_os_error(code)), expected);
        }
        assert_eq!(describe(&io::Error::other("s3cret of a foreign server")), "network error");
    }

    #[test]
    fn names_in_a_foreign_certificate_are_not_quoted() {
        let name = rustls::pki_types::ServerName::try_from("api.example").unwrap();
        let context = rustls::CertificateError::NotValidForNameContext {
            expected: name,
            presented: vec!["s3cret.internal".to_owned()],
        };
        let error = io::Error::other(rustls::Error::InvalidCertificate(context));
        assert_eq!(describe_tls(&error), ("the server's certificate is not valid for its name", true));
        let error = io::Error::other(rustls::Error::General("s3cret".to_owned()));
        assert_eq!(describe_tls(&error), ("the server's answer is not valid TLS", false));
        assert_eq!(describe_tls(&io::Error::from_raw_os_error(104)), ("connection reset by peer", false));
    }
}
