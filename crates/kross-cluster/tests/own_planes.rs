//! Control planes with a life of their own: one that forgets its history quickly, as a busy one does, and one that is
//! restarted.
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

/// Whether the server does not know any more what was there at this version.
async fn is_forgotten(plane: &ControlPlane, version: &str) -> bool {
    let path = "/api/v1/namespaces/default/configmaps?limit=1&resourceVersionMatch=Exact&resourceVersion=";
    let request = http::Request::get(format!("{path}{version}")).body(Vec::new()).unwrap();
    match plane.client().await.unwrap().request_text(request).await {
        Ok(_) => false,
        Err(kube::Error::Api(status)) if status.code == 410 => true,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_survives_the_loss_of_the_history_that_it_would_resume_from() {
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
    for name in ["kept", "gone"] {
        direct.apply(&kind, &object(name), ours).await.unwrap();
    }
    let watches = Caches::new(CacheOptions::default());
    let watch = watches.watch(&client, &kind, Selection::Managed);
    watch.wait_for_sync().await;
    wait::until_true("the watch to be open", || watches.states()[0].opened > 0).await;

    proxy.set(Fault::Refuse);
    direct.delete(&kind, Some("default"), "gone", Delete::default()).await.unwrap();
    let new = direct.apply(&kind, &object("new"), ours).await.unwrap();
    // Compaction goes as far as the last round but one, and only if something was written since.
    let mut fillers = 0;
    while !is_forgotten(&plane, new.resource_version()).await {
        tokio::time::sleep(Duration::from_secs(1)).await;
        direct.apply(&kind, &object(&format!("filler-{fillers}")), ours).await.unwrap();
        fillers += 1;
    }
    proxy.set(Fault::Pass);
    wait::until_true("the copy to be right again", || {
        watch.get(Some("default"), "gone") == Lookup::Absent
            && matches!(watch.get(Some("default"), "new"), Lookup::Found(_))
    })
    .await;
    let state = &watches.states()[0];
    assert!(state.lists >= 2, "the history was gone, so it had to be listed again");
    assert_eq!(state.objects, 2 + fillers);
    direct.apply(&kind, &object("later"), ours).await.unwrap();
    wait::until_true("it to go on", || matches!(watch.get(Some("default"), "later"), Lookup::Found(_))).await;
}

/// An API server that was ended and started again. Ends with the test.
struct Restarted(Child);

impl Restarted {
    /// Ends the API server at once, as a crash would, and starts it again as it was.
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
async fn a_watch_and_a_poll_survive_a_restart_of_the_server_and_miss_nothing() {
    let plane = ControlPlane::named("restarted").start().await.unwrap();
    let config = plane.admin().config().await.unwrap();
    let client = ClusterClient::trusted(ClusterId::local(), config, ClientOptions::default()).await.unwrap();
    let kind = client.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let ours = Apply::by(managers::APPLYSET).force();
    for name in ["kept", "gone"] {
        client.apply(&kind, &object(name), ours).await.unwrap();
    }
    let watches = Caches::new(CacheOptions::default());
    let sync = SyncPolicy::Poll { interval: Duration::from_millis(300), jitter: Duration::ZERO };
    let watch = watches.watch(&client, &kind, Selection::Managed);
    let poll = watches.cache_with(&client, &kind, Selection::Managed, sync);
    watch.wait_for_sync().await;
    poll.wait_for_sync().await;

    let (start, process) = Restarted::new(&plane);
    let ended = Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    assert!(ended.success());
    wait::until_true("both to notice", || {
        watches.states().iter().all(|state| state.phase == CachePhase::Failed)
    })
    .await;
    let _server = start();
    wait::until("the server to be back", || async {
        client.fetch("/readyz").await.map_err(|error| error.to_string())
    })
    .await;
    client.delete(&kind, Some("default"), "gone", Delete::default()).await.unwrap();
    client.apply(&kind, &object("new"), ours).await.unwrap();
    for (name, copy) in [("the watch", &watch), ("the poll", &poll)] {
        wait::until_true(format!("{name} to be right again"), || {
            copy.get(Some("default"), "gone") == Lookup::Absent
                && matches!(copy.get(Some("default"), "new"), Lookup::Found(_))
                && matches!(copy.get(Some("default"), "kept"), Lookup::Found(_))
        })
        .await;
    }
}
