//! What all reconciles share: the client and the caches of the hub, the other clusters, the work queues, and what was
//! derived from definitions.

use std::sync::Arc;
use std::time::Duration;

use kross_api::{SecretAddress, label_version, labels};
use kross_cluster::{
    ApiKind, Backoff, Cache, Caches, ClusterClient, ClusterRegistry, Events, LeaseTransitions, ObjectKey,
    Selection, StoredObject, WorkQueue,
};
use kross_value::{Object, Value};

use crate::access_reviews::AccessReviews;
use crate::analysis::Analyses;
use crate::application::Applications;
use crate::connection_secret::ConnectionSecrets;
use crate::definition::{ClusterHandles, CrdRepairs};
use crate::graphs::{Graphs, Served};
use crate::hub_schemas::HubSchemas;
use crate::instance::{Instances, OwnGraphs, concerns_users};
use crate::key::{InstanceKey, Key, WorkloadKey};
use crate::kinds;
use crate::managed_resource::ManagedResources;
use crate::metrics::{Metrics, Sources};
use crate::openapi::DocumentStore;
use crate::permits::ClusterPermits;
use crate::planner::Planner;
use crate::preflight::{Preflights, Requesters};
use crate::secret_users::{InventoryReference, SecretUsers};
use crate::settings::Settings;
use crate::target::Targets;
use crate::token_renewal::TokenRenewals;
use crate::workload::{Workload, WorkloadKind};

/// The backoff of a definition that cannot be served yet.
const DEFINITION_BACKOFF: Backoff = Backoff { base: Duration::from_millis(200), cap: Duration::from_secs(5) };

/// What all reconciles share.
///
/// # Lock order
///
/// Every lock of this crate is a leaf: while it is held, no other lock is taken, nothing is dropped that takes one, and
/// nothing is awaited. Exceptions, each documented at its type:
///
/// - [`Preflights`]: `running`, then the locks of one preflight, then those of [`Graphs`] and of caches.
/// - [`Applications`]: its lock, then those of the caches that tell how loaded a target is.
/// - [`HubSchemas`]: `syncing`, then `served` or those of the cache of CRDs.
/// - [`OpenApi`](crate::openapi::OpenApi): two async locks, never both at once, which are held across requests.
pub(crate) struct Context {
    /// The client of the hub.
    pub(crate) client: ClusterClient,
    pub(crate) caches: Caches,
    /// The other clusters, by the Secrets with their kubeconfigs.
    pub(crate) clusters: ClusterRegistry,
    pub(crate) definition_kind: Arc<ApiKind>,
    pub(crate) revision_kind: Arc<ApiKind>,
    pub(crate) crd_kind: Arc<ApiKind>,
    pub(crate) definitions: Cache,
    pub(crate) revisions: Cache,
    pub(crate) crds: Cache,
    pub(crate) schemas: Arc<HubSchemas>,
    /// The preflights of other clusters.
    pub(crate) preflights: Preflights,
    /// What ServiceAccounts may read in the hub.
    pub(crate) access_reviews: AccessReviews,
    /// The analyses of graphs for the clusters that instances resolved.
    pub(crate) analyses: Analyses,
    /// The handles of the clusters that definitions name.
    pub(crate) cluster_handles: ClusterHandles,
    /// How often the CRDs of definitions were restored.
    pub(crate) crd_repairs: CrdRepairs,
    pub(crate) graphs: Arc<Graphs>,
    pub(crate) instances: Instances,
    /// The graphs of instances that have their own.
    pub(crate) own_graphs: OwnGraphs,
    /// What is remembered of applications between their reconciles.
    pub(crate) applications: Applications,
    /// The instances by the Secrets that their inventories name.
    pub(crate) secret_users: SecretUsers,
    /// Limits the reconciles of instances that write to one cluster.
    pub(crate) cluster_writers: ClusterPermits,
    pub(crate) definition_queue: WorkQueue<Key>,
    pub(crate) instance_queue: WorkQueue<InstanceKey>,
    /// Targets, applications and claims.
    pub(crate) workload_queue: WorkQueue<WorkloadKey>,
    pub(crate) workload: Workload,
    /// The connections of targets.
    pub(crate) targets: Targets,
    /// The managed resources that targets and claims name.
    pub(crate) managed: ManagedResources,
    /// The Secrets that targets and claims copy.
    pub(crate) connection_secrets: ConnectionSecrets,
    pub(crate) planner: Planner,
    /// The tokens of registered clusters.
    pub(crate) renewals: TokenRenewals,
    pub(crate) metrics: Metrics,
    pub(crate) settings: Settings,
    /// None if Events are disabled.
    pub(crate) events: Option<Events>,
}

