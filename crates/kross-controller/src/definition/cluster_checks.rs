//! Checks the clusters that a definition references without an instance: whether they are connected, whether the graph fits
//! their schemas and permissions, and which conditions follow from that.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kross_api::{
    ConditionStatus, ConditionType, ConnectStep, ConnectionFailure, Reason, ResolvedCredentials,
    ResourceGraphDefinitionSpec, Scope, SecretAddress, lower_placement,
};
use kross_cluster::{ClusterClient, ClusterHandle, ConnectionState};
use kross_diagnostics::Diagnostics;
use kross_schema::{GroupVersionKind, SchemaResolver};
use kross_value::Text;
use parking_lot::Mutex;

use super::status::StatusReport;
use crate::context::Context;
use crate::preflight::{ClusterSchemas, Findings, Needs, Place, PreflightResult, Requester};

/// The message of the conditions about clusters if none is known without an instance.
const DEFERRED: &str =
    "every cluster reference depends on an instance: it is resolved and validated per instance";

/// The handles of every definition to the clusters that it references.
///
/// # Lock order
///
/// The lock is a leaf: handles are created and dropped outside of it, since that takes the locks of the registry.
#[derive(Debug, Default)]
pub(crate) struct ClusterHandles(Mutex<HashMap<Text, HashMap<SecretAddress, Arc<ClusterHandle>>>>);

impl ClusterHandles {
    /// Holds the clusters that a definition references, and releases those that it no longer does.
    fn hold(
        &self,
        context: &Context,
        definition: &Text,
        wanted: &[SecretAddress],
    ) -> Vec<Arc<ClusterHandle>> {
        if wanted.is_empty() {
            self.release(definition);
            return Vec::new();
        }
        let hold = |secret| Arc::new(context.clusters.hold(secret));
        let handles: Vec<Arc<ClusterHandle>> = wanted.iter().map(hold).collect();
        let held = wanted.iter().cloned().zip(handles.iter().cloned()).collect();
        let replaced = self.0.lock().insert(definition.clone(), held);
        // Only now, so that no cluster is without a handle in between.
        drop(replaced);
        handles
    }

    /// Releases the clusters of a definition.
    pub(crate) fn release(&self, definition: &str) {
        let released = self.0.lock().remove(definition);
        drop(released);
    }

    /// The handle of any definition to the cluster of a Secret.
    fn find(&self, secret: &SecretAddress) -> Option<Arc<ClusterHandle>> {
        self.0.lock().values().find_map(|held| held.get(secret).cloned())
    }

    /// The definitions that reference a Secret.
    pub(crate) fn using(&self, secret: &SecretAddress) -> Vec<Text> {
        let held = self.0.lock();
        held.iter().filter(|(_, held)| held.contains_key(secret)).map(|(name, _)| name.clone()).collect()
    }
}

/// The checks of the clusters that a spec references.
#[derive(Debug)]
pub(super) struct ClusterChecks {
    /// The clusters that are known without an instance.
    pub(super) clusters: Vec<ReferencedCluster>,
}

/// A cluster that a spec references.
#[derive(Debug)]
pub(super) struct ReferencedCluster {
    pub(super) secret: SecretAddress,
    /// The name that messages use.
    pub(super) display: String,
    pub(super) state: CheckState,
    /// What people should know about the connected cluster, which is used nevertheless.
    pub(super) warning: Option<Text>,
}

/// How far the check of a cluster is.
#[derive(Debug)]
pub(super) enum CheckState {
    /// The first attempt to connect is running.
    Connecting,
    /// The cluster is not connected.
    NotConnected(ConnectionFailure),
    /// The cluster is connected, and its preflight is running.
    Preflight,
    /// The cluster is connected, and its preflight failed.
    PreflightFailed(Text),
    /// The preflight has finished.
    Checked(Arc<Findings>),
}

/// Whether a graph is compatible with the clusters that its spec references.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not all clusters are checked.
    Pending,
    /// It is.
    Compatible,
    /// It is not, and why.
    Incompatible(Reason, String),
}

/// Whether a spec references any remote cluster.
pub(super) fn has_references(context: &Context, spec: &ResourceGraphDefinitionSpec) -> bool {
    // Invalid references are reported when the spec is compiled.
    !lower_placement(spec, context.settings.compile.placement, &mut Diagnostics::new()).is_local()
}

