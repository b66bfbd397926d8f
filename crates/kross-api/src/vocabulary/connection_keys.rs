//! The keys of a connection Secret, as Crossplane's providers write them. Only these are read, and copied into other namespaces.

/// A kubeconfig, which takes precedence over all other keys.
pub const KUBECONFIG: &str = "kubeconfig";
/// Address of the API server: a host, or an `https` URL.
pub const ENDPOINT: &str = "endpoint";
/// Port of the API server, where the endpoint has none.
pub const PORT: &str = "port";
/// Certificate authorities of the API server, as PEM.
pub const CLUSTER_CA: &str = "clusterCA";
/// Client certificate, as PEM.
pub const CLIENT_CERT: &str = "clientCert";
/// Key of the client certificate, as PEM.
pub const CLIENT_KEY: &str = "clientKey";
/// Bearer token.
pub const TOKEN: &str = "token";
/// User name. It is ignored next to a token or a client certificate.
pub const USERNAME: &str = "username";
/// Password. It is ignored next to a token or a client certificate.
pub const PASSWORD: &str = "password";

/// Every key.
pub const ALL: [&str; 9] =
    [KUBECONFIG, ENDPOINT, PORT, CLUSTER_CA, CLIENT_CERT, CLIENT_KEY, TOKEN, USERNAME, PASSWORD];
