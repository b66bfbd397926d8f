//! Compares schemas with a real API server: the bundled schemas are those that it serves, and it accepts a synthesized CRD
//! and returns it unchanged.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use http::Request;
use kross_diagnostics::Path;
use kross_schema::compatibility::compare_crds;
use kross_schema::crd::synthesize;
use kross_schema::openapi::Schema;
use kross_schema::{Bundle, CrdSchemas, GroupVersionKind, LiveSchemas, SchemaResolver, schema_of, simple};
use kross_testing::{shared, wait};
use kross_value::Value;
use kube::Client;
use serde_json::{Value as Json, json};

async fn get(client: &Client, path: &str) -> String {
    let request = Request::get(path).body(Vec::new()).unwrap();
    client.request_text(request).await.unwrap()
}

async fn live_schemas(client: &Client) -> LiveSchemas {
    let live = LiveSchemas::new();
    let index: Json = serde_json::from_str(&get(client, "/openapi/v3").await).unwrap();
    for (path, entry) in index["paths"].as_object().unwrap() {
        let Some(group_version) = path.strip_prefix("apis/").or_else(|| path.strip_prefix("api/")) else {
            continue;
        };
        // Kinds that other tests of this program create.
        if group_version.split('/').next().unwrap().ends_with(".test") {
            continue;
        }
        let url = entry["serverRelativeURL"].as_str().unwrap();
        let hash = url.rsplit('=').next().unwrap();
        live.insert(group_version, hash, get(client, url).await.as_bytes()).unwrap();
    }
    live
}

#[tokio::test]
async fn bundled_schemas_are_those_that_the_api_server_serves() {
    let client = shared("schemas").await.client().await.unwrap();
    let version: Json = serde_json::from_str(&get(&client, "/version").await).unwrap();
    let Ok(bundle) = Bundle::of_version(version["gitVersion"].as_str().unwrap()) else {
        panic!("no bundle for {version}")
    };
    // An API server that has just started publishes its groups one after the other.
    let (live, served) = wait::until("the API server to publish the kinds of the bundle", || async {
        let live = live_schemas(&client).await;
        let served: Vec<GroupVersionKind> = live.kinds();
        if served == bundle.kinds() { Ok((live, served)) } else { Err(format!("{served:?}")) }
    })
    .await;
    for kind in served {
        let (bundled, served) = (bundle.resolve(&kind).unwrap(), live.resolve(&kind).unwrap());
        assert_eq!((&bundled.plural, bundled.namespaced), (&served.plural, served.namespaced), "{kind}");
        assert_eq!(
            schema_of(&bundled.schema.cel_type()),
            schema_of(&served.schema.cel_type()),
            "the bundled schema of {kind} differs from the served one; run `cargo xtask generate --bundles`"
        );
    }
}

/// A schema that uses every feature of SimpleSchema.
fn schema_with_every_feature() -> Json {
    json!({
        "kind": "Everything", "apiVersion": "v1", "group": "schemas.test", "scope": "Cluster",
        "shortNames": ["evt"], "categories": ["all"],
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "types": {
            "Port": {"name": "string | required=true", "number": "integer | minimum=1 maximum=65535 default=80"},
            "Name": "string | minLength=1 maxLength=63 pattern=\"^[a-z]+(-[a-z]+)*$\"",
        },
        "spec": {
            "name": "Name | required=true immutable=true description=\"the \\\"name\\\"\"",
            "text": "string | default=\"a \\\"quoted\\\" text\"",
            "replicas": "integer | default=3 | minimum=0 | validation=\"self < 100\"",
            "ratio": "float | default=0.5",
            "whole": "float | default=2.0",
            "on": "boolean | default=True",
            "size": "string | enum=small,large default=small",
            "tags": "[]string | uniqueItems=true default=[\"a\"]",
            "ports": "[]Port | listType=map listMapKey=name",
            "labels": "map[string]string | default={\"a\": \"b\"}",
            "nested": {"deep": {"size": "integer | default=1"}},
            "grid": "[][]integer",
            "free": "object",
            "rules": "list<map>",
        },
    })
}

fn synthesized(definition: Json) -> Value {
    let definition: kross_api::Schema = serde_json::from_value(definition).unwrap();
    let translation = simple::translate(definition.spec.as_ref(), definition.types.as_ref(), &Path::root());
    assert_eq!(translation.problems, []);
    let deployment = Bundle::latest().resolve(&GroupVersionKind::new("apps/v1", "Deployment")).unwrap();
    let status = Schema::object([("deployment", schema_of(&deployment.schema.cel_type()))]);
    synthesize(&definition, &translation.schema, &status)
}

#[tokio::test]
async fn the_api_server_accepts_a_crd_with_every_feature_and_returns_it_unchanged() {
    let client = shared("schemas").await.client().await.unwrap();
    let crd = synthesized(schema_with_every_feature());
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let request = Request::post(path).body(crd.to_string().into_bytes()).unwrap();
    client.request_text(request).await.unwrap();
    // The API server adds names, conditions and defaults within the next moments.
    let returned: Value = wait::until("the CRD to be established", || async {
        let text = get(&client, &format!("{path}/everythings.schemas.test")).await;
        if text.contains(r#""type":"Established""#) {
            Ok(serde_json::from_str(&text).unwrap())
        } else {
            Err(text)
        }
    })
    .await;
    let report = compare_crds(&returned, &crd);
    assert!(report.is_empty(), "{:#?}", report.changes());
    let crds = CrdSchemas::new();
    let kinds = crds.insert(&returned).unwrap();
    assert_eq!(crds.resolve(&kinds[0]).unwrap().schema.cel_type().to_string(), "Everything");

    // The API server applies the defaults of the schema.
    let instance = json!({"apiVersion": "schemas.test/v1", "kind": "Everything", "metadata": {"name": "a"}, "spec": {"name": "a"}});
    let created: Json = wait::until("the kind to be served", || async {
        let body = instance.to_string().into_bytes();
        let request = Request::post("/apis/schemas.test/v1/everythings").body(body).unwrap();
        let text = client.request_text(request).await.map_err(|error| error.to_string())?;
        Ok(serde_json::from_str(&text).unwrap())
    })
    .await;
    let expected = json!({
        "name": "a", "text": "a \"quoted\" text", "replicas": 3, "ratio": 0.5, "whole": 2, "on": true,
        "size": "small", "tags": ["a"], "labels": {"a": "b"}, "nested": {"deep": {"size": 1}},
    });
    let plain = |json: &Json| json.to_string().replace("2.0", "2");
    assert_eq!(plain(&created["spec"]), plain(&expected));
}
