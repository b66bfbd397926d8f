//! Sends batches of spans over HTTP, with or without TLS. A client of its own with hyper, which is there anyway: the clients that
//! the exporter brings depend on another HTTP stack.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kross_cluster::crypto_provider;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The largest answer of a collector: that of OTLP has a message at most.
const MAX_ANSWER: usize = 64 << 10;

/// Why the last request got no answer; the exporter keeps that to itself.
pub(super) type Failure = Arc<Mutex<Option<String>>>;

pub(super) struct Client {
    client: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
    failure: Failure,
}

impl Client {
    /// A client for one address. Certificates are verified with the authorities in a file, or else with those of the system.
    pub(super) fn new(uri: &Uri, timeout: Duration, authorities: Option<&str>) -> anyhow::Result<Self> {
        let roots = match uri.scheme_str() {
            Some("https") => roots(authorities)?,
            _ => RootCertStore::empty(),
        };
        let provider = Arc::new(crypto_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("cannot configure TLS")?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build();
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, timeout, failure: Failure::default() })
    }

    pub(super) fn failure(&self) -> Failure {
        Arc::clone(&self.failure)
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.client.request(request.map(Full::new)).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = match tokio::time::timeout(self.timeout, self.send(request)).await {
            Ok(sent) => sent,
            Err(_) => Err(format!("no answer within {:?}", self.timeout).into()),
        };
        *self.failure.lock() = sent.as_ref().err().map(|error| chain(&**error));
        sent
    }
}

/// An error with its causes: that of hyper alone says only that it failed.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn roots(authorities: Option<&str>) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            let certificates = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .with_context(|| format!("cannot read the certificates of the collector in {path}"))?;
            for certificate in certificates {
                roots
                    .add(certificate)
                    .with_context(|| format!("cannot use a certificate of the collector in {path}"))?;
            }
            if roots.is_empty() {
                bail!("{path} has no certificates of the collector");
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                bail!(
                    "the system has no root certificates to verify the collector with: set `OTEL_EXPORTER_OTLP_CERTIFICATE` to a file with its certificate authority"
                );
            }
        }
    }
    Ok(roots)
}
