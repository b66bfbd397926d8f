//! Turns a graph into the requests that the controller makes for it: the verbs, on which objects, where, and why.

use std::collections::BTreeMap;

use kross_api::{
    Credentials, Published, ResolvedCredentials, SYSTEM_NAMESPACE, SecretNamespace, SecretTemplate,
    TargetChoice, WORKLOAD_GROUP,
};
use kross_graph::{
    Field, Graph, InstanceKind, Node, ObjectKind, Placement, RemotePlacement, Source, Template,
};
use kross_value::Value;

use super::account::{self, Account};
use super::roles::{Need, Scope, Verb};

pub(super) const READ: &[Verb] = &[Verb::Get, Verb::List, Verb::Watch];
/// A poll lists, and gets the objects that changed.
const POLL: &[Verb] = &[Verb::Get, Verb::List];
/// A server-side apply of an object that does not exist needs `create`.
const WRITE: &[Verb] = &[Verb::Get, Verb::Create, Verb::Patch, Verb::Delete];

/// What the controller needs on the hub.
pub(super) fn on_the_hub(graph: &Graph, account: Option<&Account>) -> Vec<Need> {
    let mut needs = definition_needs(graph);
    needs.extend(instance_needs(graph));
    needs.extend(account.into_iter().flat_map(Account::controller_needs));
    for node in &graph.nodes {
        match &node.placement {
            Placement::Local if account.is_some() && !node.is_external() => {
                needs.extend(account::controller_needs_for(node, graph));
            }
            Placement::Local => needs.extend(object_needs(node, READ, instances(graph))),
            Placement::Remote(remote) => needs.extend(secret_needs(node, remote, graph.instance.namespaced)),
        }
    }
    if graph.nodes.iter().any(|node| matches!(node.placement, Placement::Remote(_))) {
        needs.extend(connection_needs());
    }
    needs.push(Need::new("events.k8s.io", "events", &[Verb::Create, Verb::Patch], "record Events"));
    needs.extend(process_needs());
    needs
}

/// Where a reference without a namespace leads: to the namespaces of the instances, unless they have none.
pub(super) fn instances(graph: &Graph) -> Option<Scope> {
    graph.instance.namespaced.then_some(Scope::Instances)
}

/// What the controller needs to tell people of other clusters.
fn connection_needs() -> Vec<Need> {
    let why = "publish the state of clusters";
    let (objects, verbs) = ("clusterconnections", [Verb::List, Verb::Watch, Verb::Create, Verb::Delete]);
    vec![
        Need::new("kro.run", objects, &verbs, why),
        Need::new("kro.run", &format!("{objects}/status"), &[Verb::Update], why),
    ]
}

/// What the controller needs whatever the graphs are.
fn process_needs() -> Vec<Need> {
    let why = "hold the Lease (in the namespace of `--leader-election-namespace`)";
    let lease = |verbs: &[Verb], why: String| {
        Need::new("coordination.k8s.io", "leases", verbs, why).within(Some(SYSTEM_NAMESPACE.to_owned()), true)
    };
    vec![
        Need::new("", "namespaces", &[Verb::Get], "read the UID of the hub").named("kube-system"),
        lease(&[Verb::Create], format!("{why} (`create` cannot be limited to a name)")),
        lease(&[Verb::Get, Verb::Update], why.to_owned()).named("controller.kro.run"),
    ]
}

/// What each kubeconfig needs in its cluster, by the Secret that holds it.
pub(super) fn in_remote_clusters(graph: &Graph) -> BTreeMap<String, Vec<Need>> {
    let mut clusters: BTreeMap<String, Vec<Need>> = BTreeMap::new();
    for node in &graph.nodes {
        let Placement::Remote(remote) = &node.placement else { continue };
        let needs = clusters.entry(secret_text(remote)).or_insert_with(every_cluster_needs);
        let read = if remote.reference.poll.is_some() { POLL } else { READ };
        needs.extend(object_needs(node, read, None));
    }
    clusters
}

/// What the kubeconfig in one Secret needs in its cluster: for references that lead there, or may.
pub(super) fn in_the_cluster_of(graph: &Graph, (namespace, name): (&str, &str)) -> Vec<Need> {
    let leads_there = |remote: &RemotePlacement| match &remote.fixed {
        Some(fixed) => match &fixed.credentials {
            ResolvedCredentials::Secret(secret) => secret.namespace == namespace && secret.name == name,
            ResolvedCredentials::Target { .. } | ResolvedCredentials::TargetSelector { .. } => true,
        },
        None => true,
    };
    let mut needs = Vec::new();
    for node in &graph.nodes {
        let Placement::Remote(remote) = &node.placement else { continue };
        if leads_there(remote) {
            needs.extend(every_cluster_needs());
            let read = if remote.reference.poll.is_some() { POLL } else { READ };
            needs.extend(object_needs(node, read, None));
        }
    }
    needs
}

