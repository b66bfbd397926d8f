use kross_local::{Access, rule};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, message};

const WELL: (&str, &str) = ("True Validated", "True Accessible");

#[tokio::test(flavor = "multi_thread")]
async fn validates_a_graph_against_the_schemas_of_its_cluster() {
    let world = World::new().await;
    world.connect(&world.admin()).await;
    let name = world.unique("typed");
    let mut rgd = world.definition(&name, &world.database("v1", &json!({"size": "${schema.spec.size}"})));
    rgd["spec"]["schema"]["status"] = json!({"endpoint": "${one.status.endpoint}"});
    world.hub.create(&rgd).await;
    let found = world.until_clusters(&name, WELL.0, WELL.1, "False SchemaMismatch").await;
    assert_eq!(found["status"]["state"], "Inactive");
    let text = message(&found, "StaticAnalysisComplete");
    let cluster = format!("cluster `{}/eu-kubeconfig`", world.namespace());
    assert!(text.contains(&cluster) && text.contains("`Database`"), "{text}");
    assert_eq!(condition(&found, "GraphAccepted")["status"], "True");

    // In another version.
    world.install("v1beta1", &json!({"size": {"type": "integer"}})).await;
    world
        .hub
        .until(&name, |found| message(found, "StaticAnalysisComplete").contains("example.com/v1beta1`"))
        .await;
    world.eu.crds().delete(&format!("databases.{}", world.group()), &Default::default()).await.unwrap();
    world
        .hub
        .until(&name, |found| !message(found, "StaticAnalysisComplete").contains("example.com/v1beta1`"))
        .await;

    // With another type.
    world.install("v1", &json!({"size": {"type": "string"}})).await;
    world
        .hub
        .until(&name, |found| message(found, "StaticAnalysisComplete").contains("expected string"))
        .await;

    world.install("v1", &json!({"size": {"type": "integer"}})).await;
    world.until_accepted(&name).await;
    // What is read over there has its type here.
    let crd = format!("{}s.kro.run", world.kind("App").to_lowercase());
    let crd = world.hub.get(&world.hub.crds(), &crd).await;
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
    assert_eq!(schema["properties"]["endpoint"]["type"], "string", "{schema:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_changed_kind_under_a_running_graph_and_keeps_the_api() {
    let world = World::new().await;
    world.connect(&world.admin()).await;
    world.install("v1", &json!({"size": {"type": "integer"}})).await;
    let name = world.unique("changes");
    let mut rgd = world.definition(&name, &world.database("v1", &json!({"size": "${schema.spec.size}"})));
    rgd["spec"]["schema"]["status"] = json!({"endpoint": "${one.status.endpoint}"});
    world.hub.create(&rgd).await;
    world.until_accepted(&name).await;
    let crd = format!("{}s.kro.run", world.kind("App").to_lowercase());
    let before = world.hub.get(&world.hub.crds(), &crd).await;

    world.install("v1", &json!({"size": {"type": "string"}})).await;
    let found = world.until_clusters(&name, WELL.0, WELL.1, "False SchemaMismatch").await;
    assert_eq!(found["status"]["state"], "Active");
    assert_eq!(condition(&found, "Ready")["status"], "False");
    let after = world.hub.get(&world.hub.crds(), &crd).await;
    assert_eq!(before["spec"], after["spec"]);

    world.install("v1", &json!({"size": {"type": "integer"}})).await;
    world.until_accepted(&name).await;
    assert_eq!(world.hub.revision_names(&name).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_missing_permissions_and_the_user_who_lacks_them() {
    let world = World::new().await;
    let eu = world.fixture.remote("eu").plane;
    let most = ["get", "list", "watch", "create", "patch"];
    let access = Access::none().in_cluster([rule(&[""], &["configmaps"], &most)]);
    let user = world.unique("weak");
    let weak = eu.mint_token(world.namespace(), &user, &access).await.unwrap();
    world.connect(&world.proxy.kubeconfig(&weak).unwrap()).await;
    let name = world.unique("weak");
    world.hub.create(&world.definition(&name, &world.config_map())).await;
    let found = world.until_clusters(&name, WELL.0, WELL.1, "False PermissionsMissing").await;
    assert_eq!(found["status"]["state"], "Inactive");
    let text = message(&found, "StaticAnalysisComplete");
    for word in ["may not delete `configmaps`", &format!("namespace `{}`", world.namespace()), &user] {
        assert!(text.contains(word), "{word} in {text}");
    }

    // The Secret is rotated: another user, who may.
    let all = Access::none().in_cluster([rule(&[""], &["configmaps"], &["*"])]);
    let strong = eu.mint_token(world.namespace(), &world.unique("strong"), &all).await.unwrap();
    world.connect(&world.proxy.kubeconfig(&strong).unwrap()).await;
    world.until_accepted(&name).await;

    // And back: what was accepted goes on.
    world.connect(&world.proxy.kubeconfig(&weak).unwrap()).await;
    let found = world.until_clusters(&name, WELL.0, WELL.1, "False PermissionsMissing").await;
    assert_eq!(found["status"]["state"], "Active");
    assert_eq!(condition(&found, "Ready")["status"], "False");
    world.connect(&world.admin()).await;
    world.until_accepted(&name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn defers_permissions_that_depend_on_the_instance() {
    let world = World::new().await;
    let eu = world.fixture.remote("eu").plane;
    let access = Access::none()
        .in_cluster([rule(&[""], &["configmaps"], &["list", "watch"])])
        .in_namespace(world.namespace(), [rule(&[""], &["configmaps"], &["*"])]);
    let user = eu.mint_token(world.namespace(), &world.unique("narrow"), &access).await.unwrap();
    world.connect(&world.proxy.kubeconfig(&user).unwrap()).await;
    let name = world.unique("narrow");
    let mut template = world.config_map();
    template["metadata"].as_object_mut().unwrap().remove("namespace");
    world.hub.create(&world.definition(&name, &template)).await;
    world.until_accepted(&name).await;
    // In a namespace that is written down it can be told.
    let patch = json!({"spec": {"resources": [{"id": "one", "template": world.config_map()}]}});
    let patch = serde_json::from_value::<serde_json::Value>(patch).unwrap();
    world.hub.definitions().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    world.until_accepted(&name).await;
    let mut elsewhere = world.config_map();
    elsewhere["metadata"]["namespace"] = json!("default");
    let patch = json!({"spec": {"resources": [{"id": "one", "template": elsewhere}]}});
    world.hub.definitions().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let found = world.until_clusters(&name, WELL.0, WELL.1, "False PermissionsMissing").await;
    assert_eq!(found["status"]["state"], "Inactive", "what is not accepted is not active");
    assert!(message(&found, "StaticAnalysisComplete").contains("namespace `default`"), "{found:#}");
}
