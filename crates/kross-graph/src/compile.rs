//! Compiles a definition into an immutable graph, or reports all of its errors at once. The steps are methods of
//! [`Compiler`], one file each; a step stops at an error only where it makes the rest meaningless.

mod access;
mod analysis;
mod context;
mod draft;
mod expressions;
mod fields;
mod instance;
mod instance_choices;
mod lifecycle;
mod object_names;
mod placement;
mod resource;
mod selector;
mod status;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

use kross_api::yaml::{Document, attach_all};
use kross_api::{
    Access, LifecyclePhase, PlacementOptions, ResolvedCluster, ResourceGraphDefinitionSpec, Scope,
    lower_placement, spec_hash,
};
use kross_cel::types::Type;
use kross_cel::{Env, library};
use kross_diagnostics::{Code, Diagnostics, Locate, Place, Problem, Severity};
use kross_schema::SchemaResolver;
use kross_value::Text;

pub use analysis::{Analysis, AnalyzedResource, FieldScope, analyze};

use crate::graph::{AccountTemplate, Dependency, Graph, Node, NodeIndex, Source};
use crate::names;
use crate::order::{Edges, layers_from_leaves, layers_from_roots, topological};
use crate::tracked::resources_type;
use context::{Position, Variables};
use draft::Draft;

/// Settings of a compilation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether `omit()` is available: kro's feature gate `CELOmitFunction`.
    pub omit: bool,
    /// How many `forEach` entries a resource may have.
    pub max_axes: usize,
    /// Limits on cluster references.
    pub placement: PlacementOptions,
    /// How kinds without a schema are reported. Default: as errors, or as warnings if they are custom kinds in a cluster that
    /// depends on the instance.
    pub unknown_kinds: Option<ReportAs>,
    /// How [`validate`](crate::validate) reports what does not fit the schemas that a cluster is assumed to have which depends
    /// on the instance.
    pub deferred: ReportAs,
}

/// How a finding is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportAs {
    /// As an error.
    Error,
    /// As a warning.
    Warning,
    /// Not at all.
    Nothing,
}

impl ReportAs {
    /// The severity of the finding, if it is reported.
    #[must_use]
    pub fn severity(self) -> Option<Severity> {
        match self {
            Self::Error => Some(Severity::Error),
            Self::Warning => Some(Severity::Warning),
            Self::Nothing => None,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            omit: true,
            max_axes: 10,
            placement: PlacementOptions::default(),
            unknown_kinds: None,
            deferred: ReportAs::Nothing,
        }
    }
}

/// The schemas of the clusters that a graph's resources are in.
pub trait Resolvers {
    /// The hub cluster, which holds the instances.
    fn local(&self) -> &dyn SchemaResolver;

    /// A cluster that is known without an instance. None if its schemas are unavailable; its resources are then compiled
    /// without type checks.
    fn remote(&self, _cluster: &ResolvedCluster) -> Option<&dyn SchemaResolver> {
        Some(self.local())
    }

    /// The schemas that the clusters are assumed to have whose references depend on the instance. None: their resources are
    /// compiled without type checks.
    fn assumed(&self) -> Option<&dyn SchemaResolver> {
        None
    }

    /// The name of the local schemas in messages, where other clusters are assumed to have them too.
    fn assumption(&self) -> String {
        "the schemas of the hub".to_owned()
    }

    /// What to do about a kind that no resolver knows.
    fn missing_kind_help(&self) -> &'static str {
        "install its CustomResourceDefinition in the cluster"
    }

    /// The cluster of the resource at this index of `spec.resources`, whose reference depends on the instance. None if
    /// there is no instance yet.
    fn resolved(&self, _resource: usize) -> Option<&dyn SchemaResolver> {
        None
    }
}

/// A definition to compile.
#[derive(Clone, Copy)]
pub struct Definition<'a> {
    /// `metadata.name`.
    pub name: &'a str,
    /// `spec`.
    pub spec: &'a ResourceGraphDefinitionSpec,
    /// The YAML document, for positions in diagnostics.
    pub document: Option<&'a Document>,
}

