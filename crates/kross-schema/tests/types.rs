//! Tests of the conversion of OpenAPI schemas to CEL types, for built-in kinds and CRDs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::sync::Arc;

use kross_cel::types::Type;
use kross_schema::openapi::{Keep, Schema};
use kross_schema::{
    Bundle, CrdSchemas, GroupVersionKind, LiveSchemas, Overlay, ResolvedKind, SchemaResolver, SchemaView,
    resolver, schema_of,
};
use kross_value::Value;

fn built_in(api_version: &str, kind: &str) -> Arc<ResolvedKind> {
    Bundle::latest().resolve(&GroupVersionKind::new(api_version, kind)).expect("the kind is built in")
}

/// The type at a path of field names; `[]` is the item of a list or the value of a map.
fn at(root: &Type, path: &str) -> Option<Type> {
    path.split('.').filter(|step| !step.is_empty()).try_fold(root.clone(), |found, step| {
        match (found, step) {
            (Type::List(item), "[]") => Some((*item).clone()),
            (Type::Map(entry), "[]") => Some(entry.1.clone()),
            (Type::Object(object), field) => object.field(field),
            _ => None,
        }
    })
}

fn shown(root: &Type, path: &str) -> String {
    at(root, path).map_or_else(|| "none".to_owned(), |found| found.to_string())
}

#[test]
fn built_in_kinds_have_their_types() {
    let deployment = built_in("apps/v1", "Deployment").schema.cel_type();
    for (path, expected) in [
        ("", "Deployment"),
        ("apiVersion", "string"),
        ("metadata", "ObjectMeta"),
        ("metadata.labels", "map(string, string)"),
        ("metadata.creationTimestamp", "timestamp"),
        ("metadata.ownerReferences", "list(OwnerReference)"),
        ("metadata.managedFields.[].fieldsV1", "dyn"),
        ("spec", "DeploymentSpec"),
        ("spec.replicas", "int"),
        ("spec.paused", "bool"),
        ("spec.strategy.rollingUpdate.maxSurge", "dyn"),
        ("spec.template.spec.containers", "list(Container)"),
        ("spec.template.spec.containers.[].resources.limits", "map(string, dyn)"),
        ("spec.template.spec.containers.[].env.[].valueFrom", "EnvVarSource"),
        ("status.conditions.[].lastUpdateTime", "timestamp"),
        ("spec.replica", "none"),
        ("spec.replicas.x", "none"),
    ] {
        assert_eq!(shown(&deployment, path), expected, "{path}");
    }
    let secret = built_in("v1", "Secret").schema.cel_type();
    assert_eq!(shown(&secret, "data"), "map(string, bytes)");
    assert_eq!(shown(&secret, "stringData"), "map(string, string)");
    let crd = built_in("apiextensions.k8s.io/v1", "CustomResourceDefinition").schema.cel_type();
    let properties = "spec.versions.[].schema.openAPIV3Schema.properties.[].properties.[].minimum";
    assert_eq!(shown(&crd, properties), "double");
}

#[test]
fn a_definition_has_one_type() {
    let deployment = built_in("apps/v1", "Deployment").schema.cel_type();
    assert_eq!(deployment, built_in("apps/v1", "Deployment").schema.cel_type());
    let stateful = built_in("apps/v1", "StatefulSet").schema.cel_type();
    assert_eq!(at(&deployment, "spec.template"), at(&stateful, "spec.template"));
    assert_eq!(at(&deployment, "metadata"), at(&stateful, "metadata"));
    assert_ne!(at(&deployment, "spec"), at(&stateful, "spec"));
    // A recursive type refers to itself.
    let crd = built_in("apiextensions.k8s.io/v1", "CustomResourceDefinition").schema.cel_type();
    let schema = "spec.versions.[].schema.openAPIV3Schema";
    assert_eq!(at(&crd, schema), at(&crd, &format!("{schema}.properties.[].not")));
}

