//! Output and exit codes of `kross render`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Exit code, standard output, standard error.
type Ran = (i32, String, String);

fn kross(arguments: &[&str]) -> Ran {
    let output =
        Command::new(env!("CARGO_BIN_EXE_kross")).args(arguments).current_dir(repository()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder of files that is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let path = std::env::temp_dir().join(format!("kross-render-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        for (file, text) in files {
            fs::write(path.join(file), text).unwrap();
        }
        Self(path)
    }

    fn path(&self, file: &str) -> String {
        self.0.join(file).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const DEFINITION: &str = "\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata:
  name: shop
spec:
  schema:
    apiVersion: v1alpha1
    kind: Shop
    spec:
      name: string | required=true
      replicas: integer | default=2
      extra: boolean | default=false
  resources:
    - id: web
      template:
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: ${schema.spec.name}
        spec:
          replicas: ${schema.spec.replicas}
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec: {containers: [{name: web, image: nginx}]}
    - id: settings
      externalRef:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: settings}
    - id: note
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: note
        data:
          replicas: ${string(web.status.readyReplicas)}
          value: ${settings.data.value}
    - id: extra
      includeWhen: ['${schema.spec.extra}']
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: extra}
";

const INSTANCE: &str =
    "{apiVersion: kro.run/v1alpha1, kind: Shop, metadata: {name: one}, spec: {name: corner}}";

#[test]
fn objects_are_in_apply_order_and_missing_ones_have_a_reason() {
    let folder = Folder::new("order", &[("rgd.yaml", DEFINITION), ("shop.yaml", INSTANCE)]);
    let (code, data, notes) =
        kross(&["render", &folder.path("rgd.yaml"), "--instance", &folder.path("shop.yaml")]);
    assert_eq!(code, 0, "{notes}");
    assert!(data.starts_with("# web\napiVersion: apps/v1\nkind: Deployment\n"), "{data}");
    assert!(data.contains("  replicas: 2\n"), "defaults are applied: {data}");
    assert!(data.contains("namespace: default"), "{data}");
    assert_eq!(
        notes,
        "pending `settings`: external reference: ConfigMap default/settings does not exist\n\
         pending `note`: waiting for `settings`\n\
         skipped `extra`: `includeWhen` is false: `schema.spec.extra`\n"
    );
}

#[test]
fn a_required_field_that_the_instance_lacks_is_an_error_about_the_instance() {
    let instance = "{apiVersion: kro.run/v1alpha1, kind: Shop, metadata: {name: one}, spec: {}}";
    let folder = Folder::new("required", &[("rgd.yaml", DEFINITION), ("shop.yaml", instance)]);
    let (code, data, notes) =
        kross(&["render", &folder.path("rgd.yaml"), "--instance", &folder.path("shop.yaml")]);
    assert_eq!((code, data.as_str()), (1, ""), "{notes}");
    insta::assert_snapshot!("missing_instance_field", notes.replace(&folder.path(""), ""));
}

#[test]
fn observed_objects_resolve_pending_resources() {
    let observed = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {value: hello}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: corner, namespace: default}
status: {readyReplicas: 2}
";
    let files = [("rgd.yaml", DEFINITION), ("shop.yaml", INSTANCE), ("observed.yaml", observed)];
    let folder = Folder::new("observed", &files);
    let (definition, instance, observed) =
        (folder.path("rgd.yaml"), folder.path("shop.yaml"), folder.path("observed.yaml"));
    let arguments = ["render", &definition, "--instance", &instance, "--observed", &observed, "-o", "json"];
    let (code, data, notes) = kross(&arguments);
    assert_eq!(code, 0, "{notes}");
    let list: serde_json::Value = serde_json::from_str(&data).unwrap();
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["corner", "note"]);
    assert_eq!(list["items"][1]["data"], serde_json::json!({"replicas": "2", "value": "hello"}));
    assert_eq!(notes, "skipped `extra`: `includeWhen` is false: `schema.spec.extra`\n");
}

#[test]
fn an_invalid_instance_is_rejected_with_its_position() {
    let wrong = "apiVersion: kro.run/v1alpha1\nkind: Shop\nmetadata: {name: one}\nspec:\n  replicas: many\n";
    let folder = Folder::new("invalid", &[("rgd.yaml", DEFINITION), ("shop.yaml", wrong)]);
    let (code, data, notes) =
        kross(&["render", &folder.path("rgd.yaml"), "--instance", &folder.path("shop.yaml")]);
    assert_eq!((code, data.as_str()), (1, ""), "{notes}");
    assert!(notes.contains("shop.yaml:5:13"), "{notes}");
    assert!(notes.contains("`name`"), "{notes}");
}

#[test]
fn an_instance_of_another_kind_is_an_error() {
    let other = "{apiVersion: kro.run/v1alpha1, kind: Other, metadata: {name: one}}";
    let folder = Folder::new("other", &[("rgd.yaml", DEFINITION), ("other.yaml", other)]);
    let (code, _, notes) =
        kross(&["render", &folder.path("rgd.yaml"), "--instance", &folder.path("other.yaml")]);
    assert_eq!(code, 2);
    assert_eq!(notes, "error: no instance of `Shop` in the file of `--instance`\n");
}

#[test]
fn objects_of_remote_clusters_are_headed_by_their_cluster() {
    let instance = "\
apiVersion: kro.run/v1alpha1
kind: MultiRegion
metadata: {name: web, namespace: shop}
spec: {regions: [eu, us], image: nginx}
";
    let folder = Folder::new("regions", &[("web.yaml", instance)]);
    let (code, data, notes) =
        kross(&["render", "examples/multi-region.yaml", "--instance", &folder.path("web.yaml")]);
    assert_eq!(code, 0, "{notes}");
    let headings: Vec<&str> = data.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(
        headings,
        [
            "# deployments in cluster platform/eu-kubeconfig",
            "# deployments in cluster platform/us-kubeconfig"
        ]
    );
    let arguments =
        ["render", "examples/multi-region.yaml", "--instance", &folder.path("web.yaml"), "-o", "json"];
    let list: serde_json::Value = serde_json::from_str(&kross(&arguments).1).unwrap();
    assert_eq!(
        list["resources"],
        serde_json::json!([
            {"id": "deployments", "cluster": "platform/eu-kubeconfig"},
            {"id": "deployments", "cluster": "platform/us-kubeconfig"},
        ])
    );
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
}

#[test]
fn a_cluster_scoped_object_in_a_remote_cluster_has_no_namespace() {
    let definition = "\
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: tenant}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Tenant
    spec: {region: string}
  resources:
    - id: space
      cluster:
        name: ${schema.spec.region}
        kubeconfigSecret: {name: '${schema.spec.region}-kubeconfig', namespace: platform}
      template: {apiVersion: v1, kind: Namespace, metadata: {name: tenant}}
";
    let instance = "{apiVersion: kro.run/v1alpha1, kind: Tenant, metadata: {name: one}, spec: {region: eu}}";
    let folder = Folder::new("scope", &[("rgd.yaml", definition), ("tenant.yaml", instance)]);
    let (code, data, notes) =
        kross(&["render", &folder.path("rgd.yaml"), "--instance", &folder.path("tenant.yaml"), "-o", "json"]);
    assert_eq!(code, 0, "{notes}");
    let list: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(list["items"][0]["metadata"]["name"], "tenant", "{data}");
    assert_eq!(list["items"][0]["metadata"].get("namespace"), None, "{data}");
}
