//! Removes a registered cluster: its Secret on the hub, once nobody uses it, and what the registration created in the cluster.

use anyhow::{Context, bail};
use kross_cluster::{Delete, ServiceAccountName};

use super::registration::Registration;
use super::remote::{self, RemoteContext};
use super::users;
use crate::hub::{ConnectionFlags, Hub};
use crate::output::{Outcome, Output};

/// The most users that are listed.
const MAX_LISTED: usize = 20;

const EXAMPLES: &str = "\
Examples:
  # Remove a cluster that no instance uses any more
  kross cluster remove eu -n team

  # Also delete the ServiceAccount and its roles in the cluster, as the administrator of the context `eu`
  kross cluster remove eu -n team --cleanup eu";

/// Arguments of `kross cluster remove`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Cluster: the name of its Secret, or `NAMESPACE/NAME`
    #[arg(value_name = "NAME")]
    name: String,

    /// Remove it although instances use it: their objects in the cluster stay there, and their deletion waits until the cluster is
    /// registered again or abandoned
    #[arg(long)]
    force: bool,

    /// Also delete what `kross cluster add` created in the cluster, with this context of the kubeconfig: the ServiceAccount, which
    /// revokes its tokens, and its roles
    #[arg(long, value_name = "CONTEXT")]
    cleanup: Option<String>,

    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { name, force, cleanup, connection } = arguments;
    crate::hub::block_on(async {
        let hub = connection.hub().await?;
        let registration = Registration::read(&hub, name).await?;
        if !refuse_if_used(&hub, &registration, *force, output).await? {
            return Ok(Outcome::No);
        }
        let account = registration.service_account();
        // Before anything is deleted: afterwards nobody would know what to clean up.
        let cluster = match (cleanup, &account) {
            (None, _) => None,
            (Some(_), None) => bail!(
                "Secret `{}` was not created by `kross cluster add`: there is nothing to clean up in the cluster",
                registration.title()
            ),
            (Some(context), Some(account)) => {
                Some((cluster_of(connection, context, &registration).await?, account))
            }
        };
        let secrets = hub.kind("secrets")?;
        let options = Delete { uid: registration.uid(), ..Delete::default() };
        hub.client
            .delete(&secrets, Some(&registration.namespace), &registration.name, options)
            .await
            .with_context(|| format!("cannot delete Secret `{}`", registration.title()))?;
        output.data(format_args!("secret/{} deleted", registration.name))?;
        match (cluster, &account) {
            (Some((cluster, account)), _) => {
                let registered_for =
                    remote::registered_for(Some(&hub), &registration.namespace, &registration.name).await;
                let deleted = cluster.unregister(account, &registered_for).await?;
                remote::report(&cluster.name, &deleted, output);
            }
            (None, Some(account)) => leftovers(account, output),
            (None, None) => {}
        }
        Ok(Outcome::Success)
    })
}

/// The cluster of a context, which must be the one that was registered.
async fn cluster_of(
    connection: &ConnectionFlags,
    context: &str,
    registration: &Registration,
) -> anyhow::Result<RemoteContext> {
    let cluster = RemoteContext::connect(connection.source_of(context)).await?;
    let uid = cluster.uid().await?;
    match registration.cluster_uid() {
        Some(registered) if registered != uid => bail!(
            "context `{context}` is not the cluster of Secret `{}`: its UID is {uid}, not {registered}",
            registration.title()
        ),
        _ => Ok(cluster),
    }
}

/// Says what is still in the cluster, and how to delete it.
fn leftovers(account: &ServiceAccountName, output: &mut Output) {
    let selector = remote::selector(account);
    output.note(format_args!(
        "ServiceAccount `{account}` and its roles are still in the cluster; its tokens are valid until they expire. Delete them there with:"
    ));
    output.note(format_args!(
        "  kubectl --context CONTEXT delete serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings -A -l {selector}"
    ));
}

/// Whether the cluster may be removed. Says who uses it.
async fn refuse_if_used(
    hub: &Hub,
    registration: &Registration,
    force: bool,
    output: &mut Output,
) -> anyhow::Result<bool> {
    let found = users::users(hub, &registration.namespace, &registration.name).await;
    let users = match found {
        Ok(users) => users,
        Err(error) if force => {
            output.note(format_args!("warning: cannot find out who uses the cluster: {error}"));
            return Ok(true);
        }
        Err(error) => {
            return Err(error).context("cannot find out who uses the cluster; `--force` removes it anyway");
        }
    };
    if users.is_empty() {
        return Ok(true);
    }
    let title = registration.title();
    let verb = if force { "used" } else { "not removed: it is used" };
    output.note(format_args!("cluster `{title}` is {verb} by {}:", count(users.len())));
    for user in users.iter().take(MAX_LISTED) {
        output.note(format_args!("  {user}"));
    }
    if users.len() > MAX_LISTED {
        output.note(format_args!("  and {} more", users.len() - MAX_LISTED));
    }
    if force {
        output.note("warning: their objects in the cluster stay there; their deletion waits for the cluster");
    } else {
        output.note(
            "delete them, or move them to another cluster, first; `--force` removes the cluster anyway",
        );
    }
    Ok(force)
}

fn count(users: usize) -> String {
    if users == 1 { "1 object".to_owned() } else { format!("{users} objects") }
}
