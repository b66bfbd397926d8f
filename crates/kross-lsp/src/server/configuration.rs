//! The settings of the command line and of the editor: where schemas come from, and how findings are reported.

use std::path::PathBuf;

use kross_api::yaml::{self, Limits};
use kross_diagnostics::{Diagnostics, Sources};
use kross_graph::{ReportAs, is_crd};
use kross_schema::Bundle;
use kross_schema::resolver::BundleError;
use kross_value::Value;
use serde::Deserialize;
use serde_json::Value as Json;

use super::disk;
use crate::Settings;

/// Where schemas come from, and how findings are reported.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// CustomResourceDefinitions: files and folders.
    pub crds: Vec<PathBuf>,
    /// The Kubernetes version whose built-in kinds are known; the newest if there is none.
    pub kubernetes: Option<String>,
    /// How kinds without a schema are reported.
    pub unknown_kinds: Option<ReportAs>,
    /// How resources are reported that do not match these schemas, if their cluster depends on the instance.
    pub deferred_checks: Option<ReportAs>,
}

/// A setting that cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// A path has no readable file.
    #[error("no CustomResourceDefinition can be read from {}", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
    },
    /// The Kubernetes version is unknown.
    #[error(transparent)]
    Version(#[from] BundleError),
    /// The settings have another shape.
    #[error("the settings of the editor are invalid: {0}")]
    Editor(#[from] serde_json::Error),
}

/// The settings of the editor.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EditorSettings {
    crds: Vec<PathBuf>,
    kubernetes: Option<String>,
    unknown_kinds: Option<Level>,
    deferred_checks: Option<Level>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Error,
    Warn,
    Ignore,
}

impl From<Level> for ReportAs {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::Error,
            Level::Warn => Self::Warning,
            Level::Ignore => Self::Nothing,
        }
    }
}

impl Configuration {
    /// These settings with those of the editor, which take precedence. They may be below `kross`. An empty version is none.
    pub(super) fn with_editor(&self, settings: &Json) -> Result<Self, ConfigurationError> {
        let own = settings.get("kross").unwrap_or(settings);
        let EditorSettings { crds, kubernetes, unknown_kinds, deferred_checks } =
            if own.is_object() { serde_json::from_value(own.clone())? } else { EditorSettings::default() };
        let level = |level: Option<Level>| level.map(ReportAs::from);
        Ok(Self {
            crds: self.crds.iter().cloned().chain(crds).collect(),
            kubernetes: kubernetes.filter(|version| !version.is_empty()).or_else(|| self.kubernetes.clone()),
            unknown_kinds: level(unknown_kinds).or(self.unknown_kinds),
            deferred_checks: level(deferred_checks).or(self.deferred_checks),
        })
    }

    /// Loads the schemas.
    pub(super) fn settings(&self) -> Result<Settings, ConfigurationError> {
        let mut crds = Vec::new();
        for path in &self.crds {
            let files = disk::files(std::slice::from_ref(path));
            if files.is_empty() {
                return Err(ConfigurationError::Unreadable { path: path.clone() });
            }
            crds.extend(files.iter().flat_map(|(_, text)| definitions(text)));
        }
        let kubernetes = match &self.kubernetes {
            Some(version) => Bundle::of_version(version)?,
            None => Bundle::latest(),
        };
        let defaults = Settings::default();
        let deferred_checks = self.deferred_checks.unwrap_or(defaults.deferred_checks);
        Ok(Settings { crds, kubernetes, unknown_kinds: self.unknown_kinds, deferred_checks })
    }
}

/// The CustomResourceDefinitions of a file.
fn definitions(text: &str) -> Vec<Value> {
    let limits = Limits::default();
    let documents = yaml::parse(&mut Sources::new(), "crds", text, &limits, &mut Diagnostics::new());
    documents.iter().filter(|document| is_crd(document)).map(|document| document.value().clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_settings_of_the_editor_take_precedence_and_may_have_a_section() {
        let given = Configuration { kubernetes: Some("1.36".to_owned()), ..Configuration::default() };
        let combined =
            given.with_editor(&json!({"kross": {"kubernetes": "1.30", "unknownKinds": "warn"}})).unwrap();
        assert_eq!(combined.kubernetes.as_deref(), Some("1.30"));
        assert_eq!(combined.unknown_kinds, Some(ReportAs::Warning));
        let plain = given.with_editor(&json!({"deferredChecks": "ignore", "kubernetes": ""})).unwrap();
        assert_eq!(
            (plain.kubernetes.as_deref(), plain.deferred_checks),
            (Some("1.36"), Some(ReportAs::Nothing))
        );
        assert!(given.with_editor(&Json::Null).is_ok());
        assert!(given.with_editor(&json!({"unknownKinds": "loud"})).is_err());
    }

    #[test]
    fn a_missing_path_and_an_unknown_version_are_errors() {
        let missing = Configuration { crds: vec!["/nowhere/crds".into()], ..Configuration::default() };
        assert_eq!(
            missing.settings().unwrap_err().to_string(),
            "no CustomResourceDefinition can be read from /nowhere/crds"
        );
        let version = Configuration { kubernetes: Some("1.1".to_owned()), ..Configuration::default() };
        assert!(version.settings().unwrap_err().to_string().contains("1.1"));
    }
}
