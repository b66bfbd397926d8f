//! Serves the HTTP pages until they are closed: probes for everybody, metrics and admin pages as the flags say, and the admission
//! webhook for the API server. The dashboard is in `dashboard.rs`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use kross_cluster::ClusterClient;
use kross_controller::{ServingCertificates, WebhookOptions};
use kross_server::{
    AccessControl, BindAddress, CertificateFiles, ClusterNames, Listener, ReviewError, ServeOptions,
    ServerCertificate, serve,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::configuration::{FlagValues, pod_namespace};

/// The shortest validity of a certificate: replicas must have the time to read it.
const MIN_VALIDITY: Duration = Duration::from_secs(20);

/// Where pages are served, and which of them only over TLS to users whom the API server allows.
#[derive(Clone, Debug)]
pub(super) struct PageFlags {
    pub(super) probes: BindAddress,
    pub(super) metrics: BindAddress,
    pub(super) metrics_secure: bool,
    pub(super) admin: BindAddress,
    pub(super) admin_secure: bool,
    /// Whether the address of the admin pages was given, and is not the default.
    pub(super) admin_given: bool,
    /// None for a self-signed certificate.
    pub(super) certificate: Option<CertificateFiles>,
    pub(super) webhook: BindAddress,
    /// None for a certificate that the controller issues.
    pub(super) webhook_certificate: Option<CertificateFiles>,
}

/// What secure pages need.
#[derive(Clone, Debug)]
pub(super) struct Security {
    access: AccessControl,
    certificate: Arc<ServerCertificate>,
}

/// The HTTP pages, served until they are closed.
pub(super) struct Pages {
    stop: watch::Sender<bool>,
    servers: JoinSet<anyhow::Result<()>>,
}

impl FlagValues {
    pub(super) fn pages(&self) -> anyhow::Result<PageFlags> {
        let pages = PageFlags {
            probes: self.address("health-probe-bind-address")?,
            metrics: self.address("metrics-bind-address")?,
            metrics_secure: self.boolean("metrics-secure"),
            admin: self.address("admin-bind-address")?,
            admin_secure: self.boolean("admin-secure"),
            admin_given: self.is_given("admin-bind-address"),
            certificate: self.certificate(["metrics-cert-path", "metrics-cert-name", "metrics-cert-key"]),
            webhook: self.address("webhook-bind-address")?,
            webhook_certificate: self.certificate([
                "webhook-cert-path",
                "webhook-cert-name",
                "webhook-cert-key",
            ]),
        };
        if !pages.admin.is_local() && !pages.admin_secure {
            bail!(
                "`--admin-bind-address={}` is reachable from other hosts, and the admin pages name every cluster: set `--admin-secure`, or use a loopback address such as `127.0.0.1:8077`",
                pages.admin
            );
        }
        if pages.certificate.is_some() && !pages.is_secure() {
            bail!("`--metrics-cert-path` has no effect without `--metrics-secure` or `--admin-secure`");
        }
        if pages.webhook_certificate.is_some() && pages.webhook == BindAddress::Disabled {
            bail!("`--webhook-cert-path` has no effect without `--webhook-bind-address`");
        }
        Ok(pages)
    }

    /// The files of a certificate, by the flags for its folder and for their names; none without a folder.
    pub(super) fn certificate(
        &self,
        [folder, certificate, key]: [&'static str; 3],
    ) -> Option<CertificateFiles> {
        let folder = Some(self.text(folder)).filter(|folder| !folder.is_empty())?;
        let file = |name| Path::new(folder).join(self.text(name));
        Some(CertificateFiles { certificate: file(certificate), key: file(key) })
    }

    /// Where the certificate of the webhook is kept; none if the webhook is disabled, or its certificate is in files.
    pub(super) fn webhook(&self) -> anyhow::Result<Option<WebhookOptions>> {
        let pages = self.pages()?;
        if pages.webhook == BindAddress::Disabled || pages.webhook_certificate.is_some() {
            return Ok(None);
        }
        let (namespace, service) = match self.text("webhook-service").split_once('/') {
            Some((namespace, service)) => (namespace.to_owned(), service),
            None => (
                pod_namespace().context("cannot determine the namespace of the webhook: set `--webhook-service=NAMESPACE/NAME`, or `--webhook-cert-path`")?,
                self.text("webhook-service"),
            ),
        };
        let validity = self.duration("webhook-cert-validity");
        if validity < MIN_VALIDITY {
            bail!("`--webhook-cert-validity` must be at least {}s", MIN_VALIDITY.as_secs());
        }
        Ok(Some(WebhookOptions {
            namespace,
            service: service.to_owned(),
            secret: self.text("webhook-secret").to_owned(),
            configuration: self.text("webhook-configuration").to_owned(),
            validity,
        }))
    }
}

impl PageFlags {
    /// The certificate of the webhook.
    pub(super) fn webhook_certificate(
        &self,
        issued: ServingCertificates,
    ) -> anyhow::Result<Arc<ServerCertificate>> {
        let certificate = match &self.webhook_certificate {
            Some(files) => ServerCertificate::new(Some(files.clone())),
            None => ServerCertificate::following(issued),
        };
        certificate.map(Arc::new).context("cannot serve the admission webhook over TLS")
    }

    /// Whether any pages are secure.
    pub(super) fn is_secure(&self) -> bool {
        self.metrics_secure || self.admin_secure
    }

    /// What secure pages need. Reviews are requests of `client`.
    pub(super) fn security(&self, client: ClusterClient) -> anyhow::Result<Security> {
        let certificate = ServerCertificate::new(self.certificate.clone())
            .context("cannot serve the metrics and admin pages over TLS")?;
        if self.certificate.is_none() {
            tracing::info!(
                advice = "set --metrics-cert-path",
                "serving secure pages with a self-signed certificate"
            );
        }
        let access = AccessControl::new(move |path, body| {
            let client = client.clone();
            Box::pin(async move {
                client.submit(path, body).await.map_err(|error| ReviewError(error.to_string()))
            })
        });
        Ok(Security { access, certificate: Arc::new(certificate) })
    }

    /// Who sees the names of clusters in the metrics.
    pub(super) fn cluster_names(&self, security: Option<&Security>) -> ClusterNames {
        match security.filter(|_| self.metrics_secure) {
            Some(security) => ClusterNames::Allowed(security.access.clone()),
            None if self.metrics.is_local() => ClusterNames::Shown,
            None => ClusterNames::Hidden,
        }
    }
}

impl Default for Pages {
    fn default() -> Self {
        Self { stop: watch::channel(false).0, servers: JoinSet::new() }
    }
}

impl Pages {
    /// Serves pages. If they are not required, an address that is in use is a warning.
    pub(super) async fn open(
        &mut self,
        address: BindAddress,
        required: bool,
        name: &'static str,
        mut pages: axum::Router,
        security: Option<&Security>,
    ) -> anyhow::Result<()> {
        let listener = match address.listen(name).await {
            Err(error) if !required => {
                tracing::warn!(%address, pages = name, error = %anyhow::Error::from(error).root_cause(), advice = "set --admin-bind-address", "cannot serve pages");
                return Ok(());
            }
            listener => listener?,
        };
        let Some(listener) = listener else { return Ok(()) };
        let address: Option<SocketAddr> = listener.address().ok();
        if let Some(address) = address {
            tracing::info!(%address, pages = name, secure = security.is_some(), "serving pages");
        }
        let mut options = ServeOptions::default();
        if let Some(Security { access, certificate }) = security {
            pages = access.protect(pages);
            options.certificate = Some(Arc::clone(certificate));
        }
        self.serve(listener, name, pages, options);
        Ok(())
    }

    /// Serves pages that decide by themselves who may read them, as the admission webhook does, and the dashboard.
    pub(super) async fn open_with(
        &mut self,
        address: BindAddress,
        name: &'static str,
        pages: axum::Router,
        options: ServeOptions,
    ) -> anyhow::Result<()> {
        let Some(listener) = address.listen(name).await? else { return Ok(()) };
        if let Ok(address) = listener.address() {
            tracing::info!(%address, pages = name, secure = options.certificate.is_some(), "serving pages");
        }
        self.serve(listener, name, pages, options);
        Ok(())
    }

    fn serve(&mut self, listener: Listener, name: &'static str, pages: axum::Router, options: ServeOptions) {
        let mut stop = self.stop.subscribe();
        self.servers.spawn(async move {
            // A dropped sender means stop as well.
            let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
            serve(listener, pages, options, stopped).await.with_context(|| format!("cannot serve {name}"))
        });
    }

    /// Returns why pages are not served any more, if that happens.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        match self.servers.join_next().await {
            // All pages are disabled.
            None => std::future::pending().await,
            Some(Err(error)) => error.into(),
            Some(Ok(Err(error))) => error,
            Some(Ok(Ok(()))) => anyhow::anyhow!("the server has ended"),
        }
    }

    pub(super) fn close(&self) {
        self.stop.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::super::flags::FLAGS;
    use super::super::syntax::{Parsed, parse};
    use super::*;

    fn flags(line: &str) -> anyhow::Result<PageFlags> {
        match parse(&FLAGS, line.split_whitespace().map(str::to_owned))? {
            Parsed::Flags(flags) => FlagValues::new(flags).pages(),
            Parsed::Help => bail!("help"),
        }
    }

    #[tokio::test]
    async fn an_address_in_use_is_an_error_only_if_it_was_given() {
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = BindAddress::At(taken.local_addr().unwrap());
        let open = async |required| {
            Pages::default().open(address, required, "admin pages", axum::Router::new(), None).await
        };
        assert!(open(false).await.is_ok());
        let error = open(true).await.unwrap_err().to_string();
        assert_eq!(error, format!("cannot listen on `{address}` for admin pages"));
    }

    #[test]
    fn the_default_is_that_of_kro_and_admin_pages_stay_on_loopback() {
        let pages = flags("").unwrap();
        assert_eq!(pages.probes, BindAddress::AllInterfaces { port: 8079 });
        assert_eq!(pages.metrics, BindAddress::AllInterfaces { port: 8078 });
        assert!(!pages.metrics_secure && !pages.admin_secure && !pages.admin_given);
        assert!(pages.admin.is_local() && pages.certificate.is_none());
        for address in [":8077", "0.0.0.0:8077", "10.0.0.1:8077"] {
            let line = format!("--admin-bind-address={address}");
            let error = flags(&line).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{line}` is reachable from other hosts")), "{error}");
            assert!(flags(&format!("{line} --admin-secure")).unwrap().admin_given);
        }
    }

    #[test]
    fn certificates_are_named_as_in_kubebuilder() {
        let pages = flags("--metrics-secure --metrics-cert-path=/certs --metrics-cert-key=key.pem").unwrap();
        let files = CertificateFiles { certificate: "/certs/tls.crt".into(), key: "/certs/key.pem".into() };
        assert_eq!(pages.certificate, Some(files));
        let error = flags("--metrics-cert-path=/certs").unwrap_err().to_string();
        assert_eq!(
            error,
            "`--metrics-cert-path` has no effect without `--metrics-secure` or `--admin-secure`"
        );
    }

    #[test]
    fn names_of_clusters_are_hidden_from_readers_that_nobody_knows() {
        let hidden = |line| matches!(flags(line).unwrap().cluster_names(None), ClusterNames::Hidden);
        assert!(hidden("") && hidden("--admin-secure") && !hidden("--metrics-bind-address=127.0.0.1:0"));
    }
}
