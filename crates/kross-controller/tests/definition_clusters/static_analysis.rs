//! Static analysis of definitions against the schemas and permissions of the clusters that they name.

use kross_local::{Access, rule};
use kross_testing::wait;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::setup::condition;
use crate::world::{World, message};

const CONNECTED: (&str, &str) = ("True Validated", "True Accessible");

#[tokio::test(flavor = "multi_thread")]
async fn validates_a_graph_against_the_schemas_of_its_cluster() {
    let world = World::new().await;
    world.apply_secret(&world.admin()).await;
    let name = world.unique_name("typed");
    let mut rgd = world.definition(&name, &world.database("v1", &json!({"size": "${schema.spec.size}"})));
    rgd["spec"]["schema"]["status"] = json!({"endpoint": "${one.status.endpoint}"});
    world.hub.create(&rgd).await;
    let found = world.until_cluster_conditions(&name, CONNECTED.0, CONNECTED.1, "False SchemaMismatch").await;
    assert_eq!(found["status"]["state"], "Inactive");
    let text = message(&found, "StaticAnalysisComplete");
    let cluster = format!("cluster `{}/eu-kubeconfig`", world.namespace());
    assert!(text.contains(&cluster) && text.contains("`Database`"), "{text}");
    assert_eq!(condition(&found, "GraphAccepted")["status"], "True");

    // The cluster serves another version of the kind.
    world.apply_database_crd("v1beta1", &json!({"size": {"type": "integer"}})).await;
    world
        .hub
        .until(&name, |found| message(found, "StaticAnalysisComplete").contains("example.com/v1beta1`"))
        .await;
    world.eu.crds().delete(&format!("databases.{}", world.group()), &Default::default()).await.unwrap();
    world
        .hub
        .until(&name, |found| !message(found, "StaticAnalysisComplete").contains("example.com/v1beta1`"))
        .await;

    // The cluster serves the kind with another type.
    world.apply_database_crd("v1", &json!({"size": {"type": "string"}})).await;
    world
        .hub
        .until(&name, |found| message(found, "StaticAnalysisComplete").contains("expected string"))
        .await;

    world.apply_database_crd("v1", &json!({"size": {"type": "integer"}})).await;
    world.until_accepted(&name).await;
    // The generated API has the type of the field in the remote cluster.
    let crd = format!("{}s.kro.run", world.unique_kind("App").to_lowercase());
    let crd = world.hub.get(&world.hub.crds(), &crd).await;
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
    assert_eq!(schema["properties"]["endpoint"]["type"], "string", "{schema:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_changed_kind_under_a_running_graph_and_keeps_the_api() {
    let world = World::new().await;
    world.apply_secret(&world.admin()).await;
    world.apply_database_crd("v1", &json!({"size": {"type": "integer"}})).await;
    let name = world.unique_name("changes");
    let mut rgd = world.definition(&name, &world.database("v1", &json!({"size": "${schema.spec.size}"})));
    rgd["spec"]["schema"]["status"] = json!({"endpoint": "${one.status.endpoint}"});
    world.hub.create(&rgd).await;
    world.until_accepted(&name).await;
    let crd = format!("{}s.kro.run", world.unique_kind("App").to_lowercase());
    let before = world.hub.get(&world.hub.crds(), &crd).await;

    world.apply_database_crd("v1", &json!({"size": {"type": "string"}})).await;
    let found = world.until_cluster_conditions(&name, CONNECTED.0, CONNECTED.1, "False SchemaMismatch").await;
    assert_eq!(found["status"]["state"], "Active");
    assert_eq!(condition(&found, "Ready")["status"], "False");
    let after = world.hub.get(&world.hub.crds(), &crd).await;
    assert_eq!(before["spec"], after["spec"]);

    world.apply_database_crd("v1", &json!({"size": {"type": "integer"}})).await;
    world.until_accepted(&name).await;
    assert_eq!(world.hub.revision_names(&name).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_missing_permissions_and_the_user_who_lacks_them() {
    let world = World::new().await;
    let eu = world.fixture.remote("eu").plane;
    let most = ["get", "list", "watch", "create", "patch"];
    let access = Access::none().in_cluster([rule(&[""], &["configmaps"], &most)]);
    let user = world.unique_name("weak");
    let weak = eu.mint_token(world.namespace(), &user, &access).await.unwrap();
    world.apply_secret(&world.proxy.kubeconfig(&weak).unwrap()).await;
    let name = world.unique_name("weak");
    world.hub.create(&world.definition(&name, &world.config_map())).await;
    let found =
        world.until_cluster_conditions(&name, CONNECTED.0, CONNECTED.1, "False PermissionsMissing").await;
    assert_eq!(found["status"]["state"], "Inactive");
    let text = message(&found, "StaticAnalysisComplete");
    for word in ["may not delete `configmaps`", &format!("namespace `{}`", world.namespace()), &user] {
        assert!(text.contains(word), "{word} in {text}");
    }

    // The Secret is rotated to a user with the permissions.
    let all = Access::none().in_cluster([rule(&[""], &["configmaps"], &["*"])]);
    let strong = eu.mint_token(world.namespace(), &world.unique_name("strong"), &all).await.unwrap();
    world.apply_secret(&world.proxy.kubeconfig(&strong).unwrap()).await;
    wait::woken(world.until_accepted(&name)).await;

    // And back: the accepted definition stays active.
    world.apply_secret(&world.proxy.kubeconfig(&weak).unwrap()).await;
    let found = wait::woken(world.until_cluster_conditions(
        &name,
        CONNECTED.0,
        CONNECTED.1,
        "False PermissionsMissing",
    ))
    .await;
    assert_eq!(found["status"]["state"], "Active");
    assert_eq!(condition(&found, "Ready")["status"], "False");
    world.apply_secret(&world.admin()).await;
    wait::woken(world.until_accepted(&name)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn defers_permissions_that_depend_on_the_instance() {
    let world = World::new().await;
    let eu = world.fixture.remote("eu").plane;
    let access = Access::none()
        .in_cluster([rule(&[""], &["configmaps"], &["list", "watch"])])
        .in_namespace(world.namespace(), [rule(&[""], &["configmaps"], &["*"])]);
    let user = eu.mint_token(world.namespace(), &world.unique_name("narrow"), &access).await.unwrap();
    world.apply_secret(&world.proxy.kubeconfig(&user).unwrap()).await;
    let name = world.unique_name("narrow");
    let mut template = world.config_map();
    template["metadata"].as_object_mut().unwrap().remove("namespace");
    world.hub.create(&world.definition(&name, &template)).await;
    world.until_accepted(&name).await;
    // In a literal namespace the permissions can be checked.
    let patch = json!({"spec": {"resources": [{"id": "one", "template": world.config_map()}]}});
    let patch = serde_json::from_value::<serde_json::Value>(patch).unwrap();
    world.hub.definitions().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    world.until_accepted(&name).await;
    let mut elsewhere = world.config_map();
    elsewhere["metadata"]["namespace"] = json!("default");
    let patch = json!({"spec": {"resources": [{"id": "one", "template": elsewhere}]}});
    world.hub.definitions().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let found =
        world.until_cluster_conditions(&name, CONNECTED.0, CONNECTED.1, "False PermissionsMissing").await;
    assert_eq!(found["status"]["state"], "Inactive", "an edit that is not accepted makes it inactive");
    assert!(message(&found, "StaticAnalysisComplete").contains("namespace `default`"), "{found:#}");
}
