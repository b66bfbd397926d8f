//! Builds the pages of `docs/` as a site with mdBook: links to other files of the repository lead to its web pages, and drawings
//! become part of the page, so that they follow its theme. Fails if a link within the site leads nowhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::process::run_command;
use crate::tool::Tool;

mod page;
mod site;

const MDBOOK: Tool = Tool { name: "mdbook", version: "0.5.4", features: "search" };

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Open the site in a browser
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mdbook = MDBOOK.installed()?;
    let root = repository();
    let (source, target) = (root.join("target/book-source"), root.join("target/book"));
    if source.exists() {
        fs::remove_dir_all(&source).with_context(|| format!("cannot remove {}", source.display()))?;
    }
    copy(&root.join("docs"), &source, &root)?;
    run_command(Command::new(mdbook).arg("build").arg(&source).arg("--dest-dir").arg(&target))?;
    let broken = site::broken_links(&target)?;
    if !broken.is_empty() {
        bail!("{} links lead nowhere:\n{}", broken.len(), broken.join("\n"));
    }
    let index = target.join("index.html");
    eprintln!("wrote {}", index.display());
    if arguments.open {
        run_command(Command::new("xdg-open").arg(index))?;
    }
    Ok(())
}

/// Copies a folder of the documentation, with its pages as the site needs them.
fn copy(from: &Path, to: &Path, root: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", from.display()))?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target, root)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let page = page::for_site(&text, &path, root)?;
            fs::write(&target, page).with_context(|| format!("cannot write {}", target.display()))?;
        } else {
            fs::copy(&path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

fn repository() -> PathBuf {
    let task = Path::new(env!("CARGO_MANIFEST_DIR"));
    task.parent().unwrap_or(task).to_owned()
}
