//! A fleet of sites that are polled.

use k8s_openapi::api::apps::v1::DaemonSet;
use kross_testing::{Fault, Requests, Verb, wait};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value as Json, json};

use crate::deployed_example::Example;
use crate::world::{cluster_entry, value};

fn image(agent: &DaemonSet) -> Option<&str> {
    agent.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.as_deref()
}

/// Writes the status of a DaemonSet as its controller does when its Pods are ready.
async fn roll_out(agents: &Api<DaemonSet>, nodes: i64) {
    let status = json!({"status": {"currentNumberScheduled": nodes, "desiredNumberScheduled": nodes,
        "numberMisscheduled": 0, "numberReady": nodes}});
    agents.patch_status("probe", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sites_of_a_fleet_are_polled_and_do_not_block_each_other() {
    let example = Example::read("edge-fleet.yaml", &[("1m", "10s"), ("15s", "1s")]).await;
    let sites = [("north", example.region("eu")), ("south", example.region("us"))];
    for (site, region) in &sites {
        let kubeconfig = region.proxy.kubeconfig(region.cluster.plane.admin()).unwrap();
        example.credentials("edge", &format!("{site}-kubeconfig"), &kubeconfig).await;
    }
    example.apply().await;
    let fleets = example.instances_of("EdgeFleet");
    fleets.create("probe", json!({"sites": ["north", "south"], "image": "probe:1"})).await;
    let ready = fleets.until_state("probe", "ACTIVE").await;
    assert_eq!((&ready["status"]["sites"], &ready["status"]["readyNodes"]), (&json!(2), &json!(0)));
    let [north, south]: [Api<DaemonSet>; 2] = [example.remote("eu"), example.remote("us")];
    for (site, region) in &sites {
        let entry = cluster_entry(&ready, &format!("{site}-kubeconfig"));
        assert_eq!(entry["name"], format!("{site} (edge/{site}-kubeconfig)"));
        assert_eq!((&entry["mode"], &entry["ready"]), (&json!("Poll"), &json!(2)), "{entry:#}");
        let settings = region.config_maps.get("probe-settings").await.unwrap();
        assert_eq!((value(&settings, "site"), value(&settings, "logLevel")), (Some(*site), Some("info")));
    }

    // The next poll finds the new status of the agents and the deleted settings.
    roll_out(&north, 2).await;
    roll_out(&south, 3).await;
    example.region("eu").config_maps.delete("probe-settings", &Default::default()).await.unwrap();
    fleets.until("probe", |fleet| fleet["status"]["readyNodes"] == 5).await;
    wait::until_object(&example.region("eu").config_maps, "probe-settings", |_| true).await;

    // An unreachable site is updated later; the other one at once.
    let has = |expected: &'static str| move |agent: &DaemonSet| image(agent) == Some(expected);
    example.region("us").proxy.set(Fault::Refuse);
    fleets.patch("probe", json!({"spec": {"image": "probe:2"}})).await;
    wait::woken(wait::until_object(&north, "probe", has("probe:2"))).await;
    let unreachable = |fleet: &Json| cluster_entry(fleet, "south-kubeconfig")["connected"] == false;
    let failed = fleets.until("probe", unreachable).await;
    assert_eq!(cluster_entry(&failed, "north-kubeconfig")["connected"], true, "{failed:#}");
    assert_eq!(failed["status"]["state"], "ERROR");
    assert!(has("probe:1")(&south.get("probe").await.unwrap()));
    example.region("us").proxy.set(Fault::Pass);
    wait::until_object(&south, "probe", has("probe:2")).await;

    fleets.delete("probe").await;
    for (agents, (_, region)) in [&north, &south].into_iter().zip(&sites) {
        assert!(agents.get_opt("probe").await.unwrap().is_none());
        assert!(region.config_maps.get_opt("probe-settings").await.unwrap().is_none());
        assert_eq!(region.proxy.count(&Requests::any().verb(Verb::Watch)), 0);
    }
}
