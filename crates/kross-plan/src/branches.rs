//! Which outcomes the conditions and collections of a definition had while plans were made: the coverage of its tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kross_graph::{Graph, Source};
use kross_value::Text;

/// A record of outcomes that plans share. A plan whose [`crate::Settings`] have one adds to it.
#[derive(Clone, Debug, Default)]
pub struct BranchRecord(Arc<Mutex<BTreeMap<Text, Outcomes>>>);

/// The outcomes that an expression had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// A condition was true, or a collection had items.
    pub taken: bool,
    /// A condition was false, or a collection had none.
    pub not_taken: bool,
}

/// An expression with two outcomes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Branch {
    /// Its path in the definition.
    pub path: Text,
    /// What it decides.
    pub kind: BranchKind,
}

/// What an expression decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BranchKind {
    /// Whether a node exists.
    IncludeWhen,
    /// How many items a collection has.
    ForEach,
    /// Whether an object is ready.
    ReadyWhen,
    /// Whether a condition of the author is true.
    Condition,
}

impl BranchKind {
    /// The field of the definition.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IncludeWhen => "includeWhen",
            Self::ForEach => "forEach",
            Self::ReadyWhen => "readyWhen",
            Self::Condition => "condition",
        }
    }

    /// The two outcomes in words: the taken one first.
    #[must_use]
    pub const fn outcomes(self) -> [&'static str; 2] {
        match self {
            Self::ForEach => ["not empty", "empty"],
            Self::IncludeWhen | Self::ReadyWhen | Self::Condition => ["true", "false"],
        }
    }
}

impl BranchRecord {
    pub(crate) fn add(&self, path: &Text, taken: bool) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcomes = seen.entry(path.clone()).or_default();
        if taken {
            outcomes.taken = true;
        } else {
            outcomes.not_taken = true;
        }
    }

    /// The outcomes of the expression at a path.
    #[must_use]
    pub fn outcomes(&self, path: &str) -> Outcomes {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(path).copied().unwrap_or_default()
    }
}

/// Every expression of a graph with two outcomes, in the order of the definition.
#[must_use]
pub fn branches(graph: &Graph) -> Vec<Branch> {
    let branch = |kind| move |path: &Text| Branch { path: path.clone(), kind };
    let mut found = Vec::new();
    found.extend(graph.conditions.iter().map(|it| &it.path).map(branch(BranchKind::Condition)));
    for node in &graph.nodes {
        if let Source::Collection { axes, .. } = &node.source {
            found.extend(axes.iter().map(|axis| &axis.items.path).map(branch(BranchKind::ForEach)));
        }
        found.extend(node.include_when.iter().map(|it| &it.path).map(branch(BranchKind::IncludeWhen)));
        found.extend(node.ready_when.iter().map(|it| &it.path).map(branch(BranchKind::ReadyWhen)));
    }
    found
}
