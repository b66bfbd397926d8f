//! Prints commands to try in a second terminal while the demo runs.

use kross_local::{Assets, Binary, ControlPlane};

use super::graph::{NAME, NAMESPACE, instance};
use crate::output::Output;

/// Prints the addresses of the dashboard and of the kubeconfigs, and what to try, as a first lesson: look, break, find out why, repair.
pub(super) fn print(
    planes: &[ControlPlane; 3],
    assets: &Assets,
    dashboard: &str,
    output: &mut Output,
) -> anyhow::Result<()> {
    let [hub, _, us] = planes;
    output.note(format_args!("dashboard, which shows what happens as it happens:\n  {dashboard}\n"));
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
        "\na first lesson, in another terminal; begin with\n  export KUBECONFIG={}\n  alias k='{}'\n  alias kross='{kross}'",
        hub.admin_path().display(),
        kubectl.display(),
    ));
    lesson(
        output,
        "look",
        &[
            ("kross get instances".to_owned(), "every instance, and whether it is ready"),
            (format!("kross tree shop/{NAME}"), "its objects in all clusters"),
            ("kross get clusters".to_owned(), "the remote clusters, their state and who uses them"),
        ],
    );
    lesson(
        output,
        "change something",
        &[(
            format!("k patch shop {NAME} --type=merge -p '{{\"spec\":{{\"greeting\":\"welcome\"}}}}'"),
            "changes a value, which kross applies in both remote clusters",
        )],
    );
    lesson(
        output,
        "lose a cluster, find out why, and get it back",
        &[
            (
                format!("kill -STOP {processes}"),
                "freezes cluster `us`: after a few seconds it is reported as not connected, and the others go on",
            ),
            (format!("kross why shop/{NAME}"), "what is the matter, and which command helps"),
            (format!("kross cluster affected {}-kubeconfig", us.name()), "what the outage touches"),
            ("kross check -o short".to_owned(), "everything that is wrong, with a page that helps"),
            (format!("kill -CONT {processes}"), "resumes cluster `us`; the instance recovers by itself"),
        ],
    );
    lesson(
        output,
        "delete, and create again",
        &[
            (format!("kross delete shop/{NAME} --explain"), "what its deletion would do, in which order"),
            (format!("k delete shop {NAME}"), "deletes the instance and its objects in all clusters"),
            (create_again(planes), "creates it again"),
        ],
    );
    output.note(format_args!(
        "\nthe instance is in namespace `{NAMESPACE}` of `hub`; the tree is printed again on every change; press Ctrl-C to stop the clusters and clean up"
    ));
    Ok(())
}

/// Prints some commands and what they show.
fn lesson(output: &mut Output, title: &str, commands: &[(String, &str)]) {
    output.note(format_args!("\n{title}:"));
    for (command, meaning) in commands {
        output.note(format_args!("  {command}\n      {meaning}"));
    }
}

/// The command that creates the instance.
pub(super) fn create_again(planes: &[ControlPlane; 3]) -> String {
    format!("echo '{}' | k apply -f -", instance(planes))
}
