//! The dashboard in a real browser, against a running hub with two regions.

use std::time::Instant;

use kross_local::{Axe, Progress};
use kross_testing::Fault;
use serde_json::json;

use self::chromium::{Page, browser};
use crate::dashboard::Dashboard;
use crate::world::{World, config_map};

#[path = "browser/chromium.rs"]
mod chromium;
#[path = "browser/pictures.rs"]
mod pictures;

/// Collects what moved without the user having done anything, except the newest entries of the timeline.
const LAYOUT_SHIFTS: &str = "
    window.shifted = [];
    new PerformanceObserver((list) => {
      for (const shift of list.getEntries()) {
        for (const { node } of shift.sources) {
          const element = node?.closest ? node : node?.parentElement;
          if (window.watching && element && !element.closest('.timeline')) window.shifted.push(element.outerHTML.slice(0, 200));
        }
      }
    }).observe({ type: 'layout-shift', buffered: true });";

/// An instance with objects in the hub and in two regions: `web` in `us` reads `db` in `eu` and `settings` in the hub.
struct Shop {
    world: World,
    dashboard: Dashboard,
    path: String,
    kind: &'static str,
}

impl Shop {
    async fn new(kind: &'static str) -> Self {
        let world = World::with(&["eu", "us"]).await;
        world.secret("us-kubeconfig", world.fixture.remote("us").plane.admin()).await;
        let db = config_map("db", true, "${schema.spec.text}");
        let mut web = config_map("web", false, "${db.data.text} ${settings.data.text}");
        web["cluster"] = json!({"name": "us-kubeconfig"});
        let keys = json!({"id": "keys", "template": {"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "${schema.metadata.name}-keys"}, "stringData": {"password": "hunter2"}}});
        let settings = config_map("settings", false, "plain");
        world.ready(kind, "orders", json!([settings, db, web, keys])).await;
        let dashboard = Dashboard::start(&world.admin_path());
        let path = format!("/instances/{}.kro.run/{}/orders", kross_api::plural(kind), world.namespace);
        Self { world, dashboard, path, kind }
    }

    /// A page that is logged in and shows the instance.
    async fn page(&self) -> Option<Page> {
        let page = browser()?.page();
        page.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": LAYOUT_SHIFTS}));
        page.open(&self.dashboard.address(&self.path)).await;
        Some(page)
    }

    /// The addresses of all pages, with something on them.
    fn pages(&self) -> Vec<String> {
        let definition = self.kind.to_lowercase();
        let db = format!("?node=db%7C{0}%2Feu-kubeconfig%7C{0}%7Corders-db", self.world.namespace);
        vec![
            "/".to_owned(),
            format!("/clusters/{}/eu-kubeconfig", self.world.namespace),
            "/definitions".to_owned(),
            format!("/definitions/{definition}?node=web"),
            format!("/instances?namespace={}", self.world.namespace),
            self.path.clone(),
            format!("{}{db}", self.path),
            "/targets".to_owned(),
            "/search?q=orders".to_owned(),
            "/search".to_owned(),
            "/nothing".to_owned(),
        ]
    }
}

/// A cluster as its lane shows it, in the drawing that is visible.
fn lane(name: &str) -> String {
    format!(
        "[...document.querySelectorAll('.graph.wide .lane')].find((it) => it.textContent.includes('{name}'))?.classList.value"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_shows_an_outage_of_a_region_and_its_recovery_without_a_reload_and_nothing_moves() {
    if browser().is_none() {
        return;
    }
    let shop = Shop::new("BrowserShop").await;
    let page = shop.page().await.unwrap();
    let lanes =
        page.script("[...document.querySelectorAll('.graph.wide .lane strong')].map((it) => it.textContent)");
    let namespace = &shop.world.namespace;
    assert_eq!(
        lanes,
        json!(["hub", format!("{namespace}/eu-kubeconfig"), format!("{namespace}/us-kubeconfig")])
    );
    assert_eq!(page.script("document.querySelectorAll('.graph.wide .edge.crossing').length"), json!(2));
    assert!(page.script(&lane("eu-kubeconfig")).as_str().unwrap().contains("good"));

    page.script("window.notReloaded = true; window.watching = true");
    let top = page.script("document.querySelector('.canvas').getBoundingClientRect().top");
    let stopped = Instant::now();
    shop.world.proxy.set(Fault::Refuse);
    page.until(&format!("{}?.includes('bad')", lane("eu-kubeconfig"))).await;
    eprintln!("the lane of the stopped region turned after {:.1?}", stopped.elapsed());
    // A new spec has to go through the region that is stopped.
    shop.world.patch(shop.kind, "orders", json!({"spec": {"text": "two"}})).await;
    page.until(
        "document.querySelector('.graph.wide .edge.blocked.crossing text')?.textContent === 'db.data.text'",
    )
    .await;
    page.until("document.querySelector('.answer')?.textContent.includes('eu-kubeconfig')").await;
    page.until("document.querySelector('.answer .command code')?.textContent.length > 0").await;
    assert_eq!(page.script("document.querySelector('.canvas').getBoundingClientRect().top"), top);

    shop.world.proxy.set(Fault::Pass);
    page.until(&format!("{}?.includes('good')", lane("eu-kubeconfig"))).await;
    page.until("document.querySelectorAll('.edge.blocked').length === 0").await;
    page.until("document.querySelector('.answer.good') !== null").await;
    assert_eq!(page.script("window.notReloaded"), json!(true));
    assert_eq!(page.script("window.shifted"), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_accessible_in_both_colour_schemes_and_asks_no_other_host() {
    if browser().is_none() {
        return;
    }
    let shop = Shop::new("AxeShop").await;
    let page = shop.page().await.unwrap();
    let axe = Axe::find_or_download(&Progress::stderr()).unwrap();
    let axe = std::fs::read_to_string(axe.script()).unwrap();
    let (mut backgrounds, mut violations) = (Vec::new(), Vec::new());
    for scheme in ["light", "dark"] {
        page.prefer(scheme, "reduce");
        for path in shop.pages() {
            page.open(&shop.dashboard.page(&path)).await;
            page.script(&axe);
            let found = page.script(
                "axe.run(document, {resultTypes: ['violations']}).then(({ violations }) => violations
                    .filter((it) => ['serious', 'critical'].includes(it.impact))
                    .map((it) => it.id + ': ' + it.nodes.slice(0, 3).map((node) => node.html + ' ' + node.failureSummary).join(' | ')))",
            );
            for violation in found.as_array().unwrap() {
                violations.push(format!("{path} in the {scheme} scheme: {violation}"));
            }
            let overflow =
                page.script("document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert!(overflow.as_i64().unwrap() <= 0, "{path} is wider than the window");
        }
        backgrounds.push(page.script("getComputedStyle(document.body).backgroundColor"));
    }
    assert_eq!(violations, Vec::<String>::new());
    assert_ne!(backgrounds[0], backgrounds[1], "both schemes look the same");
    let host = shop.dashboard.page("/");
    for request in page.requests() {
        assert!(request.starts_with(&host), "{request}");
    }
    let expected = |complaint: &&String| !complaint.contains("/nothing");
    assert_eq!(page.complaints().iter().filter(expected).collect::<Vec<_>>(), Vec::<&String>::new());
    assert_narrow(&page, &shop).await;
    assert_small(&shop).await;
}

/// No page is wider than a phone, and the lanes stand on top of each other there.
async fn assert_narrow(page: &Page, shop: &Shop) {
    page.size(390, 800);
    for path in shop.pages() {
        page.open(&shop.dashboard.page(&path)).await;
        let width = page.script("document.documentElement.scrollWidth");
        assert!(width.as_u64().unwrap() <= 390, "{path} is {width} pixels wide");
    }
    page.open(&shop.dashboard.page(&shop.path)).await;
    let tops = page.script(
        "[...document.querySelectorAll('.graph.stacked .lane')].map((it) => Math.round(it.getBoundingClientRect().top))",
    );
    let tops: Vec<i64> = serde_json::from_value(tops).unwrap();
    assert!(tops.len() == 3 && tops.is_sorted() && tops[0] < tops[1], "{tops:?}");
    page.size(1280, 900);
}

/// The first page, with everything that it loads.
async fn assert_small(shop: &Shop) {
    let page = browser().unwrap().page();
    page.open(&shop.dashboard.address("/")).await;
    let loaded = page.events("Network.loadingFinished");
    let bytes: f64 = loaded.iter().filter_map(|it| it["encodedDataLength"].as_f64()).sum();
    eprintln!("the first page has {:.0} kB", bytes / 1_000.0);
    assert!(bytes > 10_000.0 && bytes < 150_000.0, "the first page has {bytes} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_can_be_reached_with_the_keyboard_alone() {
    if browser().is_none() {
        return;
    }
    let shop = Shop::new("KeyShop").await;
    let page = shop.page().await.unwrap();
    let focus = "document.activeElement";

    // The search, its results, and the object that it leads to.
    page.press("/");
    page.until(&format!("{focus}.id === 'search'")).await;
    page.type_text(&format!("{}/orders-keys", shop.world.namespace));
    page.press("Enter");
    page.until("location.pathname === '/search' && document.documentElement.dataset.live === 'true'").await;
    page.until("document.querySelector('.results a') !== null").await;
    page.press("j");
    page.until(&format!("{focus}.closest('.results') !== null")).await;
    page.press("Enter");
    page.until("location.pathname.endsWith('/orders') && document.querySelector('aside .object') !== null")
        .await;
    page.until_live().await;

    // The values of a Secret are masked, in its YAML too.
    let panel = page.script("document.querySelector('aside .object').textContent");
    let panel = panel.as_str().unwrap();
    assert!(panel.contains("orders-keys") && panel.contains("*****"), "{panel}");
    assert!(!panel.contains("hunter2") && !panel.contains("aHVudGVyMg"), "{panel}");
    page.press("Escape");
    page.until("document.querySelector('aside .object') === null && location.search === ''").await;

    // Tab leads into the graph, arrows through it, Enter opens a node.
    for _ in 0..60 {
        if page.script(&format!("{focus}.matches('a.node')")) == json!(true) {
            break;
        }
        page.press("Tab");
    }
    let first = page.script(&format!("{focus}.closest('a.node').querySelector('.title').textContent"));
    page.press("ArrowRight");
    let second = page.script(&format!("{focus}.closest('a.node').querySelector('.title').textContent"));
    assert_ne!(first, second);
    page.press("Enter");
    page.until("document.querySelector('aside .object h2') !== null").await;
    let outline = page.script(&format!("getComputedStyle({focus}).outlineStyle"));
    assert_ne!(outline, json!("none"), "the focus is not visible");

    // Values on the edges of `web`.
    let web =
        format!("{}?node=web%7C{1}%2Fus-kubeconfig%7C{1}%7Corders-web", shop.path, shop.world.namespace);
    page.open(&shop.dashboard.page(&web)).await;
    let values = page.script("document.querySelector('.values')?.textContent");
    assert!(values.as_str().is_some_and(|it| it.contains("db.data.text") && it.contains("one")), "{values}");

    // Every view has its keys, and so has the list of keys.
    for (key, path) in [("d", "/definitions"), ("i", "/instances"), ("t", "/targets"), ("f", "/")] {
        page.press("g");
        page.press(key);
        page.until(&format!(
            "location.pathname === '{path}' && document.documentElement.dataset.live === 'true'"
        ))
        .await;
    }
    page.press("?");
    page.until("document.getElementById('help').open").await;
    page.press("Escape");
    page.until("!document.getElementById('help').open").await;
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_shows_as_such_and_recovers_by_itself() {
    if browser().is_none() {
        return;
    }
    let shop = Shop::new("LostShop").await;
    let page = shop.page().await.unwrap();
    page.until("document.getElementById('connection').textContent === 'live'").await;
    assert_eq!(page.script("document.getElementById('lost').hidden"), json!(true));
    page.offline(true);
    page.until("document.getElementById('connection').classList.contains('lost')").await;
    page.until("document.getElementById('lost').textContent.includes('connection is lost')").await;
    // What happens meanwhile is shown afterwards.
    shop.world
        .patch(shop.kind, "orders", json!({"metadata": {"annotations": {"kro.run/reconcile": "Suspended"}}}))
        .await;
    page.offline(false);
    page.until("document.getElementById('connection').textContent === 'live'").await;
    page.until("document.getElementById('lost').hidden").await;
    page.until("document.querySelector('h1').textContent.includes('Suspended')").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_are_in_the_address_and_the_back_button_restores_them() {
    if browser().is_none() {
        return;
    }
    let shop = Shop::new("FilterShop").await;
    let page = shop.page().await.unwrap();
    let namespace = &shop.world.namespace;
    page.open(&shop.dashboard.page(&format!("/instances?namespace={namespace}"))).await;
    let rows = "document.querySelectorAll('tbody tr').length";
    page.until(&format!("{rows} === 1")).await;
    page.script("document.querySelector('.filters input[name=q]').focus()");
    page.type_text("no such thing");
    page.until("location.search.includes('q=no')").await;
    page.until(&format!("{rows} === 0 && document.querySelector('.empty') !== null")).await;
    assert_eq!(page.script("document.activeElement.value"), json!("no such thing"));
    page.script("history.back()");
    page.until(&format!("!location.search.includes('q=') && {rows} === 1")).await;
    page.until("document.querySelector('.filters input[name=q]').value === ''").await;
    assert_eq!(
        page.script("document.querySelector('.filters input[name=namespace]').value"),
        json!(namespace)
    );
    // A node that is opened is a step of the history too.
    page.script("document.querySelector('tbody th a').click()");
    page.until("document.querySelector('.graph.wide a.node') !== null && document.documentElement.dataset.live === 'true'").await;
    page.script("document.querySelector('.graph.wide a.node').click()");
    page.until("document.querySelector('aside .object') !== null").await;
    page.script("history.back()");
    page.until("document.querySelector('aside .object') === null").await;
    page.script("history.back()");
    page.until(&format!("location.pathname === '/instances' && {rows} === 1")).await;
    assert_eq!(page.script("new URLSearchParams(location.search).get('namespace')"), json!(namespace));
}
