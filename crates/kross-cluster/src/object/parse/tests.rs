use serde_json::{Value as Json, json};

use super::*;

fn ours() -> Json {
    json!({"f:metadata": {"f:labels": {"f:tier": {}}},
           "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
               "k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}}}}}}})
}

fn deployment() -> Json {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "12", "generation": 3,
            "labels": {"tier": "web", "other": "x"},
            "annotations": {LAST_APPLIED: "{}"},
            "managedFields": [
                {"manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                 "fieldsV1": {"f:spec": {"f:paused": {}}}},
                {"manager": managers::APPLYSET, "operation": "Apply", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
                 "fieldsType": "FieldsV1", "fieldsV1": ours()},
                {"manager": managers::APPLYSET, "operation": "Apply", "apiVersion": "apps/v1", "subresource": "status",
                 "fieldsV1": {"f:status": {}}}
            ]
        },
        "spec": {"replicas": 3, "paused": false, "template": {"spec": {"containers": [
            {"name": "sidecar", "image": "s:1"}, {"name": "web", "image": "w:1", "imagePullPolicy": "Always"}]}}}
    })
}

fn desired() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"tier": "web"}, "creationTimestamp": null},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "web", "image": "w:1"}]}}}
    })
    .into()
}

fn object(json: &Json) -> StoredObject {
    read_object(json.to_string().as_bytes()).unwrap()
}

fn changed(change: impl FnOnce(&mut Json)) -> StoredObject {
    let mut json = deployment();
    change(&mut json);
    object(&json)
}

#[test]
fn drops_managed_fields_and_the_last_applied_annotation_only() {
    let object = object(&deployment());
    assert_eq!((object.api_version(), object.group(), object.kind()), ("apps/v1", "apps", "Deployment"));
    assert_eq!((object.name().as_str(), object.namespace().unwrap().as_str()), ("web", "shop"));
    assert_eq!((object.version(), object.generation()), (Some(12), Some(3)));
    assert_eq!((object.label("tier"), object.deletion_timestamp()), (Some("web"), None));
    assert_eq!(object.value().at(&["spec", "replicas"]), Some(&Value::Int(3)));
    assert!(object.value().at(&["metadata", "managedFields"]).is_none());
    assert!(object.value().at(&["metadata", "annotations"]).is_none());
}

#[test]
fn the_digest_ignores_fields_of_other_managers() {
    let digest = object(&deployment()).owned_digest().unwrap();
    let noise: [fn(&mut Json); 5] = [
        |json| json["metadata"]["resourceVersion"] = json!("99"),
        |json| json["metadata"]["labels"]["other"] = json!("y"),
        |json| json["metadata"]["managedFields"][1]["time"] = json!("2027-01-01T00:00:00Z"),
        |json| json["spec"]["template"]["spec"]["containers"][0]["image"] = json!("s:2"),
        |json| json["status"] = json!({"replicas": 3}),
    ];
    for change in noise {
        assert_eq!(changed(change).owned_digest(), Some(digest));
    }
}

#[test]
fn the_digest_changes_with_the_fields_we_own() {
    let digest = object(&deployment()).owned_digest().unwrap();
    let drift: [fn(&mut Json); 5] = [
        |json| json["spec"]["replicas"] = json!(4),
        |json| json["metadata"]["labels"]["tier"] = json!("db"),
        |json| json["spec"]["template"]["spec"]["containers"][1]["image"] = json!("w:2"),
        |json| json["spec"]["template"]["spec"]["containers"] = json!([]),
        // Another manager took over a field: the value is the same, the field set is not.
        |json| {
            drop(
                json["metadata"]["managedFields"][1]["fieldsV1"]["f:spec"]
                    .as_object_mut()
                    .unwrap()
                    .remove("f:replicas"),
            );
        },
    ];
    for change in drift {
        assert_ne!(changed(change).owned_digest(), Some(digest));
    }
}

#[test]
fn recognises_an_object_that_is_already_applied() {
    assert!(object(&deployment()).is_applied(&desired()));
    assert!(!changed(|json| json["spec"]["replicas"] = json!(4)).is_applied(&desired()));
    let set = |json: &mut Json, set: Json| json["metadata"]["managedFields"][1]["fieldsV1"] = set;
    assert!(!changed(|json| set(json, json!({"f:spec": {"f:replicas": {}}}))).is_applied(&desired()));
    let mut more = desired();
    let spec = more.as_object_mut().unwrap().get_mut("spec").unwrap().as_object_mut().unwrap();
    spec.insert("minReadySeconds", Value::Int(5));
    assert!(!object(&deployment()).is_applied(&more));
    // We own a field that is no longer desired.
    let mut extra = ours();
    extra["f:spec"]["f:paused"] = json!({});
    assert!(!changed(|json| set(json, extra)).is_applied(&desired()));
}

#[test]
fn list_keys_that_the_server_defaults_may_be_omitted() {
    let service = object(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "managedFields": [
            {"manager": managers::APPLYSET, "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:spec": {"f:ports": {
                "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
                "k:{\"port\":80,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}, "f:protocol": {}}}}}}]},
        "spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 80, "protocol": "UDP", "targetPort": 80}]}
    }));
    let desired = |first: Json| -> Value {
        json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80, "protocol": "UDP"}, first]}})
            .into()
    };
    assert!(service.is_applied(&desired(json!({"port": 80}))));
    assert!(!service.is_applied(&desired(json!({"port": 81}))));
}

