//! Runs the same scenarios on kro and on kross, on one control plane each, and compares all objects after each step.
//! Differences must be listed in `kro_comparison/differences.yaml` with their reason. `KROSS_SCENARIO=a,b` runs only these
//! scenarios.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    missing_docs,
    unreachable_pub
)]

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use kross_controller::Settings;
use kross_local::{Kro, KubernetesVersion, Program, Progress};
use kross_testing::shared;
use kube::Api;
use kube::api::PostParams;
use serde_json::Value as Json;

use crate::compare::{Difference, Known, REJECTION, differences};
use crate::normalize::{SeenUids, normalize};
use crate::scenario::{Scenario, Step};
use crate::setup::{Running, install};
use crate::side::Side;

#[path = "kro_comparison/compare.rs"]
mod compare;
#[path = "kro_comparison/crds.rs"]
mod crds;
#[path = "kro_comparison/normalize.rs"]
mod normalize;
#[path = "kro_comparison/scenario.rs"]
mod scenario;
#[path = "support/setup.rs"]
mod setup;
#[path = "kro_comparison/side.rs"]
mod side;
#[path = "kro_comparison/takeover.rs"]
mod takeover;

/// How many scenarios run at the same time.
const CONCURRENT_SCENARIOS: usize = 6;
/// How long both sides may take to converge after the conditions of a step hold.
const CONVERGENCE_LIMIT: Duration = Duration::from_secs(60);
/// How long they may take after that until two snapshots in a row are equal.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);
/// Flags of kro: short waits between its reconciles, and the equivalents of [`settings`].
const KRO_FLAGS: [&str; 4] = [
    "--instance-requeue-interval=200ms",
    "--rgd-progress-requeue-delay=200ms",
    "--rgd-max-collection-size=50",
    "--feature-gates=CELOmitFunction=true",
];

/// Starts kro on a control plane of the test program.
async fn kro(plane: &str) -> Program {
    let kro = tokio::task::spawn_blocking(|| Kro::find_or_build(&Progress::stderr())).await.unwrap().unwrap();
    let flags: Vec<&str> = Kro::TUNED.into_iter().chain(KRO_FLAGS).collect();
    kro.start(&shared(plane).await.admin_path(), &flags).unwrap()
}

/// Settings like those of kro: its version, which is in labels and annotations, and [`KRO_FLAGS`].
fn settings() -> Settings {
    Settings { kro_version: Kro::VERSION.to_owned(), max_collection_size: 50, ..Settings::default() }
}

/// Installs the CRDs of the kro release.
async fn install_kro_crds(client: &kube::Client) {
    let kro = tokio::task::spawn_blocking(|| Kro::find_or_build(&Progress::stderr())).await.unwrap().unwrap();
    let crds = kro.crds().unwrap().iter().map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    setup::install_crds(client, crds).await;
}

