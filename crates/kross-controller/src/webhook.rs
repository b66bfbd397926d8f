//! The certificate of the admission webhook: issues it, rotates it before it expires, and keeps it and the authority that
//! signed it where replicas and the API server find them.
//!
//! Each certificate has an authority of its own, whose key is dropped once it has signed. A rotation therefore is always the
//! same: publish the next authority beside the current one, wait until every API server has it, then serve the next certificate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kross_api::managers;
use kross_cluster::{ApiError, ApiKind, Apply, ClusterClient, Fence, StoredObject};
use kross_value::{Object, Value};
use tokio::sync::watch;

use crate::readiness::Readiness;

mod bundle;

use bundle::Bundle;

/// The readiness check: whether there is a certificate to serve with.
pub(crate) const CHECK: &str = "webhook";
/// How often the Secret is read while there is no certificate in it.
const FIRST_POLL: Duration = Duration::from_secs(1);
/// How often the Secret and the configuration are read.
const POLL: Duration = Duration::from_secs(30);

/// Where the certificate of the webhook is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookOptions {
    /// The namespace of the Service and of the Secret.
    pub namespace: String,
    /// The Service that the API server calls.
    pub service: String,
    /// The Secret with certificate and key, which all replicas read.
    pub secret: String,
    /// The ValidatingWebhookConfiguration whose `caBundle` is kept up to date.
    pub configuration: String,
    /// How long a certificate is valid. It is replaced after two thirds of that.
    pub validity: Duration,
}

/// A certificate to serve with, and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ServingCertificate {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServingCertificate")
    }
}

/// The certificate that is served now, and every later one.
pub type ServingCertificates = watch::Receiver<Option<Arc<ServingCertificate>>>;

/// A certificate that cannot be kept.
#[derive(Debug, thiserror::Error)]
enum WebhookError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("cannot issue a certificate for the webhook: {0}")]
    Issue(#[from] rcgen::Error),
}

/// Keeps the certificate of the webhook of one replica. The leader also writes it.
pub(crate) struct CertificateKeeper {
    pub(crate) client: ClusterClient,
    pub(crate) fence: Fence,
    pub(crate) options: WebhookOptions,
    pub(crate) served: watch::Sender<Option<Arc<ServingCertificate>>>,
    pub(crate) readiness: Readiness,
}

