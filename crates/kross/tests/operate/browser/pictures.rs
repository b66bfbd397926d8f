//! The pictures of the documentation: every page in both colour schemes, on a desk and on a phone, of a fleet in which one region
//! is stopped. `cargo xtask screenshots` writes them.

#![allow(clippy::needless_pass_by_value, reason = "objects are written as literals where they are used")]

use std::collections::HashMap;
use std::path::PathBuf;

use kross_testing::{Fault, FaultProxy, wait};
use kube::api::{Patch, PatchParams};
use serde_json::{Value as Json, json};

use super::chromium::{Page, browser};
use crate::dashboard::Dashboard;
use crate::world::{World, apply};

const NAMESPACE: &str = "shop";
/// The widths, each with the height of its window.
const WIDTHS: [(u32, u32); 2] = [(1280, 800), (390, 780)];
/// A picture is not higher than this: long pages go on below.
const MOST: u64 = 1_500;
/// Colours that differ less are one.
const LIKENESS: u32 = 40;

/// What a region needs to be a part of the fleet.
struct Region {
    name: &'static str,
    proxy: FaultProxy,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes the pictures in docs/screenshots; run it with `cargo xtask screenshots`"]
async fn every_page_has_its_pictures() {
    let page = browser().expect("a browser").page();
    let world = World::with(&["eu", "us", "ap"]).await;
    let regions = regions(&world).await;
    create(&world).await;
    stop(&world, &regions).await;
    let dashboard = Dashboard::start(&world.admin_path());
    page.open(&dashboard.address("/")).await;
    page.call("Emulation.setScrollbarsHidden", json!({"hidden": true}));
    for (name, path, ready) in pages() {
        page.size(1280, 800);
        page.open(&dashboard.page(&path)).await;
        page.until(ready).await;
        for (width, height) in WIDTHS {
            for scheme in ["light", "dark"] {
                page.prefer(scheme, "reduce");
                page.size(width, height);
                shoot(&page, &format!("{name}-{scheme}-{width}.png"), width, height);
            }
        }
    }
    assert_eq!(page.complaints(), Vec::<String>::new());
}

/// Name, address, and what the page must show before it is pictured.
fn pages() -> Vec<(&'static str, String, &'static str)> {
    let orders = "/instances/shops.kro.run/shop/orders";
    let web = format!("{orders}?node=web%7Cshop%2Feu-kubeconfig%7Cshop%7Corders-web");
    vec![
        ("fleet", "/".to_owned(), "document.querySelector('tr.failing') !== null"),
        (
            "cluster",
            "/clusters/shop/us-kubeconfig".to_owned(),
            "document.querySelector('.answer.bad') !== null",
        ),
        ("definitions", "/definitions".to_owned(), "document.querySelectorAll('tbody tr').length > 3"),
        (
            "definition",
            "/definitions/shop?node=web".to_owned(),
            "document.querySelector('.difference') !== null",
        ),
        ("diagnostics", "/definitions/gateway".to_owned(), "document.querySelector('.diagnostics') !== null"),
        ("instances", "/instances".to_owned(), "document.querySelectorAll('tbody tr').length > 8"),
        ("instance", orders.to_owned(), "document.querySelector('.edge.blocked') !== null"),
        ("object", web, "document.querySelector('.values dd') !== null"),
        (
            "ready",
            "/instances/sites.kro.run/shop/edge".to_owned(),
            "document.querySelector('.answer.good') !== null",
        ),
        ("targets", "/targets".to_owned(), "document.querySelectorAll('tbody tr').length > 1"),
        ("search", "/search?q=orders".to_owned(), "document.querySelectorAll('.results').length > 1"),
        ("empty", "/instances?q=nothing".to_owned(), "document.querySelector('.empty') !== null"),
    ]
}

async fn regions(world: &World) -> Vec<Region> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    world.apply(&namespace).await;
    let mut regions = Vec::new();
    for name in ["eu", "us", "ap"] {
        let remote = world.fixture.remote(name);
        apply(&remote.client, &namespace).await;
        let proxy = FaultProxy::start(remote.plane.admin()).unwrap();
        let kubeconfig = proxy.kubeconfig(remote.plane.admin()).unwrap();
        world
            .apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{name}-kubeconfig"),
                "namespace": NAMESPACE}, "stringData": {"kubeconfig": kubeconfig.to_string()}}))
            .await;
        regions.push(Region { name, proxy });
    }
    regions
}

fn config_map(id: &str, region: Option<&str>, data: Json) -> Json {
    let mut resource = json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": data}});
    if let Some(region) = region {
        resource["cluster"] = json!({"name": region});
    }
    resource
}

