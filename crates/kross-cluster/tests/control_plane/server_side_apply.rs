//! Whether applied objects of many kinds are recognised after the server has defaulted them.

use kross_api::managers;
use kross_cluster::Apply;
use kross_value::Value;
use serde_json::{Value as Json, json};

use crate::setup::Setup;

fn templates() -> Vec<Json> {
    let pod = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "containers": [{
                "name": "web", "image": "nginx",
                "args": ["--port", "80"],
                "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "readinessProbe": {"httpGet": {"path": "/", "port": 80}}
            }],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "tolerations": [{"key": "a", "operator": "Exists"}]
        }
    });
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": ""}}),
        json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "MQ=="}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount"}),
        json!({"apiVersion": "v1", "kind": "Service", "spec": {"selector": {"app": "web"},
            "ports": [{"port": 80, "name": "web"}, {"port": 53, "protocol": "UDP", "name": "dns", "targetPort": "dns"}, {"port": 443, "name": "tls"}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2,
            "selector": {"matchLabels": {"app": "web"}}, "template": pod, "strategy": {"rollingUpdate": {"maxSurge": 1}}}}),
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}}, "template": pod,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}]}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": {"rules": [{"host": "a.example.com",
            "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {"podSelector": {},
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}]}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]}),
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {"maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": "50%",
            "selector": {"matchLabels": {"app": "web"}}}}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"schedule": "0 * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}}}}),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn recognises_applied_objects_of_many_kinds_after_defaulting() {
    let setup = Setup::new().await;
    let ours = Apply::by(managers::APPLYSET).force();
    let mut unrecognised = Vec::new();
    for template in templates() {
        let mut desired = template;
        desired["metadata"] = json!({
            "name": "web", "namespace": setup.fixture.namespace,
            "labels": {"kro.run/owned": "true", "app.kubernetes.io/managed-by": "kro"},
            "annotations": {"internal.kro.run/apply-order": "1"},
        });
        let desired: Value = desired.into();
        let api_version = desired.get("apiVersion").and_then(Value::as_str).unwrap();
        let name = desired.get("kind").and_then(Value::as_str).unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = setup.client.kind(group, Some(version), name).await.unwrap();
        let created = setup.client.apply(&kind, &desired, ours).await.unwrap();
        if !created.is_applied(&desired) {
            unrecognised.push(name.to_owned());
        }
        let again = setup.client.apply(&kind, &desired, ours).await.unwrap();
        assert_eq!(again.owned_digest(), created.owned_digest(), "{name}");
        assert_eq!(again.resource_version(), created.resource_version(), "{name}");
    }
    assert_eq!(unrecognised, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_the_server_normalises_keep_their_digest() {
    let setup = Setup::new().await;
    let ours = Apply::by(managers::APPLYSET).force();
    let desired: Value = json!({"apiVersion": "v1", "kind": "LimitRange",
        "metadata": {"name": "web", "namespace": setup.fixture.namespace},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "1000m"}}]}})
    .into();
    let kind = setup.client.kind("", Some("v1"), "LimitRange").await.unwrap();
    let created = setup.client.apply(&kind, &desired, ours).await.unwrap();
    assert_eq!(created.value().at(&["spec", "limits", "0", "max", "cpu"]), Some(&"1".into()));
    assert!(!created.is_applied(&desired), "this is why digests are remembered");
    let again = setup.client.apply(&kind, &desired, ours).await.unwrap();
    assert_eq!(again.owned_digest(), created.owned_digest());
}
