//! Control planes that all tests of one program share, and a separate namespace in them for each test. They stop when the
//! program exits.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;
use kross_local::ControlPlane;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::OnceCell;

use crate::objects;

type SharedPlane = Arc<OnceCell<&'static ControlPlane>>;

static PLANES: Mutex<Option<HashMap<String, SharedPlane>>> = Mutex::new(None);
static NEXT_NAMESPACE: AtomicU32 = AtomicU32::new(1);

/// The test program's control plane of this name, started by the first call. It has no controller manager: deleted
/// namespaces stay `Terminating` and nothing is garbage collected.
///
/// # Panics
/// The control plane does not start.
pub async fn shared(name: &str) -> &'static ControlPlane {
    let shared = {
        let mut planes = PLANES.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(planes.get_or_insert_default().entry(name.to_owned()).or_default())
    };
    shared.get_or_init(|| async { &*Box::leak(Box::new(start(name).await)) }).await
}

#[expect(clippy::panic, reason = "the test cannot run without its control plane")]
async fn start(name: &str) -> ControlPlane {
    match ControlPlane::named(name).start().await {
        Ok(plane) => plane,
        Err(error) => panic!("cannot start control plane `{name}`: {error:?}"),
    }
}

/// One cluster as one test sees it.
#[derive(Clone)]
pub struct Cluster {
    /// The control plane, shared with other tests.
    pub plane: &'static ControlPlane,
    /// A cluster-admin client on this test's runtime.
    pub client: Client,
    /// The test's namespace, which has the same name in all its clusters.
    pub namespace: String,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Cluster({:?}, namespace {})", self.plane, self.namespace)
    }
}

impl Cluster {
    /// The API of a kind in the test's namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// A hub and any number of remote clusters for one test.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The cluster that kross runs in.
    pub hub: Cluster,
    /// The test's namespace, which exists in all its clusters.
    pub namespace: String,
    remotes: BTreeMap<String, Cluster>,
}

impl Fixture {
    /// A hub without remote clusters.
    ///
    /// # Panics
    /// The hub does not start.
    pub async fn hub() -> Self {
        Self::with(&[]).await
    }

    /// A hub and remote clusters of these names. Those that do not run yet start at the same time.
    ///
    /// # Panics
    /// One of them does not start.
    pub async fn with(remotes: &[&str]) -> Self {
        // Unique within the program is enough: programs do not share control planes.
        let namespace = format!("test-{}", NEXT_NAMESPACE.fetch_add(1, Ordering::Relaxed));
        let (hub, remotes) = tokio::join!(
            cluster("hub", &namespace),
            join_all(remotes.iter().map(async |name| ((*name).to_owned(), cluster(name, &namespace).await)))
        );
        Self { hub, remotes: remotes.into_iter().collect(), namespace }
    }

    /// One of the remote clusters.
    ///
    /// # Panics
    /// The fixture was created without it.
    #[must_use]
    #[track_caller]
    #[expect(clippy::panic, reason = "a test that uses a cluster it did not start has a bug")]
    pub fn remote(&self, name: &str) -> &Cluster {
        match self.remotes.get(name) {
            Some(cluster) => cluster,
            None => panic!("no remote cluster `{name}` in this fixture"),
        }
    }
}

#[expect(clippy::panic, reason = "the test cannot run without its cluster")]
async fn cluster(name: &str, namespace: &str) -> Cluster {
    let plane = shared(name).await;
    let client = match plane.client().await {
        Ok(client) => client,
        Err(error) => panic!("cannot connect to control plane `{name}`: {error:?}"),
    };
    let namespaces = Api::all(client.clone());
    if let Err(error) = namespaces.create(&PostParams::default(), &objects::namespace(namespace)).await {
        panic!("cannot create namespace `{namespace}` in control plane `{name}`: {error:?}");
    }
    Cluster { plane, client, namespace: namespace.to_owned() }
}
