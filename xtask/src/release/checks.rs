//! What has to hold before a release is made: nothing is uncommitted, and everything has one version.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use super::VERSION;

/// Fails unless the chart, the manifest and the tag have the version of the workspace. `cargo xtask generate` writes the manifest.
pub(super) fn versions_agree(root: &Path, tag: Option<&str>) -> anyhow::Result<()> {
    if let Some(tag) = tag
        && tag.strip_prefix('v') != Some(VERSION)
    {
        bail!(
            "the tag `{tag}` is not that of version {VERSION} in Cargo.toml: tag `v{VERSION}`, or change the version"
        );
    }
    for (path, lines) in [
        (
            "charts/kross/Chart.yaml",
            vec![format!("version: {VERSION}"), format!("appVersion: \"{VERSION}\"")],
        ),
        ("deploy/kross.yaml", vec![format!("          image: \"ghcr.io/kross-run/kross:{VERSION}\"")]),
    ] {
        let text = read(root, path)?;
        for line in lines {
            if !text.lines().any(|found| found == line) {
                bail!("{path} does not have the version {VERSION} of Cargo.toml: no line `{}`", line.trim());
            }
        }
    }
    Ok(())
}

/// Fails if there are changes that are not committed, or files that are not tracked.
pub(super) fn tree_is_clean(root: &Path) -> anyhow::Result<()> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["status", "--porcelain"])
        .output()
        .context("cannot run git")?;
    if !output.status.success() {
        bail!("cannot run `git status`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let changes = String::from_utf8_lossy(&output.stdout);
    match changes.lines().count() {
        0 => Ok(()),
        count => bail!(
            "{count} files are not committed, such as `{}`: commit them, or use `--allow-dirty` for a rehearsal",
            changes.lines().next().unwrap_or_default().trim()
        ),
    }
}

/// What the changelog says about this version.
pub(super) fn notes(root: &Path, allow_unreleased: bool) -> anyhow::Result<String> {
    let changelog = read(root, "CHANGELOG.md")?;
    extract(&changelog, VERSION, allow_unreleased)
}

fn extract(changelog: &str, version: &str, allow_unreleased: bool) -> anyhow::Result<String> {
    let released = |title: &str| title.split_whitespace().next() == Some(version);
    let unreleased = |title: &str| title.trim() == format!("Unreleased: {version}");
    let mut sections = changelog.split("\n## ").skip(1);
    let section = sections.find_map(|section| {
        let (title, text) = section.split_once('\n').unwrap_or((section, ""));
        (released(title) || unreleased(title)).then_some((title, text.trim()))
    });
    match section {
        None => bail!("CHANGELOG.md has no section `## {version}`"),
        Some((_, "")) => bail!("the section `## {version}` of CHANGELOG.md is empty"),
        Some((title, _)) if unreleased(title) && !allow_unreleased => bail!(
            "CHANGELOG.md calls {version} unreleased: change the title to `## {version} (DATE)`, or use `--allow-dirty` for a rehearsal"
        ),
        // The pages are next to the changelog in the repository, and nowhere near the notes.
        Some((_, text)) => {
            let pages = format!("]({}/blob/v{version}/docs/", env!("CARGO_PKG_REPOSITORY"));
            Ok(format!("# kross {version}\n\n{}\n", text.replace("](docs/", &pages)))
        }
    }
}

fn read(root: &Path, path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\nHead.\n\n## Unreleased: 0.3.0\n\n- New: [page](docs/page.md).\n\n## 0.2.0 (2026-01-02)\n\n- Old.\n\n## 0.1.0 (2026-01-01)\n";

    #[test]
    fn notes_are_the_section_of_the_version_with_links_that_lead_somewhere() {
        assert_eq!(extract(CHANGELOG, "0.2.0", false).unwrap(), "# kross 0.2.0\n\n- Old.\n");
        let rehearsal = extract(CHANGELOG, "0.3.0", true).unwrap();
        assert!(
            rehearsal.contains("](https://github.com/kross-run/kross/blob/v0.3.0/docs/page.md)"),
            "{rehearsal}"
        );
    }

    #[test]
    fn a_version_without_notes_is_refused() {
        for (version, error) in [
            (
                "0.3.0",
                "CHANGELOG.md calls 0.3.0 unreleased: change the title to `## 0.3.0 (DATE)`, or use `--allow-dirty` for a rehearsal",
            ),
            ("0.1.0", "the section `## 0.1.0` of CHANGELOG.md is empty"),
            ("0.1", "CHANGELOG.md has no section `## 0.1`"),
        ] {
            assert_eq!(extract(CHANGELOG, version, false).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn uncommitted_changes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let done = Command::new("git").current_dir(folder.path()).args(arguments).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        git(&["init", "--quiet"]);
        tree_is_clean(folder.path()).unwrap();
        fs::write(folder.path().join("new"), "").unwrap();
        let error = tree_is_clean(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("1 files are not committed, such as `?? new`"), "{error}");
        git(&["add", "new"]);
        git(&["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message=new"]);
        tree_is_clean(folder.path()).unwrap();
        fs::write(folder.path().join("new"), "changed").unwrap();
        tree_is_clean(folder.path()).unwrap_err();
    }

    #[test]
    fn a_tag_of_another_version_is_refused() {
        let root = super::super::repository();
        versions_agree(&root, None).unwrap();
        versions_agree(&root, Some(&format!("v{VERSION}"))).unwrap();
        for tag in ["v9.9.9", VERSION, "main"] {
            let error = versions_agree(&root, Some(tag)).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("the tag `{tag}` is not that of version {VERSION}")),
                "{error}"
            );
        }
    }
}