impl Context {
    /// Opens the caches of definitions, revisions and CRDs. The UID identifies this hub on objects in other clusters.
    pub(crate) fn new(
        client: ClusterClient,
        hub_uid: &str,
        caches: Caches,
        settings: Settings,
        (metrics, lease_transitions): (Metrics, Option<LeaseTransitions>),
        graphs: Arc<Graphs>,
    ) -> Self {
        let (definition_kind, revision_kind, crd_kind) =
            (kinds::definition(), kinds::revision(), kinds::crd());
        let cache = |kind| caches.watch(&client, kind, Selection::All);
        let events = settings
            .condition_events
            .then(|| Events::start(client.clone(), "kro.run/resource-graph-definition-controller", "kross"));
        let definition_queue = WorkQueue::new(DEFINITION_BACKOFF);
        let instance_queue = WorkQueue::new(settings.instance_backoff);
        let definitions = cache(&definition_kind);
        let requesters = Requesters {
            definitions: definitions.clone(),
            definition_queue: definition_queue.clone(),
            graphs: Arc::clone(&graphs),
            instance_queue: instance_queue.clone(),
        };
        let clusters = ClusterRegistry::new(client.clone(), caches.clone(), settings.clusters.clone());
        let documents = Arc::<DocumentStore>::default();
        let renewals = TokenRenewals::default();
        metrics.set_sources(Sources {
            queue: instance_queue.clone(),
            caches: caches.clone(),
            clusters: clusters.clone(),
            renewals: renewals.clone(),
            client: client.clone(),
            events: events.clone(),
            graphs: Arc::clone(&graphs),
            definitions: definitions.clone(),
            hub_uid: hub_uid.into(),
            lease_transitions,
            spans: settings.spans.clone(),
        });
        Self {
            preflights: Preflights::new(settings.preflights, requesters, Arc::clone(&documents)),
            access_reviews: AccessReviews::new(settings.access_reviews),
            analyses: Analyses::default(),
            cluster_handles: ClusterHandles::default(),
            crd_repairs: CrdRepairs::default(),
            definitions,
            revisions: cache(&revision_kind),
            crds: cache(&crd_kind),
            schemas: Arc::new(HubSchemas::new(client.clone(), documents)),
            graphs,
            instances: Instances::default(),
            own_graphs: OwnGraphs::default(),
            applications: Applications::default(),
            secret_users: SecretUsers::default(),
            cluster_writers: ClusterPermits::default(),
            definition_queue,
            instance_queue,
            workload_queue: WorkQueue::new(settings.instance_backoff),
            workload: Workload::default(),
            targets: Targets::default(),
            managed: ManagedResources::default(),
            connection_secrets: ConnectionSecrets::new(&settings.caches),
            renewals,
            planner: Planner::new(planner_settings(&settings, hub_uid), settings.plan_timeout),
            clusters,
            definition_kind,
            revision_kind,
            crd_kind,
            client,
            caches,
            metrics,
            settings,
            events,
        }
    }

    /// Requeues every instance of a definition.
    pub(crate) fn requeue_instances_of(&self, served: &Served) {
        // Also those in a cache that has not synced: their events may have come before the definition was served.
        for instance in served.instances.known() {
            let key = instance.key(self.client.cluster());
            if !self.secret_users.contains(&key) {
                self.observe_inventory(&key, &instance);
            }
            self.instance_queue.add(&InstanceKey(key));
        }
    }

