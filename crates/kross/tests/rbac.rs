//! Output of `kross rbac`: every rule with its reason, in a stable order.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::io::Write;
use std::process::{Command, Stdio};

fn rbac(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kross"))
        .arg("rbac")
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn snapshot(name: &str, arguments: &[&str], input: &str) {
    let (code, data, notes) = rbac(arguments, input);
    assert_eq!((code, notes.as_str()), (0, ""), "{data}");
    insta::assert_snapshot!(name, data);
    assert_eq!(data, rbac(arguments, input).1, "the order is stable");
}

/// Every kind of read and write, on the hub and in remote clusters.
const EVERYTHING: &str = include_str!("rbac/everything.yaml");

#[test]
fn rules_of_the_controller_on_the_hub() {
    snapshot("hub", &["-"], EVERYTHING);
}

#[test]
fn rules_of_kubeconfigs_in_remote_clusters() {
    snapshot("remote", &["--remote", "-"], EVERYTHING);
}

#[test]
fn roles_with_bindings() {
    let arguments = [
        "--remote",
        "--subject",
        "ServiceAccount:kross/agent",
        "--name",
        "agent",
        "examples/multi-region.yaml",
    ];
    snapshot("bound", &arguments, "");
}

#[test]
fn a_graph_without_cluster_references_needs_no_remote_rules() {
    let (code, data, notes) = rbac(&["--remote", "examples/web-application.yaml"], "");
    assert_eq!((code, data.as_str()), (0, ""));
    assert_eq!(notes, "no rules needed in remote clusters: no resource has a cluster reference\n");
}

#[test]
fn a_definition_with_errors_gets_diagnostics_and_no_roles() {
    let (code, data, notes) = rbac(&["-"], &EVERYTHING.replace("schema.spec.image", "schema.spec.imag"));
    assert_eq!(code, 1, "{data}");
    assert_eq!(data, "", "a pipe into kubectl applies roles or nothing");
    assert!(notes.contains("K0603") && notes.contains("cannot derive RBAC rules"), "{notes}");
    let (code, _, notes) = rbac(&["-"], "kind: ConfigMap");
    assert_eq!((code, notes.as_str()), (2, "error: no ResourceGraphDefinition found\n"));
}

/// A definition whose instances choose what is read, with the fields of the first resource.
fn chosen(resource: &str) -> String {
    format!(
        "apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {{name: web}}
spec:
  schema: {{kind: Web, apiVersion: v1alpha1, spec: {{name: string, namespace: string}}}}
  resources:
    - id: chosen
{}",
        resource.lines().map(|line| format!("      {line}\n")).collect::<String>()
    )
}

/// The rules of a printed role: from its kind and name up to the next document.
fn role<'r>(roles: &'r str, kind: &str, name: &str) -> Option<&'r str> {
    let head = format!("kind: {kind}\nmetadata:\n  name: {name}\n");
    roles.split("---\n").find(|document| document.contains(&head))
}

#[test]
fn references_that_an_instance_chooses_grant_no_secrets_in_all_namespaces() {
    let config = "template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
    for (reference, system) in [
        ("externalRef: {apiVersion: v1, kind: Secret, metadata: {name: '${schema.spec.name}'}}".to_owned(), false),
        (
            "externalRef: {apiVersion: v1, kind: Secret, metadata: {name: '${schema.spec.name}', namespace: '${schema.metadata.namespace}'}}"
                .to_owned(),
            false,
        ),
        (format!("cluster: {{name: '${{schema.spec.name}}', namespace: '${{schema.spec.namespace}}'}}\n{config}"), true),
    ] {
        let (code, roles, errors) = rbac(&["--subject", "User:kross", "-"], &chosen(&reference));
        assert_eq!(code, 0, "{errors}");
        let everywhere = role(&roles, "ClusterRole", "kross-web").unwrap();
        assert!(!everywhere.contains("secrets"), "{reference}\n{everywhere}");
        let instances = role(&roles, "ClusterRole", "kross-web-instances").unwrap();
        assert!(instances.contains("secrets") && instances.contains("kubectl create rolebinding"), "{roles}");
        assert!(!roles.contains("kind: ClusterRole\n  name: kross-web-instances"), "it is not bound: {roles}");
        let in_system = role(&roles, "Role", "kross-web\n  namespace: kro-system").unwrap();
        assert_eq!(in_system.contains("secrets"), system, "{in_system}");
    }
}

#[test]
fn the_controller_may_hold_its_lease_and_read_the_uid_of_the_hub() {
    let (_, roles, _) = rbac(&["examples/web-application.yaml"], "");
    let lease = "    resources: [\"leases\"]\n    resourceNames: [\"controller.kro.run\"]\n    verbs: [\"get\", \"update\"]\n";
    let in_system =
        roles.split("---\n").find(|document| document.contains("  namespace: kro-system\n")).unwrap();
    assert!(in_system.contains(lease) && in_system.contains("verbs: [\"create\"]"), "{in_system}");
    let uid = "    resources: [\"namespaces\"]\n    resourceNames: [\"kube-system\"]\n    verbs: [\"get\"]\n";
    assert!(roles.contains(uid), "{roles}");
}

