//! Finds the links of a site that lead nowhere within it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A page: the anchors that it has, and where its links lead.
#[derive(Debug, Default)]
struct Page {
    anchors: BTreeSet<String>,
    links: BTreeSet<String>,
}

/// The links that lead to a file or an anchor that the site does not have, one per line.
///
/// # Errors
/// The site cannot be read.
pub(super) fn broken_links(site: &Path) -> anyhow::Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    read(site, &mut pages)?;
    let mut broken = Vec::new();
    for (path, page) in &pages {
        // The page for printing has all others in it, and the one for what does not exist may be anywhere.
        if path.ends_with("print.html") || path.ends_with("404.html") {
            continue;
        }
        for link in &page.links {
            if !leads_somewhere(link, path, &pages) {
                broken.push(format!("{}: {link}", path.strip_prefix(site).unwrap_or(path).display()));
            }
        }
    }
    Ok(broken)
}

fn read(folder: &Path, pages: &mut BTreeMap<PathBuf, Page>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        if path.is_dir() {
            read(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let html =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            pages.insert(path, Page { anchors: values(&html, "id"), links: values(&html, "href") });
        }
    }
    Ok(())
}

/// The values of an attribute.
fn values(html: &str, attribute: &str) -> BTreeSet<String> {
    let start = format!(" {attribute}=\"");
    let found = html.split(start.as_str()).skip(1).filter_map(|rest| rest.split_once('"'));
    found.map(|(value, _)| value.to_owned()).collect()
}

fn leads_somewhere(link: &str, page: &Path, pages: &BTreeMap<PathBuf, Page>) -> bool {
    if link.contains("://") || link.starts_with("mailto:") || link.starts_with("javascript:") {
        return true;
    }
    let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
    let file = file.split('?').next().unwrap_or_default();
    let folder = page.parent().unwrap_or(page);
    let path = if file.is_empty() { page.to_owned() } else { folder.join(file) };
    let Ok(path) = path.canonicalize() else { return false };
    let known = pages.iter().find(|(known, _)| known.canonicalize().is_ok_and(|known| known == path));
    fragment.is_empty() || known.is_none_or(|(_, page)| page.anchors.contains(fragment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_and_anchors_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path();
        fs::write(site.join("a.html"), r##"<p id="x"><a href="b.html#y"><a href="#x"><a href="https://c">"##)
            .unwrap();
        fs::write(
            site.join("b.html"),
            r#"<p id="y"><a href="a.html#z"><a href="none.html"><a href="a.html?q">"#,
        )
        .unwrap();
        assert_eq!(broken_links(site).unwrap(), ["b.html: a.html#z", "b.html: none.html"]);
    }
}
