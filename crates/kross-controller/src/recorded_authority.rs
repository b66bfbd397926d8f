//! Determines by whose authority the references of an inventory are used. Whoever may edit an instance may edit its inventory, so
//! it grants nothing: the definition, or a kept revision of it, must lead to the same credentials.

use std::cell::OnceCell;

use kross_api::{
    Authority, ClusterReference, GraphRevisionSpec, InstanceIdentity, Place, PlacementOptions,
    ResolvedCredentials, ResourceGraphDefinitionSpec, lower_placement,
};
use kross_cluster::{ObjectKey, SecretName, StoredObject};
use kross_diagnostics::Diagnostics;
use kross_graph::{Graph, Placement};
use kross_value::Value;

use crate::context::Context;
use crate::graphs::Served;

/// The references of a definition and of its kept revisions.
pub(crate) struct RecordedAuthority<'a> {
    context: &'a Context,
    served: &'a Served,
    /// The references of the kept revisions, read when they are first needed.
    kept: OnceCell<Vec<ClusterReference>>,
}

impl<'a> RecordedAuthority<'a> {
    pub(crate) fn new(context: &'a Context, served: &'a Served) -> Self {
        Self { context, served, kept: OnceCell::new() }
    }

    /// The authority of a recorded reference to these credentials for an instance.
    pub(crate) fn of(&self, credentials: &ResolvedCredentials, instance: &StoredObject) -> Authority {
        let namespace = instance.namespace().map(|namespace| &**namespace);
        let (name, uid) = (Some(&**instance.name()), Some(&**instance.uid()));
        let instance = InstanceIdentity { namespace, name, uid };
        self.first_granted(|references| Authority::of_recorded(references, credentials, instance))
    }

    /// The same for a Secret and any instance in a namespace, or in none.
    fn of_secret(&self, secret: &SecretName, namespace: Option<&str>) -> Authority {
        let name = (&*secret.namespace, &*secret.name);
        let any = InstanceIdentity { namespace, ..InstanceIdentity::default() };
        self.first_granted(|references| Authority::of_recorded_secret(references, name, any))
    }

    /// The graphs are asked first: revisions have to be parsed.
    fn first_granted(&self, ask: impl Fn(Vec<&ClusterReference>) -> Authority) -> Authority {
        let revisions = [&self.served.revision, &self.served.deletion_revision].into_iter().flatten();
        let compiled = revisions.flat_map(|revision| references_of(&revision.graph)).collect();
        match ask(compiled) {
            Authority::Granted => Authority::Granted,
            Authority::ByOwner => ask(self.kept().iter().collect()),
        }
    }

    fn kept(&self) -> &[ClusterReference] {
        self.kept.get_or_init(|| {
            let known = self.context.revisions.known();
            let kept = known.iter().filter(|revision| is_kept(revision, &self.served.definition));
            kept.filter_map(|revision| snapshot(revision)).flat_map(|spec| lowered(&spec)).collect()
        })
    }
}

/// The authority by which an instance whose inventory names a Secret uses it, whichever definition serves it.
pub(crate) fn of_user(context: &Context, user: &ObjectKey, secret: &SecretName) -> Authority {
    let namespace = user.namespace.as_deref();
    let serving = context.graphs.serving(&user.group, &user.kind);
    let is_granted = serving.iter().any(|served| {
        RecordedAuthority::new(context, served).of_secret(secret, namespace) == Authority::Granted
    });
    if is_granted { Authority::Granted } else { Authority::ByOwner }
}

fn references_of(graph: &Graph) -> impl Iterator<Item = &ClusterReference> {
    graph.nodes.iter().filter_map(|node| match &node.placement {
        Placement::Remote(remote) => Some(&remote.reference),
        Placement::Local => None,
    })
}

/// Whether an object is a revision of this definition that is not being deleted.
fn is_kept(revision: &StoredObject, definition: &str) -> bool {
    let name = revision.value().at(&["spec", "snapshot", "name"]).and_then(Value::as_str);
    revision.deletion_timestamp().is_none() && name == Some(definition)
}

/// The spec that a revision keeps; none if it cannot be read.
fn snapshot(revision: &StoredObject) -> Option<ResourceGraphDefinitionSpec> {
    let spec = revision.value().get("spec")?;
    serde_json::from_str::<GraphRevisionSpec>(&spec.to_string()).ok().map(|spec| spec.snapshot.spec)
}

/// The references that the resources of a definition have. What is wrong with them was reported when it was accepted.
fn lowered(spec: &ResourceGraphDefinitionSpec) -> Vec<ClusterReference> {
    let placement = lower_placement(spec, PlacementOptions::default(), &mut Diagnostics::new());
    let places = (0..spec.resources.len()).map(|index| placement.place(index));
    places.filter_map(Place::reference).cloned().collect()
}
