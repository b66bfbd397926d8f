//! A controller that is stopped in the middle: the next one goes on where it was.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kross_controller::Settings;
use kross_testing::{Action, FaultProxy, Requests, Verb, objects, shared, wait};
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::json;

use crate::setup::{Running, install_crds, until};
use crate::world::{api, has_state, set_ready, template};

const PLANE: &str = "restart";
const NAMESPACE: &str = "restart";

#[tokio::test(flavor = "multi_thread")]
async fn the_next_controller_goes_on_after_each_step() {
    let (hub, eu) = tokio::join!(shared(PLANE), shared("eu"));
    let (client, eu_client) = (hub.client().await.unwrap(), eu.client().await.unwrap());
    install_crds(&client, kross_api::crds()).await;
    for client in [&client, &eu_client] {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace(NAMESPACE)).await.unwrap();
    }
    let (proxy, hub_proxy) =
        (FaultProxy::start(eu.admin()).unwrap(), FaultProxy::start(hub.admin()).unwrap());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret = objects::kubeconfig_secret("a-connection", &proxy.kubeconfig(eu.admin()).unwrap());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let targets = api(&client, "v1alpha1", "KubernetesTarget", NAMESPACE);
    let target = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesTarget",
        "metadata": {"name": "a"}, "spec": {"connectionSecretRef": {"name": "a-connection"}}});
    targets.create(&PostParams::default(), &serde_json::from_value(target).unwrap()).await.unwrap();
    let applications = api(&client, "v1alpha2", "KubernetesApplication", NAMESPACE);
    let resources = api(&client, "v1alpha1", "KubernetesApplicationResource", NAMESPACE);
    let maps: Api<ConfigMap> = Api::namespaced(eu_client.clone(), NAMESPACE);
    let start = async || {
        let config = hub_proxy.kubeconfig(hub.admin()).unwrap().config().await.unwrap();
        let running = Running::start_with(config, Settings::default()).await;
        set_ready(&targets, "a", "True").await;
        running
    };
    let blocked = [
        Requests::any().verb(Verb::Patch).resource("kubernetesapplications.workload.crossplane.io"),
        Requests::any().verb(Verb::Apply).resource("kubernetesapplicationresources.workload.crossplane.io"),
        Requests::any().verb(Verb::Patch).resource("kubernetesapplicationresources.workload.crossplane.io"),
        Requests::any()
            .verb(Verb::Update)
            .resource("kubernetesapplicationresources.workload.crossplane.io/status"),
    ];
    for (at, requests) in blocked.into_iter().enumerate() {
        let name = format!("web-{at}");
        hub_proxy.on(requests.clone(), Action::Hang);
        let before = hub_proxy.count(&requests);
        let running = start().await;
        let application = json!({"apiVersion": "workload.crossplane.io/v1alpha2", "kind": "KubernetesApplication",
            "metadata": {"name": name}, "spec": {"resourceTemplates": [template(&name, "1")]}});
        let application: DynamicObject = serde_json::from_value(application).unwrap();
        applications.create(&PostParams::default(), &application).await.unwrap();
        wait::until_true("the request that is never answered", || hub_proxy.count(&requests) > before).await;
        hub_proxy.cut_connections();
        hub_proxy.clear();
        running.stop().await;
        let running = start().await;
        until(applications.clone(), name.clone(), |it| has_state(it, "Submitted")).await;
        maps.get(&name).await.unwrap();
        applications.delete(&name, &Default::default()).await.unwrap();
        wait::until(format!("`{name}` to be deleted or half deleted"), || async {
            let resource = resources.get_opt(&name).await.unwrap();
            match resource.is_none_or(|it| it.metadata.deletion_timestamp.is_some()) {
                true => Ok(()),
                false => Err("it lives".to_owned()),
            }
        })
        .await;
        running.stop().await;
        let running = start().await;
        wait::until_deleted(&applications, &name).await;
        assert!(resources.get_opt(&name).await.unwrap().is_none());
        assert!(maps.get_opt(&name).await.unwrap().is_none());
        running.stop().await;
    }
}
