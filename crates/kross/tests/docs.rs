//! The documentation: every definition in it is valid, its commands that need no cluster run, every link within it leads to a file
//! and a heading that exist, and every page is in the summary.

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

#[test]
fn every_page_is_in_the_summary_once() {
    let docs = repository().join("docs");
    let summary = links(&std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap());
    for page in pages().iter().filter(|page| page.starts_with(&docs) && !page.ends_with("SUMMARY.md")) {
        let name = page.strip_prefix(&docs).unwrap().to_str().unwrap();
        assert_eq!(summary.iter().filter(|target| *target == name).count(), 1, "{name}");
    }
}

#[test]
fn every_yaml_block_is_yaml() {
    // Diagnostics show mistakes.
    for page in pages().iter().filter(|page| !page.ends_with("diagnostics.md")) {
        let text = std::fs::read_to_string(page).unwrap();
        let mut block = String::new();
        for (line, language) in lines(&text).into_iter().chain([("", None)]) {
            if language == Some("yaml") {
                block.push_str(&format!("{line}\n"));
                continue;
            }
            for document in std::mem::take(&mut block).split("\n---\n").filter(|text| !text.trim().is_empty())
            {
                let parsed: Result<serde_json::Value, _> = serde_saphyr::from_str(document);
                assert!(parsed.is_ok(), "{}: {parsed:?}\n{document}", page.display());
            }
        }
    }
}

/// The commands that need no cluster, without comments, if the files that they name exist.
fn offline_commands(text: &str) -> Vec<String> {
    const OFFLINE: [&str; 11] = [
        "validate",
        "test",
        "explain",
        "eval",
        "rbac",
        "crds",
        "completion",
        "version --client",
        "fmt --check",
        "graph",
        "generate",
    ];
    let shell = lines(text).into_iter().filter(|(_, language)| matches!(language, Some("sh" | "bash")));
    let commands = shell.map(|(line, _)| line.split("  #").next().unwrap_or_default().trim().to_owned());
    let is_offline = |line: &String| {
        let words = line.strip_prefix("kross ").unwrap_or_default();
        let names_files = |word: &&str| word.ends_with(".yaml") || word.ends_with(".json");
        OFFLINE.iter().any(|command| words.starts_with(command))
            && !words.contains(['|', '<', '>'])
            // A folder of the reader.
            && !words.ends_with('/')
            && words.split(' ').filter(names_files).all(|file| repository().join(file).exists())
    };
    commands.filter(is_offline).collect()
}

#[test]
fn the_commands_that_need_no_cluster_run() {
    let mut commands = BTreeSet::new();
    for page in pages() {
        commands.extend(offline_commands(&std::fs::read_to_string(&page).unwrap()));
    }
    assert!(commands.len() >= 8, "{commands:#?}");
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kross"), folder.path().join("kross")).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    for command in &commands {
        let output = Command::new("bash")
            .args(["-c", command])
            .current_dir(repository())
            .env("PATH", &path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// `kross check` names a page for each problem.
#[test]
fn every_page_that_check_names_exists() {
    let root = repository();
    let mut count = 0;
    for entry in std::fs::read_dir(root.join("crates/kross/src/commands/check")).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for text in source.split('"').skip(1).step_by(2) {
            let (page, heading) = text.split_once('#').map_or((text, None), |(page, it)| (page, Some(it)));
            if !page.ends_with(".md") || page.contains([' ', '{']) {
                continue;
            }
            let text = std::fs::read_to_string(root.join("docs").join(page)).unwrap_or_default();
            assert!(!text.is_empty(), "docs/{page} does not exist");
            assert!(heading.is_none_or(|heading| anchors(&text).contains(heading)), "{page}#{heading:?}");
            count += 1;
        }
    }
    assert!(count > 10, "only {count} pages were found");
}
