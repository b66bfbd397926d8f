//! Turns flags into the dashboard that the controller serves: its address, its certificate, and where the key of sessions is kept.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use kross_cluster::{Audit, ClientOptions, ClusterClient, KubeconfigPolicy, LocalCluster};
use kross_server::{
    BindAddress, CertificateFiles, ServeOptions, ServedDashboard, ServedDashboardOptions, ServerCertificate,
    SessionSecret,
};

use super::configuration::{FlagValues, pod_namespace};

/// The shortest session.
const MIN_SESSION: Duration = Duration::from_secs(60);

/// The dashboard that the controller serves.
#[derive(Clone, Debug)]
pub(super) struct DashboardFlags {
    pub(super) address: BindAddress,
    /// None for a self-signed certificate.
    certificate: Option<CertificateFiles>,
    session: Duration,
    /// Namespace and name of the Secret with the key of sessions; none outside of a pod.
    secret: Option<(String, String)>,
    kubeconfigs: KubeconfigPolicy,
}

impl FlagValues {
    /// None if it is disabled.
    pub(super) fn dashboard(&self) -> anyhow::Result<Option<DashboardFlags>> {
        let address = self.address("dashboard-bind-address")?;
        let files = ["dashboard-cert-path", "dashboard-cert-name", "dashboard-cert-key"];
        let certificate = self.certificate(files);
        if address == BindAddress::Disabled {
            if certificate.is_some() {
                bail!("`--dashboard-cert-path` has no effect without `--dashboard-bind-address`");
            }
            return Ok(None);
        }
        let session = self.duration("dashboard-session-duration");
        if session < MIN_SESSION {
            bail!("`--dashboard-session-duration` must be at least {}s, such as `8h`", MIN_SESSION.as_secs());
        }
        let secret = self.text("dashboard-session-secret");
        let secret = match secret.split_once('/') {
            Some((namespace, name)) => Some((namespace.to_owned(), name.to_owned())),
            None => pod_namespace().ok().map(|namespace| (namespace, secret.to_owned())),
        };
        if secret.as_ref().is_some_and(|(namespace, name)| namespace.is_empty() || name.is_empty()) {
            bail!("`--dashboard-session-secret` has no name: use `NAME` or `NAMESPACE/NAME`");
        }
        let kubeconfigs = self.kubeconfigs()?;
        Ok(Some(DashboardFlags { address, certificate, session, secret, kubeconfigs }))
    }
}

impl DashboardFlags {
    /// The dashboard in front of the hub. Only the key of sessions is read with the controller's own rights.
    pub(super) async fn start(
        &self,
        cluster: &LocalCluster,
        options: ClientOptions,
        audit: Audit,
    ) -> anyhow::Result<ServedDashboard> {
        let Self { address: _, certificate: _, session, secret, kubeconfigs } = self;
        let secret = match secret.clone() {
            Some((namespace, name)) => {
                let client = ClusterClient::local(cluster, options).await?;
                Some(SessionSecret { client, namespace, name })
            }
            None => {
                tracing::info!(
                    advice = "set --dashboard-session-secret=NAMESPACE/NAME",
                    "sessions of the dashboard end with this process"
                );
                None
            }
        };
        let endpoint = cluster.endpoint().await?;
        let (kubeconfigs, session) = (kubeconfigs.clone(), *session);
        Ok(ServedDashboard::new(ServedDashboardOptions { endpoint, kubeconfigs, audit, secret, session })?)
    }

    /// What its clients may use: a person has a connection for each open page.
    pub(super) fn serve_options(&self) -> anyhow::Result<ServeOptions> {
        let certificate = ServerCertificate::new(self.certificate.clone())
            .context("cannot serve the dashboard over TLS")?;
        if self.certificate.is_none() {
            tracing::info!(
                advice = "set --dashboard-cert-path",
                "serving the dashboard with a self-signed certificate"
            );
        }
        let certificate = Some(Arc::new(certificate));
        Ok(ServeOptions {
            max_connections: 512,
            max_requests: 32,
            certificate,
            ..ServeOptions::for_streams()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::flags::FLAGS;
    use super::super::syntax::{Parsed, parse};
    use super::*;

    fn flags(line: &str) -> anyhow::Result<Option<DashboardFlags>> {
        match parse(&FLAGS, line.split_whitespace().map(str::to_owned))? {
            Parsed::Flags(flags) => FlagValues::new(flags).dashboard(),
            Parsed::Help => bail!("help"),
        }
    }

    #[test]
    fn the_dashboard_is_off_unless_it_has_an_address() {
        assert!(flags("").unwrap().is_none());
        let on = flags("--dashboard-bind-address=:8443 --dashboard-session-secret=kro-system/sessions")
            .unwrap()
            .unwrap();
        assert_eq!(on.address, BindAddress::AllInterfaces { port: 8443 });
        assert_eq!(on.secret, Some(("kro-system".to_owned(), "sessions".to_owned())));
        assert_eq!(on.session, Duration::from_secs(8 * 3_600));
        assert!(on.certificate.is_none());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, error) in [
            (
                "--dashboard-cert-path=/certs",
                "`--dashboard-cert-path` has no effect without `--dashboard-bind-address`",
            ),
            (
                "--dashboard-bind-address=:1 --dashboard-session-duration=5s",
                "`--dashboard-session-duration` must be at least 60s, such as `8h`",
            ),
            (
                "--dashboard-bind-address=:1 --dashboard-session-secret=kro-system/",
                "`--dashboard-session-secret` has no name: use `NAME` or `NAMESPACE/NAME`",
            ),
        ] {
            assert_eq!(flags(line).unwrap_err().to_string(), error);
        }
    }
}
