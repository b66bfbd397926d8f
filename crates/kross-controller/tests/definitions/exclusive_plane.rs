//! A control plane of its own for tests that start and stop controllers or read their metrics, one test at a time.

use std::time::{Duration, Instant};

use kross_testing::{shared, wait};
use kube::api::DynamicObject;
use serde_json::{Value as Json, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::setup::{Objects, Running, install};

pub const PLANE: &str = "restart";

/// One test after the other: each has the control plane and its controllers to itself.
static TURN: Mutex<bool> = Mutex::const_new(false);

pub async fn turn() -> (Objects, MutexGuard<'static, bool>) {
    let objects = Objects { client: shared(PLANE).await.client().await.unwrap() };
    let mut installed = TURN.lock().await;
    if !std::mem::replace(&mut *installed, true) {
        install(&objects.client).await;
    }
    (objects, installed)
}

/// Makes an object of a kind of `kro.run/v1alpha1`.
pub async fn make(api: &kube::Api<DynamicObject>, kind: &str, name: &str) {
    let object =
        json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": {}});
    crate::setup::make(api, object).await;
}

/// Waits until every instance was looked at and nobody looks any more. A pass is counted when it ends, which is after its
/// status is there.
pub async fn at_rest(running: &Running) {
    const LONG: Duration = Duration::from_secs(1);
    let mut last = (-1.0, Instant::now());
    wait::until_true("all instances to come to rest", || {
        let passes = running.metric("instance_reconcile_total");
        if passes != last.0 || running.metric("dynamic_controller_queue_length") != 0.0 {
            last = (passes, Instant::now());
        }
        last.1.elapsed() > LONG
    })
    .await;
}

pub fn is_active(instance: &Json) -> bool {
    instance["status"]["state"] == "ACTIVE"
}
