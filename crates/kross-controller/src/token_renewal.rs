//! Renews the tokens of registered clusters before they expire. Only the leader does it, for the clusters in use and for those that
//! nobody uses at the moment; a failure is an Event on the Secret and a metric, from the first attempt on.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kross_api::{EventReason, FailureReason, SYSTEM_NAMESPACE};
use kross_cluster::{Backoff, CredentialLifetime, RenewableSecret, RenewalError, SecretName, renewal_due};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use crate::context::Context;
use crate::events;

/// The action of the Events about renewals.
const ACTION: &str = "RenewToken";
/// How many tokens are renewed at once.
const CONCURRENCY: usize = 4;
/// The least time between two looks at the Secrets.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// When tokens are renewed.
#[derive(Clone, Debug)]
pub struct RenewalSettings {
    /// How often the Secrets are listed. A token that is due earlier is renewed in its time.
    pub interval: Duration,
    /// The delays after failed renewals.
    pub backoff: Backoff,
    /// Namespaces with such Secrets, if Secrets may not be listed in all.
    pub namespaces: Vec<String>,
}

impl Default for RenewalSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(300),
            backoff: Backoff { base: Duration::from_secs(30), cap: Duration::from_secs(1_800) },
            namespaces: Vec::new(),
        }
    }
}

/// What is known of the tokens of registered clusters. Clones share it. The lock is a leaf.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenRenewals(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    renewed: AtomicU64,
    failed: AtomicU64,
    tokens: Mutex<BTreeMap<SecretName, Token>>,
}

/// The token in a Secret.
#[derive(Clone, Debug, Default)]
pub(crate) struct Token {
    /// From when until when it is valid.
    pub(crate) lifetime: CredentialLifetime,
    /// How often in a row its renewal has failed.
    pub(crate) failures: u32,
    /// When the renewal is attempted again after a failure.
    retry_at: Option<Instant>,
    /// The version of the Secret whose token could not be renewed.
    failed_version: String,
}

impl TokenRenewals {
    /// Tokens that were renewed, and attempts that failed.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [&self.0.renewed, &self.0.failed].map(|counter| counter.load(Ordering::Relaxed))
    }

    /// The tokens by Secret.
    pub(crate) fn tokens(&self) -> BTreeMap<SecretName, Token> {
        self.0.tokens.lock().clone()
    }

    /// Remembers the Secrets that were found and, if these are all, forgets the others.
    fn observe(&self, secrets: &[RenewableSecret], are_all: bool) {
        let mut tokens = self.0.tokens.lock();
        let mut before = std::mem::take(&mut *tokens);
        for secret in secrets {
            let mut token = before.remove(secret.name()).unwrap_or_default();
            token.lifetime = secret.lifetime();
            // Whoever has changed the Secret may have removed the cause.
            if token.failures > 0 && token.failed_version != secret.resource_version() {
                token.retry_at = None;
            }
            tokens.insert(secret.name().clone(), token);
        }
        if !are_all {
            tokens.append(&mut before);
        }
    }

    /// When the token of a Secret is to be renewed. None if it does not expire.
    fn due(&self, secret: &RenewableSecret, now: (Instant, Timestamp)) -> Option<Instant> {
        let retry_at = self.0.tokens.lock().get(secret.name()).and_then(|token| token.retry_at);
        if retry_at.is_some() {
            return retry_at;
        }
        let (now, clock) = now;
        let due = match renewal_due(secret.lifetime(), share(secret.name())) {
            Some(due) => due,
            // It does not tell when it was issued: then as soon as it lives no longer than a third of what is requested.
            None => secret.lifetime().expires_at?.checked_sub(secret.duration() / 3).ok()?,
        };
        Some(now + Duration::try_from(due.duration_since(clock)).unwrap_or_default())
    }

    fn renewed(&self, secret: &SecretName, lifetime: CredentialLifetime) {
        self.0.renewed.fetch_add(1, Ordering::Relaxed);
        self.0.tokens.lock().insert(secret.clone(), Token { lifetime, ..Token::default() });
    }

    /// Counts a failure. Returns when the renewal is attempted again.
    fn failed(&self, secret: &RenewableSecret, version: &str, backoff: &Backoff) -> Duration {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
        let mut tokens = self.0.tokens.lock();
        let token = tokens.entry(secret.name().clone()).or_default();
        token.failures = token.failures.saturating_add(1);
        version.clone_into(&mut token.failed_version);
        let delay = backoff.delay(token.failures, fastrand::f64());
        token.retry_at = Some(Instant::now() + delay);
        delay
    }
}

/// A number between 0 and 1 that is always the same for a Secret.
fn share(secret: &SecretName) -> f64 {
    let mut hasher = DefaultHasher::new();
    secret.hash(&mut hasher);
    f64::from(u32::try_from(hasher.finish() % 1_000).unwrap_or_default()) / 1_000.0
}

