//! The labels of metrics and every value that each of them can have.

use kross_api::InstanceState;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};

/// The labels of a family with all their values.
pub(super) type Closed = Vec<(&'static str, Vec<&'static str>)>;

/// Labels whose values are all known beforehand.
pub(super) trait ClosedLabels {
    /// Names and values.
    fn closed() -> Closed;
}

/// Declares the words that a label can have, as they are on the wire.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($word:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
        #[allow(
            non_camel_case_types,
            reason = "the words are kro's, and the derived encoding writes variants as they are"
        )]
        pub(crate) enum $name {
            $($word,)+
        }

        impl $name {
            const WORDS: &[&'static str] = &[$(stringify!($word),)+];
        }
    };
}

words! {
    /// Why a revision was issued.
    IssueReason { no_revision, spec_changed, }
}

words! {
    /// What a look at a definition's revisions led to.
    Resolution { serve, issue, wait, failed, }
}

words! {
    /// When a key comes again without an event.
    Requeue { no_requeue, requeue_after, rate_limited, }
}

words! {
    /// What a watch told of.
    EventType { add, update, delete, }
}

words! {
    /// Why an instance has no graph.
    UnresolvedReason { not_available, failed, }
}

/// Declares a set of labels, each with its words.
macro_rules! labels {
    ($(#[$meta:meta])* $name:ident { $($label:ident: $type:ty = $words:expr,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(crate) struct $name {
            $(pub(crate) $label: $type,)+
        }

        impl ClosedLabels for $name {
            fn closed() -> Closed {
                vec![$((stringify!($label).trim_start_matches("r#"), $words.to_vec()),)+]
            }
        }
    };
}

labels! {
    /// Why a revision was issued.
    Issued { reason: IssueReason = IssueReason::WORDS, }
}

labels! {
    /// What a look at a definition's revisions led to.
    Resolved { result: Resolution = Resolution::WORDS, }
}

labels! {
    /// When a key comes again without an event.
    Requeued { r#type: Requeue = Requeue::WORDS, }
}

labels! {
    /// What a watch told of.
    Seen { event_type: EventType = EventType::WORDS, }
}

labels! {
    /// Why an instance has no graph.
    Unresolved { reason: UnresolvedReason = UnresolvedReason::WORDS, }
}

labels! {
    /// A state of a definition that was left, and the one that was entered.
    DefinitionTransition {
        from: &'static str = ["Active", "Inactive"],
        to: &'static str = ["Active", "Inactive"],
    }
}

labels! {
    /// A state of an instance that was left, and the one that was entered. The first one is entered from nothing.
    InstanceTransition {
        from_state: &'static str = states(true),
        to_state: &'static str = states(false),
    }
}

fn states(and_none: bool) -> Vec<&'static str> {
    let none = and_none.then_some("");
    none.into_iter().chain(InstanceState::ALL.iter().map(|state| state.as_str())).collect()
}