/// What is needed in every remote cluster. OpenAPI and self-subject access reviews are open to every authenticated user.
fn every_cluster_needs() -> Vec<Need> {
    let why = "read the UID of the cluster";
    vec![Need::new("", "namespaces", &[Verb::Get], why).named("kube-system")]
}

fn definition_needs(graph: &Graph) -> Vec<Need> {
    let why = "reconcile definitions and their revisions";
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
            "look up existing kinds and watch them for changes",
        ),
    ];
    if graph.crd.is_some() {
        let InstanceKind { group, plural, kind, .. } = &graph.instance;
        // RBAC does not know the name of an object that is being created.
        let create = format!("create the CRD of `{kind}` (`create` cannot be limited to a name)");
        needs.push(Need::new("apiextensions.k8s.io", "customresourcedefinitions", &[Verb::Create], create));
        let patch = format!("update the CRD of `{kind}` (add `delete` for `--allow-crd-deletion`)");
        needs.push(
            Need::new("apiextensions.k8s.io", "customresourcedefinitions", &[Verb::Patch], patch)
                .named(&format!("{plural}.{group}")),
        );
    }
    needs
}

fn instance_needs(graph: &Graph) -> Vec<Need> {
    let InstanceKind { group, plural, external, .. } = &graph.instance;
    let why = format!("reconcile instances of `{}`", graph.name);
    let mut needs = vec![Need::new(
        group,
        plural,
        &[Verb::Get, Verb::List, Verb::Watch, Verb::Patch],
        if *external {
            format!("{why}, whose kind already exists")
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

/// What is needed for the objects of a node, in its cluster, where a reference without a namespace leads to `default`.
fn object_needs(node: &Node, read: &[Verb], default: Option<Scope>) -> Vec<Need> {
    let id = &node.id;
    match &node.source {
        Source::Object(template) | Source::Collection { template, .. } => {
            managed_object_needs(node, template, read)
        }
        Source::External { name, namespace } => {
            let need = need_of(&node.kind, read, format!("read `{id}`"));
            let namespaced = is_namespaced(&node.kind);
            let need = need.named_by(literal(Some(name)));
            let is_own = namespace.as_ref().is_none_or(is_namespace_of_instance);
            match default.filter(|_| is_own && namespaced) {
                Some(scope) => vec![need.scoped(scope)],
                None => vec![need.within(literal(namespace.as_ref()), namespaced)],
            }
        }
        Source::ExternalCollection { namespace, namespace_selector, .. } => {
            let need = need_of(&node.kind, read, format!("read `{id}`"));
            let is_own = namespace.as_ref().is_some_and(is_namespace_of_instance);
            let mut needs = match default.filter(|_| is_own) {
                Some(scope) => vec![need.scoped(scope)],
                None => vec![need.within(literal(namespace.as_ref()), is_namespaced(&node.kind))],
            };
            if namespace_selector.is_some() {
                needs.push(Need::new(
                    "",
                    "namespaces",
                    read,
                    format!("find the namespaces that the selector of `{id}` matches"),
                ));
            }
            needs
        }
    }
}

/// One watch covers the objects in all namespaces; writes are limited to the namespace of the template.
fn managed_object_needs(node: &Node, template: &Template, read: &[Verb]) -> Vec<Need> {
    let watch: Vec<Verb> = read.iter().copied().filter(|verb| *verb != Verb::Get).collect();
    let namespace = match template.get("metadata").and_then(|metadata| metadata.get("namespace")) {
        Some(Field::Literal(Value::String(namespace))) => Some(namespace.to_string()),
        _ => None,
    };
    let (id, escalation) = (&node.id, escalation(&node.kind));
    vec![
        need_of(&node.kind, &watch, format!("watch `{id}` in all namespaces")),
        need_of(&node.kind, WRITE, format!("create, update and delete `{id}`{escalation}"))
            .within(namespace, is_namespaced(&node.kind)),
    ]
}

/// What an API server demands for roles and bindings beside the verb.
pub(super) fn escalation(kind: &ObjectKind) -> &'static str {
    match kind.group.as_ref() {
        "rbac.authorization.k8s.io" if kind.kind.ends_with("Binding") => {
            " (also needs `bind` on the referenced role, or every permission of that role)"
        }
        "rbac.authorization.k8s.io" => " (also needs `escalate`, or every permission that the role grants)",
        _ => "",
    }
}

pub(super) fn need_of(kind: &ObjectKind, verbs: &[Verb], why: String) -> Need {
    let resource = match &kind.known {
        Some(known) => known.plural.to_string(),
        None => kross_api::plural(&kind.kind),
    };
    let why = if kind.known.is_some() {
        why
    } else {
        format!("{why} (the plural of `{}` is a guess: its schema is unknown)", kind.kind)
    };
    Need::new(&kind.group, &resource, verbs, why)
}

/// Whether a kind is namespaced. A kind without a schema counts as namespaced where the author sets a namespace.
pub(super) fn is_namespaced(kind: &ObjectKind) -> bool {
    kind.known.as_ref().is_none_or(|known| known.namespaced)
}

/// Whether a template is the namespace of the instance.
fn is_namespace_of_instance(template: &Template) -> bool {
    matches!(template, Template::Expression(expression) if expression.source.trim() == "schema.metadata.namespace")
}

pub(super) fn literal(template: Option<&Template>) -> Option<String> {
    match template {
        Some(Template::Literal(Value::String(text))) => Some(text.to_string()),
        _ => None,
    }
}

/// What is needed to read the kubeconfig of a node's cluster: by name, where the name does not depend on the instance, and in
/// the namespaces that the reference can lead to.
fn secret_needs(node: &Node, remote: &RemotePlacement, instance_is_namespaced: bool) -> Vec<Need> {
    let why = format!("read the kubeconfig of `{}`", node.id);
    let why_open = format!("{why}: the name of the Secret depends on the instance");
    let protect = "(add `patch` for the label `kro.run/protect`)";
    let need = |why: &str| Need::new("", "secrets", READ, format!("{why} {protect}"));
    let system = || Scope::Namespace(SYSTEM_NAMESPACE.to_owned());
    let default = || if instance_is_namespaced { Scope::Instances } else { system() };
    // In other namespaces only Secrets that are offered to the instance's namespace can be used.
    let computed = |need: &dyn Fn(&str) -> Need, why: &str| {
        let elsewhere = format!(
            "{why}; its namespace too: every other namespace with Secrets for other namespaces needs a RoleBinding as well"
        );
        let own = instance_is_namespaced.then(|| need(&elsewhere).scoped(Scope::Instances));
        own.into_iter().chain([need(&elsewhere).scoped(system())]).collect::<Vec<Need>>()
    };
    match &remote.reference.credentials {
        Credentials::Secret(SecretTemplate { name, namespace, .. }) => {
            let why = if name.literal().is_some() { &why } else { &why_open };
            let named = |why: &str| need(why).named_by(name.literal().map(str::to_owned));
            match namespace {
                SecretNamespace::Given(namespace) => match namespace.literal() {
                    Some(namespace) => vec![named(why).within(Some(namespace.to_owned()), true)],
                    None => computed(&named, why),
                },
                SecretNamespace::System => vec![named(why).scoped(system())],
                SecretNamespace::Instance => vec![named(why).scoped(default())],
            }
        }
        Credentials::SecretByText(text) => match text
            .literal()
            .map(|text| text.split_once('/').unwrap_or(("", text)))
        {
            Some(("", name)) => vec![need(&why).named(name).scoped(default())],
            Some((namespace, name)) => vec![need(&why).named(name).within(Some(namespace.to_owned()), true)],
            None => computed(&need, &why_open),
        },
        Credentials::Published(Published { choice, namespace }) => {
            let why_target = match choice {
                TargetChoice::Name(_) => format!("read the KubernetesTarget of `{}`", node.id),
                TargetChoice::Selector(_) => format!("choose the KubernetesTarget of `{}`", node.id),
            };
            let why = format!("{why}: its KubernetesTarget names the Secret");
            let secrets = match namespace.as_ref().map(|namespace| namespace.literal()) {
                None => vec![need(&why).scoped(default())],
                Some(Some(namespace)) => vec![need(&why).within(Some(namespace.to_owned()), true)],
                Some(None) => computed(&need, &why),
            };
            // The cache of targets is one for all namespaces.
            let targets = Need::new(WORKLOAD_GROUP, "kubernetestargets", READ, why_target);
            std::iter::once(targets).chain(secrets).collect()
        }
    }
}

/// The name of the Secret in the heading of the roles.
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
        Credentials::Published(Published { choice: TargetChoice::Name(name), namespace }) => {
            let namespace = namespace.as_ref().map_or_else(String::new, |it| format!("{}/", it.as_str()));
            format!("the Secret of KubernetesTarget `{namespace}{}`", name.as_str())
        }
        Credentials::Published(Published { choice: TargetChoice::Selector(_), .. }) => {
            format!("the Secret of a KubernetesTarget (`{}`)", remote.reference.path)
        }
    }
}
