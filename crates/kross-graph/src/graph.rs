//! The compiled graph: immutable, typed, ordered. It has everything that the planner needs.

use std::sync::Arc;

use kross_api::{AdoptPolicy, ClusterReference, DeletePolicy, LifecyclePhase, ResolveError, ResolvedCluster};
use kross_cel::types::Type;
use kross_diagnostics::Diagnostics;
use kross_value::{Text, Value};

use crate::expression::{Expression, Scope};
use crate::template::{Field, RenderError, Template};

/// Position of a node in [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub usize);

/// A compiled definition.
#[derive(Debug)]
pub struct Graph {
    /// Name of the definition.
    pub name: Text,
    /// The kind whose objects are instances of the graph.
    pub instance: InstanceKind,
    /// The type of the variable `schema`, which holds the instance.
    pub schema_type: Type,
    /// The ServiceAccount of the instances, if the definition names one.
    pub account: Option<AccountTemplate>,
    /// The nodes, in the order of `spec.resources`.
    pub nodes: Vec<Node>,
    /// The nodes in topological order: each comes after its dependencies.
    pub order: Vec<NodeIndex>,
    /// The author's status: objects and lists whose leaves are expressions. Empty if there is none.
    pub status: Template,
    /// The author's conditions; if there are any, only these are written to the status.
    pub conditions: Vec<Expression>,
    /// The CustomResourceDefinition of the instances; none if the kind exists already.
    pub crd: Option<Value>,
    /// The hash of the definition's spec; equivalent specs have the same hash.
    pub hash: Text,
    /// Warnings: the definition is valid, but probably not what the author intended.
    pub warnings: Diagnostics,
}

impl Graph {
    /// A node by its position.
    #[must_use]
    pub fn node(&self, index: NodeIndex) -> Option<&Node> {
        self.nodes.get(index.0)
    }

    /// A node by its id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<(NodeIndex, &Node)> {
        self.nodes.iter().enumerate().find(|(_, node)| node.id == *id).map(|(at, node)| (NodeIndex(at), node))
    }

    /// The ids in topological order, as `status.topologicalOrder` shows them.
    pub fn topological_order(&self) -> impl Iterator<Item = &Text> {
        self.order.iter().filter_map(|index| self.node(*index)).map(|node| &node.id)
    }
}

/// The ServiceAccount that the objects of an instance are read and written as, in the local cluster.
#[derive(Debug)]
pub struct AccountTemplate {
    /// Its name; expressions read only `schema`.
    pub name: Template,
    /// Its namespace, where instances have none. Else it is the namespace of the instance.
    pub namespace: Option<Text>,
    /// The type of the variable `schema`.
    pub schema_type: Type,
}

/// The kind whose objects are instances.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceKind {
    /// API group.
    pub group: Text,
    /// API version.
    pub version: Text,
    /// Kind.
    pub kind: Text,
    /// Plural name in URLs.
    pub plural: Text,
    /// Whether instances live in namespaces.
    pub namespaced: bool,
    /// Whether the kind existed before: no CRD is created, and its status belongs to its own controller.
    pub external: bool,
}

/// A group, version and kind, with its plural and scope where they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectKind {
    /// API group; empty for the core group.
    pub group: Text,
    /// API version.
    pub version: Text,
    /// Kind.
    pub kind: Text,
    /// Plural name and scope, if the schema is known at compile time.
    pub known: Option<KnownKind>,
}

impl ObjectKind {
    /// `group/version`, or `version` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// Plural and scope of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKind {
    /// Plural name in URLs.
    pub plural: Text,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
}

/// One resource of the definition.
#[derive(Debug)]
pub struct Node {
    /// The author's id.
    pub id: Text,
    /// The kind of the objects.
    pub kind: ObjectKind,
    /// The CEL type that one object is read as.
    pub object_type: Type,
    /// Where the objects come from.
    pub source: Source,
    /// The node exists if all of them are true. They return a bool or an optional bool.
    pub include_when: Vec<Expression>,
    /// The node is ready if all of them are true. They read the object by the node's id, or each item as `each`.
    pub ready_when: Vec<Expression>,
    /// The nodes it depends on, and what it reads from each, in the order of [`Graph::nodes`].
    pub dependencies: Vec<Dependency>,
    /// The cluster of the objects.
    pub placement: Placement,
    /// When it exists, and how it is deleted.
    pub lifecycle: Lifecycle,
    /// Layer counted from the roots; nodes of one layer do not depend on each other.
    pub layer: usize,
    /// kro's `internal.kro.run/apply-order`: objects are deleted from the highest to the lowest.
    pub apply_order: usize,
}

