//! `kross generate`.

use serde_json::Value as Json;

use super::{documents, example, kross, repository, write};

const FIELDS: &str = r#"apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata:
  name: fields
spec:
  schema:
    apiVersion: v1alpha1
    kind: Fields
    types:
      Port:
        name: string | required=true pattern="^[a-z]{2,8}$"
        number: integer | required=true minimum=1024
    spec:
      name: string | required=true description="How it is called."
      region: string | required=true enum="eu,us"
      code: string | required=true pattern="^[A-Z]{3}-[0-9]+$" minLength=6
      size: integer | required=true minimum=3 maximum=9
      ratio: float | required=true minimum=0.5
      enabled: boolean | required=true
      ports: "[]Port | required=true minItems=2"
      zones: "[]string | required=true minItems=2"
      labels: "map[string]string | required=true"
      image: string | default="nginx"
      nested:
        optional: string
        deep:
          value: integer | default=3
  resources:
    - id: settings
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: ${schema.spec.name}
"#;

#[test]
fn a_generated_instance_has_every_required_field_and_is_valid() {
    for all in [&[][..], &["--all"]] {
        let arguments = [&["generate", "instance", "-", "--name", "web"][..], all].concat();
        let (code, data, notes) = kross(&arguments, FIELDS);
        assert_eq!((code, notes.as_str()), (0, ""), "{data}");
        if all.is_empty() {
            insta::assert_snapshot!("generated_instance", data);
        }
        let folder = tempfile::tempdir().unwrap();
        let definition = write(folder.path(), "definition.yaml", FIELDS);
        let instance = write(folder.path(), "instance.yaml", &data);
        let (code, _, notes) = kross(&["render", &definition, "--instance", &instance], "");
        assert_eq!(code, 0, "{notes}\n{data}");
    }
}

#[test]
fn the_instance_of_every_example_renders() {
    let mut count = 0;
    for entry in std::fs::read_dir(repository().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let path = path.to_str().unwrap();
        let (code, data, notes) = kross(&["generate", "instance", path], "");
        if notes.contains("exists already") || notes.contains("choose one") {
            continue;
        }
        assert_eq!(code, 0, "{path}: {notes}");
        let folder = tempfile::tempdir().unwrap();
        let instance = write(folder.path(), "instance.yaml", &data);
        let (_, _, notes) = kross(&["render", path, "--instance", &instance], "");
        assert!(!notes.contains("error[K"), "{path}: {notes}\n{data}");
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn a_rule_that_the_instance_breaks_is_named() {
    let text = FIELDS.replace(
        "size: integer | required=true minimum=3 maximum=9",
        "size: integer | required=true validation=\"self > 5\"",
    );
    let (code, _, notes) = kross(&["generate", "instance", "-"], &text);
    assert!(code == 0 && notes.contains("edit the instance before you apply it: `spec.size`"), "{notes}");
}

#[test]
fn the_json_schema_refuses_unknown_fields_and_wrong_types() {
    let (code, data, notes) = kross(&["generate", "json-schema", "-"], FIELDS);
    assert_eq!(code, 0, "{notes}");
    insta::assert_snapshot!("json_schema", data);
    let (code, data, _) = kross(&["generate", "json-schema"], "");
    let schema: Json = serde_json::from_str(&data).unwrap();
    assert_eq!(code, 0);
    assert_eq!(schema["properties"]["kind"]["const"], "ResourceGraphDefinition");
    assert!(!data.contains("x-kubernetes"), "extensions are converted");
    let (code, data, _) =
        kross(&["generate", "json-schema", &example("web-application"), &example("multi-region")], "");
    let schema: Json = serde_json::from_str(&data).unwrap();
    assert_eq!(code, 0);
    assert_eq!(schema["allOf"].as_array().unwrap().len(), 2);
}

#[test]
fn the_documentation_has_every_field() {
    let (code, data, notes) = kross(&["generate", "docs", "-"], FIELDS);
    assert_eq!(code, 0, "{notes}");
    insta::assert_snapshot!("api_documentation", data);
    let block = data.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(documents(block)[0]["kind"], "Fields");
    let (code, _, notes) = kross(&["generate", "docs", "-"], "kind: ConfigMap\n");
    assert!(code == 2 && notes.contains("no ResourceGraphDefinition found"), "{notes}");
}
