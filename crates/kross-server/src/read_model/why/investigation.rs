//! Follows an object to what blocks it: from an instance to its resource, from there to the object in its cluster, to the
//! cluster, its target or its Secret. Reads only what the caller may read, and notes what it could not.

use std::collections::HashSet;

use jiff::Timestamp;
use kross_api::annotations;
use kross_cluster::ApiError;
use serde_json::Value as Json;

use super::super::Tone;
use super::super::{
    ControllerLease, Definition, Hub, InstanceView, Owner, RemoteClusters, UnknownKind, age,
    controller_lease, find_kind, for_people, is_definition, text,
};
use super::answer::{Answer, Link};

/// Where a chain ends at the latest: objects can name each other in a circle.
const MAX_LINKS: usize = 12;

/// Why the reason could not be found.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// It is nothing that kross reconciles or creates.
    #[error("{title} is not an instance: no ResourceGraphDefinition serves `{kind}`")]
    NotAnInstance {
        /// The object, as `Shop team/web`.
        title: String,
        /// Its kind.
        kind: String,
    },
    /// The kind of its instance is not served.
    #[error(transparent)]
    UnknownKind(#[from] UnknownKind),
    /// Its instance could not be read.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// Follows one object.
#[derive(Debug)]
pub struct Investigation<'h> {
    pub(super) hub: &'h Hub,
    pub(super) remotes: RemoteClusters<'h>,
    pub(super) now: Timestamp,
    pub(super) definitions: Option<Vec<Definition>>,
    pub(super) answer: Answer,
    seen: HashSet<String>,
}

impl<'h> Investigation<'h> {
    /// Begins to follow an object at a time.
    #[must_use]
    pub fn new(hub: &'h Hub, now: Timestamp) -> Self {
        Self {
            hub,
            remotes: RemoteClusters::new(hub),
            now,
            definitions: None,
            answer: Answer::default(),
            seen: HashSet::new(),
        }
    }

    /// Why an object is not ready.
    ///
    /// # Errors
    /// The object is none that kross has anything to do with.
    pub async fn examine(mut self, object: Json) -> Result<Answer, WhyError> {
        self.definitions = self.hub.definitions().await;
        if self.definitions.is_none() {
            self.note("you may not list definitions");
        }
        self.follow(object).await?;
        if !self.answer.ready {
            self.check_controller().await;
        }
        self.answer.why = for_people(&self.answer.why, self.now);
        let mut seen = HashSet::new();
        self.answer.next.retain(|command| seen.insert(command.clone()));
        Ok(self.answer)
    }

    /// Follows an object by its kind.
    pub(super) async fn follow(&mut self, object: Json) -> Result<(), WhyError> {
        let uid = text(&object, "/metadata/uid").unwrap_or_default().to_owned();
        if !self.seen.insert(uid) || self.answer.chain.len() > MAX_LINKS {
            return Ok(());
        }
        let view = InstanceView(&object);
        let workload = ["workload.crossplane.io/", "compute.crossplane.io/"]
            .iter()
            .any(|group| text(&object, "/apiVersion").is_some_and(|version| version.starts_with(group)));
        if is_definition(&object) {
            self.definition(&Definition::new(object)).await;
        } else if workload && view.kind() != "KubernetesApplicationResource" {
            Box::pin(self.workload(&object)).await?;
        } else if self.is_instance(&object) {
            Box::pin(self.instance(&object)).await?;
        } else if let Some(owner) = Owner::of(&object) {
            Box::pin(self.owner_of(&object, &owner)).await?;
        } else {
            let title = view.title();
            return Err(WhyError::NotAnInstance { title, kind: view.kind().to_owned() });
        }
        Ok(())
    }

    /// Whether kross reconciles an object as an instance.
    pub(super) fn is_instance(&self, object: &Json) -> bool {
        let view = InstanceView(object);
        view.annotation(annotations::STATE).is_some()
            || view.kind() == "KubernetesApplicationResource"
            || self.served_by(object).is_some_and(|definition| definition.has_instance(object))
            || (self.definitions.is_none() && Owner::of(object).is_none())
    }

    /// The definition of an instance.
    pub(super) fn served_by(&self, instance: &Json) -> Option<&Definition> {
        let version = text(instance, "/apiVersion").unwrap_or_default();
        let kind = text(instance, "/kind").unwrap_or_default();
        self.definitions.as_ref()?.iter().find(|definition| definition.serves(version, kind))
    }

    /// Follows the instance that an object belongs to.
    async fn owner_of(&mut self, object: &Json, owner: &Owner) -> Result<(), WhyError> {
        let title = InstanceView(object).title();
        let kind = match self.hub.kind_of(&owner.api_version(), &owner.kind) {
            Some(kind) => kind,
            None => find_kind(&self.hub.client.discovery().kinds(), &owner.kind)?,
        };
        let instance = match self.hub.get(&kind, owner.namespace.as_deref(), &owner.name).await {
            Ok(instance) => instance,
            Err(error) if error.is_object_not_found() => {
                self.link(title, "orphaned", Tone::Bad);
                self.answer.why = format!(
                    "it belongs to {} `{}`, which does not exist in this cluster; it may belong to an instance of another hub",
                    owner.kind, owner.name
                );
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let note = format!("{title} is resource `{}` of {}", owner.node, InstanceView(&instance).title());
        self.answer.notes.push(note);
        self.follow(instance).await
    }

    /// Adds an object to the chain.
    pub(super) fn link(&mut self, object: impl Into<String>, state: impl Into<String>, tone: Tone) {
        self.answer.chain.push(Link { object: object.into(), state: state.into(), tone });
    }

    /// Adds what could not be found out.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.answer.notes.contains(&note) {
            self.answer.notes.push(note);
        }
    }

    /// Whether there is a controller that could do anything. Without one, everything else is as it was left.
    async fn check_controller(&mut self) {
        let ControllerLease::Lost { lease, holder, renewed } = controller_lease(self.hub, self.now).await
        else {
            return;
        };
        let since = age(renewed, self.now);
        let holder =
            if holder.is_empty() { "it was released".to_owned() } else { format!("`{holder}` renewed it") };
        let before = std::mem::take(&mut self.answer.why);
        if !before.is_empty() {
            let before = for_people(&before, self.now);
            self.note(format!("the status may be out of date; it says: {before}"));
        }
        self.answer.why =
            format!("no controller is running: Lease `{lease}` is not held; {holder} {since} ago");
        let namespace = lease.split('/').next().unwrap_or_default();
        self.answer.next.insert(0, format!("kubectl get pods -n {namespace}"));
    }
}
