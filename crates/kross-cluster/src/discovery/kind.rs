//! A kind as a cluster serves it, and the paths of its objects.

use std::fmt::Write;

use kross_value::Text;

/// A kind as a cluster serves it in one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ApiKind {
    /// The API group; empty for the core group.
    pub group: Text,
    /// The version.
    pub version: Text,
    /// The kind.
    pub kind: Text,
    /// The plural, as in paths.
    pub plural: Text,
    /// Whether it is namespaced.
    pub namespaced: bool,
    /// Whether it has a status subresource.
    pub has_status: bool,
}

impl ApiKind {
    /// A kind with a status subresource, as for a CustomResourceDefinition.
    #[must_use]
    pub fn custom(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            namespaced,
            has_status: true,
        }
    }

    /// `group/version`, or `version` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of all objects, or of those in a namespace, which is ignored for cluster-scoped kinds.
    pub(crate) fn collection_path(&self, namespace: Option<&str>) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if let (true, Some(namespace)) = (self.namespaced, namespace) {
            path.push_str("/namespaces/");
            push_encoded(&mut path, namespace);
        }
        path.push('/');
        path.push_str(&self.plural);
        path
    }

    /// The path of an object.
    pub(crate) fn object_path(&self, namespace: Option<&str>, name: &str) -> String {
        let mut path = self.collection_path(namespace);
        path.push('/');
        push_encoded(&mut path, name);
        path
    }

    /// The kind and the name of an object, for messages.
    pub(crate) fn display(&self, namespace: Option<&str>, name: &str) -> String {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{} `{namespace}/{name}`", self.kind),
            None => format!("{} `{name}`", self.kind),
        }
    }
}

/// Appends a path segment or a query value, percent-encoded.
pub(crate) fn push_encoded(path: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            path.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_depend_on_group_and_scope() {
        let deployment = ApiKind::custom("apps", "v1", "Deployment", "deployments", true);
        assert_eq!(
            deployment.object_path(Some("shop"), "web"),
            "/apis/apps/v1/namespaces/shop/deployments/web"
        );
        assert_eq!(deployment.collection_path(None), "/apis/apps/v1/deployments");
        let namespace = ApiKind::custom("", "v1", "Namespace", "namespaces", false);
        assert_eq!(namespace.object_path(Some("ignored"), "shop"), "/api/v1/namespaces/shop");
    }

    #[test]
    fn a_name_is_encoded_into_one_path_segment() {
        let role = ApiKind::custom("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false);
        assert!(role.object_path(None, "a/../b?x=%2f#").ends_with("/clusterroles/a%2F..%2Fb%3Fx%3D%252f%23"));
    }
}
