//! The clusters that a definition names without an instance: whether they can be used, what they have to say about the
//! graph, and which conditions follow from that.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kross_api::{
    ConditionStatus, ConditionType, Reason, ResolvedCredentials, ResourceGraphDefinitionSpec, Scope,
    SecretAddress, lower_placement,
};
use kross_cluster::{ClusterHandle, ConnectStep, ConnectionState, Disconnected};
use kross_diagnostics::Diagnostics;
use kross_schema::{GroupVersionKind, SchemaResolver};
use kross_value::Text;
use parking_lot::Mutex;

use super::status::StatusReport;
use crate::context::Context;
use crate::preflight::{ClusterSchemas, Findings, Needs, Place, PreflightResult, Requester};

/// The holds of every definition on the clusters that it names.
///
/// # Lock order
///
/// The lock is a leaf: cluster handles are made, cloned and dropped outside it, since that takes the locks of the registry.
#[derive(Debug, Default)]
pub(crate) struct Links(Mutex<HashMap<Text, HashMap<SecretAddress, ClusterHandle>>>);

impl Links {
    /// Holds the clusters of a definition, and lets go of those that it names no more.
    fn hold(&self, context: &Context, definition: &Text, wanted: &[SecretAddress]) -> Vec<ClusterHandle> {
        if wanted.is_empty() {
            self.forget(definition);
            return Vec::new();
        }
        let handles: Vec<ClusterHandle> = wanted.iter().map(|secret| context.clusters.hold(secret)).collect();
        let kept = wanted.iter().cloned().zip(handles.iter().cloned()).collect();
        let before = self.0.lock().insert(definition.clone(), kept);
        // After the new ones are held, so that no cluster is without a handle in between, and outside the lock.
        drop(before);
        handles
    }

    /// Lets go of a definition's clusters.
    pub(crate) fn forget(&self, definition: &str) {
        let before = self.0.lock().remove(definition);
        drop(before);
    }

    /// The definitions that name a Secret.
    pub(crate) fn using(&self, secret: &SecretAddress) -> Vec<Text> {
        let links = self.0.lock();
        links.iter().filter(|(_, held)| held.contains_key(secret)).map(|(name, _)| name.clone()).collect()
    }
}

/// The clusters that a spec refers to.
#[derive(Debug)]
pub(super) struct Clusters {
    /// Those that are known without an instance.
    pub(super) sites: Vec<Site>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) secret: SecretAddress,
    /// What messages call it.
    pub(super) display: String,
    pub(super) standing: Standing,
}

/// How far it got with a cluster.
#[derive(Debug)]
pub(super) enum Standing {
    /// It is being connected.
    Connecting,
    /// It is not connected.
    Down(Disconnected),
    /// It is connected and being asked.
    Asking,
    /// It is connected and cannot be asked.
    Silent(Text),
    /// It has answered.
    Known(Arc<Findings>),
}

/// What the clusters say to a graph.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not all have answered.
    Open,
    /// It fits.
    Fit,
    /// It does not, and why.
    Unfit(Reason, String),
}

/// Whether a spec refers to any cluster.
pub(super) fn refers(context: &Context, spec: &ResourceGraphDefinitionSpec) -> bool {
    // Mistakes are reported where the spec is compiled.
    !lower_placement(spec, context.settings.compile.placement, &mut Diagnostics::new()).is_local()
}

/// Looks at the clusters of a spec, and begins to connect and to ask where nobody has. None where it refers to none.
pub(super) fn look(
    context: &Context,
    definition: &Text,
    spec: &ResourceGraphDefinitionSpec,
) -> Option<Clusters> {
    let placement = lower_placement(spec, context.settings.compile.placement, &mut Diagnostics::new());
    if placement.is_local() {
        context.links.forget(definition);
        return None;
    }
    let scope = scope(context, spec);
    let mut named: BTreeMap<SecretAddress, (String, Vec<(usize, bool)>)> = BTreeMap::new();
    // A reference on the definition that no resource follows is looked at as well.
    let own = placement.definition.as_ref().map(|reference| (None, reference));
    let followed = (0..spec.resources.len())
        .filter_map(|index| placement.place(index).reference().map(|reference| (Some(index), reference)));
    for (index, reference) in own.into_iter().chain(followed) {
        let Some(cluster) = reference.static_cluster(scope) else { continue };
        let ResolvedCredentials::Secret(secret) = cluster.credentials else { continue };
        let (_, resources) = named.entry(secret).or_insert_with(|| (cluster.display, Vec::new()));
        resources.extend(index.map(|index| (index, cluster.poll.is_none())));
    }
    let secrets: Vec<SecretAddress> = named.keys().cloned().collect();
    let holds = context.links.hold(context, definition, &secrets);
    let sites = named.into_iter().zip(holds).map(|((secret, (display, resources)), hold)| {
        let standing = match hold.state(kross_cluster::Asker::Definition) {
            ConnectionState::Connecting { .. } => Standing::Connecting,
            ConnectionState::NotConnected(down) => Standing::Down(down),
            ConnectionState::Connected(live) => {
                let needs = Arc::new(Needs::of(spec, resources, &Place::Anywhere));
                match context.preflights.request(
                    &live.client,
                    &needs,
                    Requester::Definition(definition.clone()),
                ) {
                    PreflightResult::Pending => Standing::Asking,
                    PreflightResult::Failed(message) => Standing::Silent(message),
                    PreflightResult::Known(findings) => Standing::Known(findings),
                }
            }
        };
        Site { secret, display, standing }
    });
    Some(Clusters { sites: sites.collect() })
}

