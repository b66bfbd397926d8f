//! Takes the pictures of the dashboard for the documentation, with a real browser and real control planes. They are looked at
//! before they are committed.

use std::process::Command;

use kross_local::{Assets, KubernetesVersion, Progress};

use crate::process::run_command;

#[derive(clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> anyhow::Result<()> {
    Assets::resolve(KubernetesVersion::DEFAULT, &Progress::stderr())?;
    let test = "browser::pictures::every_page_has_its_pictures";
    let arguments = [
        "test",
        "--locked",
        "-p",
        "kross",
        "--test",
        "operate",
        "--",
        "--exact",
        test,
        "--ignored",
        "--nocapture",
    ];
    // Alone: the pictures show everything that is on the hub.
    run_command(Command::new("cargo").args(arguments))
}
