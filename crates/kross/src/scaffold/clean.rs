//! Removes what does not belong into a definition: what API servers and other tools set, and objects that others own.

use serde_json::{Map, Value as Json, json};

use super::{Resource, visit};

/// The objects that become resources. What is left out is said in the notes.
pub(super) fn resources(objects: Vec<Json>, live: bool, notes: &mut Vec<String>) -> Vec<Resource> {
    let mut resources = Vec::new();
    for mut object in objects.into_iter().flat_map(items) {
        let kind = object.get("kind").and_then(Json::as_str).unwrap_or_default().to_owned();
        let name = object.pointer("/metadata/name").and_then(Json::as_str).unwrap_or_default().to_owned();
        if kind.is_empty() || name.is_empty() || !object.get("apiVersion").is_some_and(Json::is_string) {
            let generated = object.pointer("/metadata/generateName").is_some();
            let why =
                if generated { "its name is generated" } else { "it is no object with a kind and a name" };
            notes.push(format!("left out {}: {why}", title(&kind, &name)));
            continue;
        }
        if let Some(why) = left_out(&object, &kind, &name) {
            notes.push(format!("left out {}: {why}", title(&kind, &name)));
            continue;
        }
        let mut comments = Vec::new();
        comments.extend(hook(&object));
        let external = live && kind == "Secret";
        strip(&mut object);
        if live {
            defaults(&mut object, &kind);
        }
        if external {
            comments
                .push("Its content stays in the cluster: a definition is no place for secrets.".to_owned());
            object =
                json!({"apiVersion": object.get("apiVersion"), "kind": kind, "metadata": {"name": name}});
        } else if kind == "Secret" && (object.get("data").is_some() || object.get("stringData").is_some()) {
            comments.push("Everyone who may read the definition can read this Secret; an externalRef to one that exists is safer.".to_owned());
        }
        resources.push(Resource {
            id: String::new(),
            object,
            kind,
            name,
            reads: Vec::new(),
            external,
            comments,
        });
    }
    resources
}

fn title(kind: &str, name: &str) -> String {
    match (kind, name) {
        ("", "") => "a document".to_owned(),
        (kind, "") => kind.to_owned(),
        ("", name) => format!("`{name}`"),
        (kind, name) => format!("{kind} `{name}`"),
    }
}

