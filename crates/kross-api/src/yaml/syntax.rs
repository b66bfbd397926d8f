//! Converts errors of the YAML parser to diagnostics that say how to fix them.

use granit_parser::{ErrorKind, ScanError};
use kross_diagnostics::{Code, Diagnostic, SourceId, Span};

use super::node::Bytes;
use super::offset;

/// The help for `{{ … }}`, the syntax of Helm and of other languages for text.
pub(super) const NO_TEMPLATES: &str = "`{{ … }}` is not evaluated: write an expression such as `${schema.spec.name}`, or render the chart first";

/// What was parsed before the error.
pub(super) struct Before {
    /// The innermost open bracket.
    pub(super) bracket: Option<Bytes>,
    /// The end of the last parsed token.
    pub(super) end: u32,
}

/// Describes a parser error.
pub(super) fn describe(error: &ScanError, text: &str, source: SourceId, before: &Before) -> Diagnostic {
    let at = error.marker().byte_offset().unwrap_or(text.len()).min(text.len());
    let place = ErrorLocation { text, source, at: text.floor_char_boundary(at), before };
    let diagnostic = place.diagnostic(error.kind());
    match &before.bracket {
        _ if text.get(place.line()).is_some_and(|line| line.contains("{{")) => {
            Diagnostic { help: Vec::new(), ..diagnostic }.help(NO_TEMPLATES)
        }
        Some(bracket) if diagnostic.code == Code::UnclosedYaml => place.with_bracket(diagnostic, bracket),
        _ => diagnostic,
    }
}

struct ErrorLocation<'a> {
    text: &'a str,
    source: SourceId,
    at: usize,
    before: &'a Before,
}

