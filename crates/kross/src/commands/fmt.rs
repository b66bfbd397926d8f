//! Formats definitions and other YAML files in place, or says which of them are not formatted.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kross_graph::format_text;
use similar::TextDiff;

use crate::input::files;
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # Format all YAML files in a folder
  kross fmt deploy/

  # Say which files are not formatted, and how they differ, as a check in CI
  kross fmt --check --diff deploy/

  # Format standard input
  kross fmt - < shop.yaml";

/// Arguments of `kross fmt`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// YAML files, folders, or `-` to format standard input to standard output
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Write nothing: list the files that are not formatted, and exit with 1 if there is one
    #[arg(long)]
    check: bool,
    /// Write nothing: show what would change
    #[arg(long)]
    diff: bool,
}

/// Formats every file.
///
/// # Errors
/// A path cannot be read or written.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let mut texts = Vec::new();
    for path in &arguments.paths {
        if path.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
            texts.push((None, text));
            continue;
        }
        // JSON is formatted by other tools; a JSON file that is named itself is a mistake.
        for file in files(path)?.into_iter().filter(|file| file == path || !is_json(file)) {
            if is_json(&file) {
                bail!("cannot format {}: JSON files are not formatted", file.display());
            }
            let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let text = String::from_utf8(bytes)
                .with_context(|| format!("cannot format {}: save it as UTF-8", file.display()))?;
            texts.push((Some(file), text));
        }
    }
    let mut tally = Tally::default();
    for (file, text) in &texts {
        format(arguments, file.as_deref(), text, &mut tally, output)?;
    }
    let Tally { failed, unformatted, changed, unchanged } = tally;
    if arguments.check || arguments.diff {
        if unformatted > 0 {
            output.note(format_args!(
                "{} not formatted; run `kross fmt`",
                count(unformatted, "file is", "files are")
            ));
        }
    } else if texts.iter().any(|(file, _)| file.is_some()) {
        output.note(format_args!("{} formatted, {unchanged} unchanged", count(changed, "file", "files")));
    }
    let is_no = failed > 0 || arguments.check && unformatted > 0;
    Ok(if is_no { Outcome::No } else { Outcome::Success })
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// What became of the files.
#[derive(Default)]
struct Tally {
    failed: usize,
    unformatted: usize,
    changed: usize,
    unchanged: usize,
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// Formats one text; `file` is none for standard input.
fn format(
    arguments: &Arguments,
    file: Option<&Path>,
    text: &str,
    tally: &mut Tally,
    output: &mut Output,
) -> anyhow::Result<()> {
    let name = file.map_or_else(|| "<stdin>".to_owned(), |file| file.display().to_string());
    let formatted = match format_text(&name, text) {
        Ok(formatted) => formatted,
        Err(error) => {
            let format = output.note_format();
            output.note(format.render(&error.diagnostics, &error.sources).trim_end());
            tally.failed += 1;
            return Ok(());
        }
    };
    let is_same = formatted == text;
    if arguments.check || arguments.diff {
        tally.unformatted += usize::from(!is_same);
        if arguments.diff && !is_same {
            let diff = TextDiff::from_lines(text, &formatted);
            let shown = diff.unified_diff().context_radius(3).header(&name, &name).to_string();
            output.data(shown.trim_end_matches('\n'))?;
        } else if !is_same {
            output.data(&name)?;
        }
        return Ok(());
    }
    let Some(file) = file else {
        output.data(formatted.strip_suffix('\n').unwrap_or(&formatted))?;
        return Ok(());
    };
    if is_same {
        tally.unchanged += 1;
        return Ok(());
    }
    write(file, &formatted).with_context(|| format!("cannot write {}", file.display()))?;
    tally.changed += 1;
    output.data(&name)?;
    Ok(())
}

/// Replaces the content of a file at once, so that an interrupted command leaves no half of it. A link stays a link, and the
/// permissions stay as they are.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let target = file.canonicalize()?;
    let folder = target.parent().context("the file has no folder")?;
    let name = target.file_name().context("the file has no name")?.to_string_lossy();
    let temporary = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let written = fs::File::create(&temporary).and_then(|mut created| {
        created.write_all(text.as_bytes())?;
        created.set_permissions(fs::metadata(&target)?.permissions())?;
        created.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&temporary, &target));
    if replaced.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    Ok(replaced?)
}
