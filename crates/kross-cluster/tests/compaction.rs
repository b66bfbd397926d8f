//! A control plane that forgets its history quickly, as a busy one does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use kross_api::managers;
use kross_cluster::{
    Apply, ClusterId, Connection, ConnectionOptions, Delete, Lookup, Selection, WatchOptions, Watches,
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

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_survives_the_loss_of_the_history_that_it_would_resume_from() {
    let plane = ControlPlane::named("forgetful")
        .api_server_flag("--etcd-compaction-interval=1s")
        .api_server_flag("--watch-cache=false")
        .start()
        .await
        .unwrap();
    let config = plane.admin().config().await.unwrap();
    let direct = Connection::trusted(ClusterId::local(), config, ConnectionOptions::default()).await.unwrap();
    let proxy = FaultProxy::start(plane.admin()).unwrap();
    let config = proxy.kubeconfig(plane.admin()).unwrap().config().await.unwrap();
    let connection =
        Connection::trusted(ClusterId::local(), config, ConnectionOptions::default()).await.unwrap();
    let kind = direct.kind("", Some("v1"), "ConfigMap").await.unwrap();
    let ours = Apply::by(managers::APPLYSET).force();
    for name in ["kept", "gone"] {
        direct.apply(&kind, &object(name), ours).await.unwrap();
    }
    let watches = Watches::new(WatchOptions::default());
    let watch = watches.watch(&connection, &kind, Selection::Managed);
    watch.complete().await;
    wait::until_true("the watch to be open", || watches.states()[0].opened > 0).await;

    proxy.set(Fault::Refuse);
    direct.delete(&kind, Some("default"), "gone", Delete::default()).await.unwrap();
    direct.apply(&kind, &object("new"), ours).await.unwrap();
    // Compaction goes as far as the last round but one, and only if something was written since.
    for n in 0..8 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        direct.apply(&kind, &object(&format!("filler-{n}")), ours).await.unwrap();
    }
    proxy.set(Fault::Pass);
    wait::until_true("the copy to be right again", || {
        watch.get(Some("default"), "gone") == Lookup::Absent
            && matches!(watch.get(Some("default"), "new"), Lookup::Found(_))
    })
    .await;
    let state = &watches.states()[0];
    assert_eq!((state.lists, state.objects), (2, 10), "the history was gone, so it had to be listed again");
    direct.apply(&kind, &object("later"), ours).await.unwrap();
    wait::until_true("it to go on", || matches!(watch.get(Some("default"), "later"), Lookup::Found(_))).await;
}
