//! Formats diagnostics for the response of an admission webhook: causes, which kubectl lists one below the other, and warnings
//! that are short enough for the API server to pass them on.

use super::condition::{entry, squeezed};
use super::neutral::neutral_line;
use super::summary::counted;
use crate::{Diagnostic, Diagnostics, Severity};

/// The most causes. The last one counts the others.
const MAX_CAUSES: usize = 100;
/// The longest message of a cause, in bytes.
const MAX_CAUSE: usize = 2048;
/// The API server truncates warnings to this many characters once all of them together are too long.
const MAX_WARNING: usize = 256;
/// The longest warnings together, in bytes. The API server drops what exceeds 4096 characters, and other webhooks warn as well.
const MAX_WARNINGS: usize = 3072;

/// A reason why an object is rejected, with the fields of a `StatusCause` of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The code of the diagnostic; empty for a cause that counts others.
    pub reason: &'static str,
    /// The path of the value.
    pub field: String,
    /// `message (help) [code]`, as in a condition.
    pub message: String,
}

/// The errors among the diagnostics.
#[must_use]
pub fn causes(diagnostics: &Diagnostics) -> Vec<Cause> {
    let errors: Vec<&Diagnostic> =
        diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).collect();
    let shown = if errors.len() > MAX_CAUSES { MAX_CAUSES - 1 } else { errors.len() };
    let mut causes: Vec<Cause> = errors.iter().take(shown).map(|error| cause(error)).collect();
    if errors.len() > shown {
        let more = counted(errors.len() - shown, "more ", Severity::Error);
        let message = format!("{more}; `kross validate FILE` prints all");
        causes.push(Cause { reason: "", field: "spec".to_owned(), message });
    }
    causes
}

fn cause(error: &Diagnostic) -> Cause {
    let message = match entry(error, true) {
        message if message.len() <= MAX_CAUSE => message,
        _ => squeezed(&Diagnostic { path: None, ..error.clone() }, MAX_CAUSE),
    };
    let field =
        error.path.as_deref().map_or_else(|| "spec".to_owned(), |path| neutral_line(path).into_owned());
    Cause { reason: error.code.id(), field, message }
}

/// The warnings among the diagnostics, each as `path: message (help) [code]`, without what is too long for a warning.
#[must_use]
pub fn warnings(diagnostics: &Diagnostics) -> Vec<String> {
    let warnings = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Warning);
    // Every client marks a warning as one.
    let plain = |warning: &Diagnostic| Diagnostic { severity: Severity::Error, ..warning.clone() };
    warnings.map(|warning| squeezed(&plain(warning), MAX_WARNING)).collect()
}

/// Truncates warnings that are too long, and replaces those that are too many by their number.
#[must_use]
pub fn limit_warnings(warnings: Vec<String>) -> Vec<String> {
    let mut limited: Vec<String> = Vec::new();
    let (mut room, all) = (MAX_WARNINGS, warnings.len());
    for warning in warnings {
        let warning = truncated(&neutral_line(&warning));
        if warning.len() > room {
            let more = counted(all - limited.len(), "more ", Severity::Warning);
            limited.push(format!("{more}; `kross validate FILE` prints all"));
            break;
        }
        room -= warning.len();
        limited.push(warning);
    }
    limited
}

fn truncated(warning: &str) -> String {
    if warning.len() <= MAX_WARNING {
        return warning.to_owned();
    }
    let end = warning.floor_char_boundary(MAX_WARNING - '…'.len_utf8());
    format!("{}…", warning.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    fn many(count: usize, severity: Severity) -> Diagnostics {
        let mut diagnostics = Diagnostics::new();
        diagnostics.extend((0..count).map(|number| {
            Diagnostic {
                severity,
                ..Diagnostic::new(Code::UnknownKind, format!("mistake {number}"))
                    .path(format!("spec.resources[{number}]"))
                    .help("do better")
            }
        }));
        diagnostics
    }

    #[test]
    fn a_cause_has_the_path_the_message_the_help_and_the_code() {
        let causes = causes(&many(1, Severity::Error));
        let code = Code::UnknownKind.id();
        let message = format!("mistake 0 (do better) [{code}]");
        assert_eq!(causes, [Cause { reason: code, field: "spec.resources[0]".to_owned(), message }]);
    }

    #[test]
    fn too_many_causes_are_counted() {
        let causes = causes(&many(150, Severity::Error));
        assert_eq!(causes.len(), 100);
        assert_eq!(causes[99].message, "51 more errors; `kross validate FILE` prints all");
    }

    #[test]
    fn warnings_fit_into_what_the_api_server_passes_on() {
        assert!(warnings(&many(1, Severity::Error)).is_empty());
        let short = warnings(&many(1, Severity::Warning));
        assert_eq!(short, [format!("spec.resources[0]: mistake 0 (do better) [{}]", Code::UnknownKind)]);
        let limited = limit_warnings(vec!["ä".repeat(400); 20]);
        assert!(limited.iter().all(|warning| warning.len() <= 256), "{limited:?}");
        assert!(limited.iter().map(String::len).sum::<usize>() <= 4096);
        assert_eq!(limited.last().unwrap(), "8 more warnings; `kross validate FILE` prints all");
        let few = vec!["one".to_owned(), "two\nlines".to_owned()];
        assert_eq!(limit_warnings(few), ["one", "two lines"]);
    }
}