impl CertificateKeeper {
    /// Runs until it is dropped.
    pub(crate) async fn run(self) {
        let mut reported = None;
        loop {
            if let Err(error) = self.sync().await {
                let error = error.to_string();
                if reported.as_ref() != Some(&error) {
                    tracing::warn!(%error, "cannot keep the certificate of the webhook; retrying");
                    reported = Some(error);
                }
            } else {
                reported = None;
            }
            let wait = if self.served.borrow().is_some() {
                POLL.min(self.options.validity / 60).max(FIRST_POLL)
            } else {
                FIRST_POLL
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Serves what the Secret has. The leader publishes the authorities, and replaces what is due.
    async fn sync(&self) -> Result<(), WebhookError> {
        let secret =
            match self.client.get(&secrets(), Some(&self.options.namespace), &self.options.secret).await {
                Ok(secret) => Some(secret),
                Err(error) if error.is_object_not_found() => None,
                Err(error) => return Err(error.into()),
            };
        let stored = secret.as_ref().and_then(|secret| Bundle::read(secret.value()));
        if let Some(stored) = &stored {
            self.serve(stored);
        }
        if !self.fence.is_open() {
            return Ok(());
        }
        // Before the next certificate is served: clients must trust its authority by then.
        if let Some(stored) = &stored {
            self.publish(stored).await?;
        }
        let now = jiff::Timestamp::now();
        let Some(due) = bundle::due(stored.as_ref(), &self.names(), now, self.options.validity)? else {
            return Ok(());
        };
        self.write(secret.as_ref(), &due).await?;
        let (namespace, name) = (&self.options.namespace, &self.options.secret);
        let expires = due.expires().map(tracing::field::display);
        tracing::info!(
            namespace,
            name,
            expires,
            staged = due.next.is_some(),
            "wrote the certificate of the webhook"
        );
        self.publish(&due).await?;
        self.serve(&due);
        Ok(())
    }

    fn serve(&self, bundle: &Bundle) {
        self.served.send_if_modified(|served| {
            let is_new = served.as_deref() != Some(&bundle.current);
            if is_new {
                *served = Some(Arc::new(bundle.current.clone()));
            }
            is_new
        });
        self.readiness.set(CHECK, true);
    }

    /// The names under which the webhook is called.
    fn names(&self) -> Vec<String> {
        let WebhookOptions { namespace, service, .. } = &self.options;
        let host = format!("{service}.{namespace}.svc");
        let local = format!("{host}.cluster.local");
        vec![host, local, "localhost".to_owned(), "127.0.0.1".to_owned()]
    }

    async fn write(&self, existing: Option<&StoredObject>, bundle: &Bundle) -> Result<(), WebhookError> {
        let WebhookOptions { namespace, secret, .. } = &self.options;
        let Some(existing) = existing else {
            let metadata =
                Value::object([("name", secret.as_str().into()), ("namespace", namespace.as_str().into())]);
            let object = Value::object([
                ("apiVersion", "v1".into()),
                ("kind", "Secret".into()),
                ("metadata", metadata),
                ("data", bundle.data()),
            ]);
            self.client.create(&secrets(), &object, managers::WEBHOOK).await?;
            return Ok(());
        };
        // Only this version: another leader may have written one.
        let metadata = Value::object([("resourceVersion", existing.resource_version().clone().into())]);
        let patch = Value::object([("metadata", metadata), ("data", bundle.data())]);
        self.client.merge_patch(&secrets(), Some(namespace), secret, None, managers::WEBHOOK, &patch).await?;
        Ok(())
    }

    /// Writes the authorities into the configuration of the webhook, if they are not in it.
    async fn publish(&self, bundle: &Bundle) -> Result<(), WebhookError> {
        let kind = configurations();
        let configuration = self.client.get(&kind, None, &self.options.configuration).await?;
        let trusted = bundle.trusted();
        let webhooks = configuration.value().get("webhooks").and_then(Value::as_list).unwrap_or_default();
        let is_published = |webhook: &Value| {
            webhook.at(&["clientConfig", "caBundle"]).and_then(Value::as_str) == Some(&trusted)
        };
        if webhooks.iter().all(is_published) {
            return Ok(());
        }
        let webhooks: Vec<Value> = webhooks
            .iter()
            .map(|webhook| {
                let client = Value::object([("caBundle", trusted.as_str().into())]);
                let name = webhook.get("name").cloned().unwrap_or(Value::Null);
                Value::object([("name", name), ("clientConfig", client)])
            })
            .collect();
        let metadata: Object = [
            ("name", configuration.name().clone().into()),
            // An apply must not create it.
            ("uid", configuration.uid().clone().into()),
        ]
        .into_iter()
        .collect();
        let patch = Value::object([
            ("apiVersion", kind.api_version().into()),
            ("kind", kind.kind.clone().into()),
            ("metadata", metadata.into()),
            ("webhooks", webhooks.into()),
        ]);
        self.client.apply(&kind, &patch, Apply::by(managers::WEBHOOK).force()).await?;
        tracing::info!(configuration = %configuration.name(), "published the authority of the webhook");
        Ok(())
    }
}

fn secrets() -> ApiKind {
    ApiKind::custom("", "v1", "Secret", "secrets", true)
}

fn configurations() -> ApiKind {
    let kind = "ValidatingWebhookConfiguration";
    ApiKind::custom("admissionregistration.k8s.io", "v1", kind, "validatingwebhookconfigurations", false)
}