/// An application: settings in the hub, a database in one region, and a web server in all that reads both.
fn shop(image: &str) -> Json {
    let regional = "${schema.spec.database}-kubeconfig";
    let labels = json!({"app": "${schema.metadata.name}"});
    let service = json!({"id": "database", "cluster": {"name": regional}, "template": {"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "${schema.metadata.name}-db"}, "spec": {"selector": labels, "ports": [{"port": 5432}]}}});
    let credentials = json!({"id": "credentials", "template": {"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "${schema.metadata.name}-credentials"}, "stringData": {"user": "${schema.metadata.name}", "password": "not-shown"}}});
    let web = json!({"id": "web", "forEach": [{"region": "${schema.spec.regions}"}], "cluster": {"name": "${region}-kubeconfig"},
        "template": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "${schema.metadata.name}-web"},
            "spec": {"replicas": "${schema.spec.replicas}", "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image, "env": [
                    {"name": "GREETING", "value": "${settings.data.greeting}"},
                    {"name": "REVISION", "value": "${schema.spec.greeting}"},
                    {"name": "DATABASE", "value": "${database.spec.clusterIP}"}]}]}}}}});
    let ingress = json!({"id": "ingress", "forEach": [{"region": "${schema.spec.regions}"}], "cluster": {"name": "${region}-kubeconfig"},
        "template": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "${schema.metadata.name}-web"},
            "spec": {"defaultBackend": {"service": {"name": "${web[0].metadata.name}", "port": {"number": 80}}}}}});
    let defaults = json!({"id": "defaults", "externalRef": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "defaults", "namespace": NAMESPACE}}});
    let settings = config_map(
        "settings",
        None,
        json!({"greeting": "${schema.spec.greeting}", "theme": "${defaults.data.theme}"}),
    );
    let backup = config_map(
        "backup",
        Some(regional),
        json!({"host": "${database.spec.clusterIP}", "user": "${credentials.metadata.name}"}),
    );
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "shop"}, "spec": {
        "schema": {"apiVersion": "v1alpha1", "kind": "Shop", "spec": {"regions": "[]string", "database": "string",
            "greeting": "string | default=hello", "replicas": "integer | default=2"}},
        "resources": [defaults, settings, credentials, service, backup, web, ingress]}})
}

/// A graph with a large collection.
fn site() -> Json {
    let caches = json!({"id": "caches", "forEach": [{"n": "${schema.spec.caches}"}], "cluster": {"name": "ap-kubeconfig"},
        "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.metadata.name}-cache-${n}"},
            "data": {"origin": "${origin.data.host}"}}});
    let origin = config_map("origin", Some("eu-kubeconfig"), json!({"host": "origin.example.com"}));
    let report = config_map("report", None, json!({"caches": "${string(caches.size())}"}));
    definition("site", "Site", json!({"caches": "[]string"}), json!([origin, caches, report]))
}

fn definition(name: &str, kind: &str, spec: Json, resources: Json) -> Json {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": name},
        "spec": {"schema": {"apiVersion": "v1alpha1", "kind": kind, "spec": spec}, "resources": resources}})
}

fn instance(kind: &str, name: &str, spec: Json) -> Json {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
}

