//! Parses the output of `cargo test --no-fail-fast`: the tests that failed, and failures that are not retried, such as doctests
//! and binaries that crashed.
//!
//! libtest has no stable machine-readable format, so this parses its text. Output that is inconsistent is a fatal failure: a
//! parser error must never turn a failed run into a passed one.

/// The failures of one run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Transcript {
    /// Tests that can be run again.
    pub(super) failed: Vec<FailedTest>,
    /// Failures that are not retried, each with its reason.
    pub(super) fatal: Vec<String>,
}

/// A test that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailedTest {
    /// The test binary, as cargo prints its path.
    pub(super) binary: String,
    /// What selects the binary for cargo, such as `-p kross --test offline`.
    pub(super) target: String,
    /// The name of the test in the binary.
    pub(super) name: String,
    /// What the test printed.
    pub(super) output: String,
}

/// The output of one test binary, or of the doctests of one crate.
#[derive(Debug)]
struct Section<'t> {
    /// The path of the binary; none for doctests.
    binary: Option<&'t str>,
    lines: Vec<&'t str>,
    /// Between `failures:` and `test result:`, where captured output may contain lines like those of cargo.
    in_details: bool,
}

impl Transcript {
    /// Reads the output of a run that failed.
    pub(super) fn read(text: &str) -> Self {
        let text = without_colours(text);
        let mut transcript = Self::default();
        let mut section: Option<Section<'_>> = None;
        let mut failed_targets = 0;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(target) = quoted(line, "error: test failed, to rerun pass `") {
                failed_targets += 1;
                transcript.close(section.take(), target);
            } else if let Some(target) = quoted(line, "error: doctest failed, to rerun pass `") {
                failed_targets += 1;
                section = None;
                transcript.fatal.push(format!("doctests failed: `{target}`"));
            } else if is_list_of_targets(line) {
                let listed = lines.by_ref().take_while(|line| line.starts_with("    `")).count();
                transcript.expect(listed, failed_targets);
                return transcript;
            } else if let Some(binary) =
                header(line).filter(|_| !section.as_ref().is_some_and(|s| s.in_details))
            {
                section = Some(Section { binary, lines: Vec::new(), in_details: false });
            } else if let Some(section) = &mut section {
                section.push(line);
            }
        }
        transcript.fatal.push("`cargo test` failed without listing the targets that failed".to_owned());
        transcript
    }

    /// Takes the failed tests from the section of a target that failed.
    fn close(&mut self, section: Option<Section<'_>>, target: &str) {
        let failed = section.and_then(|section| section.failed(target));
        match failed {
            Some(failed) => self.failed.extend(failed),
            None => self.fatal.push(format!("`{target}` ended without a readable test result")),
        }
    }

    fn expect(&mut self, listed: usize, found: usize) {
        if listed != found || listed == 0 {
            self.fatal.push(format!("`cargo test` lists {listed} failed targets, its output shows {found}"));
        }
    }
}

impl<'t> Section<'t> {
    fn push(&mut self, line: &'t str) {
        if line == "failures:" {
            self.in_details = true;
        } else if line.starts_with("test result: ") {
            self.in_details = false;
        }
        self.lines.push(line);
    }

    /// The tests that failed, or nothing if the output is inconsistent.
    fn failed(&self, target: &str) -> Option<Vec<FailedTest>> {
        let binary = self.binary?;
        let end = self.lines.iter().rposition(|line| line.starts_with("test result: "))?;
        let (before, result) = (self.lines.get(..end)?, self.lines.get(end)?);
        let list = before.iter().rposition(|line| *line == "failures:")?;
        let names: Vec<&str> =
            before.get(list + 1..)?.iter().filter_map(|line| line.strip_prefix("    ")).collect();
        if names.is_empty() || failed_count(result)? != names.len() {
            return None;
        }
        let details = before.get(..list)?;
        let test = |name: &&str| FailedTest {
            binary: binary.to_owned(),
            target: target.to_owned(),
            name: (*name).to_owned(),
            output: output_of(name, &names, details),
        };
        Some(names.iter().map(test).collect())
    }
}