#[test]
fn a_published_cluster_needs_its_targets_and_their_secrets() {
    let definition = "apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: web}
spec:
  target: {kubernetesTarget: {name: edge}}
  schema: {kind: Web, apiVersion: v1alpha1, spec: {name: string}}
  resources:
    - id: config
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.spec.name}'}}
";
    let (code, roles, errors) = rbac(&["-"], definition);
    assert_eq!(code, 0, "{errors}");
    assert!(
        roles.contains("kubernetestargets") && roles.contains("read the KubernetesTarget of `config`"),
        "{roles}"
    );
    assert!(roles.contains("its KubernetesTarget names the Secret"), "{roles}");
    let (_, roles, _) = rbac(&["--remote", "-"], definition);
    assert!(roles.contains("the Secret of KubernetesTarget `edge`"), "{roles}");
}

/// A definition whose instances have a ServiceAccount.
fn tenant(access: &str, scope: &str) -> String {
    format!(
        "apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {{name: web}}
spec:
{access}  schema: {{kind: Web, apiVersion: v1alpha1{scope}, spec: {{name: string, namespace: string, account: string}}}}
  resources:
    - id: password
      externalRef: {{apiVersion: v1, kind: Secret, metadata: {{name: password, namespace: '${{schema.spec.namespace}}'}}}}
    - id: services
      externalRef: {{apiVersion: v1, kind: Service, metadata: {{namespace: shop, selector: {{matchLabels: {{a: b}}}}}}}}
    - id: config
      template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: '${{schema.spec.name}}', namespace: '${{schema.spec.namespace}}'}}}}
    - id: binding
      template:
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata: {{name: '${{schema.spec.name}}'}}
        roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}
"
    )
}

#[test]
fn rules_of_the_service_account_of_the_instances() {
    snapshot("account", &["--account", "-"], &tenant("  access: {serviceAccountName: deployer}\n", ""));
}

#[test]
fn the_controller_impersonates_the_service_account_and_writes_only_what_outlives_it() {
    let definition = tenant("  access: {serviceAccountName: deployer}\n", "");
    let (code, roles, errors) = rbac(&["-"], &definition);
    assert_eq!(code, 0, "{errors}");
    let everywhere = role(&roles, "ClusterRole", "kross-web").unwrap();
    let reads = "    resources: [\"configmaps\"]\n    verbs: [\"get\", \"list\", \"watch\"]\n";
    let reviews = "    resources: [\"subjectaccessreviews\"]\n    verbs: [\"create\"]\n";
    assert!(everywhere.contains(reads) && everywhere.contains(reviews), "{everywhere}");
    let bindings = "    resources: [\"clusterrolebindings\"]\n    verbs: [\"get\", \"list\", \"watch\"]\n";
    assert!(everywhere.contains(bindings), "{everywhere}");
    let instances = role(&roles, "ClusterRole", "kross-web-instances").unwrap();
    let impersonate = "    resources: [\"serviceaccounts\"]\n    resourceNames: [\"deployer\"]\n    verbs: [\"get\", \"impersonate\"]\n";
    let deletes = "    resources: [\"configmaps\"]\n    verbs: [\"patch\", \"delete\"]\n";
    assert!(instances.contains(impersonate) && instances.contains(deletes), "{instances}");

    let chosen = tenant("  access: {serviceAccountName: '${schema.spec.account}'}\n", "");
    let (_, roles, _) = rbac(&["-"], &chosen);
    let instances = role(&roles, "ClusterRole", "kross-web-instances").unwrap();
    let any = "    resources: [\"serviceaccounts\"]\n    verbs: [\"get\", \"impersonate\"]\n";
    assert!(instances.contains(any), "{instances}");

    let platform = tenant(
        "  access: {serviceAccountName: deployer, serviceAccountNamespace: infra}\n",
        ", scope: Cluster",
    );
    let platform = platform.replace("namespace: '${schema.spec.namespace}'", "namespace: shop");
    let (_, roles, _) = rbac(&["-"], &platform);
    let infra = role(&roles, "Role", "kross-web\n  namespace: infra").unwrap();
    assert!(infra.contains(impersonate), "{infra}");
}

#[test]
fn a_default_service_account_counts_for_definitions_without_access() {
    let definition = tenant("", "");
    let (code, data, notes) = rbac(&["--account", "-"], &definition);
    assert_eq!((code, data.as_str()), (0, ""));
    assert!(notes.contains("no definition has `access`"), "{notes}");
    let (code, roles, _) = rbac(&["--account", "--default-service-account=tenant", "-"], &definition);
    assert!(
        code == 0 && roles.contains("# RBAC rules on the hub of ServiceAccount `tenant` of `web`."),
        "{roles}"
    );
    let (_, roles, _) = rbac(&["--default-service-account=tenant", "-"], &definition);
    assert!(roles.contains("resourceNames: [\"tenant\"]"), "{roles}");
    let (_, roles, _) = rbac(&["-"], &definition);
    assert!(!roles.contains("impersonate"), "{roles}");
}
