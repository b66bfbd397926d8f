//! What is known of a definition whether or not it compiles: the kinds of its resources, their clusters, and the variables that an
//! expression in each field may use. Editors answer from it.

use std::sync::Arc;

use kross_cel::Env;
use kross_cel::types::Type;
use kross_diagnostics::{Diagnostics, Path, PathSegment};
use kross_schema::ResolvedKind;
use kross_value::Text;

use super::context::{Position, Variables};
use super::{Compiler, Definition, Options, Resolvers};
use crate::deferred::Assuming;
use crate::graph::{ObjectKind, Placement};
use crate::tracked::resources_type;

/// A definition as far as it is understood.
#[derive(Debug)]
pub struct Analysis {
    /// The type of the variable `schema`.
    pub schema_type: Type,
    /// The resources, with their index in `spec.resources`.
    pub resources: Vec<AnalyzedResource>,
    scopes: Scopes,
}

/// A resource as far as it is understood.
#[derive(Debug)]
pub struct AnalyzedResource {
    /// Its id.
    pub id: Text,
    /// Its kind; empty if it is not known.
    pub kind: ObjectKind,
    /// The schema of its kind, if it is known.
    pub resolved: Option<Arc<ResolvedKind>>,
    /// The type of its variable.
    pub variable_type: Type,
    /// The `forEach` variables and their types.
    pub axes: Vec<(Text, Type)>,
    /// The cluster of its objects.
    pub placement: Placement,
    env: ResourceEnvs,
}

/// The variables that an expression in a field may use.
#[derive(Clone, Debug)]
pub struct FieldScope {
    /// The variables and functions.
    pub env: Env,
    /// The id of the resource that the field belongs to. Its variable is declared, but templates must not read it.
    pub own: Option<Text>,
}

#[derive(Debug)]
struct Scopes {
    schema_only: Env,
    graph: Env,
    conditions: Env,
    lifecycle: Env,
}

#[derive(Debug)]
struct ResourceEnvs {
    template: Env,
    ready: Env,
}

/// Analyzes a definition. The schemas of clusters that depend on the instance are assumed to be the local ones.
#[must_use]
pub fn analyze(definition: Definition<'_>, resolvers: &dyn Resolvers, options: &Options) -> Analysis {
    let assuming = Assuming(resolvers);
    let mut compiler = Compiler::new(definition.spec, &assuming, options, &mut Diagnostics::new());
    compiler.analysis()
}

impl Compiler<'_> {
    fn analysis(&mut self) -> Analysis {
        let instance = self.instance();
        self.scope = instance.scope();
        let drafts = self.drafts();
        let listed = drafts.iter().map(|draft| (self.variable(draft), draft.is_list())).collect();
        let nodes = drafts.iter().map(|draft| (self.variable(draft), draft.node_type())).collect();
        let variables = Variables::new(self, &instance.schema_type, nodes, &resources_type(listed));
        let inherited = self.inherited_placement(&variables);
        let mut resources = Vec::with_capacity(drafts.len());
        for draft in &drafts {
            let (_, axes) = self.axes(draft, &variables);
            let placement = self.node_placement(draft, &variables, &axes, inherited.as_ref());
            let template = self.template_context(Position::Template, draft, &variables, &axes).env;
            let ready = self.ready_context(draft).env;
            resources.push(AnalyzedResource {
                id: draft.id().into(),
                kind: draft.kind.clone(),
                resolved: draft.resolved.clone(),
                variable_type: draft.node_type(),
                axes,
                placement,
                env: ResourceEnvs { template, ready },
            });
        }
        let scopes = Scopes {
            schema_only: variables.schema_only().clone(),
            graph: self.status_context(Position::Status, &variables).env,
            conditions: self.status_context(Position::Conditions, &variables).env,
            lifecycle: variables.lifecycle().clone(),
        };
        Analysis { schema_type: instance.schema_type, resources, scopes }
    }
}

impl Analysis {
    /// The variables of an expression at a path of the definition. None where no expression can be.
    #[must_use]
    pub fn scope(&self, path: &Path) -> Option<FieldScope> {
        let [PathSegment::Key(spec), rest @ ..] = path.segments() else { return None };
        if spec != "spec" {
            return None;
        }
        let shared = |env: &Env| Some(FieldScope { env: env.clone(), own: None });
        match rest {
            [PathSegment::Key(schema), PathSegment::Key(status), below @ ..]
                if schema == "schema" && status == "status" =>
            {
                let conditions =
                    matches!(below.first(), Some(PathSegment::Key(field)) if field == "conditions");
                shared(if conditions { &self.scopes.conditions } else { &self.scopes.graph })
            }
            [PathSegment::Key(resources), PathSegment::Index(index), PathSegment::Key(field), ..]
                if resources == "resources" =>
            {
                self.resource_scope(self.resources.get(*index)?, field)
            }
            [PathSegment::Key(field), ..] => match field.as_str() {
                "cluster" | "target" | "access" => shared(&self.scopes.schema_only),
                "lifecycle" => shared(&self.scopes.lifecycle),
                _ => None,
            },
            _ => None,
        }
    }

    fn resource_scope(&self, resource: &AnalyzedResource, field: &str) -> Option<FieldScope> {
        let (env, hides_own) = match field {
            "template" | "externalRef" | "cluster" | "target" => (&resource.env.template, true),
            "includeWhen" | "forEach" => (&self.scopes.graph, true),
            "readyWhen" => (&resource.env.ready, false),
            "lifecycle" => (&self.scopes.lifecycle, false),
            _ => return None,
        };
        Some(FieldScope { env: env.clone(), own: hides_own.then(|| resource.id.clone()) })
    }
}
