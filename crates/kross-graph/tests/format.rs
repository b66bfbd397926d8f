//! Formatting every definition of the repository: it is idempotent, keeps every comment, and the result compiles to the same
//! graph. Also with comments and blank lines in places where nobody writes them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use kross_api::yaml::{self, Document, Limits};
use kross_diagnostics::render::Format;
use kross_diagnostics::{Diagnostics, Sources};
use kross_graph::{Options, Resolvers, format_text, is_definition, validate};
use kross_schema::{Bundle, SchemaResolver};
use proptest::prelude::*;

struct Schemas(std::sync::Arc<Bundle>);

impl Resolvers for Schemas {
    fn local(&self) -> &dyn SchemaResolver {
        &*self.0
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && !entry.ends_with("target") {
            collect(&entry, extension, found);
        } else if entry.extension().is_some_and(|it| it == extension) {
            found.push(entry);
        }
    }
}

/// Every YAML file and every YAML block of a page, by name.
fn texts() -> Vec<(String, String)> {
    let (mut files, mut pages) = (Vec::new(), Vec::new());
    for folder in ["examples", "crates", "docs", "deploy"] {
        collect(&repository().join(folder), "yaml", &mut files);
        collect(&repository().join(folder), "md", &mut pages);
    }
    let mut texts = Vec::new();
    for file in files {
        texts.push((file.display().to_string(), fs::read_to_string(&file).unwrap()));
    }
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for (at, block) in text.split("```yaml\n").skip(1).enumerate() {
            let block = block.split("```").next().unwrap();
            texts.push((format!("{} block {at}", page.display()), block.to_owned()));
        }
    }
    texts
}

fn documents(text: &str) -> Option<Vec<Document>> {
    let mut found = Diagnostics::new();
    let documents = yaml::parse(&mut Sources::new(), "a.yaml", text, &Limits::default(), &mut found);
    (!found.has_errors()).then_some(documents)
}

/// What compiling the definitions of a text gives, without positions.
fn compiled(text: &str, schemas: &Schemas) -> Vec<String> {
    let mut shown = Vec::new();
    for document in documents(text).unwrap().iter().filter(|document| is_definition(document)) {
        let validation = validate(document, schemas, &Options::default());
        let mut messages: Vec<String> = validation
            .diagnostics
            .iter()
            .map(|found| format!("{} {:?} {}", found.code, found.path, found.message))
            .collect();
        messages.sort();
        shown.extend(messages);
        if let Some(graph) = validation.graph {
            shown.push(format!("{:?} {:?} {:?}", graph.instance, graph.order, graph.crd));
            shown.extend(graph.nodes.iter().map(|node| {
                format!(
                    "{} {:?} {:?} {} {}",
                    node.id, node.kind, node.dependencies, node.layer, node.apply_order
                )
            }));
        }
    }
    shown
}

fn formatted(name: &str, text: &str) -> String {
    match format_text(name, text) {
        Ok(formatted) => formatted,
        Err(error) => panic!("{}\n{text}", Format::Plain.render(&error.diagnostics, &error.sources)),
    }
}

#[test]
fn every_definition_of_the_repository_means_the_same_after_formatting() {
    let schemas = Schemas(Bundle::latest());
    let mut definitions = 0;
    for (name, text) in texts() {
        // Not formatted: directives, end markers, explicit keys.
        let is_unusual = text.starts_with('%') || text.contains("\n...\n") || text.contains("\n? ");
        if is_unusual || documents(&text).is_none() {
            continue;
        }
        let once = formatted(&name, &text);
        assert_eq!(formatted(&name, &once), once, "{name}");
        let before = compiled(&text, &schemas);
        if before.iter().any(|message| message.contains("is a subtraction in CEL")) {
            // The message is about how it is written.
            continue;
        }
        definitions += usize::from(!before.is_empty());
        assert_eq!(compiled(&once, &schemas), before, "{name}");
    }
    assert!(definitions > 60, "only {definitions} texts have definitions");
}

#[test]
fn the_examples_are_formatted() {
    let mut files = Vec::new();
    collect(&repository().join("examples"), "yaml", &mut files);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        similar_text(&formatted(&file.display().to_string(), &text), &text, &file);
    }
}

#[track_caller]
fn similar_text(formatted: &str, written: &str, file: &Path) {
    for (number, (formatted, written)) in formatted.lines().zip(written.lines()).enumerate() {
        assert_eq!(formatted, written, "{}:{}", file.display(), number + 1);
    }
    assert_eq!(formatted, written, "{}", file.display());
}

/// The definitions of the examples: the shapes of kro's own examples are among them.
static DEFINITIONS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut files = Vec::new();
    collect(&repository().join("examples"), "yaml", &mut files);
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/definitions"), "yaml", &mut files);
    files.sort();
    files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .filter(|text| documents(text).is_some())
        .collect()
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn comments_anywhere_are_kept_and_change_nothing(
        which in any::<prop::sample::Index>(),
        inserted in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..9, 0_u8..4), 1..8),
    ) {
        let mut lines: Vec<String> = which.get(&DEFINITIONS).lines().map(str::to_owned).collect();
        let mut expected = Vec::new();
        for (number, (at, indent, kind)) in inserted.into_iter().enumerate() {
            let at = at.index(lines.len());
            let line = lines[at].clone();
            match kind {
                0 => lines.insert(at, String::new()),
                1 if !line.is_empty() => lines[at] = format!("{line}   # added {number}."),
                2 => lines[at] = format!("{line}  "),
                _ => lines.insert(at, format!("{}# added {number}.", " ".repeat(indent))),
            }
            if kind == 3 || kind == 1 && !line.is_empty() {
                expected.push(format!("# added {number}."));
            }
        }
        let text = lines.join("\n") + "\n";
        // A comment in the middle of a block of text is text, and may end it.
        prop_assume!(documents(&text).is_some());
        let once = formatted("a.yaml", &text);
        prop_assert_eq!(&formatted("a.yaml", &once), &once);
        for comment in expected {
            prop_assert_eq!(once.matches(comment.as_str()).count(), 1, "{}\n{}", text, once);
        }
    }
}
