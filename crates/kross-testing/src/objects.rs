//! Builders of the objects that tests create most often.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kross_local::Kubeconfig;
use kube::api::ObjectMeta;

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// A namespace.
#[must_use]
pub fn namespace(name: &str) -> Namespace {
    Namespace { metadata: named(name), ..Namespace::default() }
}

/// A ConfigMap with `data`.
#[must_use]
pub fn config_map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ConfigMap { metadata: named(name), data: Some(data), ..ConfigMap::default() }
}

/// A Secret with a kubeconfig under the key `kubeconfig`, labelled as the credentials of a cluster.
#[must_use]
pub fn kubeconfig_secret(name: &str, kubeconfig: &Kubeconfig) -> Secret {
    let mut metadata = named(name);
    metadata.labels = Some(BTreeMap::from([("kro.run/cluster-credentials".to_owned(), "true".to_owned())]));
    let data = BTreeMap::from([("kubeconfig".to_owned(), ByteString(kubeconfig.to_string().into_bytes()))]);
    Secret { metadata, data: Some(data), ..Secret::default() }
}
