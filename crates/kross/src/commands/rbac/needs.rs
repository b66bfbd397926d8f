//! Turns a graph into what is done for it, request by request: which verbs on which objects, where, and why.

use std::collections::BTreeMap;

use kross_api::{Credentials, SYSTEM_NAMESPACE, SecretNamespace, SecretTemplate};
use kross_graph::{
    Field, Graph, InstanceKind, Node, ObjectKind, Placement, RemotePlacement, Source, Template,
};
use kross_value::Value;

use super::roles::{Need, Verb};

const READ: &[Verb] = &[Verb::Get, Verb::List, Verb::Watch];
/// A poll lists, and gets what has changed.
const POLL: &[Verb] = &[Verb::Get, Verb::List];
/// An apply creates what is not there, which is asked for under its own verb.
const WRITE: &[Verb] = &[Verb::Get, Verb::Create, Verb::Patch, Verb::Delete];

/// What the controller does on the hub.
pub(super) fn on_the_hub(graph: &Graph) -> Vec<Need> {
    let mut needs = the_definition(graph);
    needs.extend(the_instances(graph));
    for node in &graph.nodes {
        match &node.placement {
            Placement::Local => needs.extend(the_objects(node, READ)),
            Placement::Remote(remote) => needs.extend(the_secret(node, remote, graph.instance.namespaced)),
        }
    }
    needs.push(Need::new(
        "events.k8s.io",
        "events",
        &[Verb::Create, Verb::Patch],
        "what happens is told as Events",
    ));
    needs
}

/// What is done in other clusters, by the Secret that leads there.
pub(super) fn over_there(graph: &Graph) -> BTreeMap<String, Vec<Need>> {
    let mut clusters: BTreeMap<String, Vec<Need>> = BTreeMap::new();
    for node in &graph.nodes {
        let Placement::Remote(remote) = &node.placement else { continue };
        let needs = clusters.entry(secret_text(remote)).or_insert_with(whatever_the_graph);
        let read = if remote.reference.poll.is_some() { POLL } else { READ };
        needs.extend(the_objects(node, read));
    }
    clusters
}

/// What every cluster is asked. Schemas come from OpenAPI, which is open to everybody who is authenticated, and so are
/// questions about one's own rights.
fn whatever_the_graph() -> Vec<Need> {
    let why = "its UID tells the cluster from every other";
    vec![Need::new("", "namespaces", &[Verb::Get], why).named("kube-system")]
}

fn the_definition(graph: &Graph) -> Vec<Need> {
    let why = "definitions and their revisions";
    let mut needs = vec![
        Need::new(
            "kro.run",
            "resourcegraphdefinitions",
            &[Verb::Get, Verb::List, Verb::Watch, Verb::Patch],
            why,
        ),
        Need::new("kro.run", "resourcegraphdefinitions/status", &[Verb::Patch], why),
        Need::new(
            "internal.kro.run",
            "graphrevisions",
            &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Patch, Verb::Delete],
            why,
        ),
        Need::new("internal.kro.run", "graphrevisions/status", &[Verb::Patch], why),
        Need::new(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            READ,
            "existing kinds are looked up, and changes of them noticed",
        ),
    ];
    if graph.crd.is_some() {
        let InstanceKind { group, plural, kind, .. } = &graph.instance;
        // What does not exist yet has no name that a rule could give.
        let create = format!("`{kind}` is served (`create` cannot be limited to a name)");
        needs.push(Need::new("apiextensions.k8s.io", "customresourcedefinitions", &[Verb::Create], create));
        let patch = format!("`{kind}` follows its definition (add `delete` for `--allow-crd-deletion`)");
        needs.push(
            Need::new("apiextensions.k8s.io", "customresourcedefinitions", &[Verb::Patch], patch)
                .named(&format!("{plural}.{group}")),
        );
    }
    needs
}

fn the_instances(graph: &Graph) -> Vec<Need> {
    let InstanceKind { group, plural, external, .. } = &graph.instance;
    let why = format!("instances of `{}`", graph.name);
    let mut needs = vec![Need::new(
        group,
        plural,
        &[Verb::Get, Verb::List, Verb::Watch, Verb::Patch],
        if *external {
            format!("{why}, which existed before")
        } else {
            format!("{why} (add `delete` for the annotation `kro.run/delete-instances`)")
        },
    )];
    if !external {
        needs.push(Need::new(group, &format!("{plural}/status"), &[Verb::Update], why.clone()));
        needs.push(Need::new(group, &format!("{plural}/finalizers"), &[Verb::Update], why));
    }
    needs
}

/// What is done to the objects of a node, in its cluster.
fn the_objects(node: &Node, read: &[Verb]) -> Vec<Need> {
    let why = format!("`{}`", node.id);
    match &node.source {
        Source::Object(template) | Source::Collection { template, .. } => {
            made_objects(node, template, read, &why)
        }
        Source::External { name, namespace } => {
            let need = need_of(&node.kind, read, format!("{why} is read"));
            let place = literal(namespace.as_ref());
            vec![need.named_by(literal(Some(name))).within(place, is_namespaced(&node.kind))]
        }
        Source::ExternalCollection { namespace, namespace_selector, .. } => {
            let why = format!("{why} is read");
            let need = need_of(&node.kind, read, why.clone());
            let mut needs = vec![need.within(literal(namespace.as_ref()), is_namespaced(&node.kind))];
            if namespace_selector.is_some() {
                needs.push(Need::new(
                    "",
                    "namespaces",
                    read,
                    format!("{why} from namespaces that a selector finds"),
                ));
            }
            needs
        }
    }
}

