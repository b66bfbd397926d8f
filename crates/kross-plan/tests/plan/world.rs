//! A graph, an instance and an observed state that tests can change.

use jiff::Timestamp;
use kross_api::yaml::Document;
use kross_api::{ClusterId, FailureReason, ObjectKey, Operation, SyncMode};
use kross_graph::{Graph, Options, Resolvers, validate};
use kross_plan::{
    ClusterConnection, Observed, ObservedCluster, ObservedObject, OperationFailure, Plan, Progress, Settings,
    plan,
};
use kross_schema::{Bundle, SchemaResolver};
use kross_value::{Text, Value};

struct Kubernetes(std::sync::Arc<Bundle>);

impl Resolvers for Kubernetes {
    fn local(&self) -> &dyn SchemaResolver {
        &*self.0
    }
}

/// A graph compiled from the part of a definition under `spec`.
pub(crate) fn graph(spec: &str) -> Graph {
    let indented: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    let text = format!(
        "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata:\n  name: test\nspec:\n{indented}"
    );
    let document = documents(&text).remove(0);
    let validation = validate(&document, &Kubernetes(Bundle::latest()), &Options::default());
    validation.graph.unwrap_or_else(|| panic!("{:#?}", validation.diagnostics))
}

fn documents(text: &str) -> Vec<Document> {
    let (mut sources, mut found) =
        (kross_diagnostics::Sources::default(), kross_diagnostics::Diagnostics::new());
    kross_api::yaml::parse(&mut sources, "test.yaml", text, &kross_api::yaml::Limits::default(), &mut found)
}

pub(crate) fn yaml(text: &str) -> Value {
    documents(text).remove(0).value().clone()
}

/// The time, this many seconds after the start of a test.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub(crate) struct World {
    pub(crate) graph: Graph,
    pub(crate) instance: Value,
    pub(crate) observed: Observed,
    pub(crate) settings: Settings,
    pub(crate) now: Timestamp,
    pub(crate) writes: usize,
}

impl World {
    /// The instance `app` of a graph, with this spec.
    pub(crate) fn new(graph: Graph, spec: &str) -> Self {
        let kind = &graph.instance;
        let namespace = if kind.namespaced { "\n  namespace: shop" } else { "" };
        let mut instance = yaml(&format!(
            "apiVersion: {}/{}\nkind: {}\nmetadata:\n  name: app{namespace}\n  uid: u-1\n  generation: 1\n  creationTimestamp: '2027-01-15T07:00:00Z'\n",
            kind.group, kind.version, kind.kind
        ));
        instance.as_object_mut().unwrap().insert("spec", yaml(spec));
        let settings = Settings { hub_uid: "hub".into(), ..Settings::default() };
        Self { graph, instance, observed: Observed::default(), settings, now: at(0), writes: 0 }
    }

    pub(crate) fn of(definition: &str, spec: &str) -> Self {
        Self::new(graph(definition), spec)
    }

    pub(crate) fn plan(&self) -> Plan {
        plan(&self.graph, &self.instance, &self.observed, &self.settings, self.now)
    }

    /// Applies what the plan says, as an API server would store it.
    pub(crate) fn apply(&mut self, plan: &Plan) {
        for action in &plan.apply {
            let object = plan.object(action).unwrap();
            self.store(&object.key, object.desired.as_ref().unwrap().clone());
        }
    }

    pub(crate) fn store(&mut self, key: &ObjectKey, mut value: Value) {
        self.writes += 1;
        let before = self.observed.objects.get(key).map(|object| object.value.clone());
        let mut metadata = value.get("metadata").unwrap().as_object().unwrap().clone();
        let uid = before.as_ref().and_then(|before| before.at(&["metadata", "uid"]).cloned());
        metadata.insert("uid", uid.unwrap_or_else(|| Value::from(format!("uid-{}", self.writes))));
        metadata.insert("generation", Value::from(1));
        let object = value.as_object_mut().unwrap();
        object.insert("metadata", Value::Object(metadata));
        if let Some(status) = before.as_ref().and_then(|before| before.get("status")) {
            object.insert("status", status.clone());
        }
        self.observed.objects.insert(key.clone(), ObservedObject::new(value));
    }

