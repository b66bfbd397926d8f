//! Parses the `Status` of a response without success into what decides how to proceed.

use std::time::Duration;

use serde::Deserialize;

/// The maximum number of causes that are read. A hostile server can send any number.
const MAX_CAUSES: usize = 64;

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldConflict {
    /// The field as the server writes it, such as `.spec.replicas`.
    pub field: String,
    /// The manager.
    pub manager: String,
}

/// What was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The object.
    Object,
    /// Its namespace.
    Namespace(String),
    /// The kind: a complete discovery that was fetched since the request does not list it.
    Kind,
    /// The server does not say what. An API server answers like this if it does not serve the kind, but so does anything else
    /// in front of it that does not know the path: it proves nothing.
    Unexplained,
}

/// The content of a `Status`. Empty if the response was something else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    pub(super) message: String,
    pub(super) reason: String,
    pub(super) retry_after: Option<Duration>,
    pub(super) conflicts: Vec<FieldConflict>,
    /// The fields that it is about, cut to their first two names: the rest may be keys of a map.
    pub(super) fields: Vec<String>,
    pub(super) missing: Option<Missing>,
    pub(super) namespace_terminating: bool,
    code: Option<u16>,
    /// The name of the object that it is about.
    name: Option<String>,
    success: bool,
}

#[derive(Deserialize)]
struct RawStatus {
    kind: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    code: Option<u16>,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
struct Details {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    causes: Option<Vec<Cause>>,
    #[serde(default, rename = "retryAfterSeconds")]
    retry_after: Option<u64>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    field: Option<String>,
}

impl Status {
    /// The message of the server.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Parses a `Status`, and nothing else.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let raw: RawStatus = serde_json::from_slice(bytes).ok()?;
        (raw.kind == "Status").then(|| Self::new(raw))
    }

    /// The status code in the `Status` itself, for one within a watch.
    pub(crate) fn code(&self) -> Option<u16> {
        self.code
    }

    fn new(raw: RawStatus) -> Self {
        let details = raw.details.unwrap_or_default();
        let causes = details.causes.unwrap_or_default();
        let causes = causes.get(..MAX_CAUSES.min(causes.len())).unwrap_or_default();
        let reason = raw.reason.unwrap_or_default();
        let missing = (reason == "NotFound").then(|| match (details.kind.as_deref(), &details.name) {
            (Some("namespaces"), Some(name)) => Missing::Namespace(name.clone()),
            (Some(_), Some(_)) => Missing::Object,
            _ => Missing::Unexplained,
        });
        Self {
            message: raw.message.unwrap_or_default(),
            retry_after: details.retry_after.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            conflicts: causes.iter().filter_map(conflict).collect(),
            fields: fields(causes),
            missing,
            namespace_terminating: causes
                .iter()
                .any(|cause| cause.reason.as_deref() == Some("NamespaceTerminating")),
            code: raw.code,
            name: details.name,
            success: raw.status.as_deref() == Some("Success"),
            reason,
        }
    }

    /// A 404 for the resource `namespaces` is about the object.
    pub(crate) fn about_namespaces(mut self) -> Self {
        if matches!(self.missing, Some(Missing::Namespace(_))) {
            self.missing = Some(Missing::Object);
        }
        self
    }

    /// Whether it reports a success.
    pub(crate) fn is_success(&self) -> bool {
        self.success
    }

    /// Whether it says that the requested object does not exist.
    pub(crate) fn is_object_missing(&self) -> bool {
        self.missing == Some(Missing::Object)
    }

    /// Whether it names an object.
    pub(super) fn names_object(&self) -> bool {
        self.name.is_some()
    }

    /// A 404 that does not name the requested object, or its namespace, explains nothing.
    pub(crate) fn about(mut self, namespace: Option<&str>, name: &str) -> Self {
        let is_explained = match &self.missing {
            Some(Missing::Object) => self.name.as_deref() == Some(name),
            Some(Missing::Namespace(missing)) => Some(missing.as_str()) == namespace,
            _ => true,
        };
        if !is_explained {
            self.missing = Some(Missing::Unexplained);
        }
        self
    }

    /// A 404 without a `Status`.
    pub(crate) fn unexplained() -> Self {
        Self { missing: Some(Missing::Unexplained), ..Self::default() }
    }
}

/// The fields that a server complains about, without keys of maps.
fn fields(causes: &[Cause]) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for field in causes.iter().filter_map(|cause| cause.field.as_deref()) {
        let field = super::sanitise(&without_keys(field));
        if !field.is_empty() && !fields.contains(&field) {
            fields.push(field);
        }
    }
    fields
}

/// The first two names of the path of a field, without what is in brackets, and nothing in `data`: anything else may be the key
/// of a map, and have been read from a Secret.
#[must_use]
pub fn without_keys(field: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for name in field.trim_start_matches('.').split('.').take(2) {
        // Brackets have an index, or a key of a map.
        let name = name.split('[').next().unwrap_or_default();
        kept.push(name);
        if MAPS.contains(&name) {
            break;
        }
    }
    kept.join(".")
}

/// Fields at the top of objects that are maps with keys of the author.
const MAPS: [&str; 3] = ["data", "stringData", "binaryData"];

/// The server writes `conflict with "manager" using v1`, sometimes with a subresource and a time in between.
fn conflict(cause: &Cause) -> Option<FieldConflict> {
    if cause.reason.as_deref() != Some("FieldManagerConflict") {
        return None;
    }
    let message = cause.message.as_deref().unwrap_or_default();
    let quoted = message.split_once('"').and_then(|(_, rest)| rest.split_once('"'));
    let manager = quoted.map_or("", |(manager, _)| manager);
    Some(FieldConflict {
        field: super::sanitise(cause.field.as_deref().unwrap_or_default()),
        manager: super::sanitise(manager),
    })
}
