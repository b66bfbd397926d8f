//! Runs `cargo test`, and runs a test that failed once more, alone, after the others. A test that passes the second time is
//! flaky: it is listed with both outputs, and the run passes. A test that fails again fails the run.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

use super::tee::tee;
use super::transcript::{FailedTest, Transcript, one_test_passed};

/// With more failed tests than this, the run fails without retries.
pub(super) const MAX_RETRIES: usize = 5;

/// Where and how the tests run.
pub(super) struct Runner {
    /// The folder that cargo runs in; the paths that it prints are relative to it.
    pub(super) directory: PathBuf,
    /// Variables for the tests.
    pub(super) environment: Vec<(&'static str, String)>,
}

/// A test that was run again.
struct Retried {
    test: FailedTest,
    passed: bool,
    output: String,
}

impl Runner {
    /// Runs `cargo` with `arguments`, and whatever fails once more.
    ///
    /// # Errors
    /// A test failed twice, too many failed, or something failed that is not run again.
    pub(super) fn run(&self, arguments: &[String], terminal: &mut impl Write) -> anyhow::Result<()> {
        let mut cargo = Command::new(cargo());
        cargo.args(arguments);
        let (status, output) = tee(self.prepare(cargo, &self.directory), terminal)?;
        if status.success() {
            return Ok(());
        }
        let Transcript { failed, fatal } = Transcript::read(&output);
        if !fatal.is_empty() {
            bail!("{}", fatal.join("; "));
        }
        if failed.len() > MAX_RETRIES {
            let names: Vec<String> = failed.iter().map(label).collect();
            bail!(
                "{} tests failed, and at most {MAX_RETRIES} are run again:\n    {}",
                failed.len(),
                names.join("\n    ")
            );
        }
        let mut retried = Vec::new();
        for test in failed {
            writeln!(terminal, "\nrunning again, alone: {}", label(&test))?;
            retried.push(self.retry(test, terminal)?);
        }
        write!(terminal, "{}", flaky_tests(&retried))?;
        let again: Vec<String> =
            retried.iter().filter(|test| !test.passed).map(|test| label(&test.test)).collect();
        if !again.is_empty() {
            bail!("failed twice, the second time alone:\n    {}", again.join("\n    "));
        }
        Ok(())
    }

    /// Runs one test of a test binary, in the directory and environment that cargo would use.
    fn retry(&self, test: FailedTest, terminal: &mut impl Write) -> anyhow::Result<Retried> {
        let package = self.package_directory(&test.target)?;
        let mut command = Command::new(self.directory.join(&test.binary));
        // `--include-ignored`: an ignored test failed only because the first run included it.
        command.args(["--exact", &test.name, "--include-ignored", "--nocapture"]);
        command.env("CARGO", cargo()).env("CARGO_MANIFEST_DIR", &package);
        let (status, output) = tee(self.prepare(command, &package), terminal)?;
        Ok(Retried { test, passed: status.success() && one_test_passed(&output), output })
    }

    fn prepare(&self, mut command: Command, directory: &Path) -> Command {
        command.current_dir(directory);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The folder of the package that a target such as `-p kross --test offline` belongs to.
    fn package_directory(&self, target: &str) -> anyhow::Result<PathBuf> {
        let mut command = Command::new(cargo());
        command.args(["metadata", "--format-version=1", "--no-deps"]).current_dir(&self.directory);
        let output = command.output().context("cannot start `cargo metadata`")?;
        let metadata: Value =
            serde_json::from_slice(&output.stdout).context("`cargo metadata` printed no JSON")?;
        let packages = metadata
            .get("packages")
            .and_then(Value::as_array)
            .context("`cargo metadata` lists no packages")?;
        // Cargo names the package only in a workspace with more than one.
        let name = target.strip_prefix("-p ").and_then(|rest| rest.split(' ').next());
        let package = match (name, packages.as_slice()) {
            (None, [only]) => Some(only),
            (name, packages) => {
                packages.iter().find(|package| package.get("name").and_then(Value::as_str) == name)
            }
        };
        let manifest = package.and_then(|package| package.get("manifest_path")?.as_str());
        let manifest =
            manifest.with_context(|| format!("no package of the workspace has the target `{target}`"))?;
        Ok(Path::new(manifest).parent().unwrap_or(Path::new("/")).to_owned())
    }
}

/// The cargo that runs this program.
fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn label(test: &FailedTest) -> String {
    format!("{} ({})", test.name, test.target)
}

/// The tests that passed the second time, with both outputs; nothing where there is none.
fn flaky_tests(retried: &[Retried]) -> String {
    let flaky: Vec<&Retried> = retried.iter().filter(|retried| retried.passed).collect();
    if flaky.is_empty() {
        return String::new();
    }
    let mut text = "\nflaky:\n".to_owned();
    for Retried { test, output, .. } in &flaky {
        let first = if test.output.is_empty() { "(its output was not captured)" } else { &test.output };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n---- {}: first run, failed ----\n{first}\n", label(test));
        let _ = write!(text, "\n---- {}: second run, alone, passed ----\n{}\n", label(test), output.trim());
    }
    text.push_str("\nflaky:\n");
    for Retried { test, .. } in &flaky {
        let _ = writeln!(text, "    {}", label(test));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    const WORKSPACE: &str = "[workspace]\nresolver = \"3\"\nmembers = [\"tiny\", \"other\"]\n";
    const TINY: &str = "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

    /// The `flaky` tests create a file, and fail if it did not exist.
    const LIBRARY: &str = r#"
/// ```
/// panic!("the doctest fails");
/// ```
pub fn documented() {}

#[cfg(test)]
fn fails_once(file: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    assert_eq!(std::env::current_dir().unwrap(), path.parent().unwrap());
    assert_eq!(std::env::var("TINY").unwrap(), "yes");
    let run = if path.exists() { "second" } else { "first" };
    println!("the {run} run says this");
    std::fs::write(&path, "").unwrap();
    assert_eq!(run, "second");
}

#[test]
fn flaky() { fails_once("flaky") }
#[test]
#[ignore = "on purpose"]
fn flaky_and_ignored() { fails_once("ignored") }
#[test]
fn broken() { panic!("broken for good") }
#[test]
fn many_1() { panic!() }
#[test]
fn many_2() { panic!() }
#[test]
fn many_3() { panic!() }
#[test]
fn many_4() { panic!() }
#[test]
fn many_5() { panic!() }
#[test]
fn many_6() { panic!() }
#[test]
fn aborts() { std::process::abort() }
"#;

    /// A workspace whose crate `tiny` has tests that fail in different ways. It is built once.
    fn workspace() -> &'static Path {
        static WORKSPACE_FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
        let folder = WORKSPACE_FOLDER.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let write = |path: &str, text: &str| {
                let path = folder.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            };
            write("Cargo.toml", WORKSPACE);
            write("tiny/Cargo.toml", TINY);
            write("tiny/src/lib.rs", LIBRARY);
            write("other/Cargo.toml", &TINY.replace("tiny", "other"));
            write("other/src/lib.rs", "");
            folder
        });
        folder.path()
    }

