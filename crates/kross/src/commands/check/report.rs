//! The results of checks, by section, and how they are printed.

use std::fmt::Write;

use kross_diagnostics::render::Format;
use serde::Serialize;

use crate::hub::Tone;

/// Where the documentation is.
const DOCUMENTATION: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/");

/// Whether something is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Verdict {
    Ok,
    /// It works, and somebody should know.
    Warning,
    Failed,
    /// The caller may not find out.
    Unknown,
}

/// One check.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Check {
    section: &'static str,
    /// What was checked, as it should be.
    check: String,
    verdict: Verdict,
    /// What is not as it should be, and what to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    /// The page that helps.
    #[serde(skip_serializing_if = "String::is_empty")]
    documentation: String,
}

/// All checks, in order.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Report {
    checks: Vec<Check>,
}

impl Report {
    pub(super) fn ok(&mut self, section: &'static str, check: impl Into<String>) {
        self.add(section, check.into(), Verdict::Ok, String::new(), "");
    }

    pub(super) fn warn(
        &mut self,
        section: &'static str,
        check: &str,
        message: impl Into<String>,
        page: &str,
    ) {
        self.add(section, check.to_owned(), Verdict::Warning, message.into(), page);
    }

    pub(super) fn fail(
        &mut self,
        section: &'static str,
        check: &str,
        message: impl Into<String>,
        page: &str,
    ) {
        self.add(section, check.to_owned(), Verdict::Failed, message.into(), page);
    }

    pub(super) fn unknown(
        &mut self,
        section: &'static str,
        check: &str,
        message: impl Into<String>,
        page: &str,
    ) {
        self.add(section, check.to_owned(), Verdict::Unknown, message.into(), page);
    }

    fn add(&mut self, section: &'static str, check: String, verdict: Verdict, message: String, page: &str) {
        let documentation = if page.is_empty() { String::new() } else { format!("{DOCUMENTATION}{page}") };
        self.checks.push(Check { section, check, verdict, message, documentation });
    }

    pub(super) fn has_failed(&self) -> bool {
        self.checks.iter().any(|check| check.verdict == Verdict::Failed)
    }

    /// Whether nothing could be found out after the first section, which says that the hub answers.
    pub(super) fn knows_nothing(&self) -> bool {
        let first = self.checks.first().map(|check| check.section);
        let mut others = self.checks.iter().filter(|check| Some(check.section) != first).peekable();
        others.peek().is_some() && others.all(|check| check.verdict == Verdict::Unknown)
    }

    /// Draws all checks, or only those that are not right.
    pub(super) fn draw(&self, format: Format, all: bool) -> String {
        let (mut drawn, mut section) = (String::new(), "");
        let coloured = format == Format::Coloured;
        // Writing to a string cannot fail.
        for check in self.checks.iter().filter(|check| all || check.verdict != Verdict::Ok) {
            if all && check.section != section {
                let separator = if section.is_empty() { "" } else { "\n" };
                let _ = writeln!(drawn, "{separator}{}", check.section);
                section = check.section;
            }
            let (sign, tone) = sign(check.verdict);
            let _ = writeln!(drawn, "{} {}", tone.paint(sign, coloured), check.check);
            for line in check.message.lines() {
                let _ = writeln!(drawn, "    {line}");
            }
            if !check.documentation.is_empty() {
                let _ = writeln!(drawn, "    see {}", check.documentation);
            }
        }
        let count = |verdict| self.checks.iter().filter(|check| check.verdict == verdict).count();
        let (failed, warnings, unknown) =
            (count(Verdict::Failed), count(Verdict::Warning), count(Verdict::Unknown));
        let (sign, tone) = sign(match () {
            () if failed > 0 => Verdict::Failed,
            () if warnings > 0 => Verdict::Warning,
            () if unknown > 0 => Verdict::Unknown,
            () => Verdict::Ok,
        });
        let separator = if drawn.is_empty() { "" } else { "\n" };
        let _ = writeln!(
            drawn,
            "{separator}{} {} checks: {failed} failed, {warnings} with a warning, {unknown} not known",
            tone.paint(sign, coloured),
            self.checks.len()
        );
        drawn
    }
}

fn sign(verdict: Verdict) -> (&'static str, Tone) {
    match verdict {
        Verdict::Ok => ("√", Tone::Good),
        Verdict::Warning => ("!", Tone::Busy),
        Verdict::Failed => ("×", Tone::Bad),
        Verdict::Unknown => ("?", Tone::Faint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_has_only_what_is_not_right() {
        let mut report = Report::default();
        report.ok("hub", "the API server answers");
        report.fail("definitions", "all definitions are active", "`shop`: cycle", "operating.md#failures");
        assert!(report.has_failed() && !report.knows_nothing());
        let link = format!("{DOCUMENTATION}operating.md#failures");
        assert_eq!(
            report.draw(Format::Plain, false),
            format!(
                "× all definitions are active\n    `shop`: cycle\n    see {link}\n\n× 2 checks: 1 failed, 0 with a warning, 0 not known\n"
            )
        );
        assert!(
            report.draw(Format::Plain, true).starts_with("hub\n√ the API server answers\n\ndefinitions\n× ")
        );
    }

    #[test]
    fn what_is_not_known_is_not_right() {
        let mut report = Report::default();
        report.ok("hub", "the API server answers");
        report.unknown("definitions", "all definitions are active", "you may not list them", "operating.md");
        assert!(report.knows_nothing());
        assert!(
            report
                .draw(Format::Plain, false)
                .ends_with("? 2 checks: 0 failed, 0 with a warning, 1 not known\n")
        );
    }
}
