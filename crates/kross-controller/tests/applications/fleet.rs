//! Many applications over several targets: a proxy presents one control plane under many UIDs. `KROSS_APPLICATIONS=200` runs it with as
//! many applications.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kross_controller::{ConnectionIntervals, Settings};
use kross_testing::{FaultProxy, Requests, Verb, objects, shared, wait};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value as Json, json};

use crate::setup::{Running, condition, install_crds, until};
use crate::world::{api, has_state, template};

const PLANE: &str = "fleet";
const NAMESPACE: &str = "fleet";
const TARGETS: usize = 5;
const TEMPLATES: usize = 3;
/// Scheduling, and the states Scheduled, PartiallySubmitted and Submitted.
const OTHER_REQUESTS: usize = 4;

fn count() -> usize {
    std::env::var("KROSS_APPLICATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(40)
}

#[tokio::test(flavor = "multi_thread")]
async fn applications_are_spread_evenly_with_few_requests_and_nothing_is_sent_afterwards() {
    let count = count();
    let (hub, eu) = tokio::join!(shared(PLANE), shared("eu"));
    let (client, eu_client) = (hub.client().await.unwrap(), eu.client().await.unwrap());
    install_crds(&client, kross_api::crds()).await;
    for client in [&client, &eu_client] {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &objects::namespace(NAMESPACE)).await.unwrap();
    }
    let (hub_proxy, proxy) =
        (FaultProxy::start(hub.admin()).unwrap(), FaultProxy::start(eu.admin()).unwrap());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let targets = api(&client, "v1alpha1", "KubernetesTarget", NAMESPACE);
    let config = hub_proxy.kubeconfig(hub.admin()).unwrap().config().await.unwrap();
    let connections =
        ConnectionIntervals { details: Duration::from_secs(1), ..ConnectionIntervals::default() };
    let running = Running::start_with(config, Settings { connections, ..Settings::default() }).await;
    for at in 0..TARGETS {
        let (name, secret) = (format!("target-{at}"), format!("target-{at}-connection"));
        let kubeconfig = proxy.virtual_cluster(eu.admin(), &name).unwrap();
        let secret = objects::kubeconfig_secret(&secret, &kubeconfig);
        secrets.create(&PostParams::default(), &secret).await.unwrap();
        let target = json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesTarget",
            "metadata": {"name": name}, "spec": {"connectionSecretRef": {"name": secret.metadata.name}}});
        targets.create(&PostParams::default(), &serde_json::from_value(target).unwrap()).await.unwrap();
    }
    // An application that is created before all of them are Ready is scheduled to one that is.
    for at in 0..TARGETS {
        let is_ready = |target: &Json| condition(target, "Ready")["status"] == "True";
        until(targets.clone(), format!("target-{at}"), is_ready).await;
    }
    hub_proxy.clear_requests();
    let applications = api(&client, "v1alpha2", "KubernetesApplication", NAMESPACE);
    stream::iter(0..count)
        .for_each_concurrent(16, |at| {
            let templates: Vec<_> = (0..TEMPLATES).map(|of| template(&format!("app-{at}-{of}"), "1")).collect();
            let application = json!({"apiVersion": "workload.crossplane.io/v1alpha2", "kind": "KubernetesApplication",
                "metadata": {"name": format!("app-{at}")}, "spec": {"resourceTemplates": templates}});
            let application: DynamicObject = serde_json::from_value(application).unwrap();
            let applications = applications.clone();
            async move { drop(applications.create(&PostParams::default(), &application).await.unwrap()) }
        })
        .await;
    // Generous, for a busy machine: the test is about the requests, and each resource has a graph to compile.
    let limit = Duration::from_secs(60) + Duration::from_secs(3) * u32::try_from(count).unwrap();
    let all = wait::until_within(limit, "all applications to be submitted", || async {
        let all = applications.list(&ListParams::default()).await.unwrap().items;
        let all: Vec<_> = all.into_iter().map(|it| serde_json::to_value(it).unwrap()).collect();
        let open: Vec<_> = all.iter().filter(|it| !has_state(it, "Submitted")).collect();
        if open.is_empty() { Ok(all.clone()) } else { Err(format!("{} are not: {:#}", open.len(), open[0])) }
    })
    .await;
    let mut spread: BTreeMap<String, usize> = BTreeMap::new();
    for application in &all {
        *spread.entry(application["spec"]["targetRef"]["name"].as_str().unwrap().to_owned()).or_default() +=
            1;
    }
    assert_eq!(spread.len(), TARGETS, "{spread:?}");
    assert!(spread.values().all(|of| of.abs_diff(count / TARGETS) <= 1), "{spread:?}");
    let maps: Api<ConfigMap> = Api::namespaced(eu_client.clone(), NAMESPACE);
    assert_eq!(
        maps.list(&ListParams::default().labels("kro.run/owned=true")).await.unwrap().items.len(),
        count * TEMPLATES
    );

    let sent = hub_proxy.requests(&Requests::any().namespace(NAMESPACE));
    let of = |resource: &str| sent.iter().filter(|it| it.request.resource.starts_with(resource)).count();
    let of_applications = of("kubernetesapplications.");
    let apply =
        Requests::any().resource("kubernetesapplicationresources.workload.crossplane.io").verb(Verb::Apply);
    let created = hub_proxy.count(&apply);
    let allowed = count * (TEMPLATES + OTHER_REQUESTS);
    assert!(
        of_applications + created <= allowed,
        "{of_applications} + {created} requests, {allowed} are allowed"
    );
    assert_eq!(created, count * TEMPLATES);

    // Nothing is left to do once the counts of all objects are published.
    until_counted(&client, count * TEMPLATES).await;
    hub_proxy.clear_requests();
    proxy.clear_requests();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let writes = |proxy: &FaultProxy| -> Vec<String> {
        let sent = proxy.requests(&Requests::any());
        let requests = sent.iter().map(|record| &record.request);
        let counted = requests.filter(|it| {
            !matches!(it.verb, Verb::Watch) && !it.resource.starts_with("events") && it.resource != "leases"
        });
        counted
            .map(ToString::to_string)
            .filter(|it| !it.contains("kube-system") && !it.contains("version"))
            .collect()
    };
    assert_eq!(writes(&hub_proxy), [""; 0]);
    let sent = proxy.requests(&Requests::any().namespace(NAMESPACE));
    let sent: Vec<String> = sent.iter().map(|record| record.request.to_string()).collect();
    assert_eq!(sent, [""; 0]);
    running.stop().await;
}

/// Waits until the ClusterConnections count all resources of applications, and their objects, which is the last that is written.
async fn until_counted(client: &Client, resources: usize) {
    let kind = GroupVersionKind::gvk("kro.run", "v1alpha1", "ClusterConnection");
    let connections: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    wait::until("the ClusterConnections to count all objects", || async {
        let all = connections.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let count = |of: &str| -> i64 { all.iter().filter_map(|it| it.data["status"][of].as_i64()).sum() };
        let counted = (count("instances"), count("objects"));
        let resources = i64::try_from(resources).unwrap();
        if counted == (resources, resources) { Ok(()) } else { Err(format!("{counted:?}")) }
    })
    .await;
}
