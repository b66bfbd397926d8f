//! Presents one control plane as many clusters: under `/clusters/<name>` each has a UID of its own, and its lists in all namespaces
//! have only the namespace of its name. Objects must be created in that namespace.

use http::uri::PathAndQuery;
use http::{Method, Uri};

/// The path below which virtual clusters are.
pub(super) const PREFIX: &str = "/clusters/";

/// A request to a virtual cluster.
pub(super) struct VirtualRequest {
    /// The path on the control plane.
    pub(super) path: PathAndQuery,
    /// The answer that does not come from the control plane, if so.
    pub(super) answer: Option<String>,
}

/// The request to a virtual cluster that a path stands for, if it does.
pub(super) fn parse(method: &Method, uri: &Uri) -> Option<VirtualRequest> {
    let (name, path) = uri.path().strip_prefix(PREFIX)?.split_once('/')?;
    let parts: Vec<&str> = path.split('/').collect();
    let answer =
        (method == Method::GET && path == "api/v1/namespaces/kube-system").then(|| kube_system(name));
    let is_read = method == Method::GET;
    let path = match parts.as_slice() {
        ["api", version, kind @ ("configmaps" | "secrets")] if is_read => {
            format!("/api/{version}/namespaces/{name}/{kind}")
        }
        ["apis", group, version, kind @ "deployments"] if is_read => {
            format!("/apis/{group}/{version}/namespaces/{name}/{kind}")
        }
        _ => format!("/{path}"),
    };
    let path = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    Some(VirtualRequest { path: path.parse().ok()?, answer })
}

fn kube_system(name: &str) -> String {
    let offset = 0xcbf2_9ce4_8422_2325_u64;
    let hash =
        name.bytes().fold(offset, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let (high, low) = (hash >> 32, hash & 0xffff_ffff);
    let uid = format!("{high:08x}-c105-4e2a-8000-0000{low:08x}");
    format!(
        r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"kube-system","uid":"{uid}","resourceVersion":"1"}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_limited_to_the_namespace_of_the_cluster() {
        let path = |uri: &str| {
            let request = parse(&Method::GET, &uri.parse().unwrap());
            request.map(|request| (request.path.to_string(), request.answer.is_some()))
        };
        for (uri, expected) in [
            ("/clusters/a/api/v1/configmaps?watch=1", "/api/v1/namespaces/a/configmaps?watch=1"),
            ("/clusters/a/api/v1/namespaces/b/configmaps/c", "/api/v1/namespaces/b/configmaps/c"),
            ("/clusters/a/apis/apps/v1/deployments", "/apis/apps/v1/namespaces/a/deployments"),
            ("/clusters/a/version", "/version"),
        ] {
            assert_eq!(path(uri), Some((expected.to_owned(), false)), "{uri}");
        }
        assert_eq!(path("/api/v1/configmaps"), None);
        assert!(path("/clusters/a/api/v1/namespaces/kube-system").unwrap().1);
        assert_ne!(kube_system("a"), kube_system("b"));
    }
}
