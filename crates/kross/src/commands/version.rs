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
                "controllers": found.map(|server| server.controllers.iter().map(|it| &it.text).collect::<Vec<_>>()),
                "controllerVersions":
                    found.map(|server| server.controllers.iter().map(|it| &it.version).collect::<Vec<_>>()),
            });
            output.data(serde_json::to_string_pretty(&versions)?)?;
        }
        OutputFormat::Text => {
            output.data(format_args!("client:      kross {client}"))?;
            if let Some(Ok(Server { kubernetes, controllers, lease })) = &server {
                for controller in controllers {
                    output.data(format_args!("controller:  {}", controller.text))?;
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
    if let Some(Ok(server)) = &server {
        for controller in server.controllers.iter().filter(|it| differs(&it.version, client)) {
            output.note(format_args!(
                "warning: this program is kross {client} and the controller {}; use the program of the controller's version: both are in one release",
                controller.version
            ));
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
    controllers: Vec<Controller>,
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
        ControllerLease::Held { lease, holder } => Some(format!("`{lease}` is held by `{holder}`")),
        ControllerLease::Lost { lease, renewed, .. } => {
            Some(format!("`{lease}` is not held; it was renewed {} ago", age(renewed, now)))
        }
    };
    let kubernetes = text(&version, "/gitVersion").unwrap_or("unknown").to_owned();
    Ok(Server { kubernetes, controllers, lease })
}

/// A Deployment of a controller.
struct Controller {
    /// `kross 1.0.0, kro-system/kross: registry/kross:1.0.0 (2/2 ready)`.
    text: String,
    /// The label of its chart; empty if it has none.
    version: String,
}

fn controller(deployment: &Json) -> Controller {
    let field = |path: &str| text(deployment, path).unwrap_or_default();
    let label = |key: &str| field(&format!("/metadata/labels/app.kubernetes.io~1{key}"));
    let count = |path: &str| deployment.pointer(path).and_then(Json::as_i64);
    let version = label("version").to_owned();
    let program = match version.as_str() {
        "" => String::new(),
        version => format!("{} {version}, ", label("name")),
    };
    let text = format!(
        "{program}{}/{}: {} ({}/{} ready)",
        field("/metadata/namespace"),
        field("/metadata/name"),
        field("/spec/template/spec/containers/0/image"),
        count("/status/readyReplicas").unwrap_or_default(),
        count("/spec/replicas").unwrap_or(1)
    );
    // kro's versions say nothing about this program.
    let version = if label("name") == "kross" { version } else { String::new() };
    Controller { text, version }
}

/// Whether a controller is of another minor version. Patch versions change neither commands nor formats.
pub(super) fn differs(controller: &str, client: &str) -> bool {
    let minor = |version: &str| {
        let mut parts = version.trim_start_matches('v').split(['.', '-', '+']);
        (parts.next().map(str::to_owned), parts.next().map(str::to_owned))
    };
    !controller.is_empty() && minor(controller) != minor(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ_in_what_may_change_commands() {
        assert!(differs("0.2.0", "0.1.0") && differs("v1.1.0", "0.1.0"));
        assert!(!differs("0.1.3", "0.1.0") && !differs("v0.1.0-rc.1", "0.1.0") && !differs("", "0.1.0"));
    }

    #[test]
    fn a_controller_is_shown_with_its_version_and_its_image() {
        let deployment = json!({"metadata": {"namespace": "kro-system", "name": "kross", "labels":
            {"app.kubernetes.io/name": "kross", "app.kubernetes.io/version": "0.1.0"}},
            "spec": {"replicas": 2, "template": {"spec": {"containers": [{"image": "registry/kross:0.1.0"}]}}},
            "status": {"readyReplicas": 2}});
        let Controller { text, version } = controller(&deployment);
        assert_eq!(text, "kross 0.1.0, kro-system/kross: registry/kross:0.1.0 (2/2 ready)");
        assert_eq!(version, "0.1.0");
    }
}
