//! A control plane that one test at a time uses alone, to start and stop controllers on it or to read their metrics.

use std::time::{Duration, Instant};

use kross_testing::{shared, wait};
use kube::api::DynamicObject;
use serde_json::{Value as Json, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::setup::{Objects, Running, install};

pub const PLANE: &str = "restart";

/// Whether the CRDs are installed. A test holds the lock while it uses the control plane.
static INSTALLED: Mutex<bool> = Mutex::const_new(false);

/// Waits until no other test uses the control plane.
pub async fn exclusive() -> (Objects, MutexGuard<'static, bool>) {
    let objects = Objects { client: shared(PLANE).await.client().await.unwrap() };
    let mut installed = INSTALLED.lock().await;
    if !std::mem::replace(&mut *installed, true) {
        install(&objects.client).await;
    }
    (objects, installed)
}

/// Creates an instance of a kind of `kro.run/v1alpha1`.
pub async fn create_instance(api: &kube::Api<DynamicObject>, kind: &str, name: &str) {
    let object =
        json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": {}});
    crate::setup::create_once_served(api, object).await;
}

/// Waits until the queue is empty and no reconcile ends for a second. A reconcile is counted when it ends, after it wrote
/// the status.
pub async fn until_idle(running: &Running) {
    const IDLE_FOR: Duration = Duration::from_secs(1);
    let mut last = (-1.0, Instant::now());
    wait::until_true("the instance queue to be idle", || {
        let reconciles = running.metric("instance_reconcile_total");
        if reconciles != last.0 || running.metric("dynamic_controller_queue_length") != 0.0 {
            last = (reconciles, Instant::now());
        }
        last.1.elapsed() > IDLE_FOR
    })
    .await;
}

pub fn is_active(instance: &Json) -> bool {
    instance["status"]["state"] == "ACTIVE"
}
