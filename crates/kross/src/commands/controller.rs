//! Runs the controller and its HTTP pages as the flags say, until SIGTERM or SIGINT.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kross_cluster::{Audit, ClientOptions, ClusterClient};
use kross_controller::Controller;
use kross_server::{BindAddress, LogControl, admin_pages, cluster_pages, metrics_page, probe_pages, serve};
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::output::{Outcome, Output};

mod configuration;
mod credentials;
mod duration;
mod flags;
mod logging;
mod open_files;
mod syntax;

use configuration::Configuration;
use syntax::Parsed;

/// How long writing the last audit records may take.
const AUDIT_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Flags of kro's controller and of kross; `--help` lists all
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let flags = match syntax::parse(&flags::FLAGS, arguments.flags.iter().cloned())? {
        Parsed::Help => {
            output.data(flags::help().trim_end())?;
            return Ok(Outcome::Success);
        }
        Parsed::Flags(flags) => flags,
    };
    if flags.contains(&("version", syntax::Value::Bool(true))) {
        output.data(format_args!("kross {}", env!("CARGO_PKG_VERSION")))?;
        return Ok(Outcome::Success);
    }
    let configuration = Configuration::from_flags(flags)?;
    let log = logging::start(configuration.encoder, configuration.level.clone(), configuration.color)?;
    open_files::raise_limit();
    let audit = configuration.audit.clone().start()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
    let ended = runtime.block_on(serve_and_reconcile(configuration, log, audit.clone()));
    // Do not wait for tasks that are still running: the controller has stopped.
    runtime.shutdown_background();
    audit.flush(AUDIT_FLUSH_TIMEOUT);
    ended.map(|()| Outcome::Success)
}

async fn serve_and_reconcile(
    configuration: Configuration,
    log: Arc<dyn LogControl>,
    audit: Audit,
) -> anyhow::Result<()> {
    let Configuration {
        cluster,
        probes,
        metrics,
        admin,
        admin_given,
        encoder: _,
        level: _,
        color: _,
        audit: _,
        controller,
    } = configuration;
    let mut settings = controller;
    settings.clusters.audit = audit;
    // Install the handlers before anything starts, so that an early signal stops it as well.
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let options = ClientOptions::for_version(&settings.kro_version);
    let client = ClusterClient::local(&cluster, options.clone()).await?;
    // A client of its own for the Lease: a renewal must not queue behind other requests.
    let lease_client = ClusterClient::local(&cluster, options).await?;

    let mut registry = Registry::default();
    let controller = Controller::new(client, lease_client, settings, &mut registry);
    let mut pages = Pages::default();
    let probe_router = probe_pages(controller.readiness(), controller.liveness());
    pages.open(probes, true, "probes", probe_router).await?;
    pages.open(metrics, true, "metrics", metrics_page(Arc::new(registry))).await?;
    let admin_router = admin_pages(log).merge(cluster_pages(controller.clusters()));
    pages.open(admin, admin_given, "admin pages", admin_router).await?;

    let (pages, mut lost_pages) = (&mut pages, None);
    let ended = controller
        .run(async {
            tokio::select! {
                _ = interrupt.recv() => tracing::info!(signal = "SIGINT", "shutting down"),
                _ = terminate.recv() => tracing::info!(signal = "SIGTERM", "shutting down"),
                ended = pages.ended() => lost_pages = Some(ended),
            }
        })
        .await;
    pages.close();
    ended?;
    // Nobody could tell any more whether the controller works.
    lost_pages.map_or(Ok(()), |error| Err(error.context("the pages are not served any more")))
}

/// The HTTP pages, served until they are closed.
struct Pages {
    stop: watch::Sender<bool>,
    servers: JoinSet<anyhow::Result<()>>,
}

impl Default for Pages {
    fn default() -> Self {
        Self { stop: watch::channel(false).0, servers: JoinSet::new() }
    }
}

impl Pages {
    /// Serves pages. If they are not required, an address that is in use is a warning.
    async fn open(
        &mut self,
        address: BindAddress,
        required: bool,
        name: &'static str,
        pages: axum::Router,
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
            tracing::info!(%address, pages = name, "serving pages");
        }
        let mut stop = self.stop.subscribe();
        self.servers.spawn(async move {
            // A dropped sender means stop as well.
            let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
            serve(listener, pages, stopped).await.with_context(|| format!("cannot serve {name}"))
        });
        Ok(())
    }

    /// Returns why pages are not served any more, if that happens.
    async fn ended(&mut self) -> anyhow::Error {
        match self.servers.join_next().await {
            // All pages are disabled.
            None => std::future::pending().await,
            Some(Err(error)) => error.into(),
            Some(Ok(Err(error))) => error,
            Some(Ok(Ok(()))) => anyhow::anyhow!("the server has ended"),
        }
    }

    fn close(&self) {
        self.stop.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_in_use_is_an_error_only_if_it_was_given() {
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = BindAddress::At(taken.local_addr().unwrap());
        let open = async |required| {
            Pages::default().open(address, required, "admin pages", axum::Router::new()).await
        };
        assert!(open(false).await.is_ok());
        let error = open(true).await.unwrap_err().to_string();
        assert_eq!(error, format!("cannot listen on `{address}` for admin pages"));
    }
}
