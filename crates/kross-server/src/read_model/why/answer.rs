//! The answer of `kross why`: a chain of objects that ends at the blocker, one sentence, and commands.

use serde::Serialize;

use super::super::Tone;

/// One object on the way to the blocker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// What it is: `Shop team/web`, or `db: Deployment team/web-db in cluster team/eu`.
    pub object: String,
    /// Its state.
    pub state: String,
    #[serde(skip)]
    /// How good the state is.
    pub tone: Tone,
}

/// Why an object is not ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Whether the object is ready.
    pub ready: bool,
    /// From the object to the blocker.
    pub chain: Vec<Link>,
    /// The cause in one sentence.
    pub why: String,
    /// Commands that help, the best first.
    pub next: Vec<String>,
    /// What could not be found out.
    pub notes: Vec<String>,
}