/// The output of one test. Only names of failed tests start a block, because a test may print a line that looks like one.
fn output_of(name: &str, names: &[&str], details: &[&str]) -> String {
    let heading = |line: &str| {
        let inner = line.strip_prefix("---- ")?.strip_suffix(" stdout ----")?;
        names.iter().copied().find(|name| *name == inner)
    };
    let block = details
        .iter()
        .skip_while(|line| heading(line) != Some(name))
        .skip(1)
        .take_while(|line| heading(line).is_none_or(|other| other == name));
    block.copied().collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// The binary in a header of cargo; `Some(None)` for doctests.
fn header(line: &str) -> Option<Option<&str>> {
    if line.starts_with("   Doc-tests ") {
        return Some(None);
    }
    let rest = line.strip_prefix("     Running ")?.strip_suffix(')')?;
    rest.rsplit_once(" (").map(|(_, binary)| Some(binary))
}

/// The number of failures in `test result: FAILED. 5 passed; 1 failed; …`.
fn failed_count(result: &str) -> Option<usize> {
    let counts = result.strip_prefix("test result: FAILED. ")?;
    let failed = counts.split("; ").find_map(|count| count.strip_suffix(" failed"))?;
    failed.parse().ok()
}

/// Whether a test binary ran one test, which passed.
pub(super) fn one_test_passed(output: &str) -> bool {
    without_colours(output).lines().any(|line| line.starts_with("test result: ok. 1 passed; 0 failed; "))
}

/// `error: 2 targets failed:`
fn is_list_of_targets(line: &str) -> bool {
    let count = line.strip_prefix("error: ").and_then(|rest| rest.strip_suffix(" failed:"));
    count.is_some_and(|count| count.ends_with(" target") || count.ends_with(" targets"))
}

fn quoted<'t>(line: &'t str, prefix: &str) -> Option<&'t str> {
    line.strip_prefix(prefix)?.strip_suffix('`')
}

/// Removes the escape sequences of `CARGO_TERM_COLOR=always`.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split("\u{1b}[");
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As cargo 1.95 prints it: one binary with two failures, one without.
    const TWO_FAILURES: &str = "\
   Compiling tiny v0.1.0 (/tiny)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 2.37s
     Running unittests src/lib.rs (target/debug/deps/tiny-b8411d1b6389d6df)

running 3 tests
test tests::passes ... ok
test tests::should - should panic ... FAILED
test tests::fails ... FAILED

failures:

---- tests::should stdout ----
note: test did not panic as expected at src/lib.rs:9:32
---- tests::fails stdout ----
said before

thread 'tests::fails' (23384) panicked at src/lib.rs:7:51:
always


failures:
    tests::fails
    tests::should

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.01s

error: test failed, to rerun pass `-p tiny --lib`
     Running tests/other.rs (target/debug/deps/other-3b779f3693fe35d0)

running 1 test
test other ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

error: 1 target failed:
    `-p tiny --lib`
