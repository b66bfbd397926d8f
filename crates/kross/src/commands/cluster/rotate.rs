//! Replaces the token of a registered cluster by a new one, as the controller does when it is due.

use std::sync::Arc;

use anyhow::{Context, bail};
use kross_api::managers;
use kross_cluster::{RenewableSecret, renewal_patch};

use super::credential;
use super::registration::{Registration, address};
use super::remote;
use crate::hub::ConnectionFlags;
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # Replace the token of a cluster now, for example after somebody has seen it
  kross cluster rotate eu -n team";

/// Arguments of `kross cluster rotate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Cluster: the name of its Secret, or `NAMESPACE/NAME`
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    connection: ConnectionFlags,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { name, connection } = arguments;
    crate::hub::block_on(async {
        let hub = connection.hub().await?;
        let registration = Registration::read(&hub, name).await?;
        let title = registration.title();
        if registration.service_account().is_none() {
            bail!(
                "Secret `{title}` was not created by `kross cluster add`, so kross cannot replace its credential; store a new kubeconfig in it"
            );
        }
        let (namespace, name) = address(&hub, name)?;
        let secrets = hub.kind("secrets")?;
        let object = Arc::new(hub.client.get(&secrets, Some(namespace), name).await?);
        let secret = RenewableSecret::read(&object, &credential::policy())
            .with_context(|| format!("Secret `{title}` was changed meanwhile"))?;
        let account =
            secret.checked_account().with_context(|| format!("cannot rotate the token of `{title}`"))?;
        let kubeconfig =
            registration.kubeconfig().with_context(|| format!("Secret `{title}` has no kubeconfig"))?;
        // Before the request: a token that cannot be stored would be valid for weeks.
        let write = async |patch: &kross_value::Value| {
            let written = hub
                .client
                .merge_patch(&secrets, Some(namespace), name, None, managers::REGISTRATION, patch)
                .await;
            written.with_context(|| format!("cannot write Secret `{title}`"))
        };
        let touched = write(&secret.touch()).await?;
        let client = credential::client(name, namespace, &kubeconfig).await?;
        let token =
            client.request_token(account, registration.token_duration().unwrap_or(secret.duration())).await;
        let token = token.with_context(|| {
            format!("the cluster issues no new token; `kross cluster add CONTEXT --name {name} -n {namespace}` registers it again")
        })?;
        let renewed = secret.with_token(&token, &credential::policy())?;
        if let Some(uid) = registration.cluster_uid() {
            remote::until_accepted(&credential::client(name, namespace, &renewed).await?, uid).await?;
        }
        write(&renewal_patch(touched.resource_version(), token.lifetime, &renewed)).await?;
        output.data(format_args!("secret/{name} rotated"))?;
        let moment = |at: Option<jiff::Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
        output.note(format_args!("the new token expires at {}", moment(token.lifetime.expires_at)));
        output.note(format_args!(
            "the former token stays valid until {}: Kubernetes cannot revoke one token. To revoke all of them at once, delete ServiceAccount `{account}` in the cluster and register it again",
            moment(secret.lifetime().expires_at)
        ));
        Ok(Outcome::Success)
    })
}
