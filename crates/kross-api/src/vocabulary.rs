//! All constants of the API: keys of labels and annotations, field managers, states, condition types and reasons. No
//! other module in the workspace defines any of them.

pub mod annotations;
mod conditions;
pub mod connection_keys;
mod events;
pub mod labels;
pub mod managers;
mod states;

pub use conditions::{ConditionType, FailureReason, Operation, Reason};
pub use events::EventReason;
pub use states::{
    ApplicationState, BindingPhase, ClusterState, InstanceState, NodeState, ResourceState, SyncMode,
};

/// Prefix of label and annotation keys that templates must not set, like [`INTERNAL_KEY_PREFIX`].
pub const KEY_PREFIX: &str = "kro.run/";
/// Prefix of label and annotation keys for internal bookkeeping.
pub const INTERNAL_KEY_PREFIX: &str = "internal.kro.run/";
/// Prefix of label and annotation keys of apply sets, which templates must not set either.
pub const APPLYSET_KEY_PREFIX: &str = "applyset.kubernetes.io/";
/// The finalizer of definitions, revisions and instances.
pub const FINALIZER: &str = "kro.run/finalizer";
/// The finalizer of kubeconfig Secrets that are protected, see [`labels::PROTECT`].
pub const PROTECTION_FINALIZER: &str = "kro.run/protect";
/// The namespace of kubeconfig Secrets if neither the reference nor the instance has one.
pub const SYSTEM_NAMESPACE: &str = "kro-system";
/// The default key of the kubeconfig in its Secret.
pub const KUBECONFIG_KEY: &str = "kubeconfig";
/// Suffix of the names of Secrets that may be used as credentials without the label.
pub const KUBECONFIG_NAME_SUFFIX: &str = "-kubeconfig";

/// Declares an enum whose variants are strings on the wire.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Every variant.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The value on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// Parses a value from the wire.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|item| item.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::parse(&word).ok_or_else(|| {
                    serde::de::Error::custom(format_args!("`{word}` is not a valid {}", stringify!($name)))
                })
            }
        }
    };
}

use wire_enum;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip_through_json() {
        for state in ResourceState::ALL {
            let text = serde_json::to_string(state).unwrap();
            assert_eq!(serde_json::from_str::<ResourceState>(&text).unwrap(), *state);
        }
        let error = serde_json::from_str::<InstanceState>("\"Sleepy\"").unwrap_err().to_string();
        assert!(error.contains("`Sleepy`"), "{error}");
    }
}
