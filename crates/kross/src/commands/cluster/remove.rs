//! Removes a registered cluster: its Secret on the hub, once nobody uses it.

use anyhow::Context;
use kross_cluster::Delete;

use super::registration::Registration;
use super::users;
use crate::hub::{ConnectionFlags, Hub};
use crate::output::{Outcome, Output};

/// The most users that are listed.
const MAX_LISTED: usize = 20;

const EXAMPLES: &str = "\
Examples:
  # Remove a cluster that no instance uses any more
  kross cluster remove eu -n team";

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

    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { name, force, connection } = arguments;
    crate::hub::block_on(async {
        let hub = connection.hub().await?;
        let registration = Registration::read(&hub, name).await?;
        if !refuse_if_used(&hub, &registration, *force, output).await? {
            return Ok(Outcome::No);
        }
        let secrets = hub.kind("secrets")?;
        let options = Delete { uid: registration.uid(), ..Delete::default() };
        hub.client
            .delete(&secrets, Some(&registration.namespace), &registration.name, options)
            .await
            .with_context(|| format!("cannot delete Secret `{}`", registration.title()))?;
        output.data(format_args!("secret/{} deleted", registration.name))?;
        if let Some((namespace, account)) = registration.service_account() {
            output.note(format_args!(
                "ServiceAccount `{namespace}/{account}` and its roles are still in the cluster"
            ));
        }
        Ok(Outcome::Success)
    })
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