/// Whether instances live in namespaces; of an existing kind, as its schema says.
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

impl Clusters {
    /// The schemas of those that have answered.
    pub(super) fn schemas(&self) -> HashMap<SecretAddress, Arc<ClusterSchemas>> {
        let known = self.sites.iter().filter_map(|site| Some((site, site.findings()?)));
        known.map(|(site, findings)| (site.secret.clone(), Arc::clone(&findings.schemas))).collect()
    }

    /// Whether all have answered.
    pub(super) fn is_known(&self) -> bool {
        self.sites.iter().all(|site| site.findings().is_some())
    }

    /// Whether one of them is about to be connected.
    pub(super) fn is_connecting(&self) -> bool {
        self.sites.iter().any(|site| matches!(site.standing, Standing::Connecting))
    }

    /// What we lack somewhere, in words.
    fn denied(&self) -> Option<String> {
        let lacking =
            self.sites.iter().filter_map(|site| site.findings()?.missing_permissions(&site.display));
        let lacking: Vec<String> = lacking.collect();
        (!lacking.is_empty()).then(|| lacking.join("; "))
    }

    /// Why the graph cannot be held to all of them yet.
    pub(super) fn obstacle(&self) -> Option<String> {
        let open = self.sites.iter().find(|site| site.findings().is_none())?;
        Some(match &open.standing {
            Standing::Down(down) => down.message.to_string(),
            Standing::Silent(message) => message.to_string(),
            Standing::Connecting | Standing::Asking | Standing::Known(_) => {
                format!("cluster `{}` has not answered yet", open.display)
            }
        })
    }

    /// Reports whether the clusters can be used. What they say about the graph is reported by whoever compiles it.
    pub(super) fn report(&self, report: &mut StatusReport) {
        if self.sites.is_empty() {
            for kind in ConditionType::DEFINITION_CLUSTERS {
                let message = "every cluster reference depends on an instance, where it is checked";
                report.cluster(*kind, ConditionStatus::True, Reason::Deferred, message);
            }
            return;
        }
        for kind in [ConditionType::ClusterValidated, ConditionType::ClusterAccessible] {
            self.report_one(report, kind, |site| site.step(kind));
        }
        if !self.is_known() {
            self.report_one(report, ConditionType::StaticAnalysisComplete, Site::analysis);
        }
    }

    /// What is only a matter of moments, as after a restart, is not worth a turn of a condition that was settled.
    fn report_one(
        &self,
        report: &mut StatusReport,
        kind: ConditionType,
        find: impl Fn(&Site) -> (ConditionStatus, Reason, String),
    ) {
        let (status, reason, message) = self.sum_up(find);
        let passing = reason == Reason::AwaitingReconciliation
            || self.sites.iter().any(|site| matches!(site.standing, Standing::Connecting | Standing::Asking));
        if status == ConditionStatus::Unknown && passing && report.is_settled(kind) {
            return;
        }
        report.cluster(kind, status, reason, &message);
    }

    /// Reports what came of holding the graph to the clusters.
    pub(super) fn report_analysis(&self, report: &mut StatusReport, verdict: &Verdict) {
        let kind = ConditionType::StaticAnalysisComplete;
        match verdict {
            Verdict::Fit if self.sites.is_empty() => {}
            Verdict::Fit => {
                let names: Vec<String> =
                    self.sites.iter().map(|site| format!("cluster `{}`", site.display)).collect();
                let message = format!("the graph fits the schemas and permissions of {}", names.join(", "));
                report.cluster(kind, ConditionStatus::True, Reason::Analyzed, &message);
            }
            Verdict::Unfit(reason, message) => {
                report.cluster(kind, ConditionStatus::False, *reason, message);
            }
            // Said already.
            Verdict::Open => {}
        }
    }

