//! Prints commands to try in a second terminal while the demo runs.

use kross_local::{Assets, Binary, ControlPlane};

use super::graph::NAME;
use crate::output::Output;

/// Prints the kubeconfigs of the clusters and three things to try.
pub(super) fn print(planes: &[ControlPlane; 3], assets: &Assets, output: &mut Output) -> anyhow::Result<()> {
    let [hub, _, us] = planes;
    output.note("kubeconfigs of the clusters:");
    for plane in planes {
        output.note(format_args!("  {:<4} {}", plane.name(), plane.admin_path().display()));
    }
    let processes: Vec<String> = us.processes().iter().map(ToString::to_string).collect();
    let processes = processes.join(" ");
    let kubectl = assets.path(Binary::Kubectl)?;
    output.note(format_args!(
        "\nthree things to try in another terminal, after\n  alias k='{} --kubeconfig {}'\n",
        kubectl.display(),
        hub.admin_path().display()
    ));
    output.note(format_args!(
        "  kill -STOP {processes}\n      freezes cluster `us`; `kill -CONT {processes}` resumes it"
    ));
    output.note(format_args!(
        "  k patch shop {NAME} --type=merge -p '{{\"spec\":{{\"greeting\":\"welcome\"}}}}'\n      changes a value, which kross applies in both remote clusters"
    ));
    output.note(format_args!(
        "  k delete shop {NAME}\n      deletes the instance and its objects in all clusters\n"
    ));
    output.note("the tree is printed again on every change; press Ctrl-C to stop the clusters and clean up");
    Ok(())
}
