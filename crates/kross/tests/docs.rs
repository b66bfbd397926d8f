//! The documentation: every definition in it is valid, and every link within it leads to a file and a heading that exist.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages: those of `docs/`, and the other Markdown files that people read.
fn pages() -> Vec<PathBuf> {
    let root = repository();
    let mut pages: Vec<_> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md"]
        .map(|page| root.join(page))
        .into();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    assert!(pages.len() > 10, "{pages:?}");
    pages
}

/// The lines of a page with whether they are in a code block, and in which language.
fn lines(text: &str) -> Vec<(&str, Option<&str>)> {
    let mut language = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), language) {
            (Some(name), None) => language = Some(name.trim()),
            (Some(_), Some(_)) => language = None,
            (None, _) => lines.push((line, language)),
        }
        if line.trim_start().starts_with("```") {
            lines.push(("", None));
        }
    }
    lines
}

/// The YAML code blocks of a page that have whole definitions.
fn definitions(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for (line, language) in lines(text) {
        match language {
            Some("yaml") => {
                let block = blocks.last_mut().unwrap();
                block.push_str(line);
                block.push('\n');
            }
            _ => blocks.push(String::new()),
        }
    }
    blocks.retain(|block| block.contains("kind: ResourceGraphDefinition") && block.contains("\nmetadata:"));
    blocks
}

#[test]
fn every_definition_in_the_documentation_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for page in pages() {
        for definition in definitions(&std::fs::read_to_string(&page).unwrap()) {
            let name = format!("{}-{count}.yaml", page.file_stem().unwrap().to_str().unwrap());
            std::fs::write(folder.path().join(name), definition).unwrap();
            count += 1;
        }
    }
    assert!(count >= 6, "only {count} definitions were found");
    let output =
        Command::new(env!("CARGO_BIN_EXE_kross")).arg("validate").arg(folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("warning"), "{text}");
}

/// The anchors of the headings of a page, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings =
        lines(text).into_iter().filter(|(line, language)| language.is_none() && line.starts_with('#'));
    headings.map(|(line, _)| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let heading = heading.to_lowercase();
    let kept = heading.chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        other => other.is_alphanumeric().then_some(other),
    });
    kept.collect()
}

/// The targets of the links of a page.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (line, _) in lines(text).into_iter().filter(|(_, language)| language.is_none()) {
        for part in line.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push(target.to_owned());
            }
        }
    }
    found
}

fn broken(page: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    let place = format!("{} links to {target}", page.display());
    if !path.exists() {
        return Some(format!("{place}, which does not exist"));
    }
    let is_page = path.extension().is_some_and(|extension| extension == "md");
    if fragment.is_empty() || !is_page {
        return None;
    }
    let known = anchors(&std::fs::read_to_string(&path).unwrap());
    (!known.contains(fragment)).then(|| format!("{place}, but the page has no such heading"))
}

#[test]
fn every_link_within_the_documentation_leads_somewhere() {
    let mut problems = Vec::new();
    let mut count = 0;
    for page in pages() {
        for target in links(&std::fs::read_to_string(&page).unwrap()) {
            count += 1;
            problems.extend(broken(&page, &target));
        }
    }
    assert!(count > 50, "only {count} links were found");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
