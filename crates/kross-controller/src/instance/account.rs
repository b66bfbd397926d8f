//! The ServiceAccount of an instance: the objects of the instance in the hub are written as it, and nothing that it may not
//! read is given to an expression.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use jiff::Timestamp;
use kross_api::{FailureReason, LifecyclePhase, Operation, ServiceAccount};
use kross_cluster::{ApiError, ApiKind, ClusterClient, ObjectKey, ResourceAccess};
use kross_plan::{AccountError, ExternalRead, OperationFailure, Withheld, account, default_account};
use kross_value::Text;
use tokio::sync::OnceCell;

use super::error::InstanceError;
use super::observation::version_of;
use super::pass::Pass;
use crate::context::Context;
use crate::graphs::DefinedAccess;
use crate::kinds;

/// How many reviews of one instance run at once.
const CONCURRENT_REVIEWS: usize = 8;

/// The ServiceAccount that acts for an instance.
#[derive(Debug)]
pub(super) struct ActingAccount {
    pub(super) account: ServiceAccount,
    /// The client of the hub as the account.
    pub(super) client: ClusterClient,
    /// The client of the hub as the controller itself.
    own: ClusterClient,
    /// The namespace of the instance, if the instance is being deleted.
    deleted_home: Option<Text>,
    /// Whether the account will not be able to act any more, asked once in a pass.
    ending: OnceCell<Option<Ending>>,
}

/// Why an account cannot act for an instance that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its namespace is being deleted, and with it the account and its roles.
    NamespaceTerminating,
    /// The account is being deleted.
    AccountTerminating,
    /// The account does not exist.
    AccountMissing,
}

impl ActingAccount {
    /// Whether the account is about to disappear. A request that fails says nothing: then it is not.
    pub(super) async fn ending(&self) -> Option<Ending> {
        *self.ending.get_or_init(|| self.find_ending()).await
    }

    /// The same, if it was asked before.
    pub(super) fn known_ending(&self) -> Option<Ending> {
        self.ending.get().copied().flatten()
    }

    async fn find_ending(&self) -> Option<Ending> {
        let (namespace, name) = (self.account.namespace(), self.account.name());
        match self.own.get(&kinds::namespace(), None, namespace).await {
            Ok(found) if found.deletion_timestamp().is_some() => return Some(Ending::NamespaceTerminating),
            Err(error) => tracing::debug!(%error, "cannot read the namespace of the ServiceAccount"),
            Ok(_) => {}
        }
        match self.own.get(&kinds::service_account(), Some(namespace), name).await {
            Ok(found) => found.deletion_timestamp().is_some().then_some(Ending::AccountTerminating),
            Err(error) if error.is_object_not_found() => Some(Ending::AccountMissing),
            Err(error) => {
                tracing::debug!(%error, "cannot read the ServiceAccount");
                None
            }
        }
    }

    /// The controller's own client for an object that the account may not delete, because it disappears itself: only for
    /// objects in the namespace of an instance that is being deleted.
    pub(super) async fn own_client_for(&self, key: &ObjectKey, error: &ApiError) -> Option<&ClusterClient> {
        if error.reason() != FailureReason::Forbidden || self.deleted_home.is_none() {
            return None;
        }
        // Asked for the others as well: the message says what they wait for.
        self.ending().await?;
        self.is_at_home(key).then_some(&self.own)
    }

    fn is_at_home(&self, key: &ObjectKey) -> bool {
        key.cluster.is_local() && self.deleted_home.is_some() && key.namespace == self.deleted_home
    }

    /// Whether an object cannot be created any more because its namespace is being deleted, and the account with it.
    pub(super) fn is_in_terminating_namespace(&self, key: &ObjectKey) -> bool {
        self.known_ending() == Some(Ending::NamespaceTerminating) && self.is_at_home(key)
    }

    /// What to do about a request of the account that failed.
    pub(super) fn advice(&self, error: &ApiError) -> String {
        let (account, message) = (&self.account, error.message());
        if error.reason() != FailureReason::Forbidden || !message.contains(" cannot ") {
            return String::new();
        }
        if message.contains("cannot impersonate") {
            return format!(
                "; the controller needs the permission `impersonate` on ServiceAccount `{account}`, which `kross rbac FILE` prints"
            );
        }
        match self.known_ending() {
            None => grant(account),
            Some(ending) => {
                let what = match ending {
                    Ending::NamespaceTerminating => "its namespace is being deleted",
                    Ending::AccountTerminating => "it is being deleted",
                    Ending::AccountMissing => "it does not exist",
                };
                format!(
                    "; ServiceAccount `{account}` cannot act any more: {what}; only objects in the namespace of the instance are \
                     deleted without it: create the ServiceAccount again and grant it the permission, or delete the object"
                )
            }
        }
    }
}