    /// What the clusters say to a graph that was held to their schemas, with what came of that.
    pub(super) fn judge(&self, mismatch: Option<&str>) -> Verdict {
        if !self.is_known() {
            return Verdict::Open;
        }
        if let Some(mismatch) = mismatch {
            return Verdict::Unfit(Reason::SchemaMismatch, mismatch.to_owned());
        }
        self.denied().map_or(Verdict::Fit, |denied| Verdict::Unfit(Reason::PermissionsMissing, denied))
    }

    /// Another text when the schemas of any of them are others.
    pub(super) fn fingerprint(&self) -> Text {
        let mut text = String::new();
        for site in &self.sites {
            let fingerprint = site.findings().map_or("?", |findings| findings.fingerprint());
            text.push_str(&format!("{}#{}={fingerprint};", site.secret, site.secret.key));
        }
        text.into()
    }

    /// One finding of all: the worst counts and comes first, and each cluster is named.
    fn sum_up(
        &self,
        find: impl Fn(&Site) -> (ConditionStatus, Reason, String),
    ) -> (ConditionStatus, Reason, String) {
        let mut found: Vec<_> = self.sites.iter().map(find).collect();
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

impl Site {
    fn findings(&self) -> Option<&Arc<Findings>> {
        match &self.standing {
            Standing::Known(findings) => Some(findings),
            Standing::Connecting | Standing::Down(_) | Standing::Asking | Standing::Silent(_) => None,
        }
    }

    /// What the way to the cluster says about one of the first two conditions.
    fn step(&self, kind: ConditionType) -> (ConditionStatus, Reason, String) {
        let (validated, display) = (kind == ConditionType::ClusterValidated, &self.display);
        let unreached = || {
            let message =
                format!("cluster `{display}`: not reached, since an earlier step has not succeeded");
            (ConditionStatus::Unknown, Reason::NotReached, message)
        };
        match &self.standing {
            Standing::Connecting => {
                let message = format!("cluster `{display}`: being connected");
                (ConditionStatus::Unknown, Reason::AwaitingReconciliation, message)
            }
            Standing::Down(down) => {
                let failed = |reason| (ConditionStatus::False, reason, down.message.to_string());
                match (down.step, validated) {
                    (ConnectStep::Secret, true) => failed(Reason::SecretNotAvailable),
                    (ConnectStep::Key, true) => failed(Reason::SecretKeyMissing),
                    (ConnectStep::Parse, true) => failed(Reason::KubeconfigInvalid),
                    (ConnectStep::Authenticate, true) => failed(Reason::AuthenticationFailed),
                    (ConnectStep::Reach, false) => failed(Reason::Unreachable),
                    (ConnectStep::Authenticate, false) => self.accessible(),
                    (ConnectStep::Secret | ConnectStep::Key | ConnectStep::Parse, false)
                    | (ConnectStep::Reach, true) => unreached(),
                }
            }
            Standing::Asking | Standing::Silent(_) | Standing::Known(_) if validated => {
                let message = format!("cluster `{display}`: kubeconfig and credentials are good");
                (ConditionStatus::True, Reason::Validated, message)
            }
            Standing::Asking | Standing::Silent(_) | Standing::Known(_) => self.accessible(),
        }
    }

    fn accessible(&self) -> (ConditionStatus, Reason, String) {
        (ConditionStatus::True, Reason::Accessible, format!("cluster `{}`: answers", self.display))
    }

    /// What is to be said of the analysis before the graph is held to the cluster.
    fn analysis(&self) -> (ConditionStatus, Reason, String) {
        let display = &self.display;
        let (reason, message) = match &self.standing {
            Standing::Connecting | Standing::Down(_) => {
                (Reason::NotReached, format!("cluster `{display}`: not analyzed, since it is not connected"))
            }
            Standing::Asking => {
                let message = format!("cluster `{display}`: its schemas and permissions are being read");
                (Reason::AwaitingReconciliation, message)
            }
            Standing::Silent(message) => (Reason::AwaitingReconciliation, message.to_string()),
            Standing::Known(_) => {
                let message = format!("cluster `{display}`: has answered");
                return (ConditionStatus::True, Reason::Analyzed, message);
            }
        };
        (ConditionStatus::Unknown, reason, message)
    }
}
