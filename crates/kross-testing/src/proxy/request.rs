//! Parses an HTTP request into a Kubernetes request: a verb on a resource, with namespace and name.

use std::fmt;

use http::{HeaderMap, Method, Uri, header};

/// The verb of a request. Unlike in Kubernetes, server-side apply differs from other patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object, or a path that is not a resource.
    Get,
    /// Lists objects.
    List,
    /// Watches objects.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Patches an object, other than by server-side apply.
    Patch,
    /// Creates or updates an object by server-side apply.
    Apply,
    /// Deletes one object.
    Delete,
    /// Deletes a collection.
    DeleteCollection,
    /// Anything else.
    Other,
}

impl Verb {
    /// Kubernetes' name of the verb, or `apply` for server-side apply.
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

/// A Kubernetes request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The verb.
    pub verb: Verb,
    /// The resource: `configmaps`, `deployments.apps`, `deployments.apps/status`; the path if it is not a resource.
    pub resource: String,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name of the object, also if it is given by a field selector.
    pub name: Option<String>,
    /// The path as it was sent.
    pub path: String,
    /// The query as it was sent.
    pub query: String,
}

impl Request {
    pub(super) fn parse(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let query = uri.query().unwrap_or_default();
        let target = Target::parse(uri.path());
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

/// The resource of a path.
struct Target {
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    is_collection: bool,
}

impl Target {
    fn parse(path: &str) -> Self {
        Self::resource(path).unwrap_or_else(|| Self {
            resource: path.to_owned(),
            namespace: None,
            name: None,
            is_collection: false,
        })
    }

    /// Parses `/api/v1/…` and `/apis/<group>/<version>/…`. Discovery documents are not resources.
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
            // `namespaces/x/status` and `namespaces/x/finalize` are subresources of the namespace.
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

    fn parse(method: &str, uri: &str, content_type: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
        Request::parse(&method.parse().unwrap(), &uri.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn parses_requests_as_the_api_server_does() {
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
            assert_eq!(parse(method, uri, "application/json"), expected);
        }
        assert_eq!(
            parse("PATCH", "/api/v1/namespaces/a/secrets/b?force=true", "application/apply-patch+yaml"),
            "apply secrets a/b"
        );
    }
}
