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
        let mut path = version_path(&self.group, &self.version);
        if let (true, Some(namespace)) = (self.namespaced, namespace) {
            path.push_str("/namespaces/");
            push_encoded(&mut path, namespace);
        }
        path.push('/');
        push_encoded(&mut path, &self.plural);
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

/// The path of a version of a group.
pub(super) fn version_path(group: &str, version: &str) -> String {
    let mut path = String::from(if group.is_empty() { "/api/" } else { "/apis/" });
    if !group.is_empty() {
        push_encoded(&mut path, group);
        path.push('/');
    }
    push_encoded(&mut path, version);
    path
}

/// Whether a group, a version or a plural of a discovery document can be one. Others, such as `..`, would lead to another path.
pub(super) fn is_path_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(fine)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Whether the name of a kind in a discovery document can be one.
pub(super) fn is_kind_name(name: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(fine)
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
    fn what_a_server_calls_its_kinds_stays_within_its_path_segment() {
        let hostile = ApiKind::custom("a/../b", "v1?x", "Trap", "traps#/../secrets", true);
        assert_eq!(hostile.collection_path(None), "/apis/a%2F..%2Fb/v1%3Fx/traps%23%2F..%2Fsecrets");
        for name in ["..", ".", "", "a/b", "a..b", "A", "a b", "a%2f", "a?", "-\n"] {
            assert!(!is_path_name(name), "{name}");
        }
        for name in ["apps", "v1beta1", "rbac.authorization.k8s.io", "x-y.example.com"] {
            assert!(is_path_name(name), "{name}");
        }
    }

    #[test]
    fn a_name_is_encoded_into_one_path_segment() {
        let role = ApiKind::custom("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false);
        assert!(role.object_path(None, "a/../b?x=%2f#").ends_with("/clusterroles/a%2F..%2Fb%3Fx%3D%252f%23"));
    }
}
