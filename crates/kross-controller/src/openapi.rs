//! The list of OpenAPI documents that an API server has, and where in it the document of a group and version is.

use std::collections::HashMap;

use serde::Deserialize;

/// Where the list is.
pub(crate) const INDEX: &str = "/openapi/v3";

/// The list, by the paths that [`path`] gives.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Index {
    pub(crate) paths: HashMap<String, Entry>,
}

/// One document.
#[derive(Debug, Deserialize)]
pub(crate) struct Entry {
    /// Where it is; carries the server's hash, so that it is another one after a change.
    #[serde(rename = "serverRelativeURL")]
    pub(crate) url: String,
}

impl Index {
    /// Where the document of a group and version is, if there is one.
    pub(crate) fn url(&self, api_version: &str) -> Option<&str> {
        self.paths.get(&path(api_version)).map(|entry| entry.url.as_str())
    }
}

/// What the list calls the document of a group and version.
fn path(api_version: &str) -> String {
    if api_version.contains('/') { format!("apis/{api_version}") } else { format!("api/{api_version}") }
}
