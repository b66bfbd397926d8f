//! Turns an HTTP request into what it means to Kubernetes: a verb on a resource, in a namespace, with a name.

use std::fmt;

use http::{HeaderMap, Method, Uri, header};

/// What a request does, in Kubernetes' words. `Apply` is told from other patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object, or a path that is no resource.
    Get,
    /// Reads many objects.
    List,
    /// Follows changes.
    Watch,
    /// Makes an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes an object by a patch that is not server-side apply.
    Patch,
    /// Changes or makes an object by server-side apply.
    Apply,
    /// Deletes one object.
    Delete,
    /// Deletes many objects.
    DeleteCollection,
    /// Anything else.
    Other,
}

impl Verb {
    /// The word Kubernetes uses, but `apply` for server-side apply.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A request, as Kubernetes understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub verb: Verb,
    /// On what: `configmaps`, `deployments.apps`, `deployments.apps/status`; the path when it is no resource.
    pub resource: String,
    /// In which namespace.
    pub namespace: Option<String>,
    /// On which object, also when a field selector names it.
    pub name: Option<String>,
    /// The path as it was sent.
    pub path: String,
    /// The query as it was sent.
    pub query: String,
}

impl Request {
    pub(super) fn read(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let query = uri.query().unwrap_or_default();
        let target = Target::read(uri.path());
        let name = target.name.or_else(|| selected_name(query));
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        Self {
            verb: verb(method, target.is_collection, query, content_type.unwrap_or_default()),
            resource: target.resource,
            namespace: target.namespace,
            name,
            path: uri.path().to_owned(),
            query: query.to_owned(),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.verb, self.resource)?;
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => write!(formatter, " {namespace}/{name}"),
            (Some(one), None) | (None, Some(one)) => write!(formatter, " {one}"),
            (None, None) => Ok(()),
        }
    }
}

/// What a path points at.
struct Target {
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    is_collection: bool,
}

impl Target {
    fn read(path: &str) -> Self {
        Self::resource(path).unwrap_or_else(|| Self {
            resource: path.to_owned(),
            namespace: None,
            name: None,
            is_collection: false,
        })
    }

    /// Reads `/api/v1/…` and `/apis/<group>/<version>/…`; discovery documents are no resources.
    fn resource(path: &str) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let _version = parts.next()?;
        let parts: Vec<&str> = parts.collect();
        let (namespace, resource, rest) = match *parts.as_slice() {
            // `namespaces/x/status` and `namespaces/x/finalize` are about the namespace itself.
            ["namespaces", namespace, resource, ref rest @ ..]
                if !matches!(resource, "status" | "finalize") =>
            {
                (Some(namespace), resource, rest)
            }
            [resource, ref rest @ ..] => (None, resource, rest),
            [] => return None,
        };
        let name = rest.first().map(|name| (*name).to_owned());
        let mut full = resource.to_owned();
        if !group.is_empty() {
            full.push('.');
            full.push_str(group);
        }
        for subresource in rest.iter().skip(1) {
            full.push('/');
            full.push_str(subresource);
        }
        Some(Self {
            resource: full,
            namespace: namespace.map(str::to_owned),
            is_collection: name.is_none(),
            name,
        })
    }
}

fn verb(method: &Method, is_collection: bool, query: &str, content_type: &str) -> Verb {
    match (method.as_str(), is_collection) {
        ("GET" | "HEAD", _)
            if query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1" | "watch")) =>
        {
            Verb::Watch
        }
        ("GET" | "HEAD", true) => Verb::List,
        ("GET" | "HEAD", false) => Verb::Get,
        ("POST", _) => Verb::Create,
        ("PUT", _) => Verb::Update,
        ("PATCH", _) if content_type.starts_with("application/apply-patch") => Verb::Apply,
        ("PATCH", _) => Verb::Patch,
        ("DELETE", true) => Verb::DeleteCollection,
        ("DELETE", false) => Verb::Delete,
        _ => Verb::Other,
    }
}

/// The name in `fieldSelector=metadata.name=x`, which may be percent-encoded.
fn selected_name(query: &str) -> Option<String> {
    let selector = query.split('&').find_map(|pair| pair.strip_prefix("fieldSelector="))?;
    let selector = selector.replace("%3D", "=").replace("%3d", "=").replace("%2C", ",").replace("%2c", ",");
    selector.split(',').find_map(|term| term.strip_prefix("metadata.name=")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, uri: &str, content_type: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        Request::read(&method.parse().unwrap(), &uri.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn requests_are_read_as_kubernetes_reads_them() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/namespaces", "list namespaces"),
            ("GET", "/api/v1/namespaces/a", "get namespaces a"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update namespaces/finalize a"),
            ("GET", "/api/v1/namespaces/a/configmaps?limit=5", "list configmaps a"),
            ("GET", "/api/v1/namespaces/a/configmaps?watch=true", "watch configmaps a"),
            ("GET", "/api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Db", "watch configmaps b"),
            ("POST", "/api/v1/namespaces/a/configmaps", "create configmaps a"),
            ("POST", "/api/v1/namespaces/a/serviceaccounts/b/token", "create serviceaccounts/token a/b"),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/b", "patch deployments.apps a/b"),
            ("PUT", "/apis/apps/v1/namespaces/a/deployments/b/status", "update deployments.apps/status a/b"),
            (
                "DELETE",
                "/apis/kro.run/v1alpha1/resourcegraphdefinitions/b",
                "delete resourcegraphdefinitions.kro.run b",
            ),
            ("DELETE", "/apis/apps/v1/namespaces/a/deployments", "deletecollection deployments.apps a"),
            ("GET", "/readyz", "get /readyz"),
            ("GET", "/apis", "get /apis"),
            ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
            ("OPTIONS", "/", "other /"),
        ] {
            assert_eq!(read(method, uri, "application/json"), expected);
        }
        assert_eq!(
            read("PATCH", "/api/v1/namespaces/a/secrets/b?force=true", "application/apply-patch+yaml"),
            "apply secrets a/b"
        );
    }
}