    /// Indexes the Secrets and targets that the inventory of an instance names. Returns whether one of the Secrets has its first
    /// user.
    pub(crate) fn observe_inventory(&self, key: &ObjectKey, instance: &StoredObject) -> bool {
        let changed = self.secret_users.observe(key, instance);
        self.requeue_references(&changed);
        changed.iter().any(|changed| matches!(changed, InventoryReference::Secret(_)))
    }

    /// The inventory of an instance that was deleted or released names no Secret any more.
    pub(crate) fn forget_inventory(&self, key: &ObjectKey) {
        self.requeue_references(&self.secret_users.forget(key));
    }

    fn requeue_references(&self, references: &[InventoryReference]) {
        for reference in references {
            match reference {
                InventoryReference::Secret(secret) => {
                    self.definition_queue.add(&Key::Secret(secret.clone()));
                }
                InventoryReference::Target { namespace, name } => {
                    let (namespace, name) = (namespace.clone(), name.clone());
                    let target = WorkloadKey { kind: WorkloadKind::Target, namespace, name };
                    self.workload_queue.add(&target);
                    // The claim of the same name may wait to copy the Secret again.
                    self.workload_queue.add(&WorkloadKey { kind: WorkloadKind::Claim, ..target.clone() });
                    // Its connection Secret may ask for protection.
                    if let Some(secret) = self.targets.secret(&target) {
                        self.definition_queue.add(&Key::Secret(secret));
                    }
                }
            }
        }
    }

    /// Requeues the targets whose connection Secret this is.
    pub(crate) fn requeue_targets_of(&self, secret: &SecretAddress) {
        self.targets.using(secret).iter().for_each(|target| self.workload_queue.add(target));
    }

    /// Requeues the instances and definitions that use the cluster of a Secret.
    pub(crate) fn requeue_users_of(&self, secret: &SecretAddress) {
        for instance in self.instances.cluster_users(secret) {
            self.requeue_for_cluster(instance);
        }
        for definition in self.cluster_handles.using(secret) {
            self.definition_queue.add(&Key::Definition(definition));
        }
    }

    /// Requeues an instance because of an event in one of its remote clusters. If it uses many, it waits a moment for others.
    pub(crate) fn requeue_for_cluster(&self, instance: ObjectKey) {
        let wait = self.instances.batch_wait(&instance);
        if wait.is_zero() {
            self.instance_queue.add(&InstanceKey(instance));
        } else {
            self.instance_queue.add_after(&InstanceKey(instance), wait);
        }
    }

    /// Requeues the instances that use a target, or choose among the targets of its namespace, if it changed for them.
    pub(crate) fn requeue_target_users(&self, old: Option<&StoredObject>, new: Option<&StoredObject>) {
        if let (Some(old), Some(new)) = (old, new)
            && !concerns_users(old, new)
        {
            return;
        }
        let Some(target) = new.or(old) else { return };
        let Some(namespace) = target.namespace() else { return };
        for instance in self.instances.target_users(namespace, target.name()) {
            self.instance_queue.add(&InstanceKey(instance));
        }
    }

    /// Requeues the instances that use any target: they are listed now, or their CRD was deleted.
    pub(crate) fn requeue_all_target_users(&self) {
        for instance in self.instances.all_target_users() {
            self.instance_queue.add(&InstanceKey(instance));
        }
    }

    /// The labels of every object that the controller creates.
    pub(crate) fn ownership_labels(&self) -> Object {
        let version = label_version(&self.settings.kro_version);
        [(labels::OWNED, Value::from(labels::OWNED_TRUE)), (labels::KRO_VERSION, Value::from(version))]
            .into_iter()
            .collect()
    }
}

fn planner_settings(settings: &Settings, hub_uid: &str) -> kross_plan::Settings {
    kross_plan::Settings {
        version: settings.kro_version.as_str().into(),
        hub_uid: hub_uid.into(),
        max_collection_size: settings.max_collection_size,
        no_cross_namespace: settings.no_cross_namespace,
        limits: settings.limits,
        ..kross_plan::Settings::default()
    }
}
