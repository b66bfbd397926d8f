//! Where schemas come from, and how findings are reported: what the flags of `kross validate` say.

use std::sync::Arc;

use kross_graph::{Options, ReportAs};
use kross_schema::Bundle;
use kross_value::Value;

/// The settings of a workspace.
#[derive(Clone, Debug)]
pub struct Settings {
    /// CustomResourceDefinitions in addition to those in the workspace.
    pub crds: Vec<Value>,
    /// The built-in kinds.
    pub kubernetes: Arc<Bundle>,
    /// How kinds without a schema are reported. Default: as errors, or as warnings if they are custom kinds in a cluster that depends
    /// on the instance.
    pub unknown_kinds: Option<ReportAs>,
    /// How resources are reported that do not match these schemas, if their cluster depends on the instance.
    pub deferred_checks: ReportAs,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            crds: Vec::new(),
            kubernetes: Bundle::latest(),
            unknown_kinds: None,
            deferred_checks: ReportAs::Error,
        }
    }
}

impl Settings {
    pub(crate) fn options(&self) -> Options {
        Options { deferred: self.deferred_checks, unknown_kinds: self.unknown_kinds, ..Options::default() }
    }
}