fn grant(account: &ServiceAccount) -> String {
    format!(
        "; grant the permission to ServiceAccount `{account}`: `kross rbac FILE --account` prints what it needs"
    )
}

impl Pass<'_> {
    /// Finds out which ServiceAccount acts for the instance.
    ///
    /// # Errors
    /// The definition asks for one, and there is none that could be used. Nothing of the instance may be read or written then.
    pub(super) fn resolve_account(&mut self) -> Result<(), InstanceError> {
        let found = self.find_account()?;
        self.memory.readable = found.as_ref().map(|_| HashSet::new());
        let Some(account) = found else { return Ok(()) };
        let own = self.context.client.clone();
        let client = own.impersonating(&account).ok_or(AccountError::Empty)?;
        let home = self.instance.namespace().filter(|_| self.phase == LifecyclePhase::Deletion);
        let deleted_home = home.cloned();
        self.clients.act_as(ActingAccount { account, client, own, deleted_home, ending: OnceCell::new() });
        Ok(())
    }

    fn find_account(&self) -> Result<Option<ServiceAccount>, AccountError> {
        let (instance, planning) = (self.instance.value(), self.context.planner.settings());
        let graph = self.served.deletion_graph();
        let (template, graph) = match (graph, &self.served.recorded_access) {
            (Some(graph), _) => (graph.account.as_ref(), Some(graph)),
            (None, DefinedAccess::Account(template)) => (Some(&**template), None),
            (None, DefinedAccess::Nothing) => (None, None),
            (None, DefinedAccess::Invalid) => return Err(AccountError::Definition),
        };
        match (template, &self.context.settings.default_service_account) {
            (Some(template), _) => account(template, graph, instance, planning).map(Some),
            (None, Some(name)) => default_account(name, instance).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Reviews the access of the ServiceAccount to objects that were observed and not reviewed yet. Until then, and if it may
    /// not get them, no expression sees them.
    pub(super) async fn review_objects(&mut self) {
        let Some(acting) = self.clients.acting() else { return };
        let unreviewed = self.observation.observed.objects.iter();
        let unreviewed = unreviewed.filter(|(_, object)| object.withheld == Some(Withheld::Unreviewed));
        let mut by_place: BTreeMap<_, Vec<ObjectKey>> = BTreeMap::new();
        for (key, object) in unreviewed {
            let place = (key.group.clone(), version_of(object.api_version()), key.kind.clone());
            by_place.entry((place, key.namespace.clone())).or_default().push(key.clone());
        }
        let mut reviewed = Vec::new();
        for (((group, version, kind), _), keys) in by_place {
            let kind = self.context.client.kind(&group, Some(&version), &kind).await;
            let context = self.context;
            // Boxed one by one: the compiler cannot infer the lifetimes of a stream of borrowing futures.
            let reviews = keys.into_iter().map(|key| {
                let kind = kind.clone();
                let review = async move {
                    let review = review_object(context, acting, kind, &key).await;
                    (key, review)
                };
                review.boxed()
            });
            let reviews: Vec<BoxFuture<'_, _>> = reviews.collect();
            let reviews = stream::iter(reviews).buffer_unordered(CONCURRENT_REVIEWS);
            reviewed.extend(reviews.collect::<Vec<_>>().await);
        }
        for (key, review) in reviewed {
            self.observe_review(key, review);
        }
    }

    fn observe_review(&mut self, key: ObjectKey, review: Result<(), Denial>) {
        let Some(object) = self.observation.observed.objects.get_mut(&key) else { return };
        match review {
            Ok(()) => {
                object.withheld = None;
                self.memory.denied.remove(&key);
                if let Some(readable) = &mut self.memory.readable {
                    readable.insert(key);
                }
            }
            Err(Denial { reason, message }) => {
                let before = self.memory.denied.get(&key).filter(|before| before.reason == reason);
                let since = before.map_or_else(Timestamp::now, |before| before.since);
                let failure =
                    OperationFailure { node: "".into(), operation: Operation::Get, reason, message, since };
                object.withheld = Some(Withheld::Denied(failure.clone()));
                self.memory.denied.insert(key, failure);
            }
        }
    }

    /// Whether the ServiceAccount may read what an external reference selects in the hub.
    ///
    /// # Errors
    /// It may not, or that is not known.
    pub(super) async fn review_read(&self, read: &ExternalRead) -> Result<(), Denial> {
        let Some(acting) = self.clients.acting().filter(|_| read.cluster().is_local()) else { return Ok(()) };
        let client = &self.context.client;
        let reviews = &self.context.access_reviews;
        let unreviewed = |error: ApiError| Denial::unreviewed(acting, &error);
        match read {
            ExternalRead::Object { key, version } => {
                let kind = client.kind(&key.group, Some(version), &key.kind).await;
                let kind = kind.map_err(|error| Denial::unknown_kind(&error))?;
                let access = object_access(&kind, key);
                let allowed = reviews.may_get(client, &acting.account, &access).await.map_err(unreviewed)?;
                if allowed { Ok(()) } else { Err(Denial::of(acting, &access)) }
            }
            ExternalRead::Collection(query) => {
                let kind = client.kind(&query.group, Some(&query.version), &query.kind).await;
                let namespace = query.namespace.as_ref().map(ToString::to_string);
                let kind = kind.map_err(|error| Denial::unknown_kind(&error))?;
                let mut lists = vec![list_access(&kind, namespace)];
                if query.namespace_selector().is_some() {
                    lists.push(list_access(&kinds::namespace(), None));
                }
                for access in lists {
                    if !reviews.may(client, &acting.account, &access).await.map_err(unreviewed)? {
                        return Err(Denial::of(acting, &access));
                    }
                }
                Ok(())
            }
        }
    }

    /// Why a request in the hub failed, with what to do about it.
    pub(super) fn explained(&self, key: &ObjectKey, error: &ApiError) -> String {
        let acting = self.clients.acting().filter(|_| key.cluster.is_local());
        let advice = acting.map(|acting| acting.advice(error)).unwrap_or_default();
        format!("{}{advice}", error.message())
    }
}

/// Whether the account may get an object of the instance.
async fn review_object(
    context: &Context,
    acting: &ActingAccount,
    kind: Result<Arc<ApiKind>, ApiError>,
    key: &ObjectKey,
) -> Result<(), Denial> {
    let kind = kind.map_err(|error| Denial::unknown_kind(&error))?;
    let access = object_access(&kind, key);
    match context.access_reviews.may_get(&context.client, &acting.account, &access).await {
        Ok(true) => Ok(()),
        // Its roles were deleted, and what reads the objects of the namespace cannot be created there any more.
        Ok(false)
            if acting.is_at_home(key) && acting.ending().await == Some(Ending::NamespaceTerminating) =>
        {
            Ok(())
        }
        Ok(false) => Err(Denial::of(acting, &access)),
        Err(error) => Err(Denial::unreviewed(acting, &error)),
    }
}

/// Why something is not given to expressions.
#[derive(Debug)]
pub(super) struct Denial {
    pub(super) reason: FailureReason,
    pub(super) message: Text,
}

impl Denial {
    /// The account may not.
    fn of(ActingAccount { account, .. }: &ActingAccount, access: &ResourceAccess) -> Self {
        let ResourceAccess { verb, group, resource, namespace, .. } = access;
        let scope = match namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let advice = grant(account);
        let message = format!(
            "ServiceAccount `{account}` cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}{advice}"
        );
        Self { reason: FailureReason::Forbidden, message: message.into() }
    }

    /// The kind is not served, or that is not known.
    fn unknown_kind(error: &ApiError) -> Self {
        Self { reason: error.reason(), message: error.message().into() }
    }

    /// Whether it may is not known.
    fn unreviewed(ActingAccount { account, .. }: &ActingAccount, error: &ApiError) -> Self {
        let advice = match error.reason() {
            FailureReason::Forbidden => {
                "; `kross rbac FILE` prints the permissions that the controller needs"
            }
            _ => "",
        };
        let message =
            format!("cannot review the access of ServiceAccount `{account}`: {}{advice}", error.message());
        Self { reason: error.reason(), message: message.into() }
    }
}

fn object_access(kind: &ApiKind, key: &ObjectKey) -> ResourceAccess {
    // For authorizers a Namespace is in itself.
    let is_namespace = kind.group.is_empty() && *kind.plural == *"namespaces";
    let namespace = key.namespace.as_ref().or(is_namespace.then_some(&key.name));
    ResourceAccess {
        verb: "get",
        group: kind.group.to_string(),
        resource: kind.plural.to_string(),
        namespace: namespace.map(ToString::to_string),
        name: Some(key.name.to_string()),
    }
}

fn list_access(kind: &ApiKind, namespace: Option<String>) -> ResourceAccess {
    let (group, resource) = (kind.group.to_string(), kind.plural.to_string());
    ResourceAccess { verb: "list", group, resource, namespace, name: None }
}
