//! Prints the version of this program and, where it can be found out, of the controller and of the hub.

use std::time::Duration;

use clap::ValueEnum;
use jiff::Timestamp;
use serde_json::{Value as Json, json};

use crate::hub::{ConnectionFlags, ControllerLease, age, controller_lease, text};
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # The versions of this program, of the controller and of the hub
  kross version

  # Only of this program, without a cluster
  kross version --client";

/// How long the hub may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Arguments of `kross version`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Only the version of this program; contacts no cluster
    #[arg(long)]
    client: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// One line for each version
    Text,
    /// The versions as JSON
    Json,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let client = env!("CARGO_PKG_VERSION");
    let server = match arguments.client {
        true => None,
        false => Some(crate::hub::block_on(async {
            match tokio::time::timeout(TIMEOUT, server(&arguments.connection)).await {
                Ok(server) => server,
                Err(_) => anyhow::bail!("the hub did not answer within {}s", TIMEOUT.as_secs()),
            }
        })),
    };
    match arguments.output {
        OutputFormat::Json => {
            let found = server.as_ref().and_then(|server| server.as_ref().ok());
            let versions = json!({
                "client": client,
                "kubernetes": found.map(|server| &server.kubernetes),
                "controllers": found.map(|server| &server.controllers),
            });
            output.data(serde_json::to_string_pretty(&versions)?)?;
        }
        OutputFormat::Text => {
            output.data(format_args!("client:      kross {client}"))?;
            if let Some(Ok(Server { kubernetes, controllers, lease })) = &server {
                for controller in controllers {
                    output.data(format_args!("controller:  {controller}"))?;
                }
                if controllers.is_empty() {
                    output.data("controller:  unknown: no Deployment with the label `app.kubernetes.io/name=kross` can be read")?;
                }
                if let Some(lease) = lease {
                    output.data(format_args!("lease:       {lease}"))?;
                }
                output.data(format_args!("kubernetes:  {kubernetes}"))?;
            }
        }
    }
    match server {
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Ok(Outcome::Success),
    }
}

/// What is known of the hub.
struct Server {
    kubernetes: String,
    controllers: Vec<String>,
    lease: Option<String>,
}

async fn server(flags: &ConnectionFlags) -> anyhow::Result<Server> {
    let hub = flags.hub().await?;
    let version: Json = serde_json::from_slice(&hub.client.fetch("/version").await?)?;
    let mut controllers = Vec::new();
    if let Ok(kind) = hub.kind("deployments.apps") {
        let selector = "app.kubernetes.io/name in (kross, kro)";
        let listed = hub.list(&kind, None, Some(selector)).await.unwrap_or_default();
        controllers.extend(listed.iter().map(controller));
    }
    let now = Timestamp::now();
    let lease = match controller_lease(&hub, now).await {
        ControllerLease::Unknown => None,
        ControllerLease::Held => Some("held".to_owned()),
        ControllerLease::Lost { lease, renewed, .. } => {
            Some(format!("`{lease}` is not held; it was renewed {} ago", age(renewed, now)))
        }
    };
    let kubernetes = text(&version, "/gitVersion").unwrap_or("unknown").to_owned();
    Ok(Server { kubernetes, controllers, lease })
}

/// `kro-system/kross: registry/kross:1.0 (2/2 ready)`.
fn controller(deployment: &Json) -> String {
    let field = |path: &str| text(deployment, path).unwrap_or_default();
    let count = |path: &str| deployment.pointer(path).and_then(Json::as_i64).unwrap_or_default();
    format!(
        "{}/{}: {} ({}/{} ready)",
        field("/metadata/namespace"),
        field("/metadata/name"),
        field("/spec/template/spec/containers/0/image"),
        count("/status/readyReplicas"),
        count("/spec/replicas")
    )
}
