//! Tests against a real API server: it accepts the CRDs and valid objects unchanged, and rejects invalid objects with the
//! expected messages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::Path;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kross_api::{GraphRevision, ResourceGraphDefinition, crd_yaml, crds};
use kross_local::ControlPlane;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

async fn install(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds() {
        let text: CustomResourceDefinition = serde_saphyr::from_str(&crd_yaml(&crd)).unwrap();
        api.create(&PostParams::default(), &text).await.expect("the API server accepts the CRD");
    }
    for crd in crds() {
        let name = crd.metadata.name.unwrap();
        for attempt in 0.. {
            let conditions = api.get(&name).await.unwrap().status.unwrap().conditions.unwrap_or_default();
            let wrong = conditions.iter().find(|condition| condition.type_ == "NonStructuralSchema");
            assert!(wrong.is_none(), "{wrong:?}");
            if conditions
                .iter()
                .any(|condition| condition.type_ == "Established" && condition.status == "True")
            {
                break;
            }
            assert!(attempt < 1200, "{name} is not established: {conditions:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    // It takes a moment until the server serves an established kind.
    for api in [definitions(client), revisions(client)] {
        for attempt in 0.. {
            match api.list(&ListParams::default()).await {
                Ok(_) => break,
                Err(error) => assert!(attempt < 1200, "the kind is not served: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn definitions(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<ResourceGraphDefinition>(&()))
}

fn revisions(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &ApiResource::erase::<GraphRevision>(&()))
}

fn object(value: &Value) -> DynamicObject {
    serde_json::from_value(value.clone()).unwrap()
}

fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// Sets values at JSON pointers; `null` removes.
fn edit(base: &Value, edits: &[(&str, Value)]) -> Value {
    let mut edited = base.clone();
    for (pointer, value) in edits {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = edited.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer} has no parent"));
        match (parent, value) {
            (Value::Object(map), Value::Null) => drop(map.remove(key)),
            (Value::Object(map), value) => drop(map.insert(key.to_owned(), value.clone())),
            (Value::Array(items), value) => items[key.parse::<usize>().unwrap()] = value.clone(),
            _ => panic!("{pointer} is in a scalar"),
        }
    }
    edited
}

fn definition() -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "table"},
        "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "Table", "spec": {"size": "integer"}},
            "resources": [
                {"id": "legs", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "legs"}}},
                {"id": "top", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "top"}}},
            ],
        },
    })
}

/// A description of the error, the edits that cause it, and the expected part of the server's response.
type Case = (&'static str, Vec<(&'static str, Value)>, &'static str);

