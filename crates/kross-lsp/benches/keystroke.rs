//! How long the answers after a keystroke take, in a definition of 100 resources: the diagnostics, completion and everything that an
//! editor shows between the text. `cargo bench -p kross-lsp`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    missing_docs
)]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use gen_lsp_types::{Position, Range};
use kross_lsp::{Settings, Workspace};

const URI: &str = "file:///large.yaml";
const RESOURCES: usize = 100;
const KEYSTROKES: usize = 30;

fn definition() -> String {
    let mut text = "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata:\n  name: large\nspec:\n  schema:\n    \
                    apiVersion: v1alpha1\n    kind: Large\n    spec:\n      name: string\n      replicas: integer | default=3\n  resources:\n"
        .to_owned();
    for index in 0..RESOURCES {
        let before = if index == 0 {
            "schema.spec.name".to_owned()
        } else {
            format!("web{}.metadata.name", index - 1)
        };
        let _ = write!(
            text,
            "  - id: web{index}\n    template:\n      apiVersion: apps/v1\n      kind: Deployment\n      metadata:\n        name: ${{schema.spec.name}}-{index}\n        \
             labels:\n          after: ${{{before}}}\n      spec:\n        replicas: ${{schema.spec.replicas}}\n        selector:\n          matchLabels:\n            app: ${{schema.spec.name}}\n        \
             template:\n          metadata:\n            labels:\n              app: ${{schema.spec.name}}\n          spec:\n            containers:\n            - name: app\n              image: nginx\n    \
             readyWhen:\n    - ${{web{index}.status.availableReplicas == web{index}.spec.replicas}}\n"
        );
    }
    text
}

/// The time of each call, and the slowest.
fn measured<T>(times: &mut Vec<Duration>, answer: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = answer();
    times.push(start.elapsed());
    result
}

fn main() {
    let text = definition();
    let mut workspace = Workspace::new(Settings::default());
    workspace.set(URI, text.as_str());
    let line = text.lines().position(|line| line.contains("replicas: ${schema.spec.replicas}")).unwrap();
    let column = text.lines().nth(line).unwrap().len() - "replicas}".len();
    let at = |line: usize, column: usize| Position {
        line: line.try_into().unwrap(),
        character: column.try_into().unwrap(),
    };
    let cursor = at(line, column);
    let whole = Range { start: at(0, 0), end: at(99_999, 0) };
    let names =
        ["edit", "diagnostics", "completion", "hover", "references", "hints", "tokens", "outline", "folding"];
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); names.len()];
    for round in 0..KEYSTROKES {
        let (range, with) = if round % 2 == 0 {
            (Range { start: cursor, end: cursor }, "x")
        } else {
            (Range { start: cursor, end: at(line, column + 1) }, "")
        };
        measured(&mut times[0], || workspace.edit(URI, range, with));
        measured(&mut times[1], || workspace.diagnostics(URI));
        measured(&mut times[2], || workspace.completion(URI, cursor));
        measured(&mut times[3], || workspace.hover(URI, at(line, column - 3)));
        measured(&mut times[4], || workspace.references(URI, at(line, column - 3), true));
        measured(&mut times[5], || workspace.inlay_hints(URI, whole));
        measured(&mut times[6], || workspace.semantic_tokens(URI));
        measured(&mut times[7], || workspace.document_symbols(URI));
        measured(&mut times[8], || workspace.folding_ranges(URI));
    }
    println!(
        "{RESOURCES} resources, {} lines, {KEYSTROKES} keystrokes: median and slowest",
        text.lines().count()
    );
    for (name, times) in names.iter().zip(&mut times) {
        times.sort();
        println!(
            "{name:>12} {:>8.2} ms {:>8.2} ms",
            milliseconds(times[KEYSTROKES / 2]),
            milliseconds(times[KEYSTROKES - 1])
        );
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