/// Compiles a definition.
///
/// # Errors
/// Every error in it, sorted by position.
pub fn compile(
    definition: Definition<'_>,
    resolvers: &dyn Resolvers,
    options: &Options,
) -> Result<Graph, Diagnostics> {
    let mut lowering = Diagnostics::new();
    let mut compiler = Compiler::new(definition.spec, resolvers, options, &mut lowering);
    let graph = compiler.run(definition.name);
    let mut diagnostics = match definition.document {
        Some(document) => attach_all(lowering, document),
        None => lowering,
    };
    let locate = definition.document.map(|document| document as &dyn Locate);
    diagnostics.extend(compiler.problems.iter().map(|problem| problem.diagnostic(locate)));
    diagnostics.sort();
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    match graph {
        Some(graph) => Ok(Graph { warnings: diagnostics, ..graph }),
        None => Err(diagnostics),
    }
}

/// Compiles the `access` of a definition whose graph is not known: expressions are compiled without the type of `schema`. None
/// if it is invalid.
#[must_use]
pub fn compile_access(access: &Access, scope: Scope, resolvers: &dyn Resolvers) -> Option<AccountTemplate> {
    let spec = ResourceGraphDefinitionSpec {
        access: Some(access.clone()),
        ..ResourceGraphDefinitionSpec::default()
    };
    let options = Options::default();
    let mut compiler = Compiler::new(&spec, resolvers, &options, &mut Diagnostics::new());
    compiler.scope = scope;
    let variables = Variables::new(&compiler, &Type::Dyn, Vec::new(), &resources_type(Vec::new()));
    let account = compiler.account(&Type::Dyn, &variables)?;
    compiler.problems.iter().all(|problem| problem.severity != Severity::Error).then_some(account)
}

struct Compiler<'a> {
    spec: &'a ResourceGraphDefinitionSpec,
    resolvers: &'a dyn Resolvers,
    options: &'a Options,
    env: Env,
    /// The environment of author-defined conditions: `env` and `runtime`.
    conditions_env: Env,
    /// Ids, with the index of the first resource that has each.
    ids: HashMap<&'a str, usize>,
    /// Every forEach variable of the definition, to tell "not available here" from "unknown".
    axes: BTreeSet<&'a str>,
    placement: kross_api::Placement,
    /// The scope of the instances; of an existing kind, the one in its schema.
    scope: Scope,
    problems: Vec<Problem>,
    /// What the resource being compiled reads from other resources: index to field paths.
    edges: BTreeMap<usize, BTreeSet<String>>,
}

impl<'a> Compiler<'a> {
    fn new(
        spec: &'a ResourceGraphDefinitionSpec,
        resolvers: &'a dyn Resolvers,
        options: &'a Options,
        lowering: &mut Diagnostics,
    ) -> Self {
        let (env, conditions_env) = environments(options);
        let axes = spec.resources.iter().flat_map(|resource| resource.for_each.iter());
        Self {
            spec,
            resolvers,
            options,
            conditions_env,
            env,
            ids: ids(spec),
            axes: axes.map(|axis| axis.variable.as_str()).collect(),
            placement: lower_placement(spec, options.placement, lowering),
            scope: spec.schema.scope(),
            problems: Vec::new(),
            edges: BTreeMap::new(),
        }
    }

