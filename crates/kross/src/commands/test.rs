//! Tests definitions against fixtures, without a cluster: what the controller does with an instance, step by step.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use clap::ValueEnum;
use kross_graph::Options;

use crate::input::{GivenSchemas, Input, SchemaArguments, UnknownKinds};
use crate::output::{Outcome, Output};
use coverage::Coverage;
use report::{Count, FileResult};
use suite::Suite;

mod check;
mod compare;
mod coverage;
mod expectation;
mod fields;
mod fixture;
mod objects;
mod report;
mod run;
mod situation;
mod snapshot;
mod suite;

const EXAMPLES: &str = "\
Examples:
  # Run the tests in all files of a folder whose names end with _test.yaml
  kross test definitions/

  # Run some tests again whenever a file changes
  kross test shop_test.yaml --run 'standby' --watch

  # Write snapshots that differ
  kross test --update definitions/

  # Report to a CI system, with the branches that no test takes
  kross test -o junit > report.xml
  kross test --coverage definitions/";

/// How often `--watch` looks for changed files.
const POLL: Duration = Duration::from_millis(300);

/// Arguments of `kross test`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Fixtures: files, or folders with files whose names end with `_test.yaml`
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,
    /// Run only tests whose names contain this text
    #[arg(long, value_name = "TEXT")]
    run: Option<String>,
    /// Write snapshots that do not exist or differ
    #[arg(long)]
    update: bool,
    /// Report which branches of includeWhen, forEach, readyWhen and conditions the tests take
    #[arg(long)]
    coverage: bool,
    /// Run the tests again whenever a file changes
    #[arg(long, conflicts_with = "output")]
    watch: bool,
    /// How many files to test at once (default: as many as there are processors)
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<usize>,
    #[command(flatten)]
    schemas: SchemaArguments,
    #[command(flatten)]
    unknown_kinds: UnknownKinds,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each test; below those that failed, why
    Text,
    /// One object with the results of all tests
    Json,
    /// JUnit XML
    Junit,
}

/// Runs the tests.
///
/// # Errors
/// A path cannot be read, or there is no fixture.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    if !arguments.watch {
        return run_once(arguments, output);
    }
    loop {
        let before = modified(&arguments.paths)?;
        output.redraw();
        if let Err(error) = run_once(arguments, output) {
            output.note(format_args!("error: {error:#}"));
        }
        output.note("waiting for changes; press Ctrl-C to stop");
        while modified(&arguments.paths)? == before {
            thread::sleep(POLL);
        }
    }
}

fn run_once(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let files = fixtures(&arguments.paths)?;
    if files.is_empty() {
        bail!("no fixture found: the names of fixtures end with `_test.yaml`");
    }
    let mut input = Input::default();
    let given = input.given_schemas(&arguments.schemas)?;
    if input.diagnostics.has_errors() {
        output.note(output.note_format().render(&input.diagnostics, &input.sources).trim_end());
        return Ok(Outcome::No);
    }
    let options = Options { unknown_kinds: arguments.unknown_kinds.report_as(), ..Options::default() };
    let results = run_all(&files, &given, &options, arguments)?;
    if results.iter().all(|file| file.tests.is_empty() && !file.is_invalid()) {
        bail!("no test has a name that contains `{}`", arguments.run.as_deref().unwrap_or_default());
    }
    let coverage = arguments.coverage.then(|| {
        let mut coverage = Coverage::default();
        results.iter().for_each(|file| coverage.add(&file.suite));
        coverage
    });
    match arguments.output {
        Format::Text => output.data(report::text(&results, coverage.as_ref(), output.format()).trim_end())?,
        Format::Json => {
            output.data(serde_json::to_string_pretty(&report::json(&results, coverage.as_ref()))?)?;
        }
        Format::Junit => output.data(report::junit(&results))?,
    }
    let Count { passed, failed, invalid } = report::count(&results);
    let mut summary = format!("{passed} passed, {failed} failed");
    if invalid > 0 {
        summary.push_str(&format!(", {invalid} files are invalid"));
    }
    output.note(summary);
    Ok(if failed + invalid == 0 { Outcome::Success } else { Outcome::No })
}

/// Runs the tests of all files, several at once. The results are in the order of the files.
fn run_all(
    files: &[PathBuf],
    given: &GivenSchemas,
    options: &Options,
    arguments: &Arguments,
) -> anyhow::Result<Vec<FileResult>> {
    let jobs = arguments.jobs.filter(|jobs| *jobs > 0);
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(at) else { return done };
            done.push((at, run_file(file, given, options, arguments)));
        }
    };
    let mut results: Vec<(usize, anyhow::Result<FileResult>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.min(files.len())).map(|_| scope.spawn(work)).collect();
        // A worker that panics has printed why; its files are missing below.
        workers.into_iter().filter_map(|worker| worker.join().ok()).flatten().collect()
    });
    if results.len() < files.len() {
        bail!("a test ended with a panic: this is a bug of kross");
    }
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn run_file(
    file: &Path,
    given: &GivenSchemas,
    options: &Options,
    arguments: &Arguments,
) -> anyhow::Result<FileResult> {
    let suite = Suite::load(file, given, options)?;
    let is_chosen = |name: &str| arguments.run.as_ref().is_none_or(|part| name.contains(part));
    let tests = match &suite.fixture {
        Some((document, fixture)) if !suite.diagnostics.has_errors() => fixture
            .tests
            .iter()
            .filter(|test| is_chosen(&test.name))
            .map(|test| run::run(test, &suite, document, arguments.update))
            .collect(),
        _ => Vec::new(),
    };
    Ok(FileResult { suite, tests })
}

/// The fixtures among the paths: files as they are, and in folders those with the name of a fixture.
fn fixtures(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if !metadata.is_dir() {
            found.push(path.clone());
            continue;
        }
        let mut below = Vec::new();
        walk(path, &mut |file| {
            if is_fixture(file) {
                below.push(file.strip_prefix("./").unwrap_or(file).to_owned());
            }
        })?;
        below.sort();
        found.extend(below);
    }
    Ok(found)
}

/// Whether a file has the name of a fixture.
pub(crate) fn is_fixture(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    stem.ends_with(suite::SUFFIX) && ["yaml", "yml"].contains(&extension)
}

/// Visits the files below a folder. Hidden folders are left out.
fn walk(folder: &Path, visit: &mut impl FnMut(&Path)) -> anyhow::Result<()> {
    let read = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(read)? {
        let entry = entry.with_context(read)?;
        let path = entry.path();
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if entry.file_type().with_context(read)?.is_dir() {
            if !is_hidden {
                walk(&path, visit)?;
            }
        } else {
            visit(&path);
        }
    }
    Ok(())
}

/// When the YAML files in the folders of the paths were last changed.
fn modified(paths: &[PathBuf]) -> anyhow::Result<BTreeMap<PathBuf, SystemTime>> {
    let mut times = BTreeMap::new();
    for path in paths {
        let folder = match path.is_dir() {
            true => path.as_path(),
            false => path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new(".")),
        };
        walk(folder, &mut |file| {
            let is_yaml = file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
            if let (true, Ok(time)) = (is_yaml, fs::metadata(file).and_then(|it| it.modified())) {
                times.insert(file.to_owned(), time);
            }
        })?;
    }
    Ok(times)
}
