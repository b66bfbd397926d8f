//! Prints commands to try in a second terminal while the demo runs.

use kross_local::{Assets, Binary, ControlPlane};

use super::graph::{NAME, NAMESPACE, instance};
use crate::output::Output;

/// Prints the kubeconfigs of the clusters and what to try, as a first lesson: look, break, find out why, repair.
pub(super) fn print(planes: &[ControlPlane; 3], assets: &Assets, output: &mut Output) -> anyhow::Result<()> {
    let [hub, _, us] = planes;
    output.note("kubeconfigs of the clusters:");
    for plane in planes {
        output.note(format_args!("  {:<4} {}", plane.name(), plane.admin_path().display()));
    }
    let processes: Vec<String> = us.processes().iter().map(ToString::to_string).collect();
    let processes = processes.join(" ");
    let kubectl = assets.path(Binary::Kubectl)?;
    let kross =
        std::env::current_exe().map_or_else(|_| "kross".to_owned(), |path| path.display().to_string());
    output.note(format_args!(
        "\nthings to try in another terminal, after\n  export KUBECONFIG={}\n  alias k='{}'\n  alias kross='{kross}'\n",
        hub.admin_path().display(),
        kubectl.display(),
    ));
    for (command, meaning) in [
        (format!("kross tree shop/{NAME}"), "the objects of the instance in all clusters"),
        ("kross get clusters".to_owned(), "the remote clusters and who uses them"),
        (
            format!("k patch shop {NAME} --type=merge -p '{{\"spec\":{{\"greeting\":\"welcome\"}}}}'"),
            "changes a value, which kross applies in both remote clusters",
        ),
        (
            format!("kill -STOP {processes}"),
            "freezes cluster `us`: after a few seconds it is reported as not connected, and the others go on",
        ),
        (format!("kross why shop/{NAME}"), "what is the matter, and which command helps"),
        (format!("kill -CONT {processes}"), "resumes cluster `us`; the instance recovers by itself"),
        (format!("kross delete shop/{NAME} --explain"), "what its deletion would do, in which order"),
        (format!("k delete shop {NAME}"), "deletes the instance and its objects in all clusters"),
        (format!("echo '{}' | k apply -f -", instance(planes)), "creates it again"),
    ] {
        output.note(format_args!("  {command}\n      {meaning}"));
    }
    output.note(format_args!(
        "\nthe instance is in namespace `{NAMESPACE}` of `hub`; the tree is printed again on every change; press Ctrl-C to stop the clusters and clean up"
    ));
    Ok(())
}
