//! What a simulated controller did.

use std::fmt;

use kross_api::ObjectKey;
use kross_value::Text;

/// One thing that a simulated controller did to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// What it did.
    pub kind: ActionKind,
    /// The node of the object; empty if it is not known.
    pub node: Text,
    /// The object.
    pub key: ObjectKey,
    /// The name of its cluster; none for the local one.
    pub cluster: Option<Text>,
    /// Which wave it was part of: what has the same number happened at once.
    pub wave: usize,
    /// Why it failed, or why the object is orphaned.
    pub why: Option<Text>,
}

/// What was done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// It was created.
    Create,
    /// It was updated.
    Update,
    /// It was deleted because it is not desired any more, or its deletion was requested and waits for finalizers.
    Prune,
    /// It was deleted with its instance, or its deletion was requested and waits for finalizers.
    Delete,
    /// It was released: the object stays without ownership labels.
    Release,
    /// It is not waited for any more, as its lifecycle says.
    Orphan,
    /// The API server refused the write or the deletion.
    Refused,
}

impl ActionKind {
    /// What happened, as a verb in the past.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "created",
            Self::Update => "updated",
            Self::Prune => "pruned",
            Self::Delete => "deleted",
            Self::Release => "released",
            Self::Orphan => "orphaned",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for Action {
    /// ``created Deployment default/web in cluster `eu` ``.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.kind.as_str(), self.key.kind, self.key.namespaced_name())?;
        match &self.cluster {
            Some(cluster) => write!(f, " in cluster `{cluster}`"),
            None => Ok(()),
        }
    }
}
