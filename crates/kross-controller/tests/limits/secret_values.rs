//! What an API server says about objects that have values of a Secret.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::limited;

#[tokio::test(flavor = "multi_thread")]
async fn the_message_of_an_api_server_about_a_value_of_a_secret_is_not_shown() {
    let service = |value: &str| {
        json!({"id": "service", "template": {"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "${schema.metadata.name}-service"},
            "spec": {"type": value, "ports": [{"port": 80}], "selector": {"a": "b"}}}})
    };
    let secret = json!({"id": "secret", "externalRef": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "password"}}});
    let resources = json!([secret, service("${string(secret.data.word)}")]);
    let world = limited("Quoting", json!({"spec": {}}), resources).await;
    let secrets: Api<Secret> = Api::namespaced(world.objects.client.clone(), &world.namespace);
    let password = json!({"metadata": {"name": "password"}, "stringData": {"word": "hunter2hunter2"}});
    secrets.create(&PostParams::default(), &serde_json::from_value(password).unwrap()).await.unwrap();
    world.create("x", json!({})).await;
    let refused = world.until_state("x", "ERROR").await;
    let text = refused.to_string();
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("422") && text.contains("spec.type"), "{text}");
    assert!(text.contains("because the object may have values of a Secret"), "{text}");
    // Without a Secret the message of the API server is shown as it is.
    let schema = json!({"spec": {"kind": "string"}});
    let world = limited("Quoted", schema, json!([service("${schema.spec.kind}")])).await;
    world.create("x", json!({"kind": "hunter3"})).await;
    let refused = world.until_state("x", "ERROR").await;
    assert!(refused["status"].to_string().contains("hunter3"), "{refused:#}");
}
