//! Turns a definition into the tree of its instances, each with its state.

use std::fmt::Write;

use serde_json::{Value as Json, json};

use super::super::wrap::wrap;
use super::draw::Style;
use crate::hub::{Definition, InstanceView, Tone, failed_condition};

/// A definition and its instances, or why they cannot be listed.
#[derive(Debug)]
pub(super) struct DefinitionTree {
    pub(super) definition: Definition,
    pub(super) instances: Result<Vec<Json>, String>,
}

impl DefinitionTree {
    pub(super) fn is_ready(&self) -> bool {
        let are_ready =
            |instances: &Vec<Json>| instances.iter().all(|instance| InstanceView(instance).is_ready());
        self.definition.is_ready() && self.instances.as_ref().is_ok_and(are_ready)
    }

    /// What is shown, as JSON.
    pub(super) fn summary(&self) -> Json {
        let outline = |instance: &Json| {
            let view = InstanceView(instance);
            json!({"namespace": view.namespace(), "name": view.name(), "state": view.state(),
                "ready": view.is_ready(), "message": view.message()})
        };
        let instances = self.instances.as_ref().map(|all| all.iter().map(outline).collect::<Vec<_>>());
        json!({
            "kind": "ResourceGraphDefinition", "name": self.definition.name(), "state": self.definition.state(),
            "revision": self.definition.revision(), "serves": self.definition.served_kind().1,
            "conditions": self.definition.0.pointer("/status/conditions"),
            "instances": instances.ok(),
        })
    }

    /// Draws the tree.
    pub(super) fn draw(&self, style: Style) -> String {
        let Self { definition, instances } = self;
        let state = if definition.state().is_empty() { "not reconciled yet" } else { definition.state() };
        let tone = if definition.is_ready() { Tone::Good } else { Tone::Bad };
        let revision = definition.revision().map(|number| format!(", revision {number}")).unwrap_or_default();
        let mut drawn = format!(
            "ResourceGraphDefinition {}  {}{revision}, serves {}\n",
            definition.name(),
            tone.paint(state, style.coloured),
            definition.served_kind().1
        );
        // Writing to a string cannot fail.
        if let Some(message) = failed_condition(&definition.0).and_then(|failed| failed["message"].as_str()) {
            let width = style.width.map(|width| width.saturating_sub(2));
            for line in wrap(&style.sentence(message), width, 0).lines() {
                let _ = writeln!(drawn, "│ {}", tone.paint(line, style.coloured));
            }
        }
        match instances {
            Ok(instances) => draw_instances(instances, style, &mut drawn),
            Err(why) => {
                let _ = writeln!(drawn, "└─ {why}");
            }
        }
        drawn
    }
}

fn draw_instances(instances: &[Json], style: Style, drawn: &mut String) {
    if instances.is_empty() {
        let _ = writeln!(drawn, "└─ no instances");
    }
    let title = |view: InstanceView<'_>| match view.namespace() {
        Some(namespace) => format!("{namespace}/{}", view.name()),
        None => view.name().to_owned(),
    };
    let views = || instances.iter().map(InstanceView);
    let width = views().map(|view| title(view).chars().count()).max().unwrap_or(0);
    let states = views().map(|view| view.state().chars().count()).max().unwrap_or(0);
    let mut said = String::new();
    for (at, view) in views().enumerate() {
        let (fork, below) = if at + 1 == instances.len() { ("└─", "  ") } else { ("├─", "│ ") };
        let tone = if view.is_ready() { Tone::Good } else { Tone::Busy };
        let (title, state) = (title(view), view.state());
        let start = format!("{fork} {title:width$}  ");
        let line = format!("{start}{}", tone.paint(&format!("{state:states$}"), style.coloured));
        // Many instances may have the same trouble.
        let note = view.message().filter(|message| *message != said).unwrap_or_default();
        if !note.is_empty() {
            note.clone_into(&mut said);
        }
        let noted = style.noted(&line, start.chars().count() + states, note, &format!("{below}   "));
        let _ = writeln!(drawn, "{}", noted.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_shows_its_instances_and_a_shared_trouble_once() {
        let instance = |name: &str, ready: &str, message: &str| {
            json!({"kind": "Shop", "metadata": {"namespace": "team", "name": name}, "status": {"state": "ACTIVE",
                "conditions": [{"type": "Ready", "status": ready, "message": message}]}})
        };
        let definition = json!({"metadata": {"name": "shop"}, "spec": {"schema": {"kind": "Shop"}}, "status":
            {"state": "Active", "lastIssuedRevision": 2, "conditions": [{"type": "Ready", "status": "True"}]}});
        let trouble = "cluster `eu` is not connected";
        let mut tree = DefinitionTree {
            definition: Definition::new(definition),
            instances: Ok(vec![
                instance("a", "True", ""),
                instance("bb", "False", trouble),
                instance("c", "False", trouble),
            ]),
        };
        let style = Style { coloured: false, width: None, now: None };
        insta::assert_snapshot!(tree.draw(style));
        assert!(!tree.is_ready());
        tree.instances = Ok(Vec::new());
        assert!(tree.is_ready());
        assert!(tree.draw(style).ends_with("└─ no instances\n"));
    }
}
