//! Turns what happens to the demo's instance into trees: each change while it converges, the last one for `--once`.

use std::time::Duration;

use anyhow::bail;
use kross_cluster::{Cache, Change};
use kross_diagnostics::render::Format;
use serde_json::Value as Json;

use super::super::tree::draw;
use crate::output::Output;

/// How long the graph may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Draws the tree until the instance is ready. With `once` only the last tree is printed.
pub(super) async fn converge(instance: &Cache, once: bool, output: &mut Output) -> anyhow::Result<()> {
    let mut events = instance.subscribe();
    let mut last = String::new();
    let ready = async {
        while let Some(event) = events.recv().await {
            let Change::Applied { new, .. } = event.change else { continue };
            let now = serde_json::to_value(new.value())?;
            let tree = draw(&now, output.format() == Format::Coloured);
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
    match tokio::time::timeout(PATIENCE, ready).await {
        Ok(ended) => ended?,
        Err(_) => bail!("the graph is not ready after {}s:\n{last}", PATIENCE.as_secs()),
    }
    if once {
        output.data(last.trim_end())?;
    }
    Ok(())
}

/// Draws the tree whenever it changes, below what is on the screen.
pub(super) async fn follow(instance: &Cache, output: &mut Output) -> anyhow::Result<()> {
    let mut events = instance.subscribe();
    let mut last = String::new();
    while let Some(event) = events.recv().await {
        match event.change {
            Change::Applied { new, .. } => {
                let tree = draw(&serde_json::to_value(new.value())?, output.format() == Format::Coloured);
                // The first one is on the screen already.
                if !last.is_empty() && tree != last {
                    output.data(&tree)?;
                }
                last = tree;
            }
            Change::Deleted { .. } => {
                output.note(
                    "the instance is gone, and its objects in all clusters with it; Ctrl-C ends the demo",
                );
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
