//! The cluster of each resource: compiles the expressions in the lowered reference and checks what they may
//! depend on.

use std::sync::Arc;

use kross_api::{ClusterReference, Credentials, Place as ApiPlace};
use kross_cel::types::Type;
use kross_diagnostics::{Code, Path, Place, Problem};
use kross_value::Text;

use super::Compiler;
use super::context::{Context, Position, Variables};
use super::draft::Draft;
use crate::expression::Expression;
use crate::graph::{Placement, RemotePlacement};
use crate::template::{Field, Template};

impl<'a> Compiler<'a> {
    /// The definition's own reference, compiled once and shared by all resources that inherit it.
    pub(super) fn inherited_placement(&mut self, variables: &Variables) -> Option<Arc<RemotePlacement>> {
        let reference = self.placement.definition.clone()?;
        let context = self.definition_cluster_context(variables);
        Some(Arc::new(self.remote(reference, true, &context)))
    }

    pub(super) fn node_placement(
        &mut self,
        draft: &Draft<'a>,
        variables: &Variables,
        axes: &[(Text, Type)],
        inherited: Option<&Arc<RemotePlacement>>,
    ) -> Placement {
        let own = match self.placement.place(draft.index) {
            ApiPlace::Local => return Placement::Local,
            ApiPlace::Inherited(_) => {
                return inherited.map_or(Placement::Local, |shared| Placement::Remote(Arc::clone(shared)));
            }
            ApiPlace::Own(reference) => reference.clone(),
        };
        let context = self.template_context(Position::ResourceCluster, draft, variables, axes);
        Placement::Remote(Arc::new(self.remote(own, false, &context)))
    }

    fn remote(&mut self, reference: ClusterReference, inherited: bool, context: &Context) -> RemotePlacement {
        let fixed = reference.static_cluster(self.scope);
        let mut templates = Vec::new();
        for written in reference.templates() {
            // The paths come from the lowering, so they can be parsed.
            let Ok(path) = written.path().parse::<Path>() else {
                continue;
            };
            if let Some(template) = self.string(written.as_str(), &path, context) {
                templates.push((written.path().into(), template));
            }
        }
        RemotePlacement { reference, fixed, inherited, templates }
    }

    /// Rejects references to published clusters: they are lowered, but nothing can connect to them yet.
    pub(super) fn check_published(&mut self) {
        let is_published =
            |reference: &&ClusterReference| matches!(reference.credentials, Credentials::Published(_));
        let references = self.placement.references().map(|(_, reference)| reference);
        let paths: Vec<Path> =
            references.filter(is_published).filter_map(|reference| reference.path.parse().ok()).collect();
        for path in paths {
            let message = "published clusters are not supported yet";
            let problem = Problem::new(Code::PublishedCluster, Place::key(&path), message);
            self.report(
                problem.help("name the cluster's kubeconfig Secret with `target.cluster` or `cluster`"),
            );
        }
    }

    /// With the long spelling, resources that inherit the definition's cluster cannot have dependencies.
    pub(super) fn check_inherited_dependencies(&mut self, draft: &Draft<'a>, needs: &[usize]) {
        let ApiPlace::Inherited(reference) = self.placement.place(draft.index) else {
            return;
        };
        if !reference.spelling.is_long() {
            return;
        }
        let reference_path = reference.path.parse::<Path>().unwrap_or_default();
        for need in needs {
            let Some(needed) = self.spec.resources.get(*need) else {
                continue;
            };
            let message = format!(
                "resources with RGD-level cluster cannot have dependencies: `{}` reads `{}`",
                draft.id(),
                needed.id
            );
            let problem = Problem::new(Code::InheritedDependency, Place::value(&draft.path.key("id")), message)
                .also(Place::key(&reference_path), "the cluster it inherits")
                .help("use `target` or the short spelling `cluster: {name: <secret>, namespace: …}`, which allow dependencies");
            self.report(problem);
        }
    }

    /// Every variable of a collection must be part of its items' identity: name, namespace or cluster.
    pub(super) fn check_identity(
        &mut self,
        draft: &Draft<'a>,
        template: &Template,
        placement: &Placement,
        axes: &[(Text, Type)],
    ) {
        let metadata = template.get("metadata");
        let mut expressions: Vec<&Expression> = Vec::new();
        for field in ["name", "namespace"] {
            if let Some(Field::Template(template)) = metadata.and_then(|metadata| metadata.get(field)) {
                expressions.extend(template.expressions());
            }
        }
        if let Placement::Remote(remote) = placement {
            expressions.extend(remote.templates.iter().flat_map(|(_, template)| template.expressions()));
        }
        for (at, (variable, _)) in axes.iter().enumerate() {
            if expressions.iter().any(|expression| expression.uses(variable)) {
                continue;
            }
            let place = Place::key(&draft.path.key("forEach").index(at).key(variable.as_str()));
            let message = format!(
                "`{variable}` is not part of the objects' name, so several items would be the same object"
            );
            let problem = Problem::new(Code::VariableNotInIdentity, place, message).also(
                Place::value(&draft.path.key("template").key("metadata").key("name")),
                "every item has this name",
            );
            self.report(problem.help(format!("add it to `metadata.name`, for example `…-${{{variable}}}`")));
        }
    }
}