/// Checks the clusters that a spec references, and starts to connect and to preflight them where nothing has yet. None where the
/// spec references none.
pub(super) fn check(
    context: &Context,
    definition: &Text,
    spec: &ResourceGraphDefinitionSpec,
) -> Option<ClusterChecks> {
    let Some(named) = named_clusters(context, spec) else {
        context.cluster_handles.release(definition);
        return None;
    };
    let secrets: Vec<SecretAddress> = named.keys().cloned().collect();
    let handles = context.cluster_handles.hold(context, definition, &secrets);
    let clusters = named.into_iter().zip(handles).map(|((secret, named), handle)| {
        named.checked(secret, &handle, |client, resources| {
            let needs = Arc::new(Needs::of(spec, resources, &Place::Anywhere));
            context.preflights.request(client, &needs, Requester::Definition(definition.clone()))
        })
    });
    Some(ClusterChecks { clusters: clusters.collect() })
}

/// What is known already of the clusters that a spec references. Nothing is started, so clusters that no definition uses count as
/// being connected. None where the spec references none.
pub(super) fn known(context: &Context, spec: &ResourceGraphDefinitionSpec) -> Option<ClusterChecks> {
    let clusters = named_clusters(context, spec)?.into_iter().map(|(secret, named)| {
        match context.cluster_handles.find(&secret) {
            Some(handle) => named.checked(secret, &handle, |client, resources| {
                context.preflights.known(client, &Arc::new(Needs::of(spec, resources, &Place::Anywhere)))
            }),
            None => {
                let display = named.display;
                ReferencedCluster { secret, display, state: CheckState::Connecting, warning: None }
            }
        }
    });
    Some(ClusterChecks { clusters: clusters.collect() })
}

/// A cluster that a spec names without an instance.
struct NamedCluster {
    display: String,
    /// The resources in it, by index, and whether they are watched.
    resources: Vec<(usize, bool)>,
}

impl NamedCluster {
    /// How far its check is, if `preflight` gives the result of the preflight.
    fn checked(
        self,
        secret: SecretAddress,
        handle: &ClusterHandle,
        preflight: impl FnOnce(&ClusterClient, Vec<(usize, bool)>) -> PreflightResult,
    ) -> ReferencedCluster {
        let Self { display, resources } = self;
        let connection = handle.state(kross_cluster::SecretConsumer::Definition);
        let warning = connection.connected().and_then(|connection| connection.identity_conflict.clone());
        let state = match connection {
            ConnectionState::Connecting { .. } => CheckState::Connecting,
            ConnectionState::NotConnected { failure, .. } => CheckState::NotConnected(failure),
            ConnectionState::Connected(connection) => match preflight(&connection.client, resources) {
                PreflightResult::Pending => CheckState::Preflight,
                PreflightResult::Failed(message) => CheckState::PreflightFailed(message),
                PreflightResult::Known(findings) => CheckState::Checked(findings),
            },
        };
        ReferencedCluster { secret, display, state, warning }
    }
}

/// The clusters that a spec names without an instance. None where it references no cluster at all.
fn named_clusters(
    context: &Context,
    spec: &ResourceGraphDefinitionSpec,
) -> Option<BTreeMap<SecretAddress, NamedCluster>> {
    let placement = lower_placement(spec, context.settings.compile.placement, &mut Diagnostics::new());
    if placement.is_local() {
        return None;
    }
    let scope = scope(context, spec);
    let mut named: BTreeMap<SecretAddress, NamedCluster> = BTreeMap::new();
    // A reference on the definition is checked even if no resource uses it.
    let own = placement.definition.as_ref().map(|reference| (None, reference));
    let of_resources = (0..spec.resources.len())
        .filter_map(|index| placement.place(index).reference().map(|reference| (Some(index), reference)));
    for (index, reference) in own.into_iter().chain(of_resources) {
        let Some(cluster) = reference.static_cluster(scope) else { continue };
        let ResolvedCredentials::Secret(secret) = cluster.credentials else { continue };
        let new = || NamedCluster { display: cluster.display, resources: Vec::new() };
        let named = named.entry(secret).or_insert_with(new);
        named.resources.extend(index.map(|index| (index, cluster.poll.is_none())));
    }
    Some(named)
}

/// The scope of instances; that of an existing kind is in its schema.
fn scope(context: &Context, spec: &ResourceGraphDefinitionSpec) -> Scope {
    let existing = spec.schema.external_ref.as_ref().and_then(|existing| {
        context.schemas.resolve(&GroupVersionKind::new(&existing.api_version, &existing.kind))
    });
    match existing {
        Some(kind) if kind.namespaced => Scope::Namespaced,
        Some(_) => Scope::Cluster,
        None => spec.schema.scope(),
    }
}

