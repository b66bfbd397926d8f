//! The results of all tests, for people and for machines: text, JSON and JUnit XML.

use std::fmt::Write;
use std::time::Duration;

use kross_diagnostics::render::{self, Format, neutral, neutral_line};
use kross_diagnostics::{Diagnostics, Sources};
use serde_json::{Value as Json, json};

use super::coverage::Coverage;
use super::run::TestResult;
use super::suite::Suite;

/// The results of a file.
#[derive(Debug)]
pub(super) struct FileResult {
    pub(super) suite: Suite,
    pub(super) tests: Vec<TestResult>,
}

impl FileResult {
    fn name(&self) -> String {
        self.suite.file.display().to_string()
    }

    /// Whether the fixture or a definition of it has mistakes, so that no test was run.
    pub(super) fn is_invalid(&self) -> bool {
        self.suite.diagnostics.has_errors()
    }

    fn sources(&self) -> &Sources {
        &self.suite.sources
    }
}

/// How many tests passed and failed, and how many files could not be run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) invalid: usize,
}

/// Counts the results.
pub(super) fn count(files: &[FileResult]) -> Count {
    let tests = || files.iter().flat_map(|file| &file.tests);
    let failed = tests().filter(|test| !test.failures.is_empty()).count();
    let invalid = files.iter().filter(|file| file.is_invalid()).count();
    Count { passed: tests().count() - failed, failed, invalid }
}

/// One line for each test; below those that failed, why.
pub(super) fn text(files: &[FileResult], coverage: Option<&Coverage>, format: Format) -> String {
    let mut text = String::new();
    for file in files {
        let name = file.name();
        if !file.suite.diagnostics.is_empty() {
            let _ = writeln!(text, "{}", format.render(&file.suite.diagnostics, file.sources()).trim_end());
        }
        for test in &file.tests {
            let word = if test.failures.is_empty() { "ok  " } else { "FAIL" };
            let _ = writeln!(text, "{word}  {}  {}", neutral_line(&name), neutral_line(&test.name));
            let mut step = "";
            for failure in &test.failures {
                if failure.step != step {
                    step = &failure.step;
                    let _ = writeln!(text, "\n      {}", neutral_line(step));
                }
                let mut one = Diagnostics::new();
                one.push(failure.diagnostic.clone());
                let _ = writeln!(text, "{}", format.render(&one, file.sources()).trim_end());
            }
            for path in &test.written {
                let _ = writeln!(text, "      wrote {}", path.display());
            }
        }
    }
    if let Some(coverage) = coverage {
        write_coverage(coverage, &mut text);
    }
    text
}

fn write_coverage(coverage: &Coverage, text: &mut String) {
    let _ = writeln!(text, "\ncoverage of branches");
    for (file, seen, all) in coverage.files() {
        let share = (100 * seen).checked_div(all).unwrap_or(100);
        let _ = writeln!(text, "{share:>4}%  {seen:>3} of {all:<3}  {file}");
    }
    for missing in coverage.missing() {
        let _ = writeln!(
            text,
            "      {}:{}:{}: {} ({})",
            missing.file, missing.line, missing.column, missing.what, missing.path
        );
    }
}

fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000.0).round() / 1_000.0
}

/// The results as one JSON object.
pub(super) fn json(files: &[FileResult], coverage: Option<&Coverage>) -> Json {
    let diagnostics = |diagnostics: &Diagnostics, sources: &Sources| {
        serde_json::from_str::<Json>(&render::json(diagnostics, sources)).unwrap_or_default()
    };
    let test = |file: &FileResult, test: &TestResult| {
        let failures = test.failures.iter().map(|failure| {
            let mut one = Diagnostics::new();
            one.push(failure.diagnostic.clone());
            let diagnostic = diagnostics(&one, file.sources());
            json!({"step": failure.step, "diagnostic": diagnostic.get(0).cloned().unwrap_or_default()})
        });
        json!({
            "name": test.name,
            "line": file.sources().position(test.span).line,
            "passed": test.failures.is_empty(),
            "seconds": seconds(test.duration),
            "failures": failures.collect::<Vec<_>>(),
        })
    };
    let listed = files.iter().map(|file| {
        json!({
            "file": file.name(),
            "diagnostics": diagnostics(&file.suite.diagnostics, file.sources()),
            "tests": file.tests.iter().map(|it| test(file, it)).collect::<Vec<_>>(),
        })
    });
    let Count { passed, failed, invalid } = count(files);
    let mut report = json!({
        "passed": passed,
        "failed": failed,
        "invalidFiles": invalid,
        "files": listed.collect::<Vec<_>>(),
    });
    if let (Some(coverage), Some(fields)) = (coverage, report.as_object_mut()) {
        let files = coverage.files().map(|(file, seen, all)| json!({"file": file, "seen": seen, "all": all}));
        let files: Vec<Json> = files.collect();
        fields.insert("coverage".to_owned(), json!({"files": files, "missing": coverage.missing()}));
    }
    report
}

/// The results as JUnit XML: a suite for each file.
pub(super) fn junit(files: &[FileResult]) -> String {
    let Count { passed, failed, invalid } = count(files);
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let total = passed + failed + invalid;
    let _ = writeln!(
        xml,
        "<testsuites name=\"kross test\" tests=\"{total}\" failures=\"{failed}\" errors=\"{invalid}\">"
    );
    for file in files {
        let name = escaped(&file.name());
        let failed = file.tests.iter().filter(|test| !test.failures.is_empty()).count();
        let invalid = usize::from(file.is_invalid());
        let count = file.tests.len() + invalid;
        let time: Duration = file.tests.iter().map(|test| test.duration).sum();
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{name}\" tests=\"{count}\" failures=\"{failed}\" errors=\"{invalid}\" time=\"{:.3}\">",
            seconds(time)
        );
        if file.is_invalid() {
            let why = Format::Plain.render(&file.suite.diagnostics, file.sources());
            let _ = writeln!(
                xml,
                "    <testcase name=\"the fixture is valid\" classname=\"{name}\" file=\"{name}\">"
            );
            let _ =
                writeln!(xml, "      <error message=\"the fixture is invalid\">{}</error>", escaped(&why));
            let _ = writeln!(xml, "    </testcase>");
        }
        for test in &file.tests {
            write_case(test, file, &name, &mut xml);
        }
        let _ = writeln!(xml, "  </testsuite>");
    }
    xml.push_str("</testsuites>");
    xml
}

fn write_case(test: &TestResult, file: &FileResult, name: &str, xml: &mut String) {
    let line = file.sources().position(test.span).line;
    let (title, time) = (escaped(&test.name), seconds(test.duration));
    let _ = write!(
        xml,
        "    <testcase name=\"{title}\" classname=\"{name}\" file=\"{name}\" line=\"{line}\" time=\"{time:.3}\""
    );
    if test.failures.is_empty() {
        let _ = writeln!(xml, "/>");
        return;
    }
    let _ = writeln!(xml, ">");
    for failure in &test.failures {
        let mut one = Diagnostics::new();
        one.push(failure.diagnostic.clone());
        let message = format!("{}: {}", failure.step, failure.diagnostic.message);
        let detail = Format::Plain.render(&one, file.sources());
        let _ = writeln!(
            xml,
            "      <failure message=\"{}\" type=\"{}\">{}</failure>",
            escaped(&neutral_line(&message)),
            failure.diagnostic.code,
            escaped(&detail)
        );
    }
    let _ = writeln!(xml, "    </testcase>");
}

/// The text with the characters that XML reserves escaped, and without those that it forbids.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in neutral(text).chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