/// Whether kro can run: it selects revisions by a field, which Kubernetes supports for custom resources since 1.31.
fn kro_runs() -> bool {
    let runs = KubernetesVersion::from_environment().unwrap().minor() != "1.30";
    if !runs {
        Progress::stderr().say("kro does not run on Kubernetes 1.30: skipping the comparison");
    }
    runs
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_and_instances_are_as_on_kro() {
    if !kro_runs() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kro_comparison");
    let theirs = Side::new("kro", shared("kro").await.client().await.unwrap());
    let ours = Side::new("kross", shared("kross").await.client().await.unwrap());
    install_kro_crds(&theirs.client).await;
    install(&ours.client).await;
    let kro = kro("kro").await;
    let running = Running::start("kross", settings()).await;
    let known = Known::all(&folder.join("differences.yaml"));
    let used = Mutex::new(vec![false; known.len()]);
    let scenarios = Scenario::all(&folder.join("scenarios"));
    let found: Vec<Difference> = futures::stream::iter(&scenarios)
        .map(|scenario| async {
            let run = AssertUnwindSafe(run(scenario, &theirs, &ours, &known, &used));
            run.catch_unwind().await.unwrap_or_else(|panic| vec![panicked(scenario, panic.as_ref())])
        })
        .buffer_unordered(CONCURRENT_SCENARIOS)
        .collect::<Vec<_>>()
        .await
        .concat();
    running.stop().await;
    let mut failures: Vec<String> = found.iter().map(ToString::to_string).collect();
    if std::env::var_os("KROSS_SCENARIO").is_none() {
        let unused =
            known.iter().zip(used.into_inner().unwrap()).filter(|(known, used)| !used && !known.sometimes);
        failures.extend(unused.map(|(known, _)| {
            format!(
                "listed in differences.yaml, but not found: {} {}: {}: {}",
                known.scenario, known.step, known.object, known.path
            )
        }));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    kro.stop();
}

/// The difference that reports a panic of a scenario; the other scenarios continue.
fn panicked(scenario: &Scenario, panic: &(dyn std::any::Any + Send)) -> Difference {
    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    Difference {
        scenario: scenario.name.clone(),
        step: "panicked".to_owned(),
        object: String::new(),
        path: String::new(),
        kro: Json::Null,
        kross: Json::String(text),
    }
}

/// Runs the steps of a scenario on both sides and compares after each of them.
async fn run(
    scenario: &Scenario,
    theirs: &Side,
    ours: &Side,
    known: &[Known],
    used: &Mutex<Vec<bool>>,
) -> Vec<Difference> {
    for side in [theirs, ours] {
        let namespaces = Api::all(side.client.clone());
        let namespace = kross_testing::objects::namespace(&scenario.name);
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    }
    let started = Instant::now();
    let mut unexplained = Vec::new();
    let mut seen = (SeenUids::default(), SeenUids::default());
    for step in &scenario.steps {
        let (kros, kross) = tokio::join!(theirs.run(scenario, step), ours.run(scenario, step));
        let mut found = differences_after(scenario, step, (theirs, ours), &mut seen, known).await;
        if kros != kross {
            found.push(Difference {
                scenario: scenario.name.clone(),
                step: step.name.clone(),
                object: REJECTION.to_owned(),
                path: "refusal".to_owned(),
                kro: kros.into(),
                kross: kross.into(),
            });
        }
        for difference in found {
            match known.iter().position(|known| known.explains(&difference)) {
                Some(index) => used.lock().unwrap()[index] = true,
                None => unexplained.push(difference),
            }
        }
    }
    let Scenario { name, about, .. } = scenario;
    Progress::stderr().say(format!("{name} in {:.1?}: {about}", started.elapsed()));
    unexplained
}

/// What differs once both sides have settled: when every difference is explained, every difference that is listed for this
/// step is found, and two snapshots in a row are equal; or when the time limit is reached.
async fn differences_after(
    scenario: &Scenario,
    step: &Step,
    (theirs, ours): (&Side, &Side),
    seen: &mut (SeenUids, SeenUids),
    known: &[Known],
) -> Vec<Difference> {
    let started = Instant::now();
    let (mut last, mut agreed) = (None, None);
    loop {
        let (kros, kross) = tokio::join!(theirs.snapshot(scenario), ours.snapshot(scenario));
        // UIDs of objects that exist only briefly may be observed on one side alone, so they are learned only at the end.
        let mut learned = seen.clone();
        let normalized = (normalize(&kros, &mut learned.0), normalize(&kross, &mut learned.1));
        let found = differences(&scenario.name, &step.name, &normalized.0, &normalized.1);
        let explained = |difference: &Difference| known.iter().any(|known| known.explains(difference));
        let mut due = known.iter().filter(|known| known.is_due(scenario, step));
        if !found.iter().all(explained) || !due.all(|due| found.iter().any(|found| due.explains(found))) {
            agreed = None;
        } else if last.as_ref() == Some(&normalized)
            || agreed.get_or_insert_with(Instant::now).elapsed() > SETTLE_LIMIT
        {
            *seen = learned;
            return found;
        }
        if started.elapsed() > CONVERGENCE_LIMIT {
            return found;
        }
        last = Some(normalized);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
