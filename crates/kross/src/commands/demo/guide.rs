//! Turns the running demo into commands to try in a second terminal.

use kross_local::{Assets, Binary, ControlPlane};

use super::graph::NAME;
use crate::output::Output;

/// Prints where the clusters are and three things to try.
pub(super) fn print(planes: &[ControlPlane; 3], assets: &Assets, output: &mut Output) -> anyhow::Result<()> {
    let [hub, _, us] = planes;
    output.note("the clusters:");
    for plane in planes {
        output.note(format_args!("  {:<4} {}", plane.name(), plane.admin_path().display()));
    }
    let processes: Vec<String> = us.processes().iter().map(ToString::to_string).collect();
    let processes = processes.join(" ");
    let kubectl = assets.path(Binary::Kubectl)?;
    output.note(format_args!(
        "\nthree things to try in another terminal, with\n  alias k='{} --kubeconfig {}'\n",
        kubectl.display(),
        hub.admin_path().display()
    ));
    output.note(format_args!(
        "  kill -STOP {processes}\n      stops the region `us`; `kill -CONT {processes}` brings it back"
    ));
    output.note(format_args!(
        "  k patch shop {NAME} --type=merge -p '{{\"spec\":{{\"greeting\":\"welcome\"}}}}'\n      changes a value, which goes into every region"
    ));
    output.note(format_args!(
        "  k delete shop {NAME}\n      deletes the instance, and its objects in all clusters\n"
    ));
    output.note("the tree is drawn again below whenever it changes; Ctrl-C stops everything and cleans up");
    Ok(())
}