";

    #[test]
    fn failed_tests_have_their_binary_target_and_output() {
        let transcript = Transcript::read(TWO_FAILURES);
        assert_eq!(transcript.fatal, Vec::<String>::new());
        let [fails, should] = transcript.failed.as_slice() else { panic!("{transcript:#?}") };
        assert_eq!((fails.name.as_str(), should.name.as_str()), ("tests::fails", "tests::should"));
        assert_eq!(fails.binary, "target/debug/deps/tiny-b8411d1b6389d6df");
        assert_eq!(fails.target, "-p tiny --lib");
        assert_eq!(
            fails.output,
            "said before\n\nthread 'tests::fails' (23384) panicked at src/lib.rs:7:51:\nalways"
        );
        assert_eq!(should.output, "note: test did not panic as expected at src/lib.rs:9:32");
    }

    #[test]
    fn colours_make_no_difference() {
        let coloured = TWO_FAILURES
            .replace("     Running", "\u{1b}[1m\u{1b}[92m     Running\u{1b}[0m")
            .replace("error: 1", "\u{1b}[1m\u{1b}[91merror\u{1b}[0m: 1")
            .replace("FAILED", "\u{1b}[31mFAILED\u{1b}[m");
        assert_eq!(Transcript::read(&coloured), Transcript::read(TWO_FAILURES));
    }

    #[test]
    fn output_that_was_not_captured_is_empty() {
        let text = TWO_FAILURES
            .replace("---- tests::fails stdout ----", "")
            .replace("---- tests::should stdout ----", "");
        let transcript = Transcript::read(&text);
        assert_eq!(transcript.failed.len(), 2);
        assert!(transcript.failed.iter().all(|test| test.output.is_empty()), "{transcript:#?}");
    }

    #[test]
    fn a_test_may_print_what_looks_like_output_of_cargo() {
        let text = TWO_FAILURES.replace(
            "said before\n",
            "     Running tests/inner.rs (/tmp/inner)\n---- inner stdout ----\nfailures:\n    inner\n",
        );
        let transcript = Transcript::read(&text);
        assert_eq!(transcript.fatal, Vec::<String>::new());
        assert!(transcript.failed.iter().all(|test| test.binary.contains("tiny-")), "{transcript:#?}");
        assert!(transcript.failed[0].output.contains("---- inner stdout ----"), "{transcript:#?}");
    }

    #[test]
    fn a_binary_that_crashes_is_fatal() {
        let text = "     Running tests/crash.rs (target/debug/deps/crash-1)\n\nrunning 2 tests\n\
            error: test failed, to rerun pass `-p tiny --test crash`\n\nCaused by:\n  process didn't exit successfully: \
            `target/debug/deps/crash-1` (signal: 6, SIGABRT: process abort signal)\n\
            error: 1 target failed:\n    `-p tiny --test crash`\n";
        let transcript = Transcript::read(text);
        assert_eq!(transcript.failed, []);
        assert_eq!(transcript.fatal, ["`-p tiny --test crash` ended without a readable test result"]);
    }

    #[test]
    fn a_doctest_that_fails_is_fatal() {
        let text = TWO_FAILURES
            .replace(
                "     Running unittests src/lib.rs (target/debug/deps/tiny-b8411d1b6389d6df)",
                "   Doc-tests tiny",
            )
            .replace(
                "error: test failed, to rerun pass `-p tiny --lib`",
                "error: doctest failed, to rerun pass `-p tiny --doc`",
            );
        let transcript = Transcript::read(&text);
        assert_eq!(
            (transcript.failed.len(), transcript.fatal.as_slice()),
            (0, &["doctests failed: `-p tiny --doc`".to_owned()][..])
        );
    }

    #[test]
    fn inconsistent_output_is_fatal() {
        for (what, text) in [
            ("a compile error", "error: could not compile `tiny` (lib) due to 1 previous error\n".to_owned()),
            ("a count that differs", TWO_FAILURES.replace("2 failed", "3 failed")),
            (
                "a target without a hint",
                TWO_FAILURES.replace("    `-p tiny --lib`", "    `-p tiny --lib`\n    `-p tiny --bins`"),
            ),
            ("no list of targets", TWO_FAILURES.replace("error: 1 target failed:", "")),
            (
                "no names",
                TWO_FAILURES
                    .replace("    tests::fails\n    tests::should\n", "")
                    .replace("2 failed", "0 failed"),
            ),
        ] {
            assert!(!Transcript::read(&text).fatal.is_empty(), "{what}");
        }
    }

    #[test]
    fn a_retry_passes_only_if_the_test_ran() {
        assert!(one_test_passed(
            "test a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n"
        ));
        assert!(!one_test_passed(
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured\n"
        ));
        assert!(!one_test_passed(
            "test a ... FAILED\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n"
        ));
    }
}