/// The objects of a `List`; any other object itself.
fn items(object: Json) -> Vec<Json> {
    let is_list = object.get("kind").and_then(Json::as_str).is_some_and(|kind| kind.ends_with("List"));
    match object {
        Json::Object(mut entries) if is_list && entries.get("items").is_some_and(Json::is_array) => {
            match entries.remove("items") {
                Some(Json::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        object => vec![object],
    }
}

/// Whether an object is a CRD.
fn is_crd(object: &Json) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

fn annotation<'o>(object: &'o Json, name: &str) -> Option<&'o str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// Why an object is no part of the definition.
fn left_out(object: &Json, kind: &str, name: &str) -> Option<String> {
    if is_crd(object) {
        return Some(
            "apply CustomResourceDefinitions before the definition, since all instances share them"
                .to_owned(),
        );
    }
    if let Some(hook) = annotation(object, "helm.sh/hook").filter(|hook| hook.starts_with("test")) {
        return Some(format!("it is a Helm hook for `{hook}`"));
    }
    let owners = object.pointer("/metadata/ownerReferences").and_then(Json::as_array).into_iter().flatten();
    let mut owners = owners.filter(|owner| owner["controller"] == true);
    if let Some(owner) = owners.next() {
        let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
        return Some(format!("{} `{}` makes it", text("kind"), text("name")));
    }
    let secret_type = object["type"].as_str().unwrap_or_default();
    let why = match (kind, name) {
        ("Event" | "Lease" | "Endpoints" | "EndpointSlice" | "ControllerRevision", _) => {
            "the cluster makes it"
        }
        ("ConfigMap", "kube-root-ca.crt") | ("ServiceAccount", "default") | ("Service", "kubernetes") => {
            "every namespace has it"
        }
        ("ResourceGraphDefinition", _) => "it is a definition already",
        ("Secret", _) if secret_type == "kubernetes.io/service-account-token" => "the cluster makes it",
        ("Secret", _) if secret_type == "helm.sh/release.v1" => "Helm keeps a release in it",
        _ => return None,
    };
    Some(why.to_owned())
}

/// What Helm does with a hook, and what happens here.
fn hook(object: &Json) -> Option<String> {
    let hook = annotation(object, "helm.sh/hook")?;
    Some(if hook.contains("delete") {
        format!(
            "Helm hook `{hook}`: for the same effect, set `lifecycle: {{when: Deletion}}` on the resource."
        )
    } else {
        format!(
            "Helm hook `{hook}`: here it is a resource like any other, created once its references exist."
        )
    })
}

/// Keys of labels and annotations that say which tool made an object.
const TOOLS: &[&str] = &[
    "helm.sh/",
    "meta.helm.sh/",
    "kro.run/",
    "internal.kro.run/",
    "applyset.kubernetes.io/",
    "config.kubernetes.io/",
    "internal.config.kubernetes.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "argocd.argoproj.io/",
    "kubectl.kubernetes.io/",
    "deployment.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "pv.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "volume.kubernetes.io/",
    "autoscaling.alpha.kubernetes.io/",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
];

fn is_of_tool(key: &str, value: &Json) -> bool {
    TOOLS.iter().any(|tool| key.starts_with(tool))
        || key == "app.kubernetes.io/managed-by" && matches!(value.as_str(), Some("Helm" | "kro" | "kross"))
}

/// Removes the status, what the API server sets in metadata, and what tools note about objects.
fn strip(object: &mut Json) {
    let Some(entries) = object.as_object_mut() else { return };
    entries.remove("status");
    visit(object, &mut Vec::new(), &mut |path, value| {
        if path.last().is_none_or(|key| key != "metadata") {
            return;
        }
        let Some(metadata) = value.as_object_mut() else { return };
        for field in [
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
            "selfLink",
            "ownerReferences",
            "finalizers",
        ] {
            metadata.remove(field);
        }
        for field in ["labels", "annotations"] {
            let Some(pairs) = metadata.get_mut(field).and_then(Json::as_object_mut) else { continue };
            pairs.retain(|key, value| !is_of_tool(key, value));
            if pairs.is_empty() {
                metadata.remove(field);
            }
        }
    });
}

/// Fields that the API server sets to one value wherever they are missing.
fn default_values() -> Vec<(&'static str, Json)> {
    vec![
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
        ("resources", json!({})),
        ("terminationMessagePath", json!("/dev/termination-log")),
        ("terminationMessagePolicy", json!("File")),
        ("imagePullPolicy", json!("IfNotPresent")),
        ("failureThreshold", json!(3)),
        ("periodSeconds", json!(10)),
        ("successThreshold", json!(1)),
        ("timeoutSeconds", json!(1)),
        ("scheme", json!("HTTP")),
        ("defaultMode", json!(420)),
        ("protocol", json!("TCP")),
        ("progressDeadlineSeconds", json!(600)),
        ("revisionHistoryLimit", json!(10)),
        (
            "strategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
        ),
        ("podManagementPolicy", json!("OrderedReady")),
        ("updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})),
        (
            "updateStrategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
        ),
        ("persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": "Retain", "whenScaled": "Retain"})),
        ("sessionAffinity", json!("None")),
        ("internalTrafficPolicy", json!("Cluster")),
        ("externalTrafficPolicy", json!("Cluster")),
        ("ipFamilyPolicy", json!("SingleStack")),
        ("allocateLoadBalancerNodePorts", json!(true)),
        ("volumeMode", json!("Filesystem")),
        ("completionMode", json!("NonIndexed")),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
        ("concurrencyPolicy", json!("Allow")),
        ("suspend", json!(false)),
    ]
}

const WITH_DEFAULTS: &[&str] =
    &["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod", "Service", "PersistentVolumeClaim"];

/// Removes what the API server adds to an object of a built-in kind.
fn defaults(object: &mut Json, kind: &str) {
    if !WITH_DEFAULTS.contains(&kind) {
        return;
    }
    let known = default_values();
    visit(object, &mut Vec::new(), &mut |path, value| {
        let Some(entries) = value.as_object_mut() else { return };
        if path
            .last()
            .is_some_and(|key| ["labels", "annotations", "matchLabels", "selector"].contains(&key.as_str()))
        {
            return;
        }
        entries.retain(|key, value| !known.iter().any(|(field, default)| field == key && default == value));
        if entries.get("serviceAccount") == entries.get("serviceAccountName") {
            entries.remove("serviceAccount");
        }
        let same_port = entries.contains_key("port") && entries.get("targetPort") == entries.get("port");
        if kind == "Service" && same_port {
            entries.remove("targetPort");
        }
        let is_field = path.last().is_some_and(|key| key == "fieldRef");
        if is_field && entries.get("apiVersion") == Some(&json!("v1")) {
            entries.remove("apiVersion");
        }
    });
    let Some(spec) = object.get_mut("spec").and_then(Json::as_object_mut) else { return };
    match kind {
        "Service" => service(spec),
        "PersistentVolumeClaim" => {
            spec.remove("volumeName");
        }
        "Job" if spec.get("manualSelector") != Some(&json!(true)) => {
            spec.remove("selector");
        }
        _ => {}
    }
}

/// Addresses are assigned by the cluster, except that of a headless Service.
fn service(spec: &mut Map<String, Json>) {
    let is_headless = spec.get("clusterIP") == Some(&json!("None"));
    let is_node_port = spec.get("type") == Some(&json!("NodePort"));
    if !is_headless {
        spec.remove("clusterIP");
    }
    for field in ["clusterIPs", "ipFamilies", "healthCheckNodePort"] {
        spec.remove(field);
    }
    if spec.get("type") == Some(&json!("ClusterIP")) {
        spec.remove("type");
    }
    for port in spec.get_mut("ports").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut().filter(|_| !is_node_port) {
            port.remove("nodePort");
        }
    }
}

