//! One condition of a status, as kro writes it.

mod set;
#[cfg(test)]
mod tests;

pub use set::{ConditionSet, ObjectFacts};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One aspect of an object's state, and since when it is so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about, such as `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[schemars(with = "String")]
    pub status: ConditionStatus,
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "seconds")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub last_transition_time: Option<Timestamp>,
    /// Why, in one word. Always written, also when empty, except by author-defined conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in a sentence. Always written, also when empty, except by author-defined conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The generation that the condition speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows yet.
    Unknown,
}

impl ConditionStatus {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// Kubernetes writes times of conditions in whole seconds, and refuses none.
mod seconds {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "the signature that serde calls")]
    pub(super) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(crate::status::whole_seconds).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        Option::<Timestamp>::deserialize(deserializer)
    }
}
