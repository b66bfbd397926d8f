//! Which branches of the definitions the tests took: both outcomes of every `includeWhen`, `forEach`, `readyWhen` and condition.

use std::collections::BTreeMap;

use kross_diagnostics::Path;
use kross_plan::{BranchKind, Outcomes, branches};

use super::suite::Suite;

/// The coverage of all definitions, by file.
#[derive(Debug, Default)]
pub(super) struct Coverage(BTreeMap<String, BTreeMap<(u32, u32), Covered>>);

/// A branch, and which of its outcomes were seen.
#[derive(Clone, Debug)]
struct Covered {
    kind: BranchKind,
    path: String,
    outcomes: Outcomes,
}

/// An outcome that no test has seen.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Missing {
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) path: String,
    /// What was never the case, such as "`includeWhen` was never false".
    pub(super) what: String,
}

impl Coverage {
    /// Adds what the tests of a file have seen.
    pub(super) fn add(&mut self, suite: &Suite) {
        for compiled in suite.definitions.iter().flat_map(|file| &file.compiled) {
            for branch in branches(&compiled.graph) {
                let Ok(path) = branch.path.parse::<Path>() else { continue };
                let position = suite.sources.position(compiled.document.span_of(&path));
                let seen = compiled.branches.outcomes(&branch.path);
                let file = self.0.entry(position.file.to_string()).or_default();
                let known = file.entry((position.line, position.column)).or_insert_with(|| Covered {
                    kind: branch.kind,
                    path: branch.path.to_string(),
                    outcomes: Outcomes::default(),
                });
                known.outcomes.taken |= seen.taken;
                known.outcomes.not_taken |= seen.not_taken;
            }
        }
    }

    /// How many outcomes each file has, and how many were seen.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.0.iter().map(|(file, branches)| {
            let seen = branches.values().map(|it| it.outcomes);
            let seen = seen.map(|it| usize::from(it.taken) + usize::from(it.not_taken)).sum();
            (file.as_str(), seen, 2 * branches.len())
        })
    }

    /// The outcomes that no test has seen.
    pub(super) fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        for (file, branches) in &self.0 {
            for ((line, column), Covered { kind, path, outcomes }) in branches {
                let [taken, not_taken] = kind.outcomes();
                let unseen = [(outcomes.taken, taken), (outcomes.not_taken, not_taken)];
                for (_, outcome) in unseen.into_iter().filter(|(seen, _)| !seen) {
                    missing.push(Missing {
                        file: file.clone(),
                        line: *line,
                        column: *column,
                        path: path.clone(),
                        what: format!("`{}` was never {outcome}", kind.as_str()),
                    });
                }
            }
        }
        missing
    }
}