/// Definitions with one error each.
fn invalid_definitions() -> Vec<Case> {
    const LEGS: &str = "/spec/resources/0";
    let kubeconfig = json!({"name": "eu", "namespace": "infra"});
    let by_secret = json!({"cluster": {"kubeconfigSecretName": "eu"}});
    vec![
        ("no schema", vec![("/spec/schema", Value::Null)], "spec.schema: Required value"),
        ("no spec", vec![("/spec", Value::Null)], "spec: Required value"),
        ("no kind", vec![("/spec/schema/kind", Value::Null)], "spec.schema.kind: Required value"),
        (
            "no apiVersion",
            vec![("/spec/schema/apiVersion", Value::Null)],
            "spec.schema.apiVersion: Required value",
        ),
        (
            "a kind in lower case",
            vec![("/spec/schema/kind", json!("table"))],
            "should match '^[A-Z][a-zA-Z0-9]{0,62}$'",
        ),
        (
            "an apiVersion with a group",
            vec![("/spec/schema/apiVersion", json!("a.b/v1"))],
            "should match '^v[0-9]+(alpha[0-9]+|beta[0-9]+)?$'",
        ),
        (
            "another scope",
            vec![("/spec/schema/scope", json!("Galaxy"))],
            r#"supported values: "Namespaced", "Cluster""#,
        ),
        (
            "spec as text",
            vec![("/spec/schema/spec", json!("string"))],
            "spec.schema.spec in body must be of type object",
        ),
        ("short names twice", vec![("/spec/schema/shortNames", json!(["a", "a"]))], "Duplicate value"),
        (
            "a short name in capitals",
            vec![("/spec/schema/shortNames", json!(["T"]))],
            "should match '^[a-z]([-a-z0-9]*[a-z0-9])?$'",
        ),
        (
            "a long category",
            vec![("/spec/schema/categories", json!(["a".repeat(64)]))],
            "spec.schema.categories[0]: Too long: may not be",
        ),
        (
            "too many categories",
            vec![("/spec/schema/categories", (0..33).map(|n| json!(format!("a{n}"))).collect())],
            "must have at most 32 items",
        ),
        (
            "a printer column without a path",
            vec![("/spec/schema/additionalPrinterColumns", json!([{"name": "A", "type": "string"}]))],
            "additionalPrinterColumns[0].jsonPath: Required value",
        ),
        (
            "spec and an existing type",
            vec![(
                "/spec/schema/externalRef",
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}),
            )],
            "`spec` and `externalRef` are mutually exclusive: set `spec` to define a new type, or `externalRef` to use an existing one",
        ),
        (
            "an existing type without a name or selector",
            vec![
                ("/spec/schema/spec", Value::Null),
                (
                    "/spec/schema/externalRef",
                    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a"}}),
                ),
            ],
            "spec.schema.externalRef.metadata.name: Required value",
        ),
        ("no id", vec![("/spec/resources/0/id", Value::Null)], "spec.resources[0].id: Required value"),
        (
            "an id with a dash",
            vec![("/spec/resources/0/id", json!("table-legs"))],
            "should match '^[a-z][a-zA-Z0-9]*$'",
        ),
        (
            "neither template nor externalRef",
            vec![("/spec/resources/0/template", Value::Null)],
            "exactly one of template or externalRef must be provided",
        ),
        (
            "both template and externalRef",
            vec![("/spec/resources/1/template", json!({"kind": "Pod"}))],
            "exactly one of template or externalRef must be provided",
        ),
        (
            "two variables in one dimension",
            vec![("/spec/resources/0/forEach", json!([{"a": "${x}", "b": "${y}"}]))],
            "must have at most 1 item",
        ),
        (
            "no variable in a dimension",
            vec![("/spec/resources/0/forEach", json!([{}]))],
            "should have at least 1 properties",
        ),
        (
            "readyWhen as text",
            vec![("/spec/resources/0/readyWhen", json!("${true}"))],
            "must be of type array",
        ),
        (
            "an external reference without metadata",
            vec![("/spec/resources/1/externalRef/metadata", Value::Null)],
            "externalRef requires `metadata` with `name` or `selector`, or a `selector` of its own",
        ),
        (
            "an external reference with an empty name",
            vec![("/spec/resources/1/externalRef/metadata/name", json!(""))],
            "metadata.name in body should be at least 1 chars long",
        ),
        (
            "an external reference with empty metadata",
            vec![("/spec/resources/1/externalRef/metadata", json!({}))],
            "spec.resources[1].externalRef.metadata.name: Required value",
        ),
        (
            "an external reference with name and selector",
            vec![("/spec/resources/1/externalRef/metadata/selector", json!({"matchLabels": {"a": "b"}}))],
            "must not validate the schema (not)",
        ),
        (
            "a name next to the outer selector",
            vec![("/spec/resources/1/externalRef/selector", json!({}))],
            "`metadata.name` and `selector` are mutually exclusive: remove one of them",
        ),
        (
            "a namespace selector next to a name",
            vec![("/spec/resources/1/externalRef/namespaceSelector", json!({}))],
            "`namespaceSelector` requires a selector: remove `metadata.name` and `metadata.namespace`",
        ),
        (
            "cluster and target on the definition",
            vec![("/spec/cluster", json!({"name": "eu"})), ("/spec/target", by_secret.clone())],
            "`cluster` and `target` are two spellings of one reference: keep one of them",
        ),
        (
            "cluster and target on a resource",
            vec![
                ("/spec/resources/0/cluster", json!({"name": "eu"})),
                ("/spec/resources/0/target", by_secret.clone()),
            ],
            "`cluster` and `target` are two spellings of one reference: keep one of them",
        ),
        (
            "cluster and target on an external reference",
            vec![
                ("/spec/resources/1/externalRef/cluster", json!({"name": "eu"})),
                ("/spec/resources/1/externalRef/target", by_secret.clone()),
            ],
            "`cluster` and `target` are two spellings of one reference: keep one of them",
        ),
        (
            "a cluster on a resource and on its external reference",
            vec![
                ("/spec/resources/1/cluster", json!({"name": "eu"})),
                ("/spec/resources/1/externalRef/target", by_secret.clone()),
            ],
            "the cluster is set twice: set it either on the resource or on its `externalRef`",
        ),
        (
            "a cluster without a name",
            vec![("/spec/cluster", json!({"namespace": "a"}))],
            "spec.cluster.name: Required value",
        ),
        (
            "two references to the Secret",
            vec![(
                "/spec/cluster",
                json!({"name": "eu", "kubeconfigSecret": kubeconfig, "kubeconfigSecretRef": "eu"}),
            )],
            "`kubeconfigSecret` and `kubeconfigSecretRef` both name the Secret: keep one of them",
        ),
        (
            "a namespace next to the long spelling",
            vec![("/spec/cluster", json!({"name": "eu", "namespace": "a", "kubeconfigSecret": kubeconfig}))],
            "`namespace` belongs to the short spelling: write `kubeconfigSecret: {name: ..., namespace: ...}` instead",
        ),
        (
            "a namespace next to the long spelling by string",
            vec![("/spec/cluster", json!({"name": "eu", "namespace": "a", "kubeconfigSecretRef": "eu"}))],
            "`namespace` belongs to the short spelling",
        ),
        (
            "a key next to the long spelling",
            vec![(
                "/spec/resources/0/cluster",
                json!({"name": "eu", "key": "a", "kubeconfigSecret": kubeconfig}),
            )],
            "`key` belongs to the short spelling",
        ),
        (
            "a Secret without a namespace",
            vec![("/spec/cluster", json!({"name": "eu", "kubeconfigSecret": {"name": "eu"}}))],
            "spec.cluster.kubeconfigSecret.namespace: Required value",
        ),
        (
            "a poll interval in words",
            vec![("/spec/cluster", json!({"name": "eu", "pollConfig": {"interval": "a minute"}}))],
            r"should match '^([0-9]+(\.[0-9]+)?(s|m|h))+$'",
        ),
        (
            "a jitter in milliseconds",
            vec![("/spec/cluster", json!({"name": "eu", "pollConfig": {"interval": "1m", "jitter": "5ms"}}))],
            r"should match '^([0-9]+(\.[0-9]+)?(s|m|h))+$'",
        ),
        (
            "pollConfig without an interval",
            vec![("/spec/cluster", json!({"name": "eu", "pollConfig": {"jitter": "5s"}}))],
            "spec.cluster.pollConfig.interval: Required value",
        ),
        (
            "an empty target",
            vec![("/spec/target", json!({}))],
            "`target` requires exactly one protocol: set `cluster` or `kubernetesTarget`",
        ),
        (
            "two protocols",
            vec![("/spec/target", edit(&by_secret, &[("/kubernetesTarget", json!({"name": "a"}))]))],
            "`target` requires exactly one protocol: set `cluster` or `kubernetesTarget`",
        ),
        (
            "a target without a Secret",
            vec![("/spec/resources/0/target", json!({"cluster": {}}))],
            "spec.resources[0].target.cluster.kubeconfigSecretName: Required value",
        ),
        (
            "a published target without name or selector",
            vec![("/spec/target", json!({"kubernetesTarget": {}}))],
            "`kubernetesTarget` requires exactly one of `name` and `selector`",
        ),
        (
            "a published target with name and selector",
            vec![("/spec/target", json!({"kubernetesTarget": {"name": "a", "selector": {}}}))],
            "`kubernetesTarget` requires exactly one of `name` and `selector`",
        ),
        (
            "another phase",
            vec![("/spec/lifecycle", json!({"when": "Sometimes"}))],
            r#"spec.lifecycle.when: Unsupported value: "Sometimes""#,
        ),
        (
            "another delete policy",
            vec![("/spec/resources/0/lifecycle", json!({"delete": {"policy": "Orphan"}}))],
            "spec.resources[0].lifecycle.delete.policy in body should match",
        ),
        (
            "forceAfter in days",
            vec![("/spec/resources/0/lifecycle", json!({"delete": {"forceAfter": "1d"}}))],
            r"should match '^([0-9]+(\.[0-9]+)?(s|m|h))+$'",
        ),
        (
            "an invalid id in after",
            vec![("/spec/resources/0/lifecycle", json!({"delete": {"after": ["Not-An-Id"]}}))],
            "should match '^[a-z][a-zA-Z0-9]*$'",
        ),
        (
            "a fraction as order",
            vec![("/spec/resources/0/lifecycle", json!({"delete": {"order": 1.5}}))],
            "spec.resources[0].lifecycle.delete.order",
        ),
        ("a resource that is null", vec![(LEGS, Value::Null)], "spec.resources[0]"),
    ]
}

