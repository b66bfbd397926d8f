//! Lists the registered clusters, by their Secrets: where they are, when their credentials expire and who renews them. Shows no
//! part of a credential.

use anyhow::Context;
use clap::ValueEnum;
use jiff::Timestamp;
use kross_api::labels;
use serde_json::{Value as Json, json};

use super::super::get::{Item, Listed, Table};
use super::registration::Registration;
use crate::hub::{ConnectionFlags, Hub, age};
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # List the clusters that are registered in a namespace
  kross cluster list -n team

  # List those of all namespaces, with their ServiceAccounts and who may use them
  kross cluster list -A -o wide";

/// Arguments of `kross cluster list`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// List the clusters of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// A table
    Table,
    /// A table with more columns
    Wide,
    /// JSON, without credentials
    Json,
    /// YAML, without credentials
    Yaml,
    /// Only the names
    Name,
}

/// What is shown of one cluster.
struct Cluster {
    registration: Registration,
    server: Option<String>,
    method: Option<String>,
    expires: Option<Timestamp>,
    /// Why the kubeconfig cannot be used, if so.
    problem: Option<String>,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    crate::hub::block_on(async {
        let hub = arguments.connection.hub().await?;
        let namespace = (!arguments.all_namespaces).then_some(hub.namespace.as_str());
        let clusters = clusters(&hub, namespace).await?;
        print(&clusters, arguments, namespace, output)
    })
}

async fn clusters(hub: &Hub, namespace: Option<&str>) -> anyhow::Result<Vec<Cluster>> {
    let selector = format!("{}={}", labels::CLUSTER_CREDENTIALS, labels::CLUSTER_CREDENTIALS_TRUE);
    let kind = hub.kind("secrets")?;
    let listed = hub.list(&kind, namespace, Some(&selector)).await;
    let listed = listed.with_context(|| match namespace {
        Some(namespace) => format!(
            "cannot list the Secrets of namespace `{namespace}`; `kross get clusters` shows what instances report of their clusters"
        ),
        None => "cannot list the Secrets of all namespaces; try one with `--namespace`".to_owned(),
    })?;
    let mut clusters: Vec<Cluster> =
        listed.into_iter().map(|object| Cluster::of(Registration::of(object))).collect();
    clusters.sort_by_key(|cluster| cluster.registration.title());
    Ok(clusters)
}

impl Cluster {
    fn of(registration: Registration) -> Self {
        match registration.accepted() {
            Ok(accepted) => Self {
                server: Some(accepted.server().to_string().trim_end_matches('/').to_owned()),
                method: Some(accepted.method().to_string()),
                expires: accepted.lifetime().expires_at,
                problem: None,
                registration,
            },
            Err(error) => Self {
                server: None,
                method: None,
                expires: None,
                problem: Some(error.to_string()),
                registration,
            },
        }
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// The time until it expires.
    fn expiry(&self, now: Timestamp) -> String {
        match self.expires {
            Some(expires) if expires <= now => format!("{} ago", age(expires, now)),
            Some(expires) => format!("in {}", age(now, expires)),
            None if self.problem.is_some() => "-".to_owned(),
            None => "never".to_owned(),
        }
    }

    fn json(&self) -> Json {
        let registration = &self.registration;
        json!({
            "namespace": registration.namespace, "name": registration.name, "server": self.server,
            "method": self.method, "expiresAt": self.expires.map(|at| at.to_string()),
            "renewed": registration.service_account().is_some(),
            "serviceAccount": registration.service_account().map(|account| account.to_string()),
            "clusterUID": registration.cluster_uid(), "allowedNamespaces": registration.allowed_namespaces(),
            "problem": self.problem,
        })
    }

    fn item(&self, now: Timestamp) -> Item {
        let shown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let registration = &self.registration;
        let account = registration.service_account();
        let usable = self.problem.is_none() && !self.is_expired(now);
        Item {
            object: self.json(),
            namespace: registration.namespace.clone(),
            name: registration.name.clone(),
            argument: registration.name.clone(),
            ready: usable,
            failed: !usable,
            cells: vec![
                registration.name.clone(),
                shown(self.server.clone()),
                shown(self.method.clone()),
                self.expiry(now),
                if account.is_some() { "yes" } else { "no" }.to_owned(),
            ],
            wide: vec![
                shown(account.map(|account| account.to_string())),
                shown(registration.allowed_namespaces().map(str::to_owned)),
                shown(registration.cluster_uid().map(str::to_owned)),
                self.problem.clone().unwrap_or_default(),
            ],
            created: registration.created().map(str::to_owned),
            aliases: Vec::new(),
        }
    }
}

fn print(
    clusters: &[Cluster],
    arguments: &Arguments,
    namespace: Option<&str>,
    output: &mut Output,
) -> anyhow::Result<Outcome> {
    let now = Timestamp::now();
    let objects = || {
        let items: Vec<Json> = clusters.iter().map(Cluster::json).collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    };
    match arguments.output {
        OutputFormat::Json => output.data(serde_json::to_string_pretty(&objects())?)?,
        OutputFormat::Yaml => output.data(kross_api::to_yaml(&objects()).trim_end())?,
        OutputFormat::Name => {
            for cluster in clusters {
                output.data(cluster.registration.title())?;
            }
        }
        OutputFormat::Table | OutputFormat::Wide if clusters.is_empty() => {
            let place = namespace.map(|namespace| format!(" in namespace `{namespace}`")).unwrap_or_default();
            output.note(format_args!(
                "no clusters registered{place}; register one with `kross cluster add CONTEXT`"
            ));
        }
        OutputFormat::Table | OutputFormat::Wide => {
            let listed = Listed {
                headers: vec!["NAME", "SERVER", "CREDENTIAL", "EXPIRES", "RENEWED"],
                wide_headers: vec!["SERVICEACCOUNT", "ALLOWED", "UID", "PROBLEM"],
                items: clusters.iter().map(|cluster| cluster.item(now)).collect(),
                ..Listed::default()
            };
            let wide = arguments.output == OutputFormat::Wide;
            let table = Table::of(&listed, arguments.all_namespaces, wide, now);
            output.data(table.draw(output.format(), output.width()).trim_end())?;
        }
    }
    Ok(Outcome::Success)
}
