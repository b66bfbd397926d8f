//! Writes scalars: as the author wrote them where that is unambiguous, else with quotes or as a block.

use granit_parser::ScalarStyle;

use super::super::scalar::{self, Plain};
use kross_value::Value;

/// A string longer than this is not joined into one line.
const WIDTH: usize = 110;

/// A scalar with its text.
pub(super) struct Scalar<'s> {
    pub(super) style: ScalarStyle,
    /// Its content.
    pub(super) text: &'s str,
    /// How it is written; of a block, what is below its header.
    pub(super) raw: &'s str,
    /// Its content with formatted expressions, if that differs.
    pub(super) formatted: Option<&'s str>,
    /// Whether it has a tag or an anchor.
    pub(super) tagged: bool,
}

/// The formatted scalar.
pub(super) enum Written {
    /// On the line of its key; further lines are indented already.
    Line(String),
    /// A header on the line of its key, and lines below.
    Block { header: String, content: String },
}

impl Scalar<'_> {
    pub(super) fn write(&self, indent: usize, in_flow: bool) -> Written {
        let formatted = self.formatted.filter(|formatted| *formatted != self.text);
        match self.style {
            ScalarStyle::Literal => literal(formatted.unwrap_or(self.text), indent),
            ScalarStyle::Folded => folded(self.text, self.raw, indent),
            style => Written::Line(self.line(style, formatted, indent, in_flow)),
        }
    }

    fn line(&self, style: ScalarStyle, formatted: Option<&str>, indent: usize, in_flow: bool) -> String {
        let raw = self.raw.trim();
        if let Some(text) = formatted.filter(|text| !raw.contains('\n') || text.len() + indent <= WIDTH) {
            return quoted(text, style, in_flow);
        }
        if raw.contains('\n') {
            return reindented(raw, indent);
        }
        if style == ScalarStyle::Plain && !self.tagged {
            return plain(raw);
        }
        raw.to_owned()
    }
}

/// A plain scalar, or what it means if other parsers may read it differently.
fn plain(raw: &str) -> String {
    match scalar::plain(raw) {
        Plain::Word(value) | Plain::Value(Value::Bool(value)) => value.to_string(),
        Plain::Value(Value::String(_)) if is_ambiguous(raw) => format!("\"{raw}\""),
        _ => raw.to_owned(),
    }
}

/// Whether YAML 1.1 has another type for a string: a time, a date, a number in base 60, or one of its special words.
fn is_ambiguous(text: &str) -> bool {
    let digits =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let base_60 =
        whole.contains(':') && whole.split(':').all(digits) && (fraction.is_empty() || digits(fraction));
    let mut date = text.splitn(3, '-');
    let parts = (date.next(), date.next(), date.next());
    let is_date = match parts {
        (Some(year), Some(month), Some(rest)) => {
            let day = rest.get(..rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len()));
            year.len() == 4
                && digits(year)
                && (1..=2).contains(&month.len())
                && digits(month)
                && day.is_some_and(|day| (1..=2).contains(&day.len()))
                && rest
                    .get(day.map_or(0, str::len)..)
                    .is_some_and(|time| time.is_empty() || time.starts_with(['T', 't', ' ']))
        }
        _ => false,
    };
    base_60 || is_date || text == "="
}

/// A string on one line, in its style if that can hold it.
fn quoted(text: &str, style: ScalarStyle, in_flow: bool) -> String {
    let simple = !text.chars().any(char::is_control);
    match style {
        ScalarStyle::Plain if simple && stays_plain(text, in_flow) => text.to_owned(),
        ScalarStyle::SingleQuoted if simple => format!("'{}'", text.replace('\'', "''")),
        _ if simple && text.contains(['"', '\\']) => format!("'{}'", text.replace('\'', "''")),
        _ => double_quoted(text),
    }
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            other
                if other.is_control() || matches!(other, '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{85}') =>
            {
                out.push_str(&format!("\\U{:08X}", u32::from(other)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Whether a string needs no quotes.
fn stays_plain(text: &str, in_flow: bool) -> bool {
    let starts =
        text.starts_with(|letter: char| letter.is_whitespace() || "-?:,[]{}#&*!|>'\"%@`".contains(letter));
    !starts
        && text.trim() == text
        && !text.is_empty()
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.ends_with(':')
        && !(in_flow && text.contains([',', '[', ']', '{', '}', ':']))
        && matches!(scalar::plain(text), Plain::Value(Value::String(_)))
        && !is_ambiguous(text)
}

/// A scalar of several lines without a block: only the indentation of its lines changes.
fn reindented(raw: &str, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let mut out = String::new();
    for (at, line) in raw.lines().enumerate() {
        let content = if at == 0 { line } else { line.trim_start_matches([' ', '\t']) };
        // A backslash at the end of a line keeps the spaces before it; those at the end of a line mean nothing.
        let content = content.trim_end_matches([' ', '\t', '\r']);
        if at > 0 {
            out.push('\n');
            if !content.is_empty() {
                out.push_str(&pad);
            }
        }
        out.push_str(content);
    }
    out
}

fn literal(text: &str, indent: usize) -> Written {
    if text.trim().is_empty() || text.contains('\r') {
        return Written::Line(double_quoted(text));
    }
    let content = lines(text, indent);
    Written::Block { header: format!("|{}{}", indicator(text), chomping(text)), content }
}

fn lines(text: &str, indent: usize) -> String {
    let mut out = String::new();
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// The indentation must be written where the first line begins with a space.
fn indicator(text: &str) -> &'static str {
    let first = text.split('\n').find(|line| !line.trim().is_empty()).unwrap_or_default();
    let blank = text.split('\n').take_while(|line| line.trim().is_empty()).any(|line| !line.is_empty());
    if first.starts_with(' ') || blank { "2" } else { "" }
}

fn chomping(text: &str) -> &'static str {
    match text.strip_suffix('\n') {
        None => "-",
        Some(rest) if rest.ends_with('\n') => "+",
        Some(_) => "",
    }
}

/// A folded scalar keeps its line breaks, so that its lines stay as short as the author made them. `body` is from the
/// beginning of its first line with text.
fn folded(text: &str, body: &str, indent: usize) -> Written {
    if text.trim().is_empty() || body.contains('\r') {
        return Written::Line(double_quoted(text));
    }
    let spaces = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let is_text = |line: &&str| !line.trim().is_empty();
    let written = body.split('\n').find(is_text).map_or(0, spaces);
    let more = text.split('\n').find(is_text).map_or(0, spaces);
    let dedent = written.saturating_sub(more);
    let kept: Vec<&str> = body.split('\n').map(|line| line.get(dedent..).unwrap_or_default()).collect();
    let (leading, trailing) =
        (text.len() - text.trim_start_matches('\n').len(), text.len() - text.trim_end_matches('\n').len());
    let content =
        format!("{}{}{}", "\n".repeat(leading), kept.join("\n").trim_matches('\n'), "\n".repeat(trailing));
    Written::Block {
        header: format!(">{}{}", indicator(text), chomping(text)),
        content: lines(&content, indent),
    }
}
