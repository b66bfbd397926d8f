//! Connection Secrets of targets: nothing but their target leads to them, they may have fields in place of a kubeconfig, and they
//! serve deletions only while they are being deleted.

use k8s_openapi::api::core::v1::Secret;
use kross_cluster::{ClusterChange, ClusterHandle, ConnectStep, SecretName};
use kross_local::{Credential, Kubeconfig};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::setup::{Setup, until_event};

impl Setup {
    async fn put_connection(&self, name: &str, kind: &str, data: Json) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind,
            "stringData": data});
        let secrets = self.fixture.hub.api::<Secret>();
        secrets.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&secret)).await.unwrap();
    }

    fn hold_connection(&self, name: &str) -> ClusterHandle {
        self.clusters.hold_connection(&SecretName { namespace: self.namespace().into(), name: name.into() })
    }
}

fn fields(kubeconfig: &Kubeconfig) -> Json {
    let mut fields = json!({"endpoint": kubeconfig.server, "clusterCA": kubeconfig.authority});
    match &kubeconfig.credential {
        Credential::Token(token) => fields["token"] = json!(token),
        Credential::Certificate(identity) => {
            fields["clientCert"] = json!(identity.certificate);
            fields["clientKey"] = json!(identity.key);
        }
    }
    fields
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_secret_is_used_without_label_and_only_as_a_connection_secret() {
    let setup = Setup::new().await;
    setup.put_connection("edge", "Opaque", fields(&setup.admin())).await;
    let hold = setup.hold_connection("edge");
    let live = setup.connected(&hold).await;
    assert_eq!(&*live.identity.uid, setup.uid().await.as_str());
    assert!(live.version.as_ref().is_some_and(|version| version.starts_with("v1.")), "{:?}", live.version);
    assert!(live.round_trip.is_some_and(|time| !time.is_zero()));
    assert_eq!(live.deletions_only, None);
    assert_eq!(hold.secret(), &setup.address("edge"));

    // The same Secret is not offered to cluster references, and that the target uses it changes nothing.
    let reference = setup.clusters.hold(&setup.address("edge"));
    let refused = setup.down(&reference, ConnectStep::Secret).await;
    assert!(refused.message.contains("it must exist"), "{}", refused.message);
    setup.connected(&hold).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_secret_that_is_being_deleted_serves_deletions_only() {
    let setup = Setup::new().await;
    setup.put_connection("edge", "Opaque", json!({"kubeconfig": setup.admin().to_string()})).await;
    let secrets = setup.fixture.hub.api::<Secret>();
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    secrets.patch("edge", &PatchParams::default(), &held).await.unwrap();
    let hold = setup.hold_connection("edge");
    setup.connected(&hold).await;
    let mut events = setup.clusters.subscribe();
    secrets.delete("edge", &DeleteParams::default()).await.unwrap();
    until_event(&mut events, &hold, ClusterChange::Permissions).await;
    assert!(setup.connected(&hold).await.deletions_only.is_some());

    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    secrets.patch("edge", &PatchParams::default(), &free).await.unwrap();
    let gone = setup.down(&hold, ConnectStep::Secret).await;
    assert!(gone.message.contains("does not exist"), "{}", gone.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_secret_is_refused_with_the_field_that_is_wrong() {
    let setup = Setup::new().await;
    let token = json!({"username": "admin", "password": "c4n4ry"});
    setup.put_connection("typed", "kubernetes.io/basic-auth", token).await;
    let refused = setup.down(&setup.hold_connection("typed"), ConnectStep::Secret).await;
    assert!(refused.message.contains("kubernetes.io/*"), "{}", refused.message);
    let mut both = fields(&setup.admin());
    both["token"] = json!("c4n4ry");
    setup.put_connection("both", "Opaque", both).await;
    let refused = setup.down(&setup.hold_connection("both"), ConnectStep::Parse).await;
    assert!(refused.message.contains("keep one of `token`"), "{}", refused.message);
    setup.put_connection("empty", "Opaque", json!({})).await;
    let refused = setup.down(&setup.hold_connection("empty"), ConnectStep::Parse).await;
    assert!(refused.message.contains("`endpoint` is missing"), "{}", refused.message);
    assert!(!format!("{refused:?} {:?}", setup.clusters.states()).contains("c4n4ry"));
}
