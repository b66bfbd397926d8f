//! Observes what concerns a claim: classes, the managed resource, the target, and the targets of others. While the claim lives,
//! the caches answer; before something is given up, the API server does.

use std::sync::Arc;

use kross_api::{ManagedClusterReference, Reason, annotations};
use kross_cluster::{ApiError, ApiKind, Lookup, StoredObject};
use kross_plan::workload::{
    BindingFields, ClaimClass, ClaimObservation, ManagedObject, ObservedManaged, ObservedTarget,
    ObservedUsers, allows_namespace, copy_name,
};
use kross_schema::{FieldView, GroupVersionKind, SchemaResolver, SchemaView};
use kross_value::Value;
use tokio::time::Instant;

use super::pass::Pass;
use crate::context::Context;
use crate::kinds;
use crate::managed_resource::{self, Managed, ManagedKey};
use crate::workload::WorkloadKind;

impl Pass<'_> {
    pub(super) async fn observe(&mut self) -> Result<ClaimObservation, ApiError> {
        Ok(ClaimObservation {
            classes: classes(self.context),
            managed: self.observe_managed().await?,
            copy: self.copy.clone(),
            is_secret_deleted: self.is_secret_deleted,
            target: self.observe_target(),
            users: self.users.clone(),
        })
    }

    async fn observe_managed(&mut self) -> Result<ObservedManaged, ApiError> {
        let Some(reference) = self.spec.resource_ref.clone() else { return Ok(ObservedManaged::Absent) };
        let is_deleting = self.object.deletion_timestamp().is_some();
        self.is_uncached = false;
        self.managed = match managed_resource::find(self.context, self.key, &reference) {
            Managed::Found { object, kind } => Some((object, kind)),
            Managed::Pending => return Ok(ObservedManaged::Unknown),
            Managed::Refused(refusal) => match refusal.reason {
                Reason::ManagedResourceNotFound | Reason::ManagedKindNotServed if is_deleting => {
                    let read = self.read_managed(&reference).await?;
                    self.is_uncached = read.is_some();
                    read
                }
                Reason::ManagedResourceNotFound => None,
                _ => return Ok(ObservedManaged::Unavailable(refusal)),
            },
        };
        let Some((object, kind)) = &self.managed else { return Ok(ObservedManaged::Absent) };
        let fields = fields_of(self.context, kind, Some(object.value()));
        Ok(ObservedManaged::Found(ManagedObject { value: object.value().clone(), fields }))
    }

    /// Reads the managed resource from the API server, in whatever version its kind is served now: a claim must not be given up
    /// because a cache lags, or because the version of its reference is not served any more.
    async fn read_managed(
        &self,
        reference: &ManagedClusterReference,
    ) -> Result<Option<(Arc<StoredObject>, Arc<ApiKind>)>, ApiError> {
        let client = &self.context.client;
        let key = ManagedKey::from(reference);
        let served = client.served_kind(&key.group, &key.kind, Instant::now()).await?;
        let Some(kind) = served.filter(|kind| !kind.namespaced) else { return Ok(None) };
        match client.get(&kind, None, &key.name).await {
            Ok(object) => Ok(Some((Arc::new(object), kind))),
            Err(error) if error.is_object_not_found() || error.is_kind_not_served() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn observe_target(&self) -> ObservedTarget {
        let Some(targets) = self.context.workload.cache(WorkloadKind::Target) else {
            return ObservedTarget::NotServed;
        };
        if let Some(outline) = targets.unreadable(Some(&self.key.namespace), &self.key.name) {
            return ObservedTarget::Found(outline.value().clone());
        }
        match targets.get(Some(&self.key.namespace), &self.key.name) {
            Lookup::Found(target) => ObservedTarget::Found(target.value().clone()),
            Lookup::Absent => ObservedTarget::Absent,
            Lookup::Unknown => ObservedTarget::Unknown,
        }
    }

    /// Lists the targets that publish the managed resource, in all namespaces. If the cache has one, that is enough.
    pub(super) async fn list_users(&self) -> Result<ObservedUsers, ApiError> {
        let cached = self.context.workload.cache(WorkloadKind::Target).map(|targets| targets.known());
        let mut users: Vec<String> =
            cached.iter().flatten().filter_map(|target| self.published_by(target)).collect();
        if users.is_empty() {
            let kind = WorkloadKind::Target.api_kind();
            match self.context.client.list_with_outlines(&kind, None, None).await {
                Ok(targets) => users.extend(targets.iter().filter_map(|target| self.published_by(target))),
                Err(error) if error.is_kind_not_served() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ObservedUsers::Targets(users))
    }

    /// Namespace and name of a target that publishes the managed resource, or that uses the claim's copy of the Secret.
    fn published_by(&self, target: &StoredObject) -> Option<String> {
        let spec = target.value().get("spec");
        let text = |path: &[&str]| spec.and_then(|spec| spec.at(path)).and_then(Value::as_str);
        let names_resource = self.spec.resource_ref.as_ref().is_some_and(|resource| {
            text(&["clusterRef", "apiVersion"]).map(kinds::group_of)
                == Some(kinds::group_of(&resource.api_version))
                && text(&["clusterRef", "kind"]) == Some(&resource.kind)
                && text(&["clusterRef", "name"]) == Some(&resource.name)
        });
        let namespace = target.namespace()?;
        // A target in a namespace that the managed resource excludes never got a copy, and must not hold its claim.
        let managed = self.managed.as_ref().map(|(managed, _)| managed);
        let allowed = managed.and_then(|managed| managed.annotation(annotations::ALLOWED_NAMESPACES));
        let names_resource =
            names_resource && (allows_namespace(allowed, namespace) || has_propagated(target));
        let secret = self.spec.write_connection_secret_to_ref.as_ref().map(|secret| secret.name.as_str());
        let names_copy = *namespace == self.key.namespace
            && secret.is_some()
            && text(&["connectionSecretRef", "name"]) == secret;
        // A target that cannot be read may publish anything.
        (names_resource || names_copy || target.unreadable().is_some())
            .then(|| format!("{namespace}/{}", target.name()))
    }
}

/// Whether a target has had a copy of the connection Secret.
fn has_propagated(target: &StoredObject) -> bool {
    let secret = target.value().at(&["spec", "connectionSecretRef", "name"]).and_then(Value::as_str);
    secret == Some(copy_name(target.name()).as_str())
}

/// The classes, by name; none while they are not known.
fn classes(context: &Context) -> Option<Vec<ClaimClass>> {
    let Some(cache) = context.workload.cache(WorkloadKind::Class) else { return Some(Vec::new()) };
    let classes = cache.list_readable()?;
    let living = classes.iter().filter(|class| class.deletion_timestamp().is_none());
    Some(living.filter_map(|class| read_class(class)).collect())
}

fn read_class(class: &StoredObject) -> Option<ClaimClass> {
    let spec = class.value().get("spec").map(serde_json::Value::from).unwrap_or_default();
    match serde_json::from_value(spec) {
        Ok(spec) => Some(ClaimClass {
            name: class.name().to_string(),
            labels: class.labels().clone(),
            is_default: class.annotation(annotations::DEFAULT_CLASS) == Some("true"),
            spec,
        }),
        Err(error) => {
            tracing::warn!(class = %class.name(), %error, "cannot read KubernetesClusterClass");
            None
        }
    }
}

/// Which fields for a binding a managed kind has. A field that the object has counts too.
pub(super) fn fields_of(context: &Context, kind: &ApiKind, object: Option<&Value>) -> BindingFields {
    let resolved = context.schemas.resolve(&GroupVersionKind::new(&kind.api_version(), &kind.kind));
    let has = |path: &[&str]| resolved.as_ref().is_some_and(|resolved| has_field(&resolved.schema, path));
    let is_set =
        |path: &[&str]| object.and_then(|object| object.at(path)).is_some_and(|field| !field.is_null());
    BindingFields {
        claim_ref: has(&["spec", "claimRef", "uid"]) || is_set(&["spec", "claimRef"]),
        binding_phase: has(&["status", "bindingPhase"]) || is_set(&["status", "bindingPhase"]),
    }
}

/// Whether a schema has a field. Where it allows any field, it has none in particular, except inside of one that it names.
fn has_field(schema: &SchemaView, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    match schema.field(first) {
        FieldView::Known(field) => {
            rest.is_empty() || has_field(&field, rest) || (rest.len() == 1 && field.is_free())
        }
        FieldView::Free | FieldView::Unknown => false,
    }
}