    /// The verdict on some tests of the crate, and what was shown.
    fn run(arguments: &str) -> (Result<(), String>, String) {
        let directory = workspace().canonicalize().unwrap();
        let target = directory.join("target").display().to_string();
        let environment = [
            ("CARGO_TARGET_DIR", target.as_str()),
            ("TINY", "yes"),
            ("RUST_BACKTRACE", "0"),
            ("CARGO_TERM_COLOR", "always"),
        ];
        let runner = Runner {
            directory,
            environment: environment.map(|(name, value)| (name, value.to_owned())).into(),
        };
        let arguments: Vec<String> = format!("test --offline --no-fail-fast -p tiny {arguments}")
            .split(' ')
            .map(str::to_owned)
            .collect();
        let mut shown = Vec::new();
        let verdict = runner.run(&arguments, &mut shown).map_err(|error| format!("{error:#}"));
        (verdict, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn a_test_that_passes_the_second_time_is_flaky_and_the_run_passes() {
        let (verdict, shown) = run("--lib -- --exact flaky");
        assert_eq!(verdict, Ok(()), "{shown:?}");
        assert!(
            shown.contains("test flaky ... FAILED")
                && shown.contains("test result: FAILED. 0 passed; 1 failed"),
            "{shown:?}"
        );
        let (_, report) = shown.split_once("\nflaky:\n").unwrap();
        assert!(
            report.contains("---- flaky (-p tiny --lib): first run, failed ----\nthe first run says this\n"),
            "{shown:?}"
        );
        assert!(report.contains("---- flaky (-p tiny --lib): second run, alone, passed ----\n"), "{shown:?}");
        assert!(report.contains("the second run says this\n"), "{shown:?}");
        assert!(report.contains("test result: ok. 1 passed; 0 failed;"), "{shown:?}");
        assert!(report.ends_with("\nflaky:\n    flaky (-p tiny --lib)\n"), "{shown:?}");
    }

    #[test]
    fn a_test_that_is_ignored_by_default_is_run_again_as_well() {
        let (verdict, shown) = run("--lib -- --ignored --exact flaky_and_ignored");
        assert_eq!(verdict, Ok(()), "{shown:?}");
    }

    #[test]
    fn a_test_that_fails_twice_fails_the_run() {
        let (verdict, shown) = run("--lib -- --exact broken");
        assert_eq!(
            verdict,
            Err("failed twice, the second time alone:\n    broken (-p tiny --lib)".to_owned())
        );
        assert_eq!(shown.matches("broken for good").count(), 2, "{shown:?}");
        assert!(!shown.contains("flaky:"), "{shown:?}");
    }

    #[test]
    fn six_failures_fail_the_run_without_a_second_try() {
        let (verdict, shown) = run("--lib -- many");
        let problem = verdict.unwrap_err();
        assert!(
            problem.starts_with("6 tests failed, and at most 5 are run again:\n    many_1 (-p tiny --lib)\n"),
            "{problem}"
        );
        assert!(!shown.contains("running again"), "{shown:?}");
    }

    #[test]
    fn a_binary_that_crashes_and_a_doctest_that_fails_are_not_run_again() {
        let (verdict, shown) = run("--lib -- --exact aborts");
        assert_eq!(
            verdict,
            Err("`-p tiny --lib` ended without a readable test result".to_owned()),
            "{shown:?}"
        );
        let (verdict, shown) = run("--doc");
        assert_eq!(verdict, Err("doctests failed: `-p tiny --doc`".to_owned()), "{shown:?}");
    }

    #[test]
    fn a_run_without_failures_passes() {
        let (verdict, shown) = run("--lib -- --exact nothing");
        assert_eq!(verdict, Ok(()), "{shown:?}");
    }
}
