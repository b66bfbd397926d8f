//! What an expression may use, by where it stands. A name that exists but is not available in a place gets a message
//! that says so, instead of "undeclared".

use std::cell::OnceCell;

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
}

/// The variables of a graph, declared once and shared by every context: with a hundred resources, declaring each of them anew
/// for each of them would be most of the work.
pub(super) struct Variables {
    nodes: Vec<(Text, Type)>,
    /// `schema` alone.
    schema: Env,
    /// `schema`, `resources` and every node.
    graph: Env,
    /// The same with `runtime`.
    conditions: Env,
    /// The same with nodes whose status has the tracked fields, made when a lifecycle first asks for it.
    lifecycle: OnceCell<Env>,
}

impl Variables {
    pub(super) fn new(
        compiler: &Compiler<'_>,
        schema: &Type,
        nodes: Vec<(Text, Type)>,
        resources: &Type,
    ) -> Self {
        let shared = || [("schema".into(), schema.clone()), ("resources".into(), resources.clone())];
        let all = || shared().into_iter().chain(nodes.iter().cloned());
        let runtime = (Text::from(runtime::VARIABLE), runtime::runtime_type());
        Self {
            schema: compiler.env.with_variables([("schema", schema.clone())]),
            graph: compiler.env.with_variables(all()),
            conditions: compiler.conditions_env.with_variables(all().chain([runtime])),
            lifecycle: OnceCell::new(),
            nodes,
        }
    }

    fn lifecycle(&self) -> &Env {
        self.lifecycle.get_or_init(|| {
            self.graph.with_variables(self.nodes.iter().map(|(id, node)| (id.clone(), lifecycle_view(node))))
        })
    }
}

impl<'a> Compiler<'a> {
    /// `schema`, other resources, and the variables of the resource's own axes. The resource itself is declared too, and
    /// refused afterwards.
    pub(super) fn template_context(
        &self,
        position: Position,
        draft: &Draft<'a>,
        variables: &Variables,
        axes: &[(Text, Type)],
    ) -> Context {
        let env = if axes.is_empty() {
            variables.graph.clone()
        } else {
            variables.graph.with_variables(axes.iter().cloned())
        };
        // An axis that took the resource's name was reported, and stands for itself.
        let own = Text::from(draft.id());
        let taken = axes.iter().any(|(name, _)| *name == own);
        Context { position, env, own: (!taken).then_some(own) }
    }

    /// The resource itself, or each of its items.
    pub(super) fn ready_context(&self, draft: &Draft<'a>) -> Context {
        let mut declared: Vec<(Text, Type)> = Vec::new();
        if draft.is_list() {
            declared.push(("each".into(), draft.object_type.clone()));
        }
        // The items of a selector have no desired number, so their author may want to look at all of them.
        if !draft.is_list() || draft.resource.external_ref.is_some() {
            declared.push((draft.id().into(), draft.node_type()));
        }
        let env = self.env.with_variables(declared);
        Context { position: Position::ReadyWhen, env, own: Some(draft.id().into()) }
    }

    /// `schema` and every resource.
    pub(super) fn status_context(&self, position: Position, variables: &Variables) -> Context {
        let env = if position == Position::Conditions { &variables.conditions } else { &variables.graph };
        Context { position, env: env.clone(), own: None }
    }

    /// `schema` alone.
    pub(super) fn definition_cluster_context(&self, variables: &Variables) -> Context {
        Context { position: Position::DefinitionCluster, env: variables.schema.clone(), own: None }
    }

    /// `schema` and every resource, whose `status` has the tracked fields too.
    pub(super) fn lifecycle_context(&self, draft: &Draft<'a>, variables: &Variables) -> Context {
        let written = draft.resource.lifecycle.is_some() || self.spec.lifecycle.is_some();
        let env = if written { variables.lifecycle() } else { &variables.graph };
        Context { position: Position::Lifecycle, env: env.clone(), own: Some(draft.id().into()) }
    }
}
