//! Serves the dashboard on a loopback address, with the rights of the caller's kubeconfig, until Ctrl-C.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use kross_server::{BindAddress, Dashboard, ServeOptions, serve};

use crate::hub::{ConnectionFlags, Hub};
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # Serve the dashboard, with the rights of the current kubeconfig, and print its address
  kross dashboard

  # Another cluster, on a port of its own
  kross dashboard --context production --address 127.0.0.1:9000";

/// The default address. If it is in use, another port is.
const DEFAULT: &str = "127.0.0.1:8076";

/// Arguments of `kross dashboard`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Loopback address to serve on; port 0 for any that is free (default: `127.0.0.1:8076`)
    #[arg(long, value_name = "ADDRESS")]
    address: Option<SocketAddr>,

    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { address, connection } = arguments;
    if let Some(address) = address.filter(|address| !address.ip().is_loopback()) {
        bail!(
            "`--address {address}` is reachable from other hosts, and the dashboard has your rights: use a loopback address such as `{DEFAULT}`"
        );
    }
    crate::hub::block_on(async {
        let hub = connection.hub().await?;
        let (address, served) = open(hub, *address, async { drop(tokio::signal::ctrl_c().await) }).await?;
        output.note("the dashboard shows what your kubeconfig may read; press Ctrl-C to stop it");
        output.data(address)?;
        served.await?;
        Ok(Outcome::Success)
    })
}

/// Listens on an address. Returns the address to open in a browser, and what serves it until `stop` completes.
pub(super) async fn open(
    hub: Hub,
    address: Option<SocketAddr>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<(String, impl Future<Output = anyhow::Result<()>> + Send + 'static)> {
    let dashboard = Dashboard::new(hub)?;
    let listener = listen(address).await?;
    let address = listener.address().context("cannot read the address of the dashboard")?;
    let login = dashboard.login(address);
    let served = async move {
        serve(listener, dashboard.pages(), ServeOptions::for_streams(), stop)
            .await
            .context("cannot serve the dashboard")
    };
    Ok((login, served))
}

/// Listens on an address, or on the default one or any free port.
async fn listen(address: Option<SocketAddr>) -> anyhow::Result<kross_server::Listener> {
    let wanted = match address {
        Some(address) => BindAddress::At(address),
        None => DEFAULT.parse()?,
    };
    let listener = match wanted.listen("the dashboard").await {
        Err(_) if address.is_none() => "127.0.0.1:0".parse::<BindAddress>()?.listen("the dashboard").await?,
        listener => listener?,
    };
    listener.context("the dashboard is disabled")
}
