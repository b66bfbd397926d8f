//! Turns `kross controller` and kro's flags into a running controller with its pages, until it is told to stop.

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

use crate::output::{Outcome, Output};

mod credentials;
mod duration;
mod flags;
mod logging;
mod settings;
mod syntax;

use settings::Meaning;
use syntax::Typed;

/// How long the last audit records may take to be written.
const LAST_WORDS: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Flags as kro's controller takes them; `--help` lists all
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let typed = match syntax::parse(&flags::FLAGS, arguments.flags.iter().cloned())? {
        Typed::Help => {
            output.data(flags::help().trim_end())?;
            return Ok(Outcome::Success);
        }
        Typed::Flags(typed) => typed,
    };
    if typed.contains(&("version", syntax::Value::Bool(true))) {
        output.data(format_args!("kross {}", env!("CARGO_PKG_VERSION")))?;
        return Ok(Outcome::Success);
    }
    let meaning = Meaning::of(typed)?;
    let log = logging::start(meaning.encoder, meaning.level.clone(), meaning.color)?;
    let audit = meaning.audit.clone().start()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
    let ended = runtime.block_on(control(meaning, log, audit.clone()));
    // What still runs belongs to nobody any more.
    runtime.shutdown_background();
    audit.flush(LAST_WORDS);
    ended.map(|()| Outcome::Success)
}

async fn control(meaning: Meaning, log: Arc<dyn LogControl>, audit: Audit) -> anyhow::Result<()> {
    let Meaning { cluster, probes, metrics, admin, encoder: _, level: _, color: _, audit: _, controller } =
        meaning;
    let mut settings = controller;
    settings.clusters.audit = audit;
    // Listening begins before there is anything to finish, so that an early signal ends it as well.
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let options = ClientOptions::for_version(&settings.kro_version);
    let client = ClusterClient::local(&cluster, options.clone()).await?;
    // Renewals of the Lease must wait for nothing else.
    let lease_client = ClusterClient::local(&cluster, options).await?;

    let mut registry = Registry::default();
    let controller = Controller::new(client, lease_client, settings, &mut registry);
    let pages = Pages::default();
    pages.open(probes, "probes", probe_pages(controller.readiness())).await?;
    pages.open(metrics, "metrics", metrics_page(Arc::new(registry))).await?;
    let administration = admin_pages(log).merge(cluster_pages(controller.clusters()));
    pages.open(admin, "administration", administration).await?;

    let ended = controller
        .run(async move {
            tokio::select! {
                _ = interrupt.recv() => tracing::info!("SIGINT: finishing running work"),
                _ = terminate.recv() => tracing::info!("SIGTERM: finishing running work"),
            }
        })
        .await;
    pages.close();
    Ok(ended?)
}

/// The pages that are being served.
struct Pages {
    stop: watch::Sender<bool>,
}

impl Default for Pages {
    fn default() -> Self {
        Self { stop: watch::channel(false).0 }
    }
}

impl Pages {
    async fn open(
        &self,
        address: BindAddress,
        name: &'static str,
        pages: axum::Router,
    ) -> anyhow::Result<()> {
        let Some(listener) = address.listen(name).await? else { return Ok(()) };
        let address: Option<SocketAddr> = listener.address().ok();
        if let Some(address) = address {
            tracing::info!(%address, "serving {name}");
        }
        let mut stop = self.stop.subscribe();
        tokio::spawn(async move {
            // The sender going away is as good a reason to stop.
            let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
            if let Err(error) = serve(listener, pages, stopped).await {
                tracing::error!(%error, "cannot go on serving {name}");
            }
        });
        Ok(())
    }

    fn close(&self) {
        self.stop.send_replace(true);
    }
}
