//! The variables that an expression may use, by the field it is written in. A name that exists but is not available in a
//! field is reported as such, and not as undeclared.

use std::cell::OnceCell;

use kross_cel::Env;
use kross_cel::library::kro::runtime;
use kross_cel::types::Type;
use kross_value::Text;

use super::Compiler;
use super::draft::Draft;
use crate::tracked::lifecycle_view;

/// The field that an expression is written in.
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
    /// `spec.access`.
    Access,
}

impl Position {
    /// Its name in messages.
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
            Self::Access => "`access`",
        }
    }

    /// Whether reading a resource here adds a dependency.
    pub(super) fn adds_dependencies(self) -> bool {
        matches!(self, Self::Template | Self::IncludeWhen | Self::ForEach | Self::ResourceCluster)
    }
}

/// A position and the variables available there.
pub(super) struct Context {
    pub(super) position: Position,
    pub(super) env: Env,
    /// The id of the resource that the expression belongs to.
    pub(super) own: Option<Text>,
}

/// The variables of a graph, declared once and shared by all contexts: declaring every resource again for every resource
/// would dominate the compile time of large graphs.
pub(super) struct Variables {
    nodes: Vec<(Text, Type)>,
    /// Only `schema`.
    schema: Env,
    /// `schema`, `resources` and every node.
    graph: Env,
    /// `graph` and `runtime`.
    conditions: Env,
    /// `graph` with the tracked fields in the status of every node; built on first use.
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

    /// Only `schema`.
    pub(super) fn schema_only(&self) -> &Env {
        &self.schema
    }

    pub(super) fn lifecycle(&self) -> &Env {
        self.lifecycle.get_or_init(|| {
            self.graph.with_variables(self.nodes.iter().map(|(id, node)| (id.clone(), lifecycle_view(node))))
        })
    }
}

impl<'a> Compiler<'a> {
    /// `schema`, other resources, and the resource's own forEach variables. The resource itself is declared too, and
    /// rejected afterwards, for a better message.
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
        // A forEach variable with the name of the resource was reported already, and hides the resource.
        let own = Text::from(draft.id());
        let hidden = axes.iter().any(|(name, _)| *name == own);
        Context { position, env, own: (!hidden).then_some(own) }
    }

    /// The resource itself, or `each` of its items.
    pub(super) fn ready_context(&self, draft: &Draft<'a>) -> Context {
        let mut declared: Vec<(Text, Type)> = Vec::new();
        if draft.is_list() {
            declared.push(("each".into(), draft.object_type.clone()));
        }
        // The number of objects that a selector matches is not known, so the author may need the whole list.
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

    /// Only `schema`.
    pub(super) fn definition_cluster_context(&self, variables: &Variables) -> Context {
        Context { position: Position::DefinitionCluster, env: variables.schema.clone(), own: None }
    }

    /// `schema` and every resource, with the tracked fields in its `status`.
    pub(super) fn lifecycle_context(&self, draft: &Draft<'a>, variables: &Variables) -> Context {
        let written = draft.resource.lifecycle.is_some() || self.spec.lifecycle.is_some();
        let env = if written { variables.lifecycle() } else { &variables.graph };
        Context { position: Position::Lifecycle, env: env.clone(), own: Some(draft.id().into()) }
    }
}
