//! The labels of metrics, with all values of each.

use kross_api::InstanceState;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};

/// The labels of a family with all their values.
pub(super) type Closed = Vec<(&'static str, Vec<&'static str>)>;

/// Labels with closed sets of values.
pub(super) trait ClosedLabels {
    /// Names and values.
    fn closed() -> Closed;
}

/// Declares the values of a label, as they are on the wire.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($word:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
        #[allow(
            non_camel_case_types,
            reason = "the values are kro's, and the derived encoding writes variants as they are"
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
    /// The result of resolving the revision to serve.
    Resolution { serve, issue, wait, failed, }
}

words! {
    /// How a key is requeued.
    Requeue { no_requeue, requeue_after, rate_limited, }
}

words! {
    /// The type of an event.
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
    /// The result of resolving the revision to serve.
    Resolved { result: Resolution = Resolution::WORDS, }
}

labels! {
    /// How a key is requeued.
    Requeued { r#type: Requeue = Requeue::WORDS, }
}

labels! {
    /// The type of an event.
    Observed { event_type: EventType = EventType::WORDS, }
}

labels! {
    /// Why an instance has no graph.
    Unresolved { reason: UnresolvedReason = UnresolvedReason::WORDS, }
}

labels! {
    /// The state of a definition before and after a transition.
    DefinitionTransition {
        from: &'static str = ["Active", "Inactive"],
        to: &'static str = ["Active", "Inactive"],
    }
}

labels! {
    /// The state of an instance before and after a transition. A new instance has no state before the first one.
    InstanceTransition {
        from_state: &'static str = states(true),
        to_state: &'static str = states(false),
    }
}

fn states(with_none: bool) -> Vec<&'static str> {
    let none = with_none.then_some("");
    none.into_iter().chain(InstanceState::ALL.iter().map(|state| state.as_str())).collect()
}
