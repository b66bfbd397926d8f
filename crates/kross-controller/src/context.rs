//! What every reconcile shares: the cluster that the controller runs in, the copies of its definitions, revisions and CRDs,
//! and what was made of them.

use std::sync::Arc;
use std::time::Duration;

use kross_api::{SecretAddress, label_version, labels};
use kross_cluster::{
    ApiKind, Backoff, Cache, Caches, ClusterClient, ClusterRegistry, Events, Selection, WorkQueue,
};
use kross_value::{Object, Value};

use crate::analysis::Analyses;
use crate::definition::Links;
use crate::graphs::{Graphs, Served};
use crate::hub_schemas::HubSchemas;
use crate::instance::Instances;
use crate::key::{InstanceKey, Key};
use crate::kinds;
use crate::metrics::{Metrics, Sources};
use crate::openapi::DocumentStore;
use crate::preflight::{Preflights, Requesters};
use crate::settings::Settings;

/// A definition that cannot be served yet is tried again at least this often.
const DEFINITION_BACKOFF: Backoff = Backoff { base: Duration::from_millis(200), cap: Duration::from_secs(5) };

/// The cluster that the controller runs in.
pub(crate) struct Context {
    pub(crate) client: ClusterClient,
    pub(crate) caches: Caches,
    /// The clusters that Secrets lead to.
    pub(crate) clusters: ClusterRegistry,
    pub(crate) definition_kind: Arc<ApiKind>,
    pub(crate) revision_kind: Arc<ApiKind>,
    pub(crate) crd_kind: Arc<ApiKind>,
    pub(crate) definitions: Cache,
    pub(crate) revisions: Cache,
    pub(crate) crds: Cache,
    pub(crate) schemas: Arc<HubSchemas>,
    /// What other clusters have to say about graphs.
    pub(crate) preflights: Preflights,
    /// What came of holding graphs to the clusters of instances.
    pub(crate) analyses: Analyses,
    /// The clusters that definitions name.
    pub(crate) links: Links,
    pub(crate) graphs: Arc<Graphs>,
    pub(crate) instances: Instances,
    pub(crate) definition_queue: WorkQueue<Key>,
    pub(crate) instance_queue: WorkQueue<InstanceKey>,
    /// What every plan takes for granted.
    pub(crate) planning: kross_plan::Settings,
    pub(crate) metrics: Metrics,
    pub(crate) settings: Settings,
    /// None where Events are off.
    pub(crate) events: Option<Events>,
}

impl Context {
    /// Begins to watch. The UID is what tells this hub from others.
    pub(crate) fn new(
        (client, uid): (ClusterClient, &str),
        caches: Caches,
        settings: Settings,
        metrics: Metrics,
        graphs: Arc<Graphs>,
    ) -> Self {
        let (definition_kind, revision_kind, crd_kind) =
            (kinds::definition(), kinds::revision(), kinds::crd());
        let watch = |kind| caches.watch(&client, kind, Selection::All);
        let events = settings
            .condition_events
            .then(|| Events::start(client.clone(), "kro.run/resource-graph-definition-controller", "kross"));
        let definition_queue = WorkQueue::new(DEFINITION_BACKOFF);
        let instance_queue = WorkQueue::new(settings.instance_backoff);
        let definitions = watch(&definition_kind);
        let requesters = Requesters {
            definitions: definitions.clone(),
            definition_queue: definition_queue.clone(),
            graphs: Arc::clone(&graphs),
            instance_queue: instance_queue.clone(),
        };
        let clusters = ClusterRegistry::new(client.clone(), caches.clone(), settings.clusters.clone());
        let documents = Arc::<DocumentStore>::default();
        metrics.show(Sources {
            queue: instance_queue.clone(),
            caches: caches.clone(),
            clusters: clusters.clone(),
            client: client.clone(),
            events: events.clone(),
            graphs: Arc::clone(&graphs),
        });
        Self {
            preflights: Preflights::new(settings.preflights, requesters, Arc::clone(&documents)),
            analyses: Analyses::default(),
            links: Links::default(),
            definitions,
            revisions: watch(&revision_kind),
            crds: watch(&crd_kind),
            schemas: Arc::new(HubSchemas::new(client.clone(), documents)),
            graphs,
            instances: Instances::default(),
            definition_queue,
            instance_queue,
            planning: kross_plan::Settings {
                version: settings.kro_version.as_str().into(),
                hub_uid: uid.into(),
                max_collection_size: settings.max_collection_size,
                ..kross_plan::Settings::default()
            },
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

    /// Has every instance of a definition looked at.
    pub(crate) fn wake_instances(&self, served: &Served) {
        // Also those of a copy that is not complete: what it has was told already, perhaps when nobody served it yet.
        for instance in served.instances.known() {
            self.instance_queue.add(&InstanceKey(instance.key(self.client.cluster())));
        }
    }

    /// Has everybody look again who uses the cluster of a Secret.
    pub(crate) fn wake_users_of(&self, secret: &SecretAddress) {
        for instance in self.instances.cluster_users(secret) {
            self.instance_queue.add(&InstanceKey(instance));
        }
        for definition in self.links.using(secret) {
            self.definition_queue.add(&Key::Definition(definition));
        }
    }

    /// The labels of everything that the controller makes.
    pub(crate) fn ownership_labels(&self) -> Object {
        let version = label_version(&self.settings.kro_version);
        [(labels::OWNED, Value::from(labels::OWNED_TRUE)), (labels::KRO_VERSION, Value::from(version))]
            .into_iter()
            .collect()
    }
}