/// Changes of a definition that are not allowed.
fn invalid_changes() -> Vec<Case> {
    vec![
        ("another kind", vec![("/spec/schema/kind", json!("Chair"))], "kind is immutable"),
        ("another apiVersion", vec![("/spec/schema/apiVersion", json!("v1"))], "apiVersion is immutable"),
        ("another group", vec![("/spec/schema/group", json!("example.com"))], "group is immutable"),
        ("another scope", vec![("/spec/schema/scope", json!("Cluster"))], "scope is immutable"),
        (
            "an existing type instead of a new one",
            vec![
                ("/spec/schema/spec", Value::Null),
                (
                    "/spec/schema/externalRef",
                    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}),
                ),
            ],
            "externalRef cannot be added or removed",
        ),
        (
            "an existing type instead of a new kind",
            vec![
                ("/spec/schema/spec", Value::Null),
                ("/spec/schema/kind", Value::Null),
                ("/spec/schema/apiVersion", Value::Null),
                (
                    "/spec/schema/externalRef",
                    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}),
                ),
            ],
            "kind is immutable",
        ),
    ]
}

fn answer(result: Result<DynamicObject, kube::Error>) -> Option<String> {
    match result {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.message.clone()),
        Err(other) => panic!("the request failed: {other}"),
    }
}

