//! Timeouts and limits of a client.

use std::time::Duration;

use crate::transport::TransportOptions;

/// Timeouts and limits of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The user agent, as the API server logs it.
    pub user_agent: String,
    /// How long a request may take, from the first byte sent to the last one received. Waiting for a permit does not
    /// count.
    pub request_timeout: Duration,
    /// The same for a page of a list.
    pub list_timeout: Duration,
    /// How long the server may send nothing, before or within a response.
    pub read_timeout: Duration,
    /// The largest response that is read, after decompression, in bytes.
    pub max_response: usize,
    /// The largest list that is read: the sum of its pages, in bytes.
    pub max_list: usize,
    /// The transport of requests.
    pub requests: TransportOptions,
    /// The transport of watches.
    pub watches: TransportOptions,
}

impl ClientOptions {
    /// The default options, with the user agent of this kro version.
    #[must_use]
    pub fn for_version(version: &str) -> Self {
        Self { user_agent: format!("kro/{version}"), ..Self::default() }
    }

    /// The same for remote clusters, with shorter timeouts: slow or unreachable remote clusters are common.
    #[must_use]
    pub fn for_remotes(version: &str) -> Self {
        let requests = TransportOptions {
            connect_timeout: Duration::from_secs(3),
            tls_timeout: Duration::from_secs(3),
            ping_interval: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(5),
            max_streams: 128,
            ..TransportOptions::default()
        };
        Self {
            request_timeout: Duration::from_secs(15),
            list_timeout: Duration::from_secs(30),
            read_timeout: Duration::from_secs(10),
            max_list: 256 << 20,
            watches: TransportOptions { max_streams: 20_000, ..requests.clone() },
            requests,
            ..Self::for_version(version)
        }
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            user_agent: "kro/devel".to_owned(),
            request_timeout: Duration::from_secs(30),
            list_timeout: Duration::from_secs(60),
            read_timeout: Duration::from_secs(30),
            max_response: 32 << 20,
            max_list: 1 << 30,
            requests: TransportOptions::default(),
            watches: TransportOptions { max_streams: 20_000, ..TransportOptions::default() },
        }
    }
}