/// Renews tokens for ever; never returns.
pub(crate) async fn run(context: Arc<Context>) {
    let settings = &context.settings.renewals;
    let mut refused = BTreeSet::new();
    loop {
        let listed = Instant::now();
        let (secrets, are_all) = secrets(&context, &mut refused).await;
        context.renewals.observe(&secrets, are_all);
        let now = (Instant::now(), Timestamp::now());
        let due: Vec<_> = secrets
            .into_iter()
            .filter(|secret| !secret.is_terminating())
            .filter_map(|secret| Some((context.renewals.due(&secret, now)?, secret)))
            .collect();
        let next = due.iter().map(|(at, _)| *at).filter(|at| *at > now.0).min();
        futures::stream::iter(due.into_iter().filter(|(at, _)| *at <= now.0))
            .for_each_concurrent(CONCURRENCY, async |(_, secret)| renew(&context, &secret).await)
            .await;
        let pause = settings.interval.mul_f64(0.75 + fastrand::f64() / 4.0);
        let until = next.map_or(listed + pause, |next| next.min(listed + pause));
        sleep(MIN_PAUSE.min(settings.interval)).await;
        sleep_until(until).await;
    }
}

/// The Secrets that ask for renewal, and whether these are all that the controller may read.
async fn secrets(context: &Context, refused: &mut BTreeSet<String>) -> (Vec<RenewableSecret>, bool) {
    let mut are_all = true;
    let mut found: BTreeMap<SecretName, RenewableSecret> = BTreeMap::new();
    let mut add = |secrets: Vec<RenewableSecret>| {
        found.extend(secrets.into_iter().map(|secret| (secret.name().clone(), secret)));
    };
    match context.clusters.renewable_secrets(None).await {
        Ok(secrets) => add(secrets),
        Err(error) if error.reason() == FailureReason::Forbidden => {
            for namespace in namespaces(context) {
                match context.clusters.renewable_secrets(Some(&namespace)).await {
                    Ok(secrets) => add(secrets),
                    Err(error) if error.reason() == FailureReason::Forbidden => {
                        if refused.insert(namespace.clone()) {
                            tracing::warn!(
                                namespace,
                                %error,
                                advice = "allow the controller to list Secrets in this namespace",
                                "cannot list kubeconfig Secrets; tokens of clusters that nobody uses are not renewed"
                            );
                        }
                    }
                    Err(error) => {
                        are_all = false;
                        tracing::warn!(namespace, %error, "cannot list kubeconfig Secrets; retrying");
                    }
                }
            }
        }
        Err(error) => {
            are_all = false;
            tracing::warn!(%error, "cannot list kubeconfig Secrets; retrying");
        }
    }
    // Those in use may be in other namespaces, or have a name in place of the label.
    for secret in context.clusters.renewable_secrets_in_use() {
        found.entry(secret.name().clone()).or_insert(secret);
    }
    (found.into_values().collect(), are_all)
}

/// The namespaces that may have kubeconfig Secrets: those of the settings, those where references look for Secrets by default, and
/// that of the controller.
fn namespaces(context: &Context) -> BTreeSet<String> {
    let settings = &context.settings;
    let own = settings.leader_election.as_ref().map(|options| options.namespace.clone());
    let configured = settings.renewals.namespaces.iter().cloned();
    configured.chain([SYSTEM_NAMESPACE.to_owned()]).chain(own).collect()
}

async fn renew(context: &Context, secret: &RenewableSecret) {
    let name = secret.name();
    match context.clusters.renew_token(secret).await {
        Ok(lifetime) => {
            context.renewals.renewed(name, lifetime);
            let until = lifetime.expires_at.map(|at| at.to_string()).unwrap_or_default();
            tracing::info!(secret = %name, expires = until, "renewed token of cluster");
            let account = secret.service_account().map(ToString::to_string).unwrap_or_default();
            let note = format!("renewed the token of ServiceAccount `{account}`; it expires at {until}");
            events::emit(context, secret.regarding(), EventReason::TokenRenewed, ACTION, note);
        }
        // The next look reads the new version.
        Err(error) if error.is_conflict() || error.is_fenced() => {
            tracing::debug!(secret = %name, %error, "Secret has changed while its token was renewed; retrying");
        }
        Err(error) => {
            let version = secret.resource_version();
            let delay = context.renewals.failed(secret, version, &context.settings.renewals.backoff);
            let note = failure_note(secret, &error);
            tracing::warn!(secret = %name, cause = note, retry_after = ?delay, "cannot renew token of cluster");
            events::emit(context, secret.regarding(), EventReason::TokenRenewalFailed, ACTION, note);
        }
    }
}

/// What went wrong, until when there is time, and what to do.
fn failure_note(secret: &RenewableSecret, error: &RenewalError) -> String {
    let name = secret.name();
    let account = match secret.service_account() {
        Some(account) => format!("the token of ServiceAccount `{account}`"),
        None => "the token".to_owned(),
    };
    let deadline = match secret.lifetime().expires_at {
        Some(until) if until <= Timestamp::now() => format!("; it expired at {until}"),
        Some(until) => format!("; it expires at {until}"),
        None => String::new(),
    };
    let advice = if error.is_forbidden_in_the_hub() {
        format!("; allow the controller to patch Secrets in namespace `{}` of the hub", name.namespace)
    } else if error.is_forbidden_in_the_cluster() {
        "; allow the ServiceAccount to create `serviceaccounts/token` for itself in the cluster".to_owned()
    } else {
        format!("; `kross cluster check {} -n {}` shows more", name.name, name.namespace)
    };
    format!("cannot renew {account}: {error}{deadline}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_that_were_registered_together_are_not_renewed_together() {
        let shares: Vec<f64> = (0..100)
            .map(|number| share(&SecretName { namespace: "team".into(), name: format!("c{number}").into() }))
            .collect();
        let early = shares.iter().filter(|share| **share < 0.5).count();
        assert!((25..75).contains(&early), "{early}");
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
    }
}
