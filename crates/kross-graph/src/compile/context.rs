//! What an expression may use, by where it stands. A name that exists but is not available in a place gets a message
//! that says so, instead of "undeclared".

use kross_cel::Env;
use kross_cel::library::kro::runtime;
use kross_cel::types::Type;
use kross_value::Text;

use super::Compiler;
use super::draft::Draft;
use crate::tracked::lifecycle_view;

/// Where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// A template, or a field of an external reference.
    Template,
    IncludeWhen,
    ReadyWhen,
    ForEach,
    Status,
    Conditions,
    /// `spec.cluster`, `spec.target`.
    DefinitionCluster,
    /// `cluster` or `target` of a resource.
    ResourceCluster,
    Lifecycle,
}

impl Position {
    /// What messages call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Template => "a template",
            Self::IncludeWhen => "`includeWhen`",
            Self::ReadyWhen => "`readyWhen`",
            Self::ForEach => "`forEach`",
            Self::Status => "`status`",
            Self::Conditions => "`status.conditions`",
            Self::DefinitionCluster => "the cluster of the definition",
            Self::ResourceCluster => "the cluster of a resource",
            Self::Lifecycle => "`lifecycle`",
        }
    }

    /// Whether reading a resource here makes an edge.
    pub(super) fn makes_edges(self) -> bool {
        matches!(self, Self::Template | Self::IncludeWhen | Self::ForEach | Self::ResourceCluster)
    }
}

/// A position with its variables.
pub(super) struct Context {
    pub(super) position: Position,
    pub(super) env: Env,
    /// The id of the resource that the expression belongs to.
    pub(super) own: Option<Text>,
    /// The names that are declared.
    pub(super) available: Vec<Text>,
}

/// The type of every variable of a graph.
pub(super) struct Variables {
    pub(super) schema: Type,
    pub(super) resources: Type,
    /// Ids and types, in the order of the definition.
    pub(super) nodes: Vec<(Text, Type)>,
}

impl Variables {
    fn others(&self, own: &str) -> impl Iterator<Item = (Text, Type)> {
        self.nodes.iter().filter(move |(id, _)| *id != *own).cloned()
    }

    fn shared(&self) -> [(Text, Type); 2] {
        [("schema".into(), self.schema.clone()), ("resources".into(), self.resources.clone())]
    }
}

impl<'a> Compiler<'a> {
    fn context(&self, position: Position, own: Option<&str>, variables: Vec<(Text, Type)>) -> Context {
        let available = variables.iter().map(|(name, _)| name.clone()).collect();
        let base = if position == Position::Conditions { &self.conditions_env } else { &self.env };
        Context { position, env: base.with_variables(variables), own: own.map(Text::from), available }
    }

    /// `schema`, other resources, and the variables of the resource's own axes.
    pub(super) fn template_context(
        &self,
        position: Position,
        draft: &Draft<'a>,
        variables: &Variables,
        axes: &[(Text, Type)],
    ) -> Context {
        let declared =
            variables.shared().into_iter().chain(variables.others(draft.id())).chain(axes.iter().cloned());
        self.context(position, Some(draft.id()), declared.collect())
    }

    /// The resource itself, or each of its items.
    pub(super) fn ready_context(&self, draft: &Draft<'a>) -> Context {
        let mut declared = Vec::new();
        if draft.is_list() {
            declared.push(("each".into(), draft.object_type.clone()));
        }
        // The items of a selector have no desired number, so their author may want to look at all of them.
        if !draft.is_list() || draft.resource.external_ref.is_some() {
            declared.push((draft.id().into(), draft.node_type()));
        }
        self.context(Position::ReadyWhen, Some(draft.id()), declared)
    }

    /// `schema` and every resource.
    pub(super) fn status_context(&self, position: Position, variables: &Variables) -> Context {
        let runtime =
            (position == Position::Conditions).then(|| (runtime::VARIABLE.into(), runtime::runtime_type()));
        let declared = variables.shared().into_iter().chain(variables.nodes.iter().cloned()).chain(runtime);
        self.context(position, None, declared.collect())
    }

    /// `schema` alone.
    pub(super) fn definition_cluster_context(&self, variables: &Variables) -> Context {
        self.context(Position::DefinitionCluster, None, vec![("schema".into(), variables.schema.clone())])
    }

    /// `schema` and every resource, whose `status` has the tracked fields too.
    pub(super) fn lifecycle_context(&self, draft: &Draft<'a>, variables: &Variables) -> Context {
        let nodes = variables.nodes.iter().map(|(id, node)| (id.clone(), lifecycle_view(node)));
        let declared = variables.shared().into_iter().chain(nodes).collect();
        self.context(Position::Lifecycle, Some(draft.id()), declared)
    }
}
