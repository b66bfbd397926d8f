//! Caches while their control plane compacts its history quickly, as a busy one does, or is restarted. Each test starts
//! its own control plane.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kross_api::managers;
use kross_cluster::{
    Apply, CacheOptions, CachePhase, Caches, ClientOptions, ClusterClient, ClusterId, Delete, Lookup,
    Selection, SyncPolicy,
};
use kross_local::ControlPlane;
use kross_testing::{Fault, FaultProxy, wait};
use kross_value::Value;
use serde_json::json;

fn object(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
           "metadata": {"name": name, "namespace": "default", "labels": {"kro.run/owned": "true"}}})
    .into()
}

/// Whether the server has compacted this resource version.
async fn is_compacted(plane: &ControlPlane, version: &str) -> bool {
    let path = "/api/v1/namespaces/default/configmaps?limit=1&resourceVersionMatch=Exact&resourceVersion=";
    let request = http::Request::get(format!("{path}{version}")).body(Vec::new()).unwrap();
    match plane.client().await.unwrap().request_text(request).await {
        Ok(_) => false,
        Err(kube::Error::Api(status)) if status.code == 410 => true,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn relists_when_the_history_to_resume_from_was_compacted() {
    let plane = ControlPlane::named("forgetful")
        .api_server_flag("--etcd-compaction-interval=1s")
        .api_server_flag("--watch-cache=false")
        .start()
        .await
        .unwrap();
    let config = plane.admin().config().await.unwrap();
    let direct = ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap();
    let proxy = FaultProxy::start(plane.admin()).unwrap();
    let config = proxy.kubeconfig(plane.admin()).unwrap().config().await.unwrap();
    let client = ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap();
    let kind = direct.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let ours = Apply::by(managers::APPLYSET).force();
    for name in ["kept", "deleted"] {
        direct.apply(&kind, &object(name), ours).await.unwrap();
    }
    let caches = Caches::new(CacheOptions::default());
    let cache = caches.watch(&client, &kind, Selection::Managed);
    cache.wait_for_sync().await;
    wait::until_true("the watch to be open", || caches.states()[0].opened > 0).await;

    proxy.set(Fault::Refuse);
    direct.delete(&kind, Some("default"), "deleted", Delete::default()).await.unwrap();
    let new = direct.apply(&kind, &object("new"), ours).await.unwrap();
    // Compaction reaches the version of the last round but one, and only if something was written since.
    let mut fillers = 0;
    while !is_compacted(&plane, new.resource_version()).await {
        tokio::time::sleep(Duration::from_secs(1)).await;
        direct.apply(&kind, &object(&format!("filler-{fillers}")), ours).await.unwrap();
        fillers += 1;
    }
    proxy.set(Fault::Pass);
    wait::until_true("the cache to be in sync again", || {
        cache.get(Some("default"), "deleted") == Lookup::Absent
            && matches!(cache.get(Some("default"), "new"), Lookup::Found(_))
    })
    .await;
    let state = &caches.states()[0];
    assert!(state.lists >= 2, "the history was compacted, so it had to list again");
    assert_eq!(state.objects, 2 + fillers);
    direct.apply(&kind, &object("later"), ours).await.unwrap();
    wait::until_true("a later object to be cached", || {
        matches!(cache.get(Some("default"), "later"), Lookup::Found(_))
    })
    .await;
}

/// An API server that was killed and started again. It is killed at the end of the test.
struct Restarted(Child);

impl Restarted {
    /// The process of the API server, and a function that starts it again after it was killed.
    fn new(plane: &ControlPlane) -> (impl FnOnce() -> Self + use<>, u32) {
        let command = |process: &u32| std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let process = plane
            .processes()
            .into_iter()
            .find(|process| {
                command(process).split(|byte| *byte == 0).next().unwrap().ends_with(b"kube-apiserver")
            })
            .unwrap();
        let words = command(&process);
        let words: Vec<String> = words
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty())
            .map(|word| String::from_utf8(word.to_vec()).unwrap())
            .collect();
        let directory = plane.directory().to_owned();
        let start = move || {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).current_dir(directory).stdin(Stdio::null());
            Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
        };
        (start, process)
    }
}

impl Drop for Restarted {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_and_a_poll_miss_nothing_while_the_api_server_restarts() {
    let plane = ControlPlane::named("restarted").start().await.unwrap();
    let config = plane.admin().config().await.unwrap();
    let client = ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap();
    let kind = client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let ours = Apply::by(managers::APPLYSET).force();
    for name in ["kept", "deleted"] {
        client.apply(&kind, &object(name), ours).await.unwrap();
    }
    let caches = Caches::new(CacheOptions::default());
    let sync = SyncPolicy::Poll { interval: Duration::from_millis(300), jitter: Duration::ZERO };
    let cache = caches.watch(&client, &kind, Selection::Managed);
    let poll = caches.cache_with(&client, &kind, Selection::Managed, sync);
    cache.wait_for_sync().await;
    poll.wait_for_sync().await;

    let (start, process) = Restarted::new(&plane);
    let killed = Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    assert!(killed.success());
    wait::until_true("both caches to fail", || {
        caches.states().iter().all(|state| state.phase == CachePhase::Failed)
    })
    .await;
    let _server = start();
    wait::until("the API server to be ready", || async {
        client.fetch("/readyz").await.map_err(|error| error.to_string())
    })
    .await;
    client.delete(&kind, Some("default"), "deleted", Delete::default()).await.unwrap();
    client.apply(&kind, &object("new"), ours).await.unwrap();
    for (name, cache) in [("the watched cache", &cache), ("the polled cache", &poll)] {
        wait::until_true(format!("{name} to be in sync again"), || {
            cache.get(Some("default"), "deleted") == Lookup::Absent
                && matches!(cache.get(Some("default"), "new"), Lookup::Found(_))
                && matches!(cache.get(Some("default"), "kept"), Lookup::Found(_))
        })
        .await;
    }
}
