//! Writes the files that are generated from the code, or checks that they are up to date.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kross_diagnostics::Code;

use crate::{bundle, chart};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Write nothing, and fail if a file is out of date
    #[arg(long)]
    check: bool,
    /// Also write the schemas of built-in kinds, which starts API servers
    #[arg(long, conflicts_with = "check")]
    bundles: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = repository();
    if arguments.bundles {
        bundle::write(&root)?;
    } else {
        bundle::check(&root)?;
    }
    let mut files = kross_api::generated_files();
    files.extend(chart::files(&root)?);
    files.push(("docs/api.md".to_owned(), kross_api::api_markdown()));
    files.push(("docs/flags.md".to_owned(), kross::flags_markdown()));
    files.push(("docs/cel.md".to_owned(), kross_cel::library::reference_markdown()));
    files.push(("docs/cli.md".to_owned(), kross::reference_markdown()));
    files.push(("docs/diagnostics.md".to_owned(), diagnostics_page()));
    files.push(("docs/errors.md".to_owned(), kross_api::failures_markdown()));
    files.push(("docs/events.md".to_owned(), kross_api::events_markdown()));
    files.push(("docs/metrics.md".to_owned(), kross_controller::metrics_reference()));
    let mut stale = outdated(&root, &files, arguments.check)?;
    let obsolete = obsolete_files(&root, &files)?;
    if !arguments.check {
        for path in &obsolete {
            fs::remove_file(root.join(path)).with_context(|| format!("cannot remove {path}"))?;
        }
    }
    stale.extend(obsolete);
    // Helm reads the files of the chart that were generated above.
    stale.extend(outdated(&root, &[chart::manifest(&root)?], arguments.check)?);
    if arguments.check && !stale.is_empty() {
        bail!("out of date: {}; run `cargo xtask generate` and commit the result", stale.join(", "));
    }
    for path in stale {
        eprintln!("generated {path}");
    }
    Ok(())
}

/// Fails if a file is out of date.
pub(crate) fn check() -> anyhow::Result<()> {
    run(&Arguments { check: true, bundles: false })
}

/// The files whose contents on disk differ. Writes them, unless they are only checked.
fn outdated(root: &Path, files: &[(String, String)], check: bool) -> anyhow::Result<Vec<String>> {
    let mut outdated = Vec::new();
    for (path, contents) in files {
        if fs::read_to_string(root.join(path)).ok().as_deref() == Some(contents) {
            continue;
        }
        if !check {
            write(&root.join(path), contents)?;
        }
        outdated.push(path.clone());
    }
    Ok(outdated)
}

/// The page with every diagnostic code.
fn diagnostics_page() -> String {
    let mut page = "# Diagnostics\n\nEvery diagnostic that kross reports for a definition. `kross explain CODE` prints its explanation.\n".to_owned();
    for code in Code::ALL {
        // The title of an explanation becomes a second-level heading of the page.
        let explanation = code.explanation().trim_end().replacen("# ", &format!("## {code}: "), 1);
        page.push_str(&format!("\n{explanation}\n"));
    }
    page
}

fn repository() -> PathBuf {
    let task = Path::new(env!("CARGO_MANIFEST_DIR"));
    task.parent().unwrap_or(task).to_owned()
}

fn write(path: &Path, contents: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    fs::write(path, contents).with_context(|| format!("cannot write {}", path.display()))
}

/// Files in the folders of CRDs that are no longer generated.
fn obsolete_files(root: &Path, files: &[(String, String)]) -> anyhow::Result<Vec<String>> {
    let mut obsolete = Vec::new();
    for folder in ["crds", chart::CRDS] {
        if !root.join(folder).is_dir() {
            continue;
        }
        let entries = fs::read_dir(root.join(folder)).with_context(|| format!("cannot read {folder}"))?;
        for entry in entries {
            let name = entry.with_context(|| format!("cannot read {folder}"))?.file_name();
            let path = format!("{folder}/{}", name.to_string_lossy());
            if !files.iter().any(|(known, _)| *known == path) {
                obsolete.push(path);
            }
        }
    }
    obsolete.sort();
    Ok(obsolete)
}
