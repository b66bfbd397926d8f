//! Turns changes of the demo's instance into trees: one for each change, or only the last one for `--once`.

use std::time::Duration;

use anyhow::bail;
use kross_cluster::{Cache, Change};
use serde_json::Value as Json;

use super::super::tree::{Style, draw};
use crate::output::Output;

/// How long the graph may take to be ready on a slow machine.
const READY_TIMEOUT: Duration = Duration::from_secs(120);

/// Draws the tree on every change until the instance is ready. With `once`, prints only the last tree.
pub(super) async fn converge(instance: &Cache, once: bool, output: &mut Output) -> anyhow::Result<()> {
    let mut events = instance.subscribe();
    let mut last = String::new();
    let ready = async {
        while let Some(event) = events.recv().await {
            let Change::Applied { new, .. } = event.change else { continue };
            let now = serde_json::to_value(new.value())?;
            let tree = draw(&now, Style::of(output));
            if !once && tree != last {
                output.redraw();
                output.data(&tree)?;
            }
            last = tree;
            if is_ready(&now) {
                break;
            }
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(READY_TIMEOUT, ready).await {
        Ok(ended) => ended?,
        Err(_) => bail!("the graph is not ready after {}s:\n{last}", READY_TIMEOUT.as_secs()),
    }
    if once {
        output.data(last.trim_end())?;
    }
    Ok(())
}

/// Draws the tree on every change, below what is on the screen.
pub(super) async fn watch(instance: &Cache, create_again: &str, output: &mut Output) -> anyhow::Result<()> {
    let mut events = instance.subscribe();
    let mut last = String::new();
    while let Some(event) = events.recv().await {
        match event.change {
            Change::Applied { new, .. } => {
                let tree = draw(&serde_json::to_value(new.value())?, Style::of(output));
                // The first tree is on the screen already.
                if !last.is_empty() && tree != last {
                    output.data(&tree)?;
                }
                last = tree;
            }
            Change::Deleted { .. } => {
                output.note(format_args!(
                    "the instance and its objects in all clusters were deleted; create it again, or press Ctrl-C to end the demo:\n  {create_again}"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_ready(instance: &Json) -> bool {
    let conditions = instance.pointer("/status/conditions").and_then(Json::as_array);
    let ready = |condition: &Json| condition["type"] == "Ready" && condition["status"] == "True";
    conditions.is_some_and(|conditions| conditions.iter().any(ready))
}
