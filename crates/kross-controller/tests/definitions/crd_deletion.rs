//! Deleting the CRD together with its definition, where that is allowed.

use kross_controller::Settings;
use kross_testing::wait;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::exclusive_plane::{PLANE, exclusive};
use crate::setup::{Running, definition};

#[tokio::test(flavor = "multi_thread")]
async fn deletes_the_crd_with_its_definition_where_allowed_and_never_the_crd_of_another() {
    let (objects, _exclusive) = exclusive().await;
    let settings = Settings { allow_crd_deletion: true, ..Settings::default() };
    let running = Running::start(PLANE, settings).await;
    objects.create(&definition("keeper", "Kept")).await;
    objects.until_ready("keeper").await;
    objects.create(&definition("pretender", "Kept")).await;
    objects.until_condition("pretender", "KindReady", "False").await;
    objects.delete("pretender").await;
    wait::until_deleted(&objects.definitions(), "pretender").await;
    let crd = objects.crds().get("kepts.kro.run").await.unwrap();
    assert!(crd.metadata.deletion_timestamp.is_none());
    // A CRD without the ownership label does not belong to the definition any more.
    objects.create(&definition("disowned", "Disowned")).await;
    objects.until_ready("disowned").await;
    let disown = json!({"metadata": {"labels": {"kro.run/owned": "false"}}});
    objects.crds().patch("disowneds.kro.run", &PatchParams::default(), &Patch::Merge(&disown)).await.unwrap();
    objects.until_condition("disowned", "KindReady", "False").await;
    for name in ["disowned", "keeper"] {
        objects.delete(name).await;
        wait::until_deleted(&objects.definitions(), name).await;
    }
    wait::until_deleted(&objects.crds(), "kepts.kro.run").await;
    assert!(objects.crds().get_opt("disowneds.kro.run").await.unwrap().is_some());
    running.stop().await;
}
