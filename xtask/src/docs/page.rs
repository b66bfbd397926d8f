//! Turns a page as people read it in the repository into one of the site.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;

/// Where files that are not part of the site can be read.
const FILES: &str = "https://github.com/kross-run/kross/blob/main/";

/// The page with absolute links to files outside of the documentation, and with its drawings in place of links to them.
///
/// # Errors
/// A drawing cannot be read.
pub(super) fn for_site(text: &str, page: &Path, root: &Path) -> anyhow::Result<String> {
    let folder = page.parent().unwrap_or(root);
    let mut rewritten = String::with_capacity(text.len());
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        match drawing(line).filter(|_| !in_code) {
            Some(path) => {
                let path = folder.join(path);
                let svg =
                    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                // A blank line would end the block of HTML.
                svg.lines().filter(|line| !line.trim().is_empty()).for_each(|line| {
                    rewritten.push_str(line);
                    rewritten.push('\n');
                });
            }
            None if in_code => {
                rewritten.push_str(line);
                rewritten.push('\n');
            }
            None => {
                rewritten.push_str(&with_absolute_links(line, folder, root));
                rewritten.push('\n');
            }
        }
    }
    Ok(rewritten)
}

/// The path of a drawing that is the whole line: `![Text](drawings/name.svg)`.
fn drawing(line: &str) -> Option<&str> {
    let (_, target) = line.strip_prefix("![")?.split_once("](")?;
    target.strip_suffix(')').filter(|target| target.ends_with(".svg"))
}

/// A line whose links to files outside of the documentation are absolute.
fn with_absolute_links(line: &str, folder: &Path, root: &Path) -> String {
    let mut parts = line.split("](");
    let mut rewritten = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        rewritten.push_str("](");
        match part.split_once(')') {
            Some((target, rest)) => {
                rewritten.push_str(&outside(target, folder, root).unwrap_or_else(|| target.to_owned()));
                rewritten.push(')');
                rewritten.push_str(rest);
            }
            None => rewritten.push_str(part),
        }
    }
    rewritten
}

/// The address of a file outside of the documentation. None for anything else.
fn outside(target: &str, folder: &Path, root: &Path) -> Option<String> {
    if target.contains("://") || target.starts_with(['#', '/']) {
        return None;
    }
    let (file, fragment) = target.split_once('#').map_or((target, None), |(file, it)| (file, Some(it)));
    let path = normalized(&folder.join(file));
    if path.starts_with(root.join("docs")) {
        return None;
    }
    let path = path.strip_prefix(root).ok()?.to_str()?;
    let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
    Some(format!("{FILES}{path}{fragment}"))
}

/// A path without `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normalized.pop()),
            Component::CurDir => {}
            other => normalized.push(other),
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> String {
        for_site(text, Path::new("/kross/docs/scenarios/one.md"), Path::new("/kross")).unwrap()
    }

    #[test]
    fn only_links_out_of_the_documentation_become_absolute() {
        for kept in ["[a](../targets.md#b) [c](two.md)", "[a](#b)", "[a](https://example.com/b)", "a](b"] {
            assert_eq!(rewritten(kept), format!("{kept}\n"));
        }
        assert_eq!(
            rewritten("see [values](../../charts/kross/values.yaml) and [a](../../SECURITY.md#b)."),
            format!("see [values]({FILES}charts/kross/values.yaml) and [a]({FILES}SECURITY.md#b).\n")
        );
        assert_eq!(rewritten("```\n[a](../../b)\n```"), "```\n[a](../../b)\n```\n");
    }

    #[test]
    fn a_drawing_becomes_part_of_the_page() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.svg"), "<svg>\n\n</svg>\n").unwrap();
        let page = for_site("![A](a.svg)\n", &folder.path().join("page.md"), folder.path()).unwrap();
        assert_eq!(page, "<svg>\n</svg>\n");
    }
}
