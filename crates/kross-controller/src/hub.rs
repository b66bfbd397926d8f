//! What every reconcile shares: the cluster that the controller runs in, the copies of its definitions, revisions and CRDs,
//! and what was made of them.

use std::sync::Arc;

use kross_api::{label_version, labels};
use kross_cluster::{ApiKind, Connection, Events, Selection, Watch, Watches};
use kross_value::{Object, Value};

use crate::graphs::Graphs;
use crate::kinds;
use crate::metrics::Metrics;
use crate::schemas::Schemas;
use crate::settings::Settings;

/// The cluster that the controller runs in.
pub(crate) struct Hub {
    pub(crate) connection: Connection,
    pub(crate) watches: Watches,
    pub(crate) definition_kind: Arc<ApiKind>,
    pub(crate) revision_kind: Arc<ApiKind>,
    pub(crate) crd_kind: Arc<ApiKind>,
    pub(crate) definitions: Watch,
    pub(crate) revisions: Watch,
    pub(crate) crds: Watch,
    pub(crate) schemas: Arc<Schemas>,
    pub(crate) graphs: Arc<Graphs>,
    pub(crate) metrics: Metrics,
    pub(crate) settings: Settings,
    /// None where Events are off.
    pub(crate) events: Option<Events>,
}

impl Hub {
    /// Begins to watch.
    pub(crate) fn new(
        connection: Connection,
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
        Self {
            definitions: watch(&definition_kind),
            revisions: watch(&revision_kind),
            crds: watch(&crd_kind),
            schemas: Arc::new(Schemas::new(connection.clone())),
            graphs,
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

    /// The labels of everything that the controller makes.
    pub(crate) fn ownership_labels(&self) -> Object {
        let version = label_version(&self.settings.kro_version);
        [(labels::OWNED, Value::from(labels::OWNED_TRUE)), (labels::KRO_VERSION, Value::from(version))]
            .into_iter()
            .collect()
    }
}
