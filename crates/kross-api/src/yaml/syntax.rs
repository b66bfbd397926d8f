//! Turns what the YAML reader refuses into a diagnostic that says what to type instead.

use granit_parser::{ErrorKind, ScanError};
use kross_diagnostics::{Code, Diagnostic, SourceId, Span};

use super::node::Bytes;
use super::offset;

/// What was read before the refusal.
pub(super) struct Before {
    /// The innermost bracket that is open.
    pub(super) bracket: Option<Bytes>,
    /// Where the last thing that was understood ends.
    pub(super) end: u32,
}

/// Describes a refusal.
pub(super) fn describe(error: &ScanError, text: &str, source: SourceId, before: &Before) -> Diagnostic {
    let at = error.marker().byte_offset().unwrap_or(text.len()).min(text.len());
    let place = Place { text, source, at: text.floor_char_boundary(at), before };
    let diagnostic = place.diagnostic(error.kind());
    match &before.bracket {
        Some(bracket) if diagnostic.code == Code::UnclosedYaml => place.with_bracket(diagnostic, bracket),
        _ => diagnostic,
    }
}

struct Place<'a> {
    text: &'a str,
    source: SourceId,
    at: usize,
    before: &'a Before,
}

impl Place<'_> {
    fn diagnostic(&self, kind: &ErrorKind) -> Diagnostic {
        match kind {
            ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => self.unexpected_colon(),
            ErrorKind::TabNotAllowed
            | ErrorKind::TabInBlockIndentation
            | ErrorKind::TabInIndentation
            | ErrorKind::TabAtBlockScalarStart
            | ErrorKind::TabInPlainScalar => self.tab(),
            ErrorKind::UnclosedQuotedScalar
            | ErrorKind::DocumentIndicatorInQuotedScalar
            | ErrorKind::InvalidQuotedScalarIndent => self.open_quote(),
            ErrorKind::UnclosedFlowCollection { .. }
            | ErrorKind::UnexpectedEofFlowMapping
            | ErrorKind::UnexpectedEofFlowSequence
            | ErrorKind::UnexpectedEofImplicitFlowMapping
            | ErrorKind::ExpectedFlowMappingSeparator
            | ErrorKind::ExpectedFlowSequenceSeparator
            | ErrorKind::InvalidFlowScalarIndent => self.at_sign(Code::UnclosedYaml, "a list or mapping in brackets is not closed"),
            ErrorKind::MisplacedFlowCollectionEnd => {
                self.at_sign(Code::InvalidYaml, "this bracket closes nothing").help("remove it, or put the text in quotes")
            }
            ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
                self.at_sign(Code::UnclosedYaml, format!("`{open}` cannot be closed by `{close}`"))
            }
            ErrorKind::UnexpectedCharacter { character } => self.reserved(*character),
            ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => self
                .at_sign(Code::InvalidYaml, "text follows the closing quote")
                .help("put the whole value in quotes; inside of double quotes write a quote as `\\\"`, inside of single ones as `''`"),
            ErrorKind::UnknownQuotedScalarEscape => self.unknown_escape(),
            ErrorKind::InvalidQuotedScalarHexEscape
            | ErrorKind::InvalidLowSurrogateHexEscape
            | ErrorKind::InvalidLowSurrogate
            | ErrorKind::MissingLowSurrogate
            | ErrorKind::UnpairedLowSurrogate
            | ErrorKind::InvalidUnicodeEscape => self
                .at_sign(Code::InvalidYaml, "an escape in this string stands for no character")
                .help("write `\\u` with four hexadecimal digits, or the character itself"),
            ErrorKind::ExpectedDocumentStart => self
                .at_sign(Code::InvalidYaml, "the document has ended before this text")
                .help("put `---` on a line of its own between two documents"),
            ErrorKind::RecursionLimitExceeded => {
                self.at_sign(Code::YamlTooDeep, "the values are nested too deep").help("close the brackets where they belong")
            }
            ErrorKind::ExpectedBlockMappingKey
            | ErrorKind::ExpectedBlockSequenceEntry
            | ErrorKind::InvalidIndentation
            | ErrorKind::InvalidBlockScalarIndent
            | ErrorKind::SimpleKeyExpected
            | ErrorKind::InvalidSimpleKey
            | ErrorKind::BlockSequenceEntryNotAllowed
            | ErrorKind::MappingKeyNotAllowed => self.indentation(),
            other => self.at_sign(Code::InvalidYaml, format!("this is not YAML: {other}")),
        }
    }

    /// Says which bracket is open, and how to close it.
    fn with_bracket(&self, diagnostic: Diagnostic, bracket: &Bytes) -> Diagnostic {
        let sign = self.text.get(bracket.start as usize..bracket.end as usize).unwrap_or("[");
        let closing = if sign == "{" { "}" } else { "]" };
        let help =
            format!("close the `{sign}` with `{closing}`, or put the text in quotes if it is no collection");
        let span = Span::new(self.source, bracket.start, bracket.end);
        let shown = diagnostic.primary.as_ref().is_some_and(|label| label.span == span);
        let diagnostic = diagnostic.help(help);
        if shown { diagnostic } else { diagnostic.also(span, format!("this `{sign}` is still open")) }
    }

    fn unexpected_colon(&self) -> Diagnostic {
        let line = self.line();
        if self.before.bracket.as_ref().is_some_and(|bracket| (bracket.start as usize) < line.start) {
            return self
                .at_sign(Code::UnclosedYaml, "a key cannot stand in a list or mapping that is not closed");
        }
        let before = self.text.get(line.start..self.at).unwrap_or_default();
        let diagnostic = self.at_sign(Code::InvalidYaml, "`: ` cannot stand here");
        let Some(key) = before.find(": ") else {
            return diagnostic.help(
                "indent the line as far as the other keys of its mapping, or put the text above in quotes if it goes on here",
            );
        };
        let start = line.start + key + 2;
        let value = self.text.get(start..line.end).unwrap_or_default();
        let blanks = value.len() - value.trim_start().len();
        let value = value.trim();
        let advice = "put the value in quotes, since `: ` is part of it";
        if value.contains(" #") || value.starts_with(['\'', '"', '[', '{', '&', '*', '!', '|', '>']) {
            return diagnostic.help(advice);
        }
        let span = Span::new(self.source, offset(start + blanks), offset(start + blanks + value.len()));
        diagnostic.fix(advice, span, quoted(value))
    }

    fn tab(&self) -> Diagnostic {
        // The reader may already be behind the tab.
        let line = self.line();
        let before = self.text.get(line.start..self.at).unwrap_or_default();
        let after = self.text.get(self.at..line.end).unwrap_or_default();
        let start = match (before.rfind('\t'), after.find('\t')) {
            (Some(found), _) if before.get(found..).is_some_and(|rest| rest.trim().is_empty()) => {
                line.start + found
            }
            (_, Some(found)) if after.get(..found).is_some_and(|rest| rest.trim().is_empty()) => {
                self.at + found
            }
            (Some(found), _) => line.start + found,
            (None, Some(found)) => self.at + found,
            (None, None) => self.at,
        };
        let is_tab = self.text.as_bytes().get(start) == Some(&b'\t');
        let span =
            if is_tab { Span::new(self.source, offset(start), offset(start + 1)) } else { self.sign() };
        Diagnostic::new(Code::TabInYaml, "a tab stands where YAML wants blanks")
            .at(span)
            .help("use blanks in its place")
    }

    fn open_quote(&self) -> Diagnostic {
        let diagnostic = Diagnostic::new(Code::UnclosedYaml, "a quoted string is not closed");
        let unread = self.text.get(self.before.end as usize..).unwrap_or_default();
        let Some(opening) = unread.find(['"', '\'']) else { return diagnostic.at(self.sign()) };
        let start = self.before.end + offset(opening);
        let quote = unread.get(opening..=opening).unwrap_or("'");
        let diagnostic = diagnostic.labelled(Span::new(self.source, start, start + 1), "begins here");
        let diagnostic = if self.sign().start > start {
            diagnostic.also(self.sign(), "reading stopped here")
        } else {
            diagnostic
        };
        diagnostic.help(format!("close the string with `{quote}`"))
    }

    /// The reader stops at the string's quote; the escape is somewhere behind it.
    fn unknown_escape(&self) -> Diagnostic {
        let message = "this escape is not known";
        let string = self.text.get(self.at..).unwrap_or_default();
        let mut letters = string.char_indices();
        while let Some((at, letter)) = letters.next() {
            let Some((_, escaped)) = (letter == '\\').then(|| letters.next()).flatten() else { continue };
            if !"0abt\tnvfre \"/\\N_LPxuU\r\n".contains(escaped) {
                let start = self.at + at;
                let span = Span::new(self.source, offset(start), offset(start + 1 + escaped.len_utf8()));
                return Diagnostic::new(Code::InvalidYaml, message)
                    .at(span)
                    .fix("write a backslash as two", span, format!("\\\\{escaped}"))
                    .help("or put the text in single quotes, where a backslash needs no escape");
            }
        }
        self.at_sign(Code::InvalidYaml, message).help("write a backslash as two")
    }

    fn reserved(&self, character: char) -> Diagnostic {
        if character.is_control() {
            let message = format!("the character `{}` is not allowed in YAML", character.escape_unicode());
            // The reader stops at the beginning of the text that it is in.
            let found = self.text.get(self.at..).and_then(|rest| rest.find(character)).unwrap_or(0);
            let place = Place { at: self.at + found, ..*self };
            return place.at_sign(Code::InvalidYaml, message).help("write it as an escape in double quotes");
        }
        let line = self.line();
        let value = self.text.get(self.at..line.end).unwrap_or_default().trim_end();
        let diagnostic = self
            .at_sign(Code::InvalidYaml, format!("a value cannot begin with `{character}` without quotes"));
        if value.contains(" #") || value.contains(": ") {
            return diagnostic.help("put the value in quotes");
        }
        let span = Span::new(self.source, offset(self.at), offset(self.at + value.len()));
        diagnostic.fix("put the value in quotes", span, quoted(value))
    }

    fn indentation(&self) -> Diagnostic {
        self.at_sign(Code::InvalidYaml, "this line does not fit the lines before it")
            .help("give all entries of a mapping or list the same indentation, and each key a `:` followed by a blank")
    }

    fn at_sign(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, message).at(self.sign())
    }

    /// The character at the place; the end of the last line with text if the place is the end of the file.
    fn sign(&self) -> Span {
        let length = self.text.get(self.at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        let at = if length == 0 { self.text.trim_end().len() } else { self.at };
        Span::new(self.source, offset(at), offset(at + length))
    }

    fn line(&self) -> std::ops::Range<usize> {
        let start = self.text.get(..self.at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let rest = self.text.get(self.at..).unwrap_or_default();
        start..self.at + rest.find(['\n', '\r']).unwrap_or(rest.len())
    }
}

/// The text in quotes that need the fewest escapes.
fn quoted(text: &str) -> String {
    if text.contains('\'') && !text.contains(['"', '\\']) {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}