impl ErrorLocation<'_> {
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
            | ErrorKind::InvalidFlowScalarIndent => self.at_character(Code::UnclosedYaml, "a list or mapping in brackets is not closed"),
            ErrorKind::MisplacedFlowCollectionEnd => {
                self.at_character(Code::InvalidYaml, "unmatched closing bracket").help("remove it, or quote the text")
            }
            ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
                self.at_character(Code::UnclosedYaml, format!("mismatched brackets: `{open}` is closed by `{close}`"))
            }
            ErrorKind::UnexpectedCharacter { character } => self.reserved(*character),
            ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => self
                .at_character(Code::InvalidYaml, "unexpected text after the closing quote")
                .help("quote the whole value; escape a quote as `\\\"` in double quotes, or as `''` in single quotes"),
            ErrorKind::UnknownQuotedScalarEscape => self.unknown_escape(),
            ErrorKind::InvalidQuotedScalarHexEscape
            | ErrorKind::InvalidLowSurrogateHexEscape
            | ErrorKind::InvalidLowSurrogate
            | ErrorKind::MissingLowSurrogate
            | ErrorKind::UnpairedLowSurrogate
            | ErrorKind::InvalidUnicodeEscape => self
                .at_character(Code::InvalidYaml, "invalid Unicode escape in this string")
                .help("use `\\u` with four hexadecimal digits, or write the character itself"),
            ErrorKind::ExpectedDocumentStart => self
                .at_character(Code::InvalidYaml, "unexpected text after the end of the document")
                .help("separate two documents with a `---` line"),
            ErrorKind::RecursionLimitExceeded => {
                self.at_character(Code::YamlTooDeep, "the values are nested too deeply").help("close the brackets where they belong")
            }
            ErrorKind::ExpectedBlockMappingKey
            | ErrorKind::ExpectedBlockSequenceEntry
            | ErrorKind::InvalidIndentation
            | ErrorKind::InvalidBlockScalarIndent
            | ErrorKind::SimpleKeyExpected
            | ErrorKind::InvalidSimpleKey
            | ErrorKind::BlockSequenceEntryNotAllowed
            | ErrorKind::MappingKeyNotAllowed => self.indentation(),
            other => self.at_character(Code::InvalidYaml, format!("invalid YAML: {other}")),
        }
    }

    /// Adds which bracket is open and how to close it.
    fn with_bracket(&self, diagnostic: Diagnostic, bracket: &Bytes) -> Diagnostic {
        let sign = self.text.get(bracket.start as usize..bracket.end as usize).unwrap_or("[");
        let closing = if sign == "{" { "}" } else { "]" };
        let help = format!("close the `{sign}` with `{closing}`, or quote the value if it is a string");
        let span = Span::new(self.source, bracket.start, bracket.end);
        let shown = diagnostic.primary.as_ref().is_some_and(|label| label.span == span);
        let diagnostic = diagnostic.help(help);
        if shown { diagnostic } else { diagnostic.also(span, format!("this `{sign}` is not closed")) }
    }

    fn unexpected_colon(&self) -> Diagnostic {
        let line = self.line();
        if self.before.bracket.as_ref().is_some_and(|bracket| (bracket.start as usize) < line.start) {
            return self.at_character(
                Code::UnclosedYaml,
                "unexpected key: a list or mapping before it is not closed",
            );
        }
        let before = self.text.get(line.start..self.at).unwrap_or_default();
        let diagnostic = self.at_character(Code::InvalidYaml, "`: ` is not allowed here");
        let Some(key) = before.find(": ") else {
            return diagnostic.help(
                "align the line with the other keys of its mapping, or quote the text above if it continues here",
            );
        };
        let start = line.start + key + 2;
        let value = self.text.get(start..line.end).unwrap_or_default();
        let spaces = value.len() - value.trim_start().len();
        let value = value.trim();
        let advice = "quote the value, because it contains `: `";
        if value.contains(" #") || value.starts_with(['\'', '"', '[', '{', '&', '*', '!', '|', '>']) {
            return diagnostic.help(advice);
        }
        let span = Span::new(self.source, offset(start + spaces), offset(start + spaces + value.len()));
        diagnostic.fix(advice, span, quoted(value))
    }

    fn tab(&self) -> Diagnostic {
        // The parser may already be past the tab.
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
            // A line below continues the value here, and the tab is in its indentation.
            (None, None) => self.indenting_tab(line.end).unwrap_or(self.at),
        };
        let is_tab = self.text.as_bytes().get(start) == Some(&b'\t');
        let span =
            if is_tab { Span::new(self.source, offset(start), offset(start + 1)) } else { self.character() };
        let line = ErrorLocation { at: start, ..*self }.line();
        let indents = self.text.get(line.start..start).is_some_and(|before| before.trim().is_empty());
        let message = if indents { "tab in indentation" } else { "tab where YAML requires spaces" };
        Diagnostic::new(Code::TabInYaml, message).at(span).help("use spaces")
    }

    /// The first tab in the indentation of a line with text, from a position on.
    fn indenting_tab(&self, from: usize) -> Option<usize> {
        let mut start = from;
        for line in self.text.get(from..)?.split_inclusive('\n') {
            let indentation = line.len() - line.trim_start_matches([' ', '\t']).len();
            if let Some(tab) = line.get(..indentation)?.find('\t').filter(|_| !line.trim().is_empty()) {
                return Some(start + tab);
            }
            start += line.len();
        }
        None
    }

    fn open_quote(&self) -> Diagnostic {
        let diagnostic = Diagnostic::new(Code::UnclosedYaml, "a quoted string is not closed");
        let unread = self.text.get(self.before.end as usize..).unwrap_or_default();
        let Some(opening) = unread.find(['"', '\'']) else { return diagnostic.at(self.character()) };
        let start = self.before.end + offset(opening);
        let quote = unread.get(opening..=opening).unwrap_or("'");
        let diagnostic = diagnostic.labelled(Span::new(self.source, start, start + 1), "starts here");
        let diagnostic = if self.character().start > start {
            diagnostic.also(self.character(), "parsing stopped here")
        } else {
            diagnostic
        };
        diagnostic.help(format!("close the string with `{quote}`"))
    }

    /// The parser reports the position of the opening quote; the invalid escape is somewhere after it.
    fn unknown_escape(&self) -> Diagnostic {
        let message = "unknown escape sequence";
        let string = self.text.get(self.at..).unwrap_or_default();
        let mut letters = string.char_indices();
        while let Some((at, letter)) = letters.next() {
            let Some((_, escaped)) = (letter == '\\').then(|| letters.next()).flatten() else { continue };
            if !"0abt\tnvfre \"/\\N_LPxuU\r\n".contains(escaped) {
                let start = self.at + at;
                let span = Span::new(self.source, offset(start), offset(start + 1 + escaped.len_utf8()));
                return Diagnostic::new(Code::InvalidYaml, message)
                    .at(span)
                    .fix("escape the backslash", span, format!("\\\\{escaped}"))
                    .help("or use single quotes, in which a backslash needs no escaping");
            }
        }
        self.at_character(Code::InvalidYaml, message).help("escape the backslash")
    }

    fn reserved(&self, character: char) -> Diagnostic {
        if character.is_control() {
            let message = format!("the character `{}` is not allowed in YAML", character.escape_unicode());
            // The parser reports the start of the text that contains the character.
            let found = self.text.get(self.at..).and_then(|rest| rest.find(character)).unwrap_or(0);
            let place = ErrorLocation { at: self.at + found, ..*self };
            return place
                .at_character(Code::InvalidYaml, message)
                .help("use an escape sequence in double quotes");
        }
        let line = self.line();
        let value = self.text.get(self.at..line.end).unwrap_or_default().trim_end();
        let diagnostic = self
            .at_character(Code::InvalidYaml, format!("an unquoted value cannot start with `{character}`"));
        if value.contains(" #") || value.contains(": ") {
            return diagnostic.help("quote the value");
        }
        let span = Span::new(self.source, offset(self.at), offset(self.at + value.len()));
        diagnostic.fix("quote the value", span, quoted(value))
    }

    fn indentation(&self) -> Diagnostic {
        self.at_character(Code::InvalidYaml, "this line does not match the structure of the lines before it")
            .help("indent all entries of a mapping or list equally, and write `: ` after each key")
    }

    fn at_character(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, message).at(self.character())
    }

    /// The span of the character at the error; at the end of the file, the end of the last line with text.
    fn character(&self) -> Span {
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

/// The text in the quotes that need the fewest escapes.
fn quoted(text: &str) -> String {
    if text.contains('\'') && !text.contains(['"', '\\']) {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}
