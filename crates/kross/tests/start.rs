//! The page `docs/start.md`, as a person follows it: its commands are run one after the other on an empty hub and two other
//! clusters. There is no kubelet: the test runs the controller in place of its Pods, with what the Deployment says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    missing_docs
)]

#[path = "chart/render.rs"]
mod render;
#[path = "chart_permissions/world.rs"]
#[allow(unreachable_pub)]
mod world;

use std::path::Path;
use std::process::{Command, Output};

use kross_local::{Binary, ControlPlane, Helm, Progress};
use kross_testing::wait;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use render::{NAMESPACE, repository};
use world::{Controller, World};

/// What the page promises.
const MOST_COMMANDS: usize = 10;
const REMOVAL: &str = "## Remove it";

/// The shell blocks of the page: those of the start, and those of the removal.
fn blocks() -> (Vec<String>, Vec<String>) {
    let page = std::fs::read_to_string(repository().join("docs/start.md")).unwrap();
    let (start, removal) = page.split_once(REMOVAL).unwrap();
    let of = |text: &str| {
        let blocks = text.split("```sh\n").skip(1);
        blocks.map(|block| block.split("\n```").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    (of(start), of(removal))
}

/// A shell in the repository, with the programs that the page names and a kubeconfig with its three contexts.
struct Shell {
    folder: tempfile::TempDir,
    kubeconfig: String,
}

impl Shell {
    fn new(planes: [&ControlPlane; 3]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let link = |program: &Path, name: &str| {
            std::os::unix::fs::symlink(program, folder.path().join(name)).unwrap();
        };
        link(Path::new(env!("CARGO_BIN_EXE_kross")), "kross");
        link(&planes[0].assets().path(Binary::Kubectl).unwrap(), "kubectl");
        let helm = Helm::find_or_build(&Progress::stderr()).unwrap();
        link(Path::new(helm.command().get_program()), "helm");
        let files: Vec<String> =
            planes.iter().map(|plane| plane.admin_path().display().to_string()).collect();
        Self { folder, kubeconfig: files.join(":") }
    }

    /// Runs a block of the page.
    async fn run(&self, block: &str) -> Output {
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", block]).current_dir(repository());
        bash.env("PATH", path).env("KUBECONFIG", &self.kubeconfig);
        tokio::task::spawn_blocking(move || bash.output().unwrap()).await.unwrap()
    }

    /// The output of a block that succeeds.
    async fn prints(&self, block: &str) -> String {
        let output = self.run(block).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (data, notes) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{block}\n{}\n{data}{notes}", output.status);
        eprintln!("$ {block}\n{data}{notes}");
        data
    }
}

/// What a kubelet does with the Pods of the Deployment: runs the controller, and says that they are ready.
async fn run_pods(world: &World) -> Controller {
    let pods = world.hub.api("", "v1", "Pod", Some(NAMESPACE));
    let ours = ListParams::default().labels("app.kubernetes.io/name=kross");
    let names = wait::until("the Pods of the controller", || async {
        let listed = pods.list(&ours).await.map_err(|error| error.to_string())?;
        let names: Vec<String> = listed.items.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
        if names.len() == 2 { Ok(names) } else { Err(format!("{names:?}")) }
    })
    .await;
    let controller = world.controller().await;
    let status = json!({"status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]}});
    for name in names {
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }
    controller
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_commands_lead_from_an_empty_hub_to_a_graph_in_two_clusters() {
    // Starting control planes takes a deep stack.
    let (world, us) = tokio::join!(Box::pin(World::start()), ControlPlane::named("us").start());
    let us = us.unwrap();
    let shell = Shell::new([&world.hub.plane, &world.remote.plane, &us]);
    let (start, removal) = blocks();
    assert!((8..=MOST_COMMANDS).contains(&start.len()), "{start:#?}");

    let before = shell.prints("kross check --pre").await;
    assert!(before.contains(" 0 failed, 0 with a warning, 0 not known"), "{before}");
    let commands = async {
        let mut last = String::new();
        for command in &start {
            last = shell.prints(command).await;
        }
        last
    };
    let (tree, controller) = tokio::join!(commands, run_pods(&world));
    for line in ["kro-system/eu  connected, watch, 1/1 ready", "kro-system/us  connected, watch, 1/1 ready"] {
        assert!(tree.contains(line), "{tree}");
    }
    // The page shows what the command prints.
    let page = std::fs::read_to_string(repository().join("docs/start.md")).unwrap();
    assert!(page.contains(tree.trim_end()), "{tree}");
    let text = shell
        .prints("kubectl --context us get configmap first --namespace default -o jsonpath='{.data.text}'")
        .await;
    assert_eq!(text, "hello, from Europe");
    let green = shell.prints("kross check").await;
    assert!(green.contains(" 0 failed, 0 with a warning, 0 not known"), "{green}");

    for block in &removal {
        shell.prints(block).await;
    }
    let left = shell.prints("kubectl --context eu get configmap first --ignore-not-found").await;
    assert_eq!(left, "");
    drop(controller);
    us.stop().await;
    world.stop().await;
}