/// Objects go into the namespace of the instance, unless the objects are in several namespaces, or their Namespace is one of
/// the objects.
pub(super) fn namespaces(resources: &mut [Resource], notes: &mut Vec<String>) {
    let own: Vec<String> = resources
        .iter()
        .filter(|resource| resource.kind == "Namespace")
        .map(|resource| resource.name.clone())
        .collect();
    let of = |resource: &Resource| {
        resource.object.pointer("/metadata/namespace").and_then(Json::as_str).map(str::to_owned)
    };
    let mut counts: Vec<(String, usize)> = Vec::new();
    for namespace in resources.iter().filter_map(of).filter(|namespace| !own.contains(namespace)) {
        match counts.iter_mut().find(|(known, _)| *known == namespace) {
            Some((_, count)) => *count += 1,
            None => counts.push((namespace, 1)),
        }
    }
    let main = counts.iter().max_by_key(|(_, count)| *count).map(|(namespace, _)| namespace.clone());
    if counts.len() > 1 {
        let all: Vec<String> = counts.iter().map(|(namespace, _)| format!("`{namespace}`")).collect();
        notes.push(format!(
            "objects are in the namespaces {}; those of `{}` go into that of the instance",
            all.join(", "),
            main.as_deref().unwrap_or_default()
        ));
    }
    for resource in resources {
        if of(resource) == main
            && let Some(metadata) = resource.object.get_mut("metadata").and_then(Json::as_object_mut)
        {
            metadata.remove("namespace");
        }
        // Subjects of role bindings name their namespace.
        let main = main.clone();
        if let Some(main) = main {
            visit(&mut resource.object, &mut Vec::new(), &mut |path, value| {
                let is_subject = path.first().is_some_and(|first| first == "subjects")
                    && path.last().is_some_and(|last| last == "namespace");
                if is_subject && *value == json!(main) {
                    *value = json!("${schema.metadata.namespace}");
                }
            });
        }
    }
}