impl ClusterChecks {
    /// The schemas of the clusters that are checked.
    pub(super) fn schemas(&self) -> HashMap<SecretAddress, Arc<ClusterSchemas>> {
        let checked = self.clusters.iter().filter_map(|cluster| Some((cluster, cluster.findings()?)));
        checked.map(|(cluster, findings)| (cluster.secret.clone(), Arc::clone(&findings.schemas))).collect()
    }

    /// Whether all clusters are checked.
    pub(super) fn is_complete(&self) -> bool {
        self.clusters.iter().all(|cluster| cluster.findings().is_some())
    }

    /// Whether a first attempt to connect is running.
    pub(super) fn is_connecting(&self) -> bool {
        self.clusters.iter().any(|cluster| matches!(cluster.state, CheckState::Connecting))
    }

    /// The permissions that the controller lacks in any cluster, as a message.
    fn missing_permissions(&self) -> Option<String> {
        let missing = self
            .clusters
            .iter()
            .filter_map(|cluster| cluster.findings()?.missing_permissions(&cluster.display));
        let missing: Vec<String> = missing.collect();
        (!missing.is_empty()).then(|| missing.join("; "))
    }

    /// Why the graph cannot be validated against all clusters yet.
    pub(super) fn obstacle(&self) -> Option<String> {
        let open = self.clusters.iter().find(|cluster| cluster.findings().is_none())?;
        Some(match &open.state {
            CheckState::NotConnected(failure) => failure.message(&open.display),
            CheckState::PreflightFailed(message) => message.to_string(),
            CheckState::Connecting | CheckState::Preflight | CheckState::Checked(_) => {
                format!("waiting for the schemas and permissions of cluster `{}`", open.display)
            }
        })
    }

    /// Why one of the clusters cannot be used, if one is known not to work.
    pub(super) fn failure(&self) -> Option<String> {
        self.clusters.iter().find_map(|cluster| match &cluster.state {
            CheckState::NotConnected(failure) => Some(failure.message(&cluster.display)),
            CheckState::PreflightFailed(message) => Some(message.to_string()),
            CheckState::Connecting | CheckState::Preflight | CheckState::Checked(_) => None,
        })
    }

    /// Reports whether the clusters can be used. Whether the graph is compatible is reported after it is compiled.
    pub(super) fn report(&self, report: &mut StatusReport) {
        if self.clusters.is_empty() {
            for kind in ConditionType::DEFINITION_CLUSTERS {
                report.cluster(*kind, ConditionStatus::True, Reason::Deferred, DEFERRED);
            }
            return;
        }
        for kind in [ConditionType::ClusterValidated, ConditionType::ClusterAccessible] {
            self.report_one(report, kind, |cluster| cluster.connection_condition(kind));
        }
        if !self.is_complete() {
            self.report_one(
                report,
                ConditionType::StaticAnalysisComplete,
                ReferencedCluster::analysis_condition,
            );
        }
    }

    /// Reports one condition, but does not turn it to Unknown for a moment, such as after a restart.
    fn report_one(
        &self,
        report: &mut StatusReport,
        kind: ConditionType,
        condition: impl Fn(&ReferencedCluster) -> (ConditionStatus, Reason, String),
    ) {
        let (status, reason, message) = self.summarize(condition);
        let in_progress = |cluster: &ReferencedCluster| {
            matches!(cluster.state, CheckState::Connecting | CheckState::Preflight)
        };
        let passing = reason == Reason::AwaitingReconciliation || self.clusters.iter().any(in_progress);
        if status == ConditionStatus::Unknown && passing && report.is_settled(kind) {
            return;
        }
        report.cluster(kind, status, reason, &message);
    }

    /// Reports whether the graph is compatible with the clusters, and the warnings about clusters that depend on the instance.
    pub(super) fn report_analysis(
        &self,
        report: &mut StatusReport,
        verdict: &Verdict,
        warnings: Option<&str>,
    ) {
        let kind = ConditionType::StaticAnalysisComplete;
        match verdict {
            Verdict::Compatible => {
                let names: Vec<String> =
                    self.clusters.iter().map(|cluster| format!("cluster `{}`", cluster.display)).collect();
                let (reason, message) = if names.is_empty() {
                    (Reason::Deferred, DEFERRED.to_owned())
                } else {
                    let names = names.join(", ");
                    (Reason::Analyzed, format!("the graph fits the schemas and permissions of {names}"))
                };
                report.analyzed(reason, &message, warnings);
            }
            Verdict::Incompatible(reason, message) => {
                report.cluster(kind, ConditionStatus::False, *reason, message);
            }
            // `report` has said why.
            Verdict::Pending => {}
        }
    }