    /// Plans and applies until nothing is left, and stores the status.
    pub(crate) fn settle(&mut self) -> Plan {
        for _ in 0..50 {
            let plan = self.plan();
            if plan.apply.iter().all(|action| action.retry) {
                self.keep_status(&plan);
                return plan;
            }
            self.apply(&plan);
        }
        panic!("the plan does not converge");
    }

    pub(crate) fn keep_status(&mut self, plan: &Plan) {
        self.instance.as_object_mut().unwrap().insert("status", plan.status.clone());
    }

    pub(crate) fn set_spec(&mut self, spec: &str) {
        self.instance.as_object_mut().unwrap().insert("spec", yaml(spec));
    }

    /// Sets the status of an object, as its controller would.
    pub(crate) fn set_status(&mut self, name: &str, status: &str) {
        let object = self.object_mut(name);
        object.value.as_object_mut().unwrap().insert("status", yaml(status));
    }

    pub(crate) fn object_mut(&mut self, name: &str) -> &mut ObservedObject {
        self.observed.objects.iter_mut().find(|(key, _)| key.name == *name).unwrap().1
    }

    /// Marks an object as being deleted.
    pub(crate) fn terminate(&mut self, name: &str) {
        let object = self.object_mut(name);
        let metadata = object.value.as_object_mut().unwrap().get_mut("metadata").unwrap();
        metadata.as_object_mut().unwrap().insert("deletionTimestamp", Value::from("2027-01-15T08:00:00Z"));
    }

    pub(crate) fn fail(&mut self, plan: &Plan, id: &str, reason: FailureReason, message: &str) {
        let node = plan.node(id).unwrap();
        let failure = OperationFailure {
            node: id.into(),
            operation: Operation::Create,
            reason,
            message: message.into(),
            since: self.now,
        };
        self.observed.failures.insert(node.objects[0].key.clone(), failure);
    }

    /// Sets the connection of every cluster that the plan uses.
    pub(crate) fn connect(&mut self, plan: &Plan, connection: &ClusterConnection) {
        for used in &plan.clusters {
            self.observed.clusters.insert(
                used.key.clone(),
                ObservedCluster {
                    id: ClusterId::new(&format!("uid of {}", used.reference.display)),
                    uid: Some("c-1".into()),
                    unverified: false,
                    mode: SyncMode::Watch,
                    connection: connection.clone(),
                    succeeded: false,
                    deletions_only: None,
                    warning: None,
                    secret: None,
                },
            );
        }
    }
}

pub(crate) fn local(kind: &str, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey {
        cluster: ClusterId::local(),
        group: "".into(),
        kind: kind.into(),
        namespace: Some(Text::from(namespace)).filter(|namespace| !namespace.is_empty()),
        name: name.into(),
    }
}

/// The ids of the nodes to apply, in order.
pub(crate) fn applied(plan: &Plan) -> Vec<&str> {
    plan.apply.iter().map(|action| plan.nodes[action.node.0].id.as_str()).collect()
}

pub(crate) fn progress<'p>(plan: &'p Plan, id: &str) -> &'p Progress {
    &plan.node(id).unwrap().progress
}

pub(crate) fn condition(plan: &Plan, kind: &str) -> (String, String, String) {
    let condition = plan.conditions.iter().find(|condition| condition.type_ == kind).unwrap();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (condition.status.as_str().to_owned(), text(&condition.reason), text(&condition.message))
}

/// The names of the objects to prune now, in order.
pub(crate) fn deleted(plan: &Plan) -> Vec<&str> {
    let mut names: Vec<&str> = plan.prune.delete.iter().map(|pending| pending.key.name.as_str()).collect();
    names.sort_unstable();
    names
}

/// What the object of this name waits for before it is pruned.
pub(crate) fn awaited(plan: &Plan, name: &str) -> String {
    let waiting = plan.prune.waiting.iter().find(|(pending, _)| pending.key.name == *name);
    waiting.unwrap_or_else(|| panic!("{name}: {:?}", plan.prune)).1.message().to_string()
}