/// Definitions and instances, all of them ready but a definition with mistakes.
async fn create(world: &World) {
    world
        .apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "defaults", "namespace": NAMESPACE},
            "data": {"theme": "calm"}}))
        .await;
    world.apply(&shop("registry.example.com/shop:1.4")).await;
    world.apply(&site()).await;
    let team = config_map("quota", None, json!({"cpu": "${schema.spec.cpu}"}));
    world.apply(&definition("team", "Team", json!({"cpu": "string | default=\"4\""}), json!([team]))).await;
    let gateway = json!([
        config_map("routes", Some("eu-kubeconfig"), json!({"host": "${service.spec.clusterIp}", "port": "${servcie.spec.ports[0].port}"})),
        {"id": "service", "template": {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "${schema.metadata.name}"},
            "spec": {"ports": [{"port": "${schema.spec.port}"}]}}}
    ]);
    world.apply(&definition("gateway", "Gateway", json!({"port": "string"}), gateway)).await;
    let (eu_us, all) = (json!(["eu", "us"]), json!(["eu", "us", "ap"]));
    for (name, regions, database) in [
        ("orders", &all, "us"),
        ("payments", &eu_us, "us"),
        ("catalog", &eu_us, "eu"),
        ("search", &all, "eu"),
        ("accounts", &eu_us, "eu"),
        ("reviews", &eu_us, "eu"),
        ("shipping", &all, "eu"),
    ] {
        world.apply(&instance("Shop", name, json!({"regions": regions, "database": database}))).await;
    }
    let caches: Vec<String> = (1..=32).map(|number| format!("{number:02}")).collect();
    world.apply(&instance("Site", "edge", json!({"caches": caches}))).await;
    for name in ["blue", "green", "red"] {
        world.apply(&instance("Team", name, json!({}))).await;
    }
    until_all(
        world,
        "ACTIVE",
        &[("Shop", "orders"), ("Shop", "payments"), ("Shop", "shipping"), ("Site", "edge"), ("Team", "red")],
    )
    .await;
    world.apply(&shop("registry.example.com/shop:1.5")).await;
    for name in ["eu", "us"] {
        world
            .apply(&json!({"apiVersion": "workload.crossplane.io/v1alpha1", "kind": "KubernetesTarget", "metadata": {"name": name,
                "namespace": NAMESPACE, "labels": {"region": name}}, "spec": {"connectionSecretRef": {"name": format!("{name}-kubeconfig")}}}))
            .await;
    }
    world
        .apply(&json!({"apiVersion": "workload.crossplane.io/v1alpha2", "kind": "KubernetesApplication", "metadata": {"name": "blog",
            "namespace": NAMESPACE}, "spec": {"targetSelector": {"matchLabels": {"region": "eu"}}, "resourceTemplates": [{
                "metadata": {"name": "page"}, "spec": {"template": {"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "blog"}, "data": {"title": "hello"}}}}]}}))
        .await;
}

async fn until_all(world: &World, state: &str, instances: &[(&str, &str)]) {
    for (kind, name) in instances {
        let api = world.api("kro.run/v1alpha1", kind, Some(NAMESPACE));
        wait::until_object(&api, name, |object| object.data["status"]["state"] == state).await;
    }
}

/// Stops a region, and changes what has to go through it.
async fn stop(world: &World, regions: &[Region]) {
    until_all(world, "ACTIVE", &[("Shop", "orders"), ("Shop", "payments")]).await;
    let us = regions.iter().find(|region| region.name == "us").unwrap();
    us.proxy.set(Fault::Refuse);
    let api = world.api("kro.run/v1alpha1", "Shop", Some(NAMESPACE));
    let patch = Patch::Merge(json!({"spec": {"greeting": "welcome", "replicas": 3}}));
    api.patch("orders", &PatchParams::default(), &patch).await.unwrap();
    wait::until_object(&api, "orders", |object| object.data["status"]["state"] != "ACTIVE").await;
    wait::until_object(&api, "payments", |object| object.data["status"]["state"] != "ACTIVE").await;
}

/// Writes a picture of the page, as high as the page.
fn shoot(page: &Page, name: &str, width: u32, height: u32) {
    let content = page.script("document.documentElement.scrollHeight").as_u64().unwrap();
    let height = u32::try_from(content.clamp(u64::from(height), MOST)).unwrap();
    page.size(width, height);
    page.script(
        "scrollTo(0, 0); new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))",
    );
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), reduced(&page.screenshot())).unwrap();
}

/// A picture with at most 256 colours: text on plain grounds has few, and the file is a third.
fn reduced(file: &[u8]) -> Vec<u8> {
    let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    let samples = info.color_type.samples();
    let colour = |pixel: &[u8]| [pixel[0], pixel[1], pixel[2]];
    let mut counts: HashMap<[u8; 3], u32> = HashMap::new();
    for pixel in bytes.chunks_exact(samples) {
        *counts.entry(colour(pixel)).or_default() += 1;
    }
    let mut palette: Vec<([u8; 3], u32)> = counts.into_iter().collect();
    palette.sort_by_key(|(colour, count)| (std::cmp::Reverse(*count), *colour));
    let distance =
        |a: [u8; 3], b: [u8; 3]| (0..3).map(|at| u32::from(a[at].abs_diff(b[at])).pow(2)).sum::<u32>();
    // A rare colour of its own matters more than a further shade of a common one.
    let mut chosen: Vec<[u8; 3]> = Vec::new();
    for (colour, _) in palette {
        if chosen.len() < 256 && chosen.iter().all(|known| distance(*known, colour) > LIKENESS) {
            chosen.push(colour);
        }
    }
    let palette = chosen;
    let mut nearest: HashMap<[u8; 3], u8> = HashMap::new();
    let mut index = |wanted: [u8; 3]| {
        *nearest.entry(wanted).or_insert_with(|| {
            let best = (0..palette.len()).min_by_key(|at| distance(palette[*at], wanted)).unwrap();
            u8::try_from(best).unwrap()
        })
    };
    let indexed: Vec<u8> = bytes.chunks_exact(samples).map(|pixel| index(colour(pixel))).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, info.width, info.height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_palette(palette.concat());
    encoder.set_compression(png::Compression::High);
    encoder.set_filter(png::Filter::NoFilter);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&indexed).unwrap();
    writer.finish().unwrap();
    file
}