#[test]
fn an_object_without_our_manager_has_no_digest() {
    let stranger = changed(|json| json["metadata"]["managedFields"] = json!([]));
    assert_eq!(stranger.owned_digest(), None);
    assert!(!stranger.is_applied(&desired()));
    assert!(changed(|json| json["metadata"]["managedFields"] = Json::Null).owned_digest().is_none());
}

#[test]
fn list_items_get_the_kind_of_the_list() {
    let list = json!({
        "kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": "next", "remainingItemCount": 2},
        "items": [{"metadata": {"name": "a", "uid": "1"}}, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}]
    });
    let list = read_list(list.to_string().as_bytes(), "v1", "ConfigMap").unwrap();
    assert_eq!((list.resource_version.as_str(), list.next.as_deref()), ("7", Some("next")));
    assert!(list.items.iter().all(|item| (item.api_version(), item.kind()) == ("v1", "ConfigMap")));
    let empty =
        read_list(br#"{"items":null,"metadata":{"resourceVersion":"7","continue":""}}"#, "v1", "ConfigMap")
            .unwrap();
    assert!(empty.items.is_empty() && empty.next.is_none());
}

#[test]
fn a_parse_error_never_quotes_the_response() {
    let answers = [
        r#"{"metadata":{"name":"a","managedFields":"s3cret"}}"#,
        r#"{"metadata":"s3cret"}"#,
        r#"{"data":{"password":"s3cret"}}"#,
        r#"{"metadata":{"name":"a"}} s3cret"#,
        r#"{"metadata":{"name":"s3cret"#,
        "s3cret",
        "",
    ];
    for answer in answers {
        let error = read_object(answer.as_bytes()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(read_object(format!(r#"{{"metadata":{{"name":"a"}},"x":{deep}}}"#).as_bytes()).is_err());
}

/// An object with a field that is nested this deep, and with managed fields of the same depth.
fn nested(name: &str, depth: usize) -> String {
    let deep = |key: &str| format!("{}1{}", format!("{{\"{key}\":").repeat(depth), "}".repeat(depth));
    format!(
        r#"{{"spec":{{"blob":{}}},"metadata":{{"name":"{name}","namespace":"shop","uid":"u","resourceVersion":"12",
        "labels":{{"tier":"web"}},"finalizers":["f"],"annotations":{{"a":"b","{LAST_APPLIED}":"x"}},
        "managedFields":[{{"manager":"{}","operation":"Apply","apiVersion":"v1","fieldsV1":{}}}]}}}}"#,
        deep("a"),
        managers::APPLYSET,
        deep("f:a"),
    )
}

#[test]
fn an_unreadable_item_of_a_list_is_an_outline_and_the_others_are_whole() {
    for depth in [140, 100_000] {
        let items = [nested("a", 3), nested("deep", depth), nested("b", 3)].join(",");
        let list = format!(r#"{{"metadata":{{"resourceVersion":"7","continue":"next"}},"items":[{items}]}}"#);
        let list = read_list(list.as_bytes(), "v1", "Blob").unwrap();
        assert_eq!((list.resource_version.as_str(), list.next.as_deref()), ("7", Some("next")));
        let [a, deep, b] = &*list.items else { panic!("three items") };
        for whole in [a, b] {
            assert!(whole.unreadable().is_none());
            assert!(whole.value().at(&["spec", "blob", "a"]).is_some());
        }
        let reason = deep.unreadable().unwrap().to_string();
        assert!(reason.contains("nested too deeply"), "{reason}");
        assert_eq!((deep.name().as_str(), deep.namespace().unwrap().as_str()), ("deep", "shop"));
        assert_eq!((deep.uid().as_str(), deep.version(), deep.label("tier")), ("u", Some(12), Some("web")));
        assert_eq!((deep.api_version(), deep.kind()), ("v1", "Blob"));
        assert_eq!((deep.annotation("a"), deep.annotation(LAST_APPLIED)), (Some("b"), None));
        assert!(deep.value().get("spec").is_none() && deep.owned_digest().is_none());
    }
}

#[test]
fn an_object_without_a_readable_name_has_no_outline() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    for object in [format!(r#"{{"spec":{deep}}}"#), format!(r#"{{"metadata":{deep}}}"#), deep, "1".to_owned()]
    {
        assert!(read_object_or_outline(object.as_bytes()).is_err());
        let other = r#"{"metadata":{"name":"other"}}"#;
        let list = format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{object},{other},{object}]}}"#);
        let list = read_list(list.as_bytes(), "v1", "Blob").unwrap();
        assert_eq!((list.items.len(), list.dropped), (1, 2), "{object}");
        assert_eq!(list.items[0].name().as_str(), "other");
        assert_eq!(list.resource_version, "9");
    }
    assert!(read_list(b"{\"items\":1}", "v1", "Blob").is_err());
    assert!(read_list(b"<html>", "v1", "Blob").is_err());
    assert!(read_object(nested("a", 140).as_bytes()).is_err());
    assert!(read_object_or_outline(nested("a", 140).as_bytes()).unwrap().unreadable().is_some());
}

#[test]
fn the_debug_output_has_the_name_and_no_content() {
    let secret = br#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"shop","uid":"7",
        "resourceVersion":"12","labels":{"canary":"canary"}},"data":{"canary":"Y2FuYXJ5"}}"#;
    let shown = format!("{:#?}", read_object(secret).unwrap());
    assert_eq!(shown, "StoredObject(Secret shop/a, version 12)");
}