impl Node {
    /// Whether expressions see the node as a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.source, Source::Collection { .. } | Source::ExternalCollection { .. })
    }

    /// Every expression of the resource: those of its cluster reference, of its objects, and of the conditions on it.
    #[must_use]
    pub fn expressions(&self) -> Vec<&Expression> {
        let mut found = Vec::new();
        if let Placement::Remote(remote) = &self.placement {
            found.extend(remote.templates.iter().flat_map(|(_, template)| template.expressions()));
        }
        match &self.source {
            Source::Object(template) => found.extend(template.expressions()),
            Source::Collection { axes, template } => {
                found.extend(axes.iter().map(|axis| &axis.items));
                found.extend(template.expressions());
            }
            Source::External { name, namespace } => {
                found.extend(name.expressions());
                found.extend(namespace.iter().flat_map(Template::expressions));
            }
            Source::ExternalCollection { selector, namespace, namespace_selector } => {
                let templates = [Some(selector), namespace.as_ref(), namespace_selector.as_ref()];
                found.extend(templates.into_iter().flatten().flat_map(Template::expressions));
            }
        }
        found.extend(&self.include_when);
        found.extend(&self.ready_when);
        found.extend(&self.lifecycle.force_when);
        match &self.lifecycle.policy {
            Policy::Computed(expression) => found.push(expression),
            Policy::Fixed(_) => {}
        }
        match &self.lifecycle.order {
            Some(Order::Computed(expression)) => found.push(expression),
            Some(Order::Fixed(_)) | None => {}
        }
        found
    }

    /// What identifies the object, if it is the same object for every instance.
    pub(crate) fn literal_identity(&self) -> Option<String> {
        let Source::Object(template) = &self.source else {
            return None;
        };
        let metadata = template.get("metadata")?;
        let text = |field: &str| match metadata.get(field) {
            Some(Field::Literal(value)) => Some(value.to_string()),
            Some(Field::Template(_)) => None,
            None => Some(String::new()),
        };
        let cluster = match &self.placement {
            Placement::Local => String::new(),
            Placement::Remote(remote) => remote.fixed.as_ref()?.credentials.to_string(),
        };
        let ObjectKind { group, kind, .. } = &self.kind;
        Some(format!(
            "{cluster} {group} {kind} {} {}",
            text("namespace")?,
            text("name").filter(|name| !name.is_empty())?
        ))
    }

    /// Whether the graph reads the objects and never writes them.
    #[must_use]
    pub fn is_external(&self) -> bool {
        matches!(self.source, Source::External { .. } | Source::ExternalCollection { .. })
    }
}

/// Where a node's objects come from.
#[derive(Debug)]
pub enum Source {
    /// One object from a template.
    Object(Template),
    /// One object for each combination of the axes' items; the first axis is the outermost loop.
    Collection {
        /// The axes.
        axes: Vec<Axis>,
        /// The object, with the axes' variables in scope.
        template: Template,
    },
    /// One existing object that the graph does not manage.
    External {
        /// Its name.
        name: Template,
        /// Its namespace; by default the instance's.
        namespace: Option<Template>,
    },
    /// The existing objects that a selector matches.
    ExternalCollection {
        /// A label selector; an empty one selects everything.
        selector: Template,
        /// The namespace; by default all.
        namespace: Option<Template>,
        /// A label selector for namespaces.
        namespace_selector: Option<Template>,
    },
}

/// One dimension of a collection.
#[derive(Debug)]
pub struct Axis {
    /// The variable that holds the item.
    pub variable: Text,
    /// Returns the list.
    pub items: Expression,
}

/// A dependency on another node, and what is read from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The node that is depended on.
    pub node: NodeIndex,
    /// The paths read, such as `status.endpoint`; `[*]` stands for any item.
    pub fields: Vec<String>,
}

/// The cluster of a node's objects.
#[derive(Debug, Clone)]
pub enum Placement {
    /// The hub cluster, which holds the instance.
    Local,
    /// Another cluster.
    Remote(Arc<RemotePlacement>),
}

/// A reference to another cluster, with its expressions compiled.
#[derive(Debug)]
pub struct RemotePlacement {
    /// The reference as lowered from its spelling.
    pub reference: ClusterReference,
    /// The cluster, if it is the same for every instance.
    pub fixed: Option<ResolvedCluster>,
    /// Whether the reference is inherited from the definition.
    pub inherited: bool,
    /// The compiled strings of the reference, by their path in the definition.
    pub(crate) templates: Vec<(Text, Template)>,
}

impl RemotePlacement {
    /// Resolves the cluster for one instance, or for one item of a collection.
    ///
    /// # Errors
    /// An expression that fails or is pending, or a value that is not a valid name.
    pub fn resolve(
        &self,
        instance_namespace: Option<&str>,
        scope: &Scope<'_>,
    ) -> Result<ResolvedCluster, ResolveError<RenderError>> {
        if let Some(fixed) = &self.fixed {
            return Ok(fixed.clone());
        }
        self.reference.resolve(instance_namespace, |written| {
            let compiled = self.templates.iter().find(|(path, _)| *path == *written.path());
            match compiled {
                Some((_, template)) => {
                    Ok(template.render_string(scope)?.map_or_else(String::new, |text| text.to_string()))
                }
                None => Ok(written.as_str().to_owned()),
            }
        })
    }
}

/// When a node exists and how it is deleted, with the definition's defaults merged.
#[derive(Debug, Default)]
pub struct Lifecycle {
    /// Whether the node exists while the instance is active, or while it is being deleted.
    pub phase: LifecyclePhase,
    /// Whether objects that exist already are adopted.
    pub adopt: AdoptPolicy,
    /// Whether its objects are deleted or retained.
    pub policy: Policy,
    /// Stop waiting for the object's deletion after this long.
    pub force_after: Option<std::time::Duration>,
    /// Stop waiting for the object's deletion when all of them are true.
    pub force_when: Vec<Expression>,
    /// Nodes that must be deleted (or, in phase Deletion, ready) before this one is deleted.
    pub after: Vec<NodeIndex>,
    /// Deletion order instead of the graph's: higher is deleted first.
    pub order: Option<Order>,
}

/// Whether objects are deleted or retained.
#[derive(Debug)]
pub enum Policy {
    /// A literal.
    Fixed(DeletePolicy),
    /// The value of an expression.
    Computed(Box<Expression>),
}

impl Default for Policy {
    fn default() -> Self {
        Self::Fixed(DeletePolicy::Delete)
    }
}

/// A position in the deletion order.
#[derive(Debug)]
pub enum Order {
    /// A literal.
    Fixed(i64),
    /// The value of an expression.
    Computed(Box<Expression>),
}
