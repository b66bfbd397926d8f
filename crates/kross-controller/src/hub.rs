//! What every reconcile shares: the cluster that the controller runs in, the copies of its definitions, revisions and CRDs,
//! and what was made of them.

use std::sync::Arc;

use kross_api::{SecretAddress, label_version, labels};
use kross_cluster::{ApiKind, Clusters, Connection, Events, Queue, Selection, Watch, Watches};
use kross_value::{Object, Value};

use crate::graphs::{Graphs, Served};
use crate::instance::Instances;
use crate::key::InstanceKey;
use crate::kinds;
use crate::metrics::{Metrics, Sources};
use crate::schemas::Schemas;
use crate::settings::Settings;

/// The cluster that the controller runs in.
pub(crate) struct Hub {
    pub(crate) connection: Connection,
    pub(crate) watches: Watches,
    /// The clusters that Secrets lead to.
    pub(crate) clusters: Clusters,
    pub(crate) definition_kind: Arc<ApiKind>,
    pub(crate) revision_kind: Arc<ApiKind>,
    pub(crate) crd_kind: Arc<ApiKind>,
    pub(crate) definitions: Watch,
    pub(crate) revisions: Watch,
    pub(crate) crds: Watch,
    pub(crate) schemas: Arc<Schemas>,
    pub(crate) graphs: Arc<Graphs>,
    pub(crate) instances: Instances,
    pub(crate) instance_queue: Queue<InstanceKey>,
    /// What every plan takes for granted.
    pub(crate) planning: kross_plan::Settings,
    pub(crate) metrics: Metrics,
    pub(crate) settings: Settings,
    /// None where Events are off.
    pub(crate) events: Option<Events>,
}

impl Hub {
    /// Begins to watch. The UID is what tells this hub from others.
    pub(crate) fn new(
        (connection, uid): (Connection, &str),
        watches: Watches,
        settings: Settings,
        metrics: Metrics,
        graphs: Arc<Graphs>,
    ) -> Self {
        let (definition_kind, revision_kind, crd_kind) =
            (kinds::definition(), kinds::revision(), kinds::crd());
        let watch = |kind| watches.watch(&connection, kind, Selection::All);
        let events = settings.condition_events.then(|| {
            Events::start(connection.clone(), "kro.run/resource-graph-definition-controller", "kross")
        });
        let instance_queue = Queue::new(settings.instance_backoff);
        metrics.show(Sources {
            queue: instance_queue.clone(),
            watches: watches.clone(),
            connection: connection.clone(),
            events: events.clone(),
            graphs: Arc::clone(&graphs),
        });
        Self {
            definitions: watch(&definition_kind),
            revisions: watch(&revision_kind),
            crds: watch(&crd_kind),
            schemas: Arc::new(Schemas::new(connection.clone())),
            graphs,
            instances: Instances::default(),
            instance_queue,
            planning: kross_plan::Settings {
                version: settings.kro_version.as_str().into(),
                hub_uid: uid.into(),
                max_collection_size: settings.max_collection_size,
                ..kross_plan::Settings::default()
            },
            clusters: Clusters::new(connection.clone(), watches.clone(), settings.clusters.clone()),
            definition_kind,
            revision_kind,
            crd_kind,
            connection,
            watches,
            metrics,
            settings,
            events,
        }
    }

    /// Has every instance of a definition looked at.
    pub(crate) fn wake_instances(&self, served: &Served) {
        for instance in served.instances.list().unwrap_or_default() {
            self.instance_queue.add(&InstanceKey(instance.key(self.connection.cluster())));
        }
    }

    /// Has everybody look again who uses the cluster of a Secret.
    pub(crate) fn wake_users_of(&self, secret: &SecretAddress) {
        for instance in self.instances.using(secret) {
            self.instance_queue.add(&InstanceKey(instance));
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