/// Objects are followed in all namespaces at once, and written where they are.
fn made_objects(node: &Node, template: &Template, read: &[Verb], why: &str) -> Vec<Need> {
    let follow: Vec<Verb> = read.iter().copied().filter(|verb| *verb != Verb::Get).collect();
    let namespace = match template.get("metadata").and_then(|metadata| metadata.get("namespace")) {
        Some(Field::Literal(Value::String(namespace))) => Some(namespace.to_string()),
        _ => None,
    };
    let more = match node.kind.group.as_ref() {
        "rbac.authorization.k8s.io" if node.kind.kind.ends_with("Binding") => {
            " (add `bind` on the role that it grants, unless its rights are held as well)"
        }
        "rbac.authorization.k8s.io" => " (add `escalate`, unless the rights that it grants are held as well)",
        _ => "",
    };
    vec![
        need_of(&node.kind, &follow, format!("{why} is followed, in all namespaces at once")),
        need_of(&node.kind, WRITE, format!("{why} is made and unmade{more}"))
            .within(namespace, is_namespaced(&node.kind)),
    ]
}

fn need_of(kind: &ObjectKind, verbs: &[Verb], why: String) -> Need {
    let resource = match &kind.known {
        Some(known) => known.plural.to_string(),
        None => kross_api::plural(&kind.kind),
    };
    let why = if kind.known.is_some() {
        why
    } else {
        format!("{why} (the plural of `{}` is a guess: its schema is not known here)", kind.kind)
    };
    Need::new(&kind.group, &resource, verbs, why)
}

/// Whether a role of one namespace can grant it; where nothing is known of a kind, the author's namespace decides.
fn is_namespaced(kind: &ObjectKind) -> bool {
    kind.known.as_ref().is_none_or(|known| known.namespaced)
}

fn literal(template: Option<&Template>) -> Option<String> {
    match template {
        Some(Template::Literal(Value::String(text))) => Some(text.to_string()),
        _ => None,
    }
}

/// The Secret that leads to a node's cluster, by name where it is known without an instance.
fn the_secret(node: &Node, remote: &RemotePlacement, instance_is_namespaced: bool) -> Vec<Need> {
    let why = format!("the kubeconfig of `{}`", node.id);
    let open = |why: &str| format!("{why}, whose Secret only an instance names");
    let need = |why: String| Need::new("", "secrets", READ, why);
    match &remote.reference.credentials {
        Credentials::Secret(SecretTemplate { name, namespace, .. }) => {
            let namespace = match namespace {
                SecretNamespace::Given(namespace) => namespace.literal(),
                SecretNamespace::System => Some(SYSTEM_NAMESPACE),
                SecretNamespace::Instance if instance_is_namespaced => None,
                SecretNamespace::Instance => Some(SYSTEM_NAMESPACE),
            };
            let why = if name.literal().is_some() { why } else { open(&why) };
            vec![
                need(why)
                    .named_by(name.literal().map(str::to_owned))
                    .within(namespace.map(str::to_owned), true),
            ]
        }
        Credentials::SecretByText(text) => match text
            .literal()
            .map(|text| text.split_once('/').unwrap_or(("", text)))
        {
            Some(("", name)) => vec![need(why).named(name)],
            Some((namespace, name)) => vec![need(why).named(name).within(Some(namespace.to_owned()), true)],
            None => vec![need(open(&why))],
        },
        Credentials::Published(_) => {
            vec![
                Need::new(
                    "workload.crossplane.io",
                    "kubernetestargets",
                    READ,
                    format!("the cluster of `{}`", node.id),
                ),
                need(format!("{why}, whose Secret its KubernetesTarget names")),
            ]
        }
    }
}

/// The Secret as a person would call it.
fn secret_text(remote: &RemotePlacement) -> String {
    if let Some(fixed) = &remote.fixed {
        return format!("Secret `{}`", fixed.credentials);
    }
    match &remote.reference.credentials {
        Credentials::Secret(SecretTemplate { name, namespace, .. }) => {
            let namespace = match namespace {
                SecretNamespace::Given(namespace) => format!("{}/", namespace.as_str()),
                SecretNamespace::System => format!("{SYSTEM_NAMESPACE}/"),
                SecretNamespace::Instance => String::new(),
            };
            format!("Secret `{namespace}{}`", name.as_str())
        }
        Credentials::SecretByText(text) => format!("Secret `{}`", text.as_str()),
        Credentials::Published(kross_api::Published::Name(name)) => {
            format!("the Secret of KubernetesTarget `{}`", name.as_str())
        }
        Credentials::Published(kross_api::Published::Selector(_)) => {
            format!("the Secret of a KubernetesTarget (`{}`)", remote.reference.path)
        }
    }
}
