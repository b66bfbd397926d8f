//! The cluster of each resource: compiles the expressions in the lowered reference and checks what they may
//! depend on.

use std::sync::Arc;

use kross_api::{ClusterReference, Credentials, Place as ApiPlace, Scope};
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

    /// A target is in the namespace of the instance. An instance without namespace names that of the target.
    pub(super) fn check_target_namespaces(&mut self) {
        let namespace = |reference: &ClusterReference| match &reference.credentials {
            Credentials::Published(published) => Some(published.namespace.clone()),
            Credentials::Secret(_) | Credentials::SecretByText(_) => None,
        };
        let references = self.placement.references().map(|(_, reference)| reference);
        let found: Vec<_> = references
            .filter_map(|reference| Some((reference.path.parse::<Path>().ok()?, namespace(reference)?)))
            .collect();
        for (path, namespace) in found {
            let problem = match (self.scope, namespace) {
                (Scope::Namespaced, None) | (Scope::Cluster, Some(_)) => continue,
                (Scope::Namespaced, Some(_)) => {
                    let message = "an instance can use only the KubernetesTargets of its own namespace";
                    Problem::new(Code::TargetNamespace, Place::key(&path.key("namespace")), message)
                        .help("remove `namespace`, and publish the cluster in the namespace of the instances")
                }
                (Scope::Cluster, None) => {
                    let message = "instances without namespace need the namespace of the KubernetesTarget";
                    Problem::new(Code::TargetNamespace, Place::key(&path), message)
                        .help("add `namespace` with the namespace in which the cluster is published")
                }
            };
            self.report(problem);
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
