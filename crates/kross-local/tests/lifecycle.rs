//! Control planes start, stop, and leave no process or directory behind, however their owner ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kross_local::{Binary, ControlPlane};
use kube::Api;

/// Set for the instance of this test program that runs a control plane until it is killed.
const HOLDER: &str = "KROSS_TEST_HOLDER_ROOT";

/// Whether a process runs and is not a zombie.
fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|text| text.rsplit_once(')').map(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X'])))
        .unwrap_or(false)
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited 60s for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn directories(root: &Path) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(root)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_control_planes_start_concurrently_and_leave_nothing_behind() {
    let assets = ControlPlane::named("warm").start().await.unwrap().assets().clone();
    let root = tempfile::tempdir().unwrap();
    let named = |name| ControlPlane::named(name).root(root.path()).assets(assets.clone()).start();

    let started = Instant::now();
    let (hub, eu, us) = tokio::join!(named("hub"), named("eu"), named("us"));
    let took = started.elapsed();
    let planes = [hub.unwrap(), eu.unwrap(), us.unwrap()];
    println!("three control planes were ready after {took:?}");

    let mut identities = Vec::new();
    let mut pids = Vec::new();
    for plane in &planes {
        let namespaces: Api<Namespace> = Api::all(plane.client().await.unwrap());
        identities.push(namespaces.get("kube-system").await.unwrap().metadata.uid.unwrap());
        pids.extend(plane.processes());
        let kubectl = Command::new(plane.assets().path(Binary::Kubectl).unwrap())
            .args([
                "--kubeconfig",
                &plane.admin_path().display().to_string(),
                "get",
                "namespaces",
                "-o",
                "name",
            ])
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&kubectl.stdout).contains("namespace/default"), "{kubectl:?}");
    }
    identities.sort();
    identities.dedup();
    assert_eq!(identities.len(), 3);
    assert_eq!(pids.len(), 6);
    assert!(pids.iter().all(|pid| is_running(*pid)));

    for plane in planes {
        plane.stop().await;
    }
    assert!(!pids.iter().any(|pid| is_running(*pid)));
    assert_eq!(directories(root.path()), Vec::<std::path::PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_stops_the_control_plane() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().to_owned();
    let (sender, receiver) = std::sync::mpsc::channel();
    let task = tokio::spawn(async move {
        let plane = ControlPlane::named("panicking").root(path).start().await.unwrap();
        sender.send(plane.processes()).unwrap();
        panic!("on purpose");
    });
    assert!(task.await.unwrap_err().is_panic());
    let pids = receiver.recv().unwrap();
    assert_eq!(pids.len(), 2);
    assert!(!pids.iter().any(|pid| is_running(*pid)));
    assert!(directories(root.path()).is_empty());
}

/// Not a test: the process that the tests below kill.
#[tokio::test(flavor = "multi_thread")]
async fn holder() {
    let Some(root) = std::env::var_os(HOLDER) else { return };
    let plane = ControlPlane::named("held").root(root).start().await.unwrap();
    let pids: Vec<String> = plane.processes().iter().map(u32::to_string).collect();
    println!("\nHOLDING {}", pids.join(" "));
    std::future::pending::<()>().await;
}

/// Starts this program again as a holder. Returns it with the IDs of the control plane's processes.
fn start_holder(root: &Path) -> (std::process::Child, Vec<u32>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holder", "--nocapture"])
        .env(HOLDER, root)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let pids = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("HOLDING ").map(str::to_owned))
        .expect("the holder prints the process IDs");
    (child, pids.split(' ').map(|pid| pid.parse().unwrap()).collect())
}

#[test]
fn killing_the_owner_stops_its_control_plane() {
    let root = tempfile::tempdir().unwrap();
    let (mut holder, pids) = start_holder(root.path());
    assert!(pids.iter().all(|pid| is_running(*pid)));
    holder.kill().unwrap();
    holder.wait().unwrap();
    wait_for("the control plane to stop", || !pids.iter().any(|pid| is_running(*pid)));
    wait_for("its directory to be removed", || directories(root.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_start_cleans_up_after_a_killed_owner_and_watchdog() {
    let root = tempfile::tempdir().unwrap();
    let (mut holder, pids) = start_holder(root.path());
    let directory = directories(root.path()).pop().unwrap();
    let recorded = std::fs::read_to_string(directory.join("processes")).unwrap();
    let watchdog: i32 = recorded.split(' ').next().unwrap().parse().unwrap();
    let kill = |pid| {
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid).unwrap(),
            rustix::process::Signal::KILL,
        )
    };
    // Kill the watchdog first, so that it cannot kill the others.
    kill(watchdog).unwrap();
    wait_for("the watchdog to exit", || !is_running(watchdog.unsigned_abs()));
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(pids.iter().all(|pid| is_running(*pid)), "nothing has killed them yet");

    let plane = ControlPlane::named("next").root(root.path()).start().await.unwrap();

    assert!(!pids.iter().any(|pid| is_running(*pid)));
    assert_eq!(directories(root.path()), vec![plane.directory().to_owned()]);
}

/// The processes with `text` in their arguments.
fn processes_with(text: &str) -> Vec<String> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_start_cleans_up_after_an_owner_that_was_killed_while_starting() {
    let root = tempfile::tempdir().unwrap();
    for delay in [0, 20, 50, 100, 200, 400, 800, 1600] {
        let mut holder = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "holder", "--nocapture"])
            .env(HOLDER, root.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        holder.kill().unwrap();
        holder.wait().unwrap();
    }
    let plane = ControlPlane::named("next").root(root.path()).start().await.unwrap();
    assert_eq!(directories(root.path()), vec![plane.directory().to_owned()]);
    plane.stop().await;
    assert_eq!(processes_with(&root.path().display().to_string()), Vec::<String>::new());
}
