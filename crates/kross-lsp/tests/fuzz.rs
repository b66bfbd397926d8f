//! Random edits: nothing panics, and what is said of a text after any number of edits is what is said of that text alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use gen_lsp_types::{Position, Range};
use kross_lsp::{Settings, Workspace};

const FILES: [(&str, &str); 3] = [
    ("file:///web.yaml", include_str!("../../../examples/web-application.yaml")),
    ("file:///regions.yaml", include_str!("../../../examples/multi-region.yaml")),
    (
        "file:///instance.yaml",
        "apiVersion: platform.example.com/v1alpha1\nkind: WebApplication\nmetadata:\n  name: a\nspec:\n  name: a\n  ingress:\n    enabled: true\n---\napiVersion: kro.run/v1alpha1\nkind: MultiRegion\nmetadata: {name: b}\nspec: {regions: [eu], image: nginx}\n",
    ),
];

/// What people type, and what breaks YAML and expressions.
const PIECES: [&str; 32] = [
    "\n",
    "  ",
    "- ",
    ":",
    ": ",
    "${",
    "}",
    "schema.",
    ".",
    "\"",
    "'",
    "[",
    "]",
    "{",
    "|",
    ">",
    "#",
    "---\n",
    "\t",
    "é",
    "\u{1f680}",
    "\r\n",
    "id",
    "spec:",
    "forEach:\n",
    "&a ",
    "*a",
    "<<: ",
    "!!int ",
    "(",
    "\\",
    "\u{0}",
];

const SEED: &str = "KROSS_FUZZ_SEED";
const STEPS: usize = 250;

/// A position in a text; now and then one outside it.
fn position(random: &mut fastrand::Rng, text: &str) -> Position {
    let lines: Vec<&str> = text.split('\n').collect();
    let line = random.usize(..lines.len() + 1);
    let width = lines.get(line).map_or(0, |line| line.encode_utf16().count());
    let character = random.usize(..width + 2);
    Position { line: line.try_into().unwrap(), character: character.try_into().unwrap() }
}

fn ask_everything(workspace: &Workspace, uri: &str, at: Position, other: Position) {
    let range = Range { start: at.min(other), end: at.max(other) };
    for item in workspace.completion(uri, at) {
        assert!(!item.label.is_empty());
    }
    let _ = workspace.hover(uri, at);
    let _ = workspace.definition(uri, at);
    let _ = workspace.references(uri, at, true);
    let _ = workspace.prepare_rename(uri, at);
    let _ = workspace.rename(uri, at, "renamed");
    let _ = workspace.code_actions(uri, range);
    let _ = workspace.inlay_hints(uri, range);
    for symbol in workspace.document_symbols(uri) {
        assert!(!symbol.name.is_empty() && symbol.range.start <= symbol.range.end);
    }
    let _ = workspace.folding_ranges(uri);
    let _ = workspace.formatting(uri);
    let _ = workspace.semantic_tokens(uri);
}

#[test]
fn random_edits_neither_panic_nor_leave_stale_diagnostics() {
    let seed =
        std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("{SEED}={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut workspace = Workspace::new(Settings::default());
    for (uri, text) in FILES {
        workspace.set(uri, text);
    }
    for step in 0..STEPS {
        let (uri, original) = FILES[random.usize(..FILES.len())];
        let text = workspace.text(uri).unwrap().to_owned();
        let (at, other) = (position(&mut random, &text), position(&mut random, &text));
        // Most edits insert or delete little, as typing does; some replace a lot.
        let end = if random.u8(..10) == 0 {
            other
        } else {
            Position { character: at.character + random.u32(..3), ..at }
        };
        let range = Range { start: at.min(end), end: at.max(end) };
        workspace.edit(uri, range, PIECES[random.usize(..PIECES.len())]);
        if random.u8(..30) == 0 {
            workspace.set(uri, original);
        }
        ask_everything(&workspace, uri, at, other);
        if step % 10 == 0 {
            let mut fresh = Workspace::new(Settings::default());
            for (uri, _) in FILES {
                fresh.set(uri, workspace.text(uri).unwrap());
            }
            for (uri, _) in FILES {
                assert_eq!(
                    workspace.diagnostics(uri),
                    fresh.diagnostics(uri),
                    "stale diagnostics of {uri}: {SEED}={seed}"
                );
            }
        }
    }
}
