//! Runs the controller and its HTTP pages as the flags say, until SIGTERM or SIGINT.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kross_cluster::{Audit, ClientOptions, ClusterClient};
use kross_controller::Controller;
use kross_server::{
    BindAddress, LogControl, ServeOptions, admin_pages, cluster_pages, metrics_page, probe_pages,
    webhook_pages,
};
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};

use crate::output::{Outcome, Output};

mod configuration;
mod credentials;
mod dashboard;
mod duration;
mod flags;
mod logging;
mod open_files;
mod pages;
mod syntax;
mod traces;

use configuration::Configuration;
pub(crate) use flags::reference_markdown as flags_markdown;
use pages::Pages;
use syntax::Parsed;
use traces::Traces;

/// How long writing the last audit records may take.
const AUDIT_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long exporting the last spans may take.
const TRACES_FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

const EXAMPLES: &str = "\
Examples:
  # Run the controller with the current kubeconfig, as one of several replicas
  kross controller --leader-elect --leader-election-namespace=kro-system

  # List every flag
  kross controller --help";

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = EXAMPLES)]
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
    let mut configuration = Configuration::from_flags(flags)?;
    let traces = configuration.traces.start()?;
    let tracer = traces.as_ref().map(Traces::tracer);
    let log =
        logging::start(configuration.encoder, configuration.level.clone(), configuration.color, tracer)?;
    kross_cluster::log_panics();
    let fips = kross_cluster::crypto_provider().fips();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), fips, "starting the controller");
    if let Some(traces) = &traces {
        traces.log();
        configuration.controller.spans = Some(traces.counts());
    }
    open_files::raise_limit();
    let audit = configuration.audit.clone().start()?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
    let ended = runtime.block_on(serve_and_reconcile(configuration, log, audit.clone()));
    // Do not wait for tasks that are still running: the controller has stopped.
    runtime.shutdown_background();
    audit.flush(AUDIT_FLUSH_TIMEOUT);
    if let Some(traces) = &traces {
        traces.flush(TRACES_FLUSH_TIMEOUT);
    }
    ended.map(|()| Outcome::Success)
}

/// Whether flags are accepted, for the test of the documentation.
#[cfg(test)]
pub(super) fn check_flags(flags: impl IntoIterator<Item = String>) -> Result<(), String> {
    let parsed = syntax::parse(&flags::FLAGS, flags).map_err(|error| error.to_string())?;
    match parsed {
        Parsed::Help => Ok(()),
        Parsed::Flags(flags) => Configuration::from_flags(flags).map(drop).map_err(|error| error.to_string()),
    }
}

/// The names of all flags, for the test of the documentation.
#[cfg(test)]
pub(super) fn flag_names() -> impl Iterator<Item = &'static str> {
    flags::FLAGS.iter().map(|flag| flag.name)
}

/// All flags with their help, for the test that each is read.
#[cfg(test)]
pub(super) fn flags() -> impl Iterator<Item = (&'static str, &'static str)> {
    flags::FLAGS.iter().map(|flag| (flag.name, flag.help))
}

async fn serve_and_reconcile(
    configuration: Configuration,
    log: Arc<dyn LogControl>,
    audit: Audit,
) -> anyhow::Result<()> {
    let Configuration {
        cluster,
        pages: flags,
        dashboard,
        encoder: _,
        level: _,
        color: _,
        audit: _,
        traces: _,
        controller,
    } = configuration;
    let mut settings = controller;
    settings.clusters.audit = audit.clone();
    // Install the handlers before anything starts, so that an early signal stops it as well.
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let options = ClientOptions::for_version(&settings.kro_version);
    let client = ClusterClient::local(&cluster, options.clone()).await?;
    // A client of its own for the Lease: a renewal must not queue behind other requests.
    let lease_client = ClusterClient::local(&cluster, options.clone()).await?;

    let security = match flags.is_secure() {
        // A reconcile must not queue behind the reviews of readers either.
        true => Some(flags.security(ClusterClient::local(&cluster, options.clone()).await?)?),
        false => None,
    };
    let (metrics_security, admin_security) = (
        security.as_ref().filter(|_| flags.metrics_secure),
        security.as_ref().filter(|_| flags.admin_secure),
    );

    let mut registry = Registry::default();
    let controller = Controller::new(client, lease_client, settings, &mut registry);
    let mut pages = Pages::default();
    let probe_router = probe_pages(controller.readiness(), controller.liveness());
    pages.open(flags.probes, true, "probes", probe_router, None).await?;
    let metrics_router = metrics_page(Arc::new(registry), flags.cluster_names(security.as_ref()));
    pages.open(flags.metrics, true, "metrics", metrics_router, metrics_security).await?;
    let admin_router = admin_pages(log).merge(cluster_pages(controller.clusters()));
    pages.open(flags.admin, flags.admin_given, "admin pages", admin_router, admin_security).await?;
    if flags.webhook != BindAddress::Disabled {
        let certificate = flags.webhook_certificate(controller.certificates())?;
        let options = ServeOptions { certificate: Some(certificate), ..ServeOptions::default() };
        // To everybody who can connect, as the API server has no credential for it by default.
        let webhook = webhook_pages(controller.validator());
        pages.open_with(flags.webhook, "admission webhook", webhook, options).await?;
    }
    if let Some(flags) = dashboard {
        let dashboard = flags.start(&cluster, options, audit).await?;
        pages.open_with(flags.address, "dashboard", dashboard.pages(), flags.serve_options()?).await?;
    }

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