    fn report(&mut self, problem: Problem) {
        // A default on the definition is compiled again for every resource; report its error once.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn run(&mut self, name: &str) -> Option<Graph> {
        let instance = self.instance();
        self.scope = instance.scope();
        self.check_target_namespaces();
        let drafts = self.drafts();
        let listed = drafts.iter().map(|draft| (self.variable(draft), draft.is_list())).collect();
        let nodes = drafts.iter().map(|draft| (self.variable(draft), draft.node_type())).collect();
        let variables = Variables::new(self, &instance.schema_type, nodes, &resources_type(listed));
        let account = self.account(&instance.schema_type, &variables);
        let inherited = self.inherited_placement(&variables);
        let mut nodes = Vec::with_capacity(drafts.len());
        for draft in &drafts {
            nodes.push(self.node(draft, &variables, inherited.as_ref()));
        }
        let status = self.status(&variables);
        let waits: Vec<&[NodeIndex]> = nodes.iter().map(|node| node.lifecycle.after.as_slice()).collect();
        self.check_deletion_order(&waits, &drafts);
        self.check_phases(&nodes, &drafts);
        self.check_same_objects(&nodes, &drafts);
        self.check_chosen_namespaces(&nodes);
        self.check_chosen_secrets(&nodes, &drafts, &status);
        let order = self.order(&mut nodes, &drafts)?;
        if self.problems.iter().any(|problem| problem.severity == Severity::Error) {
            return None;
        }
        let crd = self.crd(&instance, &status.schema);
        Some(Graph {
            name: name.into(),
            instance: instance.kind,
            schema_type: instance.schema_type,
            account,
            nodes,
            order: order.into_iter().map(NodeIndex).collect(),
            status: status.template,
            conditions: status.conditions,
            crd,
            hash: spec_hash(self.spec).into(),
            warnings: Diagnostics::new(),
        })
    }

    /// The variable of a resource. An id that cannot be a variable was reported, with a valid name that expressions may use
    /// already.
    fn variable(&self, draft: &Draft<'a>) -> Text {
        let fixed = names::fix(draft.id());
        if names::validate(draft.id()).is_err() && !self.ids.contains_key(fixed.as_str()) {
            return fixed.into();
        }
        draft.id().into()
    }

    fn node(
        &mut self,
        draft: &Draft<'a>,
        variables: &Variables,
        inherited: Option<&std::sync::Arc<crate::graph::RemotePlacement>>,
    ) -> Node {
        self.edges.clear();
        let (axes, axis_types) = self.axes(draft, variables);
        let placement = self.node_placement(draft, variables, &axis_types, inherited);
        let source = self.source(draft, variables, axes, &axis_types);
        if let Source::Collection { template, .. } = &source {
            self.check_identity(draft, template, &placement, &axis_types);
        }
        let include = self.template_context(Position::IncludeWhen, draft, variables, &[]);
        let include_when =
            self.conditions(&draft.resource.include_when, &draft.path.key("includeWhen"), &include);
        let ready = self.ready_context(draft);
        let ready_when = self.conditions(&draft.resource.ready_when, &draft.path.key("readyWhen"), &ready);
        let lifecycle_context = self.lifecycle_context(draft, variables);
        let lifecycle = self.lifecycle(draft, &lifecycle_context);
        let needs: Vec<usize> = self.edges.keys().copied().collect();
        self.check_inherited_dependencies(draft, &needs);
        let dependencies = std::mem::take(&mut self.edges)
            .into_iter()
            .map(|(node, fields)| Dependency { node: NodeIndex(node), fields: fields.into_iter().collect() });
        Node {
            id: draft.id().into(),
            kind: draft.kind.clone(),
            object_type: draft.read_as.clone(),
            source,
            include_when,
            ready_when,
            dependencies: dependencies.collect(),
            placement,
            lifecycle,
            layer: 0,
            apply_order: 0,
        }
    }