#[test]
fn built_in_kinds_have_their_scope_and_plural() {
    for (api_version, kind, plural, namespaced) in [
        ("v1", "Namespace", "namespaces", false),
        ("v1", "Pod", "pods", true),
        ("v1", "Endpoints", "endpoints", true),
        ("v1", "Node", "nodes", false),
        ("networking.k8s.io/v1", "Ingress", "ingresses", true),
        ("networking.k8s.io/v1", "IngressClass", "ingressclasses", false),
        ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", true),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", true),
        ("storage.k8s.io/v1", "StorageClass", "storageclasses", false),
        ("batch/v1", "CronJob", "cronjobs", true),
        ("authentication.k8s.io/v1", "TokenReview", "tokenreviews", false),
        ("authorization.k8s.io/v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", true),
        ("apiregistration.k8s.io/v1", "APIService", "apiservices", false),
    ] {
        let resolved = built_in(api_version, kind);
        assert_eq!((&*resolved.plural, resolved.namespaced), (plural, namespaced), "{kind}");
    }
    let bundle = Bundle::latest();
    assert_eq!(bundle.minor(), "1.36");
    assert!(bundle.server_version().starts_with("v1.36."));
    assert!(bundle.kinds().len() > 60, "{} kinds", bundle.kinds().len());
    for list in ["PodList", "DeleteOptions", "WatchEvent", "Scale"] {
        assert!(bundle.kinds().iter().all(|kind| kind.kind != list), "{list} is not a resource");
    }
}

#[test]
fn every_built_in_kind_can_be_resolved() {
    for bundle in Bundle::versions().map(|version| Bundle::of_version(version).unwrap()) {
        for kind in bundle.kinds() {
            let resolved = bundle.resolve(&kind).unwrap();
            let Type::Object(object) = resolved.schema.cel_type() else { panic!("{kind} is not an object") };
            for field in ["apiVersion", "kind"] {
                assert_eq!(object.field(field), Some(Type::String), "{kind}.{field}");
            }
            assert!(!schema_of(&Type::Object(object)).to_value().to_string().is_empty());
        }
    }
}

#[test]
fn every_bundle_has_the_kinds_and_fields_of_its_version() {
    let [newest, oldest] = ["1.36", "1.30"].map(|version| Bundle::of_version(version).unwrap());
    assert_eq!(Bundle::versions().collect::<Vec<_>>(), [newest.minor(), oldest.minor()]);
    assert!(oldest.server_version().starts_with("v1.30."));
    let deployment = GroupVersionKind::new("apps/v1", "Deployment");
    let [new, old] = [&newest, &oldest].map(|bundle| bundle.resolve(&deployment).unwrap().schema.cel_type());
    for (path, expected) in [
        ("spec.replicas", ["int", "int"]),
        ("spec.template.spec.containers.[].image", ["string", "string"]),
        // Pod-level resources were added in 1.32.
        ("spec.template.spec.resources", ["ResourceRequirements", "none"]),
    ] {
        assert_eq!([shown(&new, path), shown(&old, path)], expected, "{path}");
    }
    for (api_version, kind, expected) in [
        ("v1", "Pod", [true, true]),
        ("networking.k8s.io/v1", "ServiceCIDR", [true, false]),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", [false, true]),
    ] {
        let kind = GroupVersionKind::new(api_version, kind);
        assert_eq!([&newest, &oldest].map(|bundle| bundle.resolve(&kind).is_some()), expected, "{kind}");
    }
}

#[test]
fn a_bundle_is_found_by_version() {
    for version in ["1.36", "v1.36", "1.36.3", "v1.36.0"] {
        assert_eq!(Bundle::of_version(version).unwrap().minor(), "1.36");
    }
    assert_eq!(Bundle::of_version("v1.30.2").unwrap().minor(), "1.30");
    let error = Bundle::of_version("1.7").unwrap_err();
    assert_eq!(error.to_string(), "there are no schemas for Kubernetes 1.7; available versions: 1.36, 1.30");
}

#[test]
fn raw_data_is_converted_only_for_types_that_need_it() {
    let needs = |root: &Type, path: &str| match at(root, path) {
        Some(Type::Object(object)) => object.needs_conversion(),
        other => panic!("{path} is {other:?}"),
    };
    let deployment = built_in("apps/v1", "Deployment").schema.cel_type();
    assert!(needs(&deployment, ""));
    assert!(needs(&deployment, "metadata"));
    assert!(!needs(&deployment, "spec.selector"));
    assert!(!needs(&deployment, "spec.strategy"));
    assert!(needs(&deployment, "status"));
    let crd = built_in("apiextensions.k8s.io/v1", "CustomResourceDefinition").schema.cel_type();
    assert!(needs(&crd, "spec.versions.[].schema.openAPIV3Schema"));
}

fn schema(json: &str) -> Schema {
    Schema::from_json(json, Keep::Everything).unwrap()
}