    /// Whether a graph that was compiled against the clusters' schemas is compatible; `mismatch` is what that found.
    pub(super) fn verdict(&self, mismatch: Option<&str>) -> Verdict {
        if !self.is_complete() {
            return Verdict::Pending;
        }
        if let Some(mismatch) = mismatch {
            return Verdict::Incompatible(Reason::SchemaMismatch, mismatch.to_owned());
        }
        match self.missing_permissions() {
            Some(missing) => Verdict::Incompatible(Reason::PermissionsMissing, missing),
            None => Verdict::Compatible,
        }
    }

    /// A text that changes when the schemas of any cluster change.
    pub(super) fn fingerprint(&self) -> Text {
        let mut text = String::new();
        for cluster in &self.clusters {
            let fingerprint = cluster.findings().map_or("?", |findings| findings.fingerprint());
            text.push_str(&format!("{}#{}={fingerprint};", cluster.secret, cluster.secret.key));
        }
        text.into()
    }

    /// One condition for all clusters: the worst comes first and decides, and the message names each cluster.
    fn summarize(
        &self,
        condition: impl Fn(&ReferencedCluster) -> (ConditionStatus, Reason, String),
    ) -> (ConditionStatus, Reason, String) {
        let mut found: Vec<_> = self.clusters.iter().map(condition).collect();
        found.sort_by_key(|(status, ..)| match status {
            ConditionStatus::False => 0,
            ConditionStatus::Unknown => 1,
            ConditionStatus::True => 2,
        });
        let worst = found.first().map(|(status, reason, _)| (*status, *reason));
        let (status, reason) = worst.unwrap_or((ConditionStatus::True, Reason::Deferred));
        let messages: Vec<&str> = found.iter().map(|(_, _, message)| message.as_str()).collect();
        (status, reason, messages.join("; "))
    }
}

impl ReferencedCluster {
    fn findings(&self) -> Option<&Arc<Findings>> {
        match &self.state {
            CheckState::Checked(findings) => Some(findings),
            CheckState::Connecting
            | CheckState::NotConnected(_)
            | CheckState::Preflight
            | CheckState::PreflightFailed(_) => None,
        }
    }

    /// `ClusterValidated` or `ClusterAccessible`, which follow from the connection alone.
    fn connection_condition(&self, kind: ConditionType) -> (ConditionStatus, Reason, String) {
        let display = &self.display;
        match &self.state {
            CheckState::Connecting => {
                let message = format!("cluster `{display}`: connecting");
                (ConditionStatus::Unknown, Reason::AwaitingReconciliation, message)
            }
            CheckState::NotConnected(failure) if failure.step.definition_condition() == kind => {
                (ConditionStatus::False, failure.condition_reason(), failure.message(display))
            }
            // A cluster that refuses a credential is reachable.
            CheckState::NotConnected(failure) if failure.step == ConnectStep::Authenticate => {
                self.accessible()
            }
            CheckState::NotConnected(_) => {
                let message =
                    format!("cluster `{display}`: not checked, because an earlier step has not succeeded");
                (ConditionStatus::Unknown, Reason::NotReached, message)
            }
            CheckState::Preflight | CheckState::PreflightFailed(_) | CheckState::Checked(_)
                if kind == ConditionType::ClusterValidated =>
            {
                let warning = self.warning.as_ref().map_or_else(String::new, |it| format!("; warning: {it}"));
                let message = format!("cluster `{display}`: kubeconfig and credentials are good{warning}");
                (ConditionStatus::True, Reason::Validated, message)
            }
            CheckState::Preflight | CheckState::PreflightFailed(_) | CheckState::Checked(_) => {
                self.accessible()
            }
        }
    }

    fn accessible(&self) -> (ConditionStatus, Reason, String) {
        (ConditionStatus::True, Reason::Accessible, format!("cluster `{}`: reachable", self.display))
    }

    /// `StaticAnalysisComplete` before the graph was compiled against the cluster's schemas.
    fn analysis_condition(&self) -> (ConditionStatus, Reason, String) {
        let display = &self.display;
        let (reason, message) = match &self.state {
            CheckState::Connecting | CheckState::NotConnected(_) => {
                let message = format!("cluster `{display}`: not analyzed, because it is not connected");
                (Reason::NotReached, message)
            }
            CheckState::Preflight => {
                let message = format!("cluster `{display}`: reading its schemas and permissions");
                (Reason::AwaitingReconciliation, message)
            }
            CheckState::PreflightFailed(message) => (Reason::AwaitingReconciliation, message.to_string()),
            CheckState::Checked(_) => {
                let message = format!("cluster `{display}`: schemas and permissions are known");
                return (ConditionStatus::True, Reason::Analyzed, message);
            }
        };
        (ConditionStatus::Unknown, reason, message)
    }
}