    /// Orders the nodes and sets the layer of each, or reports the cycle.
    fn order(&mut self, nodes: &mut [Node], drafts: &[Draft<'a>]) -> Option<Vec<usize>> {
        let needs = |node: &Node| node.dependencies.iter().map(|dependency| dependency.node.0).collect();
        let edges: Edges = nodes.iter().map(needs).collect();
        let order = match topological(&edges) {
            Ok(order) => order,
            Err(cycle) => {
                self.report_cycle(&cycle, drafts);
                return None;
            }
        };
        let leaves = layers_from_leaves(&edges, &order);
        let roots = layers_from_roots(&edges, &order);
        let count = leaves.iter().max().map_or(0, |highest| highest + 1);
        for (at, node) in nodes.iter_mut().enumerate() {
            node.layer = roots.get(at).copied().unwrap_or(0);
            node.apply_order = count - leaves.get(at).copied().unwrap_or(0);
        }
        Some(order)
    }

    fn report_cycle(&mut self, cycle: &[usize], drafts: &[Draft<'a>]) {
        let members: Vec<&Draft<'a>> = cycle.iter().filter_map(|at| drafts.get(*at)).collect();
        let Some(first) = members.first() else {
            return;
        };
        let ids: Vec<&str> = members.iter().chain([first]).map(|draft| draft.id()).collect();
        let place = Place::value(&first.path.key("id"));
        let message = format!("graph contains a cycle: {}", ids.join(" -> "));
        let mut problem = Problem::new(Code::Cycle, place, message)
            .help("read the shared value from `schema`, so that one of them has no dependencies");
        for (draft, needed) in members.iter().zip(ids.iter().skip(1)).skip(1) {
            problem = problem.also(Place::value(&draft.path.key("id")), format!("reads `{needed}`"));
        }
        self.report(problem);
    }

    /// A resource of the active phase cannot read a resource that exists only during deletion.
    fn check_phases(&mut self, nodes: &[Node], drafts: &[Draft<'a>]) {
        for (node, draft) in
            nodes.iter().zip(drafts).filter(|(node, _)| node.lifecycle.phase == LifecyclePhase::Active)
        {
            for dependency in &node.dependencies {
                let Some(needed) = nodes.get(dependency.node.0) else { continue };
                if needed.lifecycle.phase == LifecyclePhase::Deletion {
                    let message =
                        format!("`{}` reads `{}`, which exists only during deletion", node.id, needed.id);
                    let problem = Problem::new(
                        Code::NeedsDeletionResource,
                        Place::value(&draft.path.key("id")),
                        message,
                    );
                    self.report(problem.help("to wait for it on deletion, use `lifecycle.delete.after`"));
                }
            }
        }
    }

    /// Reports two resources that are the same object for every instance.
    fn check_same_objects(&mut self, nodes: &[Node], drafts: &[Draft<'a>]) {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (at, node) in nodes.iter().enumerate() {
            let Some(identity) = node.literal_identity() else { continue };
            let Some(first) = seen.get(&identity).and_then(|first| drafts.get(*first)) else {
                seen.insert(identity, at);
                continue;
            };
            let Some(draft) = drafts.get(at) else { continue };
            let message = format!("`{}` and `{}` are the same object", first.id(), draft.id());
            let name =
                |draft: &Draft<'_>| Place::value(&draft.path.key("template").key("metadata").key("name"));
            let problem =
                Problem::new(Code::SameObject, name(draft), message).also(name(first), "the other resource");
            self.report(problem.help("merge the resources, or give them different names"));
        }
    }
}

fn ids(spec: &ResourceGraphDefinitionSpec) -> HashMap<&str, usize> {
    // In reverse, so that of two resources with the same id the first one is kept.
    spec.resources.iter().enumerate().rev().map(|(index, resource)| (resource.id.as_str(), index)).collect()
}

/// The environment of all expressions, and that of author-defined conditions, which adds `runtime`.
fn environments(options: &Options) -> (Env, Env) {
    (environment(options.omit, false), environment(options.omit, true))
}

/// Function tables are large and the same for every graph, so each is built once.
fn environment(omit: bool, conditions: bool) -> Env {
    static TABLES: [OnceLock<Env>; 4] = [const { OnceLock::new() }; 4];
    let build = || {
        let gated = [(omit, &library::kro::omit::LIBRARY), (conditions, &library::kro::runtime::LIBRARY)];
        let gated = gated.into_iter().filter(|(on, _)| *on).map(|(_, library)| library);
        #[expect(clippy::expect_used, reason = "kross-cel tests that every signature can be parsed")]
        Env::new(library::standard().chain(gated)).expect("every signature can be parsed")
    };
    let [plain, with_omit, with_runtime, with_both] = &TABLES;
    let table = match (omit, conditions) {
        (false, false) => plain,
        (true, false) => with_omit,
        (false, true) => with_runtime,
        (true, true) => with_both,
    };
    table.get_or_init(build).clone()
}