fn type_name(json: &str) -> String {
    SchemaView::of("Thing", schema(json)).cel_type().to_string()
}

#[test]
fn schemas_have_their_types() {
    for (json, expected) in [
        (r#"{"type":"string"}"#, "string"),
        (r#"{"type":"string","format":"byte"}"#, "bytes"),
        (r#"{"type":"string","format":"date-time"}"#, "timestamp"),
        (r#"{"type":"string","format":"duration"}"#, "duration"),
        (r#"{"type":"string","format":"uuid"}"#, "string"),
        (r#"{"type":"integer","format":"int32"}"#, "int"),
        (r#"{"type":"number"}"#, "double"),
        (r#"{"type":"boolean"}"#, "bool"),
        (r#"{"type":"string","nullable":true}"#, "nullable(string)"),
        (r#"{"x-kubernetes-int-or-string":true}"#, "dyn"),
        (r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}"#, "dyn"),
        (r#"{"oneOf":[{"type":"string"},{"type":"number"}]}"#, "dyn"),
        (r#"{}"#, "dyn"),
        (r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#, "dyn"),
        (
            r#"{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}"#,
            "dyn",
        ),
        (r#"{"type":"array"}"#, "list(dyn)"),
        (r#"{"type":"array","items":{"type":"array","items":{"type":"integer"}}}"#, "list(list(int))"),
        (
            r#"{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}}"#,
            "list(Thing[])",
        ),
        (r#"{"type":"object","additionalProperties":{"type":"integer"}}"#, "map(string, int)"),
        (r#"{"type":"object","additionalProperties":true}"#, "map(string, dyn)"),
        (r#"{"type":"object"}"#, "Thing"),
        (r#"{"type":"object","properties":{"a":{"type":"string"}}}"#, "Thing"),
        (r#"{"properties":{"a":{"type":"string"}}}"#, "Thing"),
        (r#"{"type":"object","allOf":[{"properties":{"a":{"type":"string"}}},{"required":["a"]}]}"#, "Thing"),
        (r##"{"$ref":"#/components/schemas/Missing"}"##, "dyn"),
        (r##"{"$ref":"#/components/schemas/Thing"}"##, "dyn"),
        (r##"{"allOf":[{"$ref":"#/components/schemas/Thing"}]}"##, "dyn"),
    ] {
        assert_eq!(type_name(json), expected, "{json}");
    }
}

#[test]
fn all_of_adds_fields_and_requirements() {
    let merged = r#"{"type":"object","properties":{"a":{"type":"string"}},
        "allOf":[{"properties":{"b":{"type":"integer"},"a":{"minLength":1}}},{"required":["a"]}]}"#;
    let Type::Object(object) = SchemaView::of("Thing", schema(merged)).cel_type() else { panic!() };
    assert_eq!(object.field("a"), Some(Type::String));
    assert_eq!(object.field("b"), Some(Type::Int));
    assert!(object.is_required("a") && !object.is_required("b"));
}

#[test]
fn an_embedded_resource_has_the_fields_of_every_object() {
    let embedded = r#"{"type":"object","x-kubernetes-embedded-resource":true,
        "properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}"#;
    let found = SchemaView::of("Thing", schema(embedded)).cel_type();
    assert_eq!(shown(&found, "apiVersion"), "string");
    assert_eq!(shown(&found, "metadata"), "ObjectMeta");
    assert_eq!(shown(&found, "spec"), "Thing.spec");
    assert_eq!(shown(&found, "spec.size"), "int");
}

const WIDGET: &str = r#"{
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com", "resourceVersion": "7"},
    "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "description": "a widget",
                "properties": {
                    "metadata": {"type": "object"},
                    "spec": {"type": "object", "properties": {
                        "ports": {"type": "array", "items": {"type": "object", "properties": {"number": {"type": "integer"}}}},
                        "ratio": {"type": "number"}
                    }}
                }
            }}},
            {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true
            }}},
            {"name": "v1alpha1", "served": false, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ]
    }
}"#;

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

#[test]
fn a_crd_provides_the_kinds_that_it_serves() {
    let crds = CrdSchemas::new();
    let kinds = crds.insert(&parse(WIDGET)).unwrap();
    let shown: Vec<String> = kinds.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["example.com/v1 Widget", "example.com/v1beta1 Widget"]);
    let widget = crds.resolve(&kinds[0]).unwrap();
    assert_eq!((&*widget.plural, widget.namespaced), ("widgets", true));
    let found = widget.schema.cel_type();
    for (path, expected) in [
        ("", "Widget"),
        ("apiVersion", "string"),
        ("metadata", "ObjectMeta"),
        ("spec", "Widget.spec"),
        ("spec.ports", "list(Widget.spec.ports[])"),
        ("spec.ports.[].number", "int"),
        ("status", "none"),
    ] {
        assert_eq!(self::shown(&found, path), expected, "{path}");
    }
    // Metadata has the same type everywhere.
    assert_eq!(at(&found, "metadata"), at(&built_in("v1", "Pod").schema.cel_type(), "metadata"));
    assert_eq!(crds.held_version("widgets.example.com").as_deref(), Some("7"));
    assert!(crds.remove("widgets.example.com"));
    assert!(crds.resolve(&kinds[0]).is_none() && crds.kinds().is_empty());
}

#[test]
fn an_invalid_crd_is_reported_and_the_previous_one_is_kept() {
    let crds = CrdSchemas::new();
    crds.insert(&parse(WIDGET)).unwrap();
    let broken = WIDGET.replace(r#""type": "number""#, r#""type": "numbr""#).replace("Namespaced", "Global");
    let problems = crds.insert(&parse(&broken)).unwrap_err();
    let shown: Vec<String> =
        problems.iter().map(|problem| format!("{} {}", problem.place.path, problem.message)).collect();
    insta::assert_snapshot!(shown.join("\n"));
    assert!(crds.resolve(&GroupVersionKind::new("example.com/v1", "Widget")).is_some());
    let problems = crds.insert(&parse(r#"{"kind": "CustomResourceDefinition", "spec": {"versions": [{}]}}"#));
    assert_eq!(problems.unwrap_err().len(), 5);
}

#[test]
fn a_kind_has_one_type_as_long_as_it_is_in_use() {
    let crds = CrdSchemas::new();
    let kind = GroupVersionKind::new("example.com/v1", "Widget");
    crds.insert(&parse(WIDGET)).unwrap();
    let first = crds.resolve(&kind).unwrap().schema.cel_type();
    for n in 0..100 {
        let other = WIDGET.replace("example.com", &format!("e{n}.example.com"));
        crds.insert(&parse(&other)).unwrap();
        crds.resolve(&GroupVersionKind::new(&format!("e{n}.example.com/v1"), "Widget")).unwrap();
    }
    assert_eq!(first, crds.resolve(&kind).unwrap().schema.cel_type());
    crds.insert(&parse(&WIDGET.replace("ratio", "share"))).unwrap();
    let second = crds.resolve(&kind).unwrap().schema.cel_type();
    assert_ne!(first, second);
    assert_eq!(shown(&second, "spec.share"), "double");
    assert_eq!(shown(&first, "spec.ratio"), "double");
}

fn document(kind: &str) -> String {
    format!(
        r##"{{"openapi": "3.0.0", "paths": {{
            "/apis/example.com/v1/{plural}": {{"get": {{"x-kubernetes-group-version-kind": {gvk}}}}},
            "/apis/example.com/v1/namespaces/{{namespace}}/{plural}": {{"post": {{"x-kubernetes-group-version-kind": {gvk}}}}},
            "/apis/example.com/v1/namespaces/{{namespace}}/{plural}/{{name}}/status": {{"get": {{"x-kubernetes-group-version-kind": {gvk}}}}}
        }}, "components": {{"schemas": {{
            "com.example.v1.{kind}": {{"type": "object", "description": "{filler}", "properties": {{
                "metadata": {{"allOf": [{{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}]}},
                "spec": {{"$ref": "#/components/schemas/com.example.v1.Spec"}}
            }}, "x-kubernetes-group-version-kind": [{gvk}]}},
            "com.example.v1.Spec": {{"type": "object", "properties": {{"size": {{"type": "integer"}}}}}},
            "com.example.v1.Unused": {{"type": "object"}},
            "com.example.v1.{kind}List": {{"type": "object", "x-kubernetes-group-version-kind": [{{"group": "example.com", "version": "v1", "kind": "{kind}List"}}]}}
        }}}}}}"##,
        plural = format!("{}s", kind.to_lowercase()),
        gvk = format!(r#"{{"group": "example.com", "version": "v1", "kind": "{kind}"}}"#),
        filler = "for people ".repeat(1_000),
    )
}

#[test]
fn a_live_document_provides_kinds_and_is_replaced_when_its_hash_changes() {
    let live = LiveSchemas::new();
    assert!(live.insert("example.com/v1", "A", document("Widget").as_bytes()).unwrap());
    assert!(!live.insert("example.com/v1", "A", b"is not even parsed").unwrap());
    assert!(live.insert("example.com/v1", "B", b"{").is_err());
    assert_eq!(live.hash("example.com/v1").as_deref(), Some("A"));
    let shown: Vec<String> = live.kinds().iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["example.com/v1 Widget"]);
    let widget = live.resolve(&live.kinds()[0]).unwrap();
    assert_eq!((&*widget.plural, widget.namespaced), ("widgets", true));
    assert_eq!(self::shown(&widget.schema.cel_type(), "spec.size"), "int");
    assert!(live.insert("example.com/v1", "C", document("Gadget").as_bytes()).unwrap());
    assert!(live.resolve(&widget.kind).is_none());
    live.retain(|group_version| group_version != "example.com/v1");
    assert!(live.kinds().is_empty());
}

/// A CRD about as large as the largest ones in practice: 12,000 fields with descriptions.
fn large_crd(n: usize) -> Value {
    let fields = |count: usize, inner: &dyn Fn(usize) -> String| {
        (0..count).map(|at| format!(r#""field{at}": {}"#, inner(at))).collect::<Vec<_>>().join(",")
    };
    let leaf =
        |at: usize| format!(r#"{{"type": "string", "description": "{} {at} of {n}"}}"#, "long ".repeat(30));
    let middle = |_| format!(r#"{{"type": "object", "properties": {{{}}}}}"#, fields(24, &leaf));
    let outer = |_| format!(r#"{{"type": "object", "properties": {{{}}}}}"#, fields(25, &middle));
    let spec = format!(r#"{{"type": "object", "properties": {{{}}}}}"#, fields(20, &outer));
    let mut crd = parse(&WIDGET.replace("example.com", &format!("g{n}.example.com")));
    let schema = parse(&format!(r#"{{"type": "object", "properties": {{"spec": {spec}}}}}"#));
    let versions = Value::list([Value::object([
        ("name", Value::from("v1")),
        ("served", Value::from(true)),
        ("schema", Value::object([("openAPIV3Schema", schema)])),
    ])]);
    crd.as_object_mut()
        .unwrap()
        .get_mut("spec")
        .unwrap()
        .as_object_mut()
        .unwrap()
        .insert("versions", versions);
    crd
}

#[test]
fn two_hundred_large_crds_fit_into_a_few_megabytes() {
    let crds = CrdSchemas::new();
    for n in 0..3 {
        crds.insert(&large_crd(n)).unwrap();
    }
    let each = crds.held_bytes() / 3;
    assert!(each * 200 < 8 << 20, "each takes {each} bytes");
}

#[test]
fn the_first_resolver_that_has_a_kind_takes_precedence() {
    let crds = CrdSchemas::new();
    crds.insert(&parse(&WIDGET.replace("example.com", "apps").replace("Widget", "Deployment"))).unwrap();
    let overlay = Overlay::new(vec![Arc::new(crds), Bundle::latest()]);
    let own = overlay.resolve(&GroupVersionKind::new("apps/v1", "Deployment")).unwrap();
    assert_eq!(&*own.plural, "widgets");
    assert!(overlay.resolve(&GroupVersionKind::new("v1", "Pod")).is_some());
    assert!(overlay.resolve(&GroupVersionKind::new("v1", "Nothing")).is_none());
}

#[test]
fn a_similar_kind_is_suggested_for_an_unknown_one() {
    let bundle = Bundle::latest();
    let nearest = |api_version, kind| resolver::nearest(&*bundle, &GroupVersionKind::new(api_version, kind));
    assert_eq!(nearest("v1", "Deployment"), resolver::Nearest::OtherApiVersions(vec!["apps/v1".to_owned()]));
    let meant = GroupVersionKind::new("apps/v1", "Deployment");
    assert_eq!(nearest("apps/v1", "Deploymnet"), resolver::Nearest::OtherKind(meant.clone()));
    assert_eq!(nearest("extensions/v1beta1", "deployment"), resolver::Nearest::OtherKind(meant));
    assert_eq!(nearest("v1", "Zzzzzzzz"), resolver::Nearest::Nothing);
    let versions =
        resolver::Nearest::OtherApiVersions(vec!["autoscaling/v1".into(), "autoscaling/v2".into()]);
    assert_eq!(nearest("autoscaling/v2beta2", "HorizontalPodAutoscaler"), versions);
}

#[test]
fn schemas_are_inferred_from_types() {
    let object = SchemaView::of(
        "Thing",
        schema(r#"{"type":"object","properties":{"when":{"type":"string","format":"date-time"},"any":{}}}"#),
    );
    for (found, expected) in [
        (Type::Bool, r#"{"type":"boolean"}"#),
        (Type::UInt, r#"{"type":"integer"}"#),
        (Type::Timestamp, r#"{"format":"date-time","type":"string"}"#),
        (Type::Dyn, r#"{"x-kubernetes-preserve-unknown-fields":true}"#),
        (Type::list(Type::Double), r#"{"items":{"type":"number"},"type":"array"}"#),
        (
            Type::list(Type::list(Type::Dyn)),
            r#"{"items":{"items":{"x-kubernetes-preserve-unknown-fields":true},"type":"array"},"type":"array"}"#,
        ),
        (
            Type::map(Type::String, Type::Int),
            r#"{"additionalProperties":{"type":"integer"},"type":"object"}"#,
        ),
        (Type::map(Type::Int, Type::Int), r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#),
        (Type::optional(Type::String), r#"{"type":"string"}"#),
        (Type::nullable(Type::String), r#"{"nullable":true,"type":"string"}"#),
        (
            object.cel_type(),
            r#"{"properties":{"any":{"x-kubernetes-preserve-unknown-fields":true},"when":{"format":"date-time","type":"string"}},"type":"object"}"#,
        ),
    ] {
        assert_eq!(schema_of(&found).to_value().to_string(), expected, "{found}");
    }
    let crd = built_in("apiextensions.k8s.io/v1", "CustomResourceDefinition").schema.cel_type();
    assert!(schema_of(&crd).to_value().to_string().contains("preserve-unknown-fields"));
}

#[test]
fn a_cluster_scoped_instance_has_no_namespace() {
    let spec = schema(r#"{"type":"object","properties":{"name":{"type":"string"}}}"#);
    let namespaced = SchemaView::object("Web", true, [("spec", spec.clone())]).cel_type();
    let cluster = SchemaView::object("Web", false, [("spec", spec)]).cel_type();
    assert_eq!(shown(&namespaced, "metadata.namespace"), "string");
    assert_eq!(shown(&cluster, "metadata.namespace"), "none");
    assert_eq!(shown(&cluster, "metadata.name"), "string");
    assert_eq!(shown(&cluster, "metadata"), "ObjectMeta");
    assert_eq!(shown(&cluster, "spec"), "Web.spec");
    assert_eq!(shown(&cluster, "status"), "none");
}

#[test]
fn schemas_round_trip() {
    for json in [
        r#"{"default":{"a":1},"description":"d","format":"f","maxLength":3,"nullable":true,"pattern":"p","type":"string"}"#,
        r#"{"items":{"type":"string"},"maxItems":3,"minItems":1,"type":"array","x-kubernetes-list-map-keys":["a"],"x-kubernetes-list-type":"map"}"#,
        r#"{"additionalProperties":false,"maxProperties":3,"minProperties":1,"type":"object","x-kubernetes-map-type":"atomic"}"#,
        r#"{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true}"#,
        r#"{"exclusiveMaximum":true,"maximum":1.5,"minimum":-3,"multipleOf":2,"not":{"enum":[1]},"type":"number"}"#,
        r#"{"x-kubernetes-validations":[{"fieldPath":".a","message":"m","reason":"FieldValueInvalid","rule":"self"}]}"#,
        r##"{"allOf":[{"$ref":"#/components/schemas/a.b.C"}],"default":{}}"##,
        r#"{"format":"int-or-string","oneOf":[{"type":"integer"},{"type":"string"}]}"#,
        r#"{"example":{"a":[null]},"externalDocs":{"url":"u"},"title":"t"}"#,
    ] {
        assert_eq!(schema(json).to_value().to_string(), json);
        assert_eq!(Schema::from_value(&parse(json), Keep::Everything).unwrap(), schema(json));
    }
    assert!(Schema::from_json(r#"{"type":"text"}"#, Keep::Everything).is_err());
    let deep = format!("{}{}", r#"{"items":"#.repeat(125), "{}".to_owned() + &"}".repeat(125));
    assert!(Schema::from_json(&deep, Keep::Everything).is_err());
}