fn check(failures: &mut Vec<String>, what: &str, answer: Option<String>, expected: &str) {
    match answer {
        Some(message) if message.contains(expected) => {}
        Some(message) => failures.push(format!("{what}\n    expected: {expected}\n    received: {message}")),
        None => failures.push(format!("{what}\n    expected: {expected}\n    but it was accepted")),
    }
}

fn fixtures(folder: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .map(|path| serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_enforces_the_validation_rules() {
    let plane = ControlPlane::named("rules").start().await.unwrap();
    let client = plane.client().await.unwrap();
    install(&client).await;
    let mut failures = Vec::new();
    valid_definitions_are_stored_unchanged(&client).await;
    invalid_definitions_are_rejected(&client, &mut failures).await;
    invalid_changes_are_rejected(&client, &mut failures).await;
    revisions_are_immutable(&client, &mut failures).await;
    status_is_a_subresource(&client).await;
    plane.stop().await;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn valid_definitions_are_stored_unchanged(client: &Client) {
    let api = definitions(client);
    for written in fixtures("kro").into_iter().chain(fixtures("kross")) {
        let name = written["metadata"]["name"].as_str().unwrap().to_owned();
        let created = api.create(&PostParams::default(), &object(&written)).await.expect(&name);
        let mut expected = written["spec"].clone();
        let schema = expected["schema"].as_object_mut().unwrap();
        schema.entry("group").or_insert(json!("kro.run"));
        schema.entry("scope").or_insert(json!("Namespaced"));
        assert_eq!(created.data["spec"], expected, "{name}: the server changed it");
        let typed: ResourceGraphDefinition =
            serde_json::from_value(serde_json::to_value(&created).unwrap()).expect(&name);
        assert_eq!(serde_json::to_value(&typed.spec).unwrap(), expected, "{name}: the types changed it");
    }
    let all: Api<ResourceGraphDefinition> = Api::all(client.clone());
    assert!(all.list(&ListParams::default()).await.unwrap().items.len() >= 6);
}

async fn invalid_definitions_are_rejected(client: &Client, failures: &mut Vec<String>) {
    let api = definitions(client);
    api.create(&dry_run(), &object(&definition())).await.expect("a valid definition is accepted");
    for (what, edits, expected) in invalid_definitions() {
        let bad = edit(&definition(), &edits);
        check(failures, what, answer(api.create(&dry_run(), &object(&bad)).await), expected);
    }
}

async fn invalid_changes_are_rejected(client: &Client, failures: &mut Vec<String>) {
    let api = definitions(client);
    let created = api.create(&PostParams::default(), &object(&definition())).await.unwrap();
    let created = serde_json::to_value(created).unwrap();
    for (what, edits, expected) in invalid_changes() {
        let changed = edit(&created, &edits);
        check(failures, what, answer(api.replace("table", &dry_run(), &object(&changed)).await), expected);
    }
    let grown =
        edit(&created, &[("/spec/schema/spec", json!({"size": "string"})), ("/spec/resources", json!([]))]);
    api.replace("table", &dry_run(), &object(&grown)).await.expect("all other fields are mutable");

    let existing = serde_json::to_value(api.get("existing-type").await.unwrap()).unwrap();
    for (field, expected) in
        [("apiVersion", "externalRef.apiVersion is immutable"), ("kind", "externalRef.kind is immutable")]
    {
        let pointer = format!("/spec/schema/externalRef/{field}");
        let changed = edit(&existing, &[(&pointer, json!("other"))]);
        check(
            failures,
            field,
            answer(api.replace("existing-type", &dry_run(), &object(&changed)).await),
            expected,
        );
    }
}

async fn revisions_are_immutable(client: &Client, failures: &mut Vec<String>) {
    let api = revisions(client);
    let revision = json!({
        "apiVersion": "internal.kro.run/v1alpha1",
        "kind": "GraphRevision",
        "metadata": {"name": "table-r00001", "labels": {"kro.run/graph-revision-hash": "abc"}},
        "spec": {"revision": 1, "snapshot": {"name": "table", "generation": 1, "spec": definition()["spec"]}},
    });
    let created =
        api.create(&PostParams::default(), &object(&revision)).await.expect("a valid revision is accepted");
    let created = serde_json::to_value(created).unwrap();
    let changes = [
        ("/spec/revision", json!(2)),
        ("/spec/snapshot/generation", json!(2)),
        ("/spec/snapshot/spec/resources/0/id", json!("arms")),
        ("/spec/snapshot/spec/schema/spec", json!({"size": "string"})),
    ];
    for (pointer, value) in changes {
        let changed = edit(&created, &[(pointer, value)]);
        let answer = answer(api.replace("table-r00001", &dry_run(), &object(&changed)).await);
        check(failures, pointer, answer, "spec is immutable");
    }
    let bad = [
        ("/spec/revision", json!(0), "spec.revision in body should be greater than or equal to 1"),
        ("/spec/snapshot", Value::Null, "spec.snapshot: Required value"),
        ("/spec/snapshot/name", Value::Null, "spec.snapshot.name: Required value"),
        ("/spec/snapshot/spec", Value::Null, "spec.snapshot.spec: Required value"),
        (
            "/spec/snapshot/spec/resources/0/template",
            Value::Null,
            "exactly one of template or externalRef must be provided",
        ),
    ];
    for (pointer, value, expected) in bad {
        let edited = edit(&revision, &[(pointer, value), ("/metadata/name", json!("table-r00002"))]);
        check(failures, pointer, answer(api.create(&dry_run(), &object(&edited)).await), expected);
    }
    let labelled = edit(&created, &[("/metadata/labels/more", json!("true"))]);
    api.replace("table-r00001", &dry_run(), &object(&labelled)).await.expect("labels are mutable");

    revisions_are_selected_by_their_definition(client).await;
}

async fn revisions_are_selected_by_their_definition(client: &Client) {
    let api = revisions(client);
    let minor: u32 = client.apiserver_version().await.unwrap().minor.trim_end_matches('+').parse().unwrap();
    for (name, expected) in [("table", 1), ("chair", 0)] {
        let selected = ListParams::default().fields(&format!("spec.snapshot.name={name}"));
        let found = api.list(&selected).await.map(|list| list.items.len());
        if minor >= 31 {
            assert_eq!(found.unwrap(), expected);
        } else {
            // Older servers ignore the selectable fields of the CRD.
            let error = found.unwrap_err().to_string();
            assert!(error.contains("field label not supported: spec.snapshot.name"), "{error}");
        }
    }
}

async fn status_is_a_subresource(client: &Client) {
    let api = definitions(client);
    assert_eq!(
        api.get("fan-out").await.unwrap().data.get("status"),
        None,
        "the status is ignored when the object is created"
    );
    let status =
        fixtures("kro").into_iter().find(|fixture| fixture["metadata"]["name"] == "fan-out").unwrap();
    let patch = Patch::Merge(json!({"status": status["status"]}));
    let patched = api.patch_status("fan-out", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.data["status"], status["status"]);
    assert_eq!(patched.metadata.generation, Some(1));
}
