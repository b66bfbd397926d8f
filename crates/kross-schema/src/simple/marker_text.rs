//! Parses the markers after the first `|` of a field: `key=value`, separated by spaces or `|`. Values with spaces must
//! be in quotes or brackets.

use std::ops::Range;

use kross_diagnostics::{Code, suggest};

use kross_diagnostics::{Path, Place, Problem};

macro_rules! markers {
    ($($name:ident = $word:literal,)*) => {
        /// The name of a marker.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum MarkerName { $($name,)* }

        pub(super) const WORDS: &[&str] = &[$($word,)*];

        impl MarkerName {
            pub(super) fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            fn find(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$name),)* _ => None }
            }
        }
    };
}

markers! {
    Required = "required",
    Default = "default",
    Description = "description",
    Minimum = "minimum",
    Maximum = "maximum",
    Validation = "validation",
    Enum = "enum",
    Immutable = "immutable",
    Pattern = "pattern",
    UniqueItems = "uniqueItems",
    MinLength = "minLength",
    MaxLength = "maxLength",
    MinItems = "minItems",
    MaxItems = "maxItems",
    ListType = "listType",
    ListMapKey = "listMapKey",
}

/// A marker: its name, its unquoted value, and the ranges of both in the field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Marker {
    pub(super) name: MarkerName,
    pub(super) value: String,
    pub(super) key_range: Range<usize>,
    pub(super) value_range: Range<usize>,
}

impl Marker {
    /// Whether it makes its field required.
    pub(super) fn is_required(&self) -> bool {
        self.name == MarkerName::Required && super::apply::parse_bool(&self.value) == Some(true)
    }

    /// The range in the field of a part of the value, if the value contains no escapes.
    pub(super) fn within(&self, part: Range<usize>) -> Option<Range<usize>> {
        let quotes = match self.value_range.len().checked_sub(self.value.len())? {
            0 => 0,
            2 => 1,
            _ => return None,
        };
        let start = self.value_range.start + quotes;
        Some(start + part.start..start + part.end)
    }

    /// Whether it may be repeated.
    fn repeats(&self) -> bool {
        matches!(self.name, MarkerName::Validation | MarkerName::ListMapKey)
    }
}

/// Parses markers; `offset` is the start of the text in its field.
pub(super) fn parse(text: &str, offset: usize, path: &Path, problems: &mut Vec<Problem>) -> Vec<Marker> {
    let mut scanner = Scanner { text, offset, path, problems, at: 0 };
    let mut markers: Vec<Marker> = Vec::new();
    if text.trim().is_empty() {
        let problem =
            Problem::new(Code::MarkerIncomplete, Place::value(path), "there is no marker after `|`");
        scanner
            .problems
            .push(problem.within(offset.saturating_sub(1)..offset).help("remove the `|`, or add a marker"));
        return markers;
    }
    while let Some(found) = scanner.next_marker() {
        let Ok(marker) = found else { continue };
        let repeated = markers.iter().any(|other| other.name == marker.name) && !marker.repeats();
        if repeated {
            let message = format!("duplicate marker `{}`; the last one is used", marker.name.as_str());
            let problem = Problem::new(Code::MarkerRepeated, Place::value(path), message);
            scanner.problems.push(problem.within(marker.key_range.clone()));
            markers.retain(|other| other.name != marker.name);
        }
        markers.push(marker);
    }
    markers
}

struct Scanner<'a> {
    text: &'a str,
    offset: usize,
    path: &'a Path,
    problems: &'a mut Vec<Problem>,
    at: usize,
}

/// A problem that has already been reported.
struct Reported;

impl Scanner<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn range(&self, start: usize, end: usize) -> Range<usize> {
        start + self.offset..end + self.offset
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn next_marker(&mut self) -> Option<Result<Marker, Reported>> {
        let separator = self.skip_separators();
        if self.rest().is_empty() {
            if let Some(at) = separator {
                let problem = Problem::new(
                    Code::MarkerIncomplete,
                    Place::value(self.path),
                    "there is no marker after `|`",
                );
                let problem = problem.within(self.range(at, at + 1)).help("remove the `|`");
                self.problems.push(problem);
            }
            return None;
        }
        Some(self.marker())
    }

    /// Skips spaces and `|`, and returns the position of the last `|`.
    fn skip_separators(&mut self) -> Option<usize> {
        let mut last = None;
        loop {
            self.skip_spaces();
            if !self.rest().starts_with('|') {
                return last;
            }
            last = Some(self.at);
            self.at += 1;
        }
    }

    fn marker(&mut self) -> Result<Marker, Reported> {
        let start = self.at;
        let length =
            self.rest().find(|letter: char| letter == '=' || letter == '|' || letter.is_whitespace());
        let end = start + length.unwrap_or_else(|| self.rest().len());
        let key_range = self.range(start, end);
        let key = self.text.get(start..end).unwrap_or("").to_owned();
        self.at = end;
        self.skip_spaces();
        if !self.rest().starts_with('=') {
            self.at = end;
            self.without_value(&key, key_range);
            return Err(Reported);
        }
        self.at += 1;
        let value_start = self.at;
        let complete = self.skip_value();
        let value_range = self.range(value_start, self.at);
        let raw = self.text.get(value_start..self.at).unwrap_or("").to_owned();
        let name = self.named(&key, &key_range);
        complete?;
        let name = name?;
        Ok(Marker { name, value: unquoted(&raw), key_range, value_range })
    }

    fn named(&mut self, key: &str, range: &Range<usize>) -> Result<MarkerName, Reported> {
        if key.is_empty() {
            let problem = Problem::new(Code::MarkerIncomplete, Place::value(self.path), "empty marker key");
            self.problems.push(problem.within(range.clone()).help("write the marker's name before `=`"));
            return Err(Reported);
        }
        MarkerName::find(key).ok_or_else(|| {
            let problem = Problem::new(
                Code::UnknownMarker,
                Place::value(self.path),
                format!("unknown marker: `{key}`"),
            )
            .within(range.clone());
            let meant = translated(key).or_else(|| suggest(key, WORDS.iter().copied()));
            self.problems.push(match meant {
                Some(_) => problem.did_you_mean(meant),
                None => problem.help(format!("the supported markers are {}", WORDS.join(", "))),
            });
            Reported
        })
    }

    fn without_value(&mut self, key: &str, range: Range<usize>) {
        let message = format!("marker key `{key}` without a value");
        let problem = Problem::new(Code::MarkerIncomplete, Place::value(self.path), message).within(range);
        self.problems.push(match MarkerName::find(key) {
            Some(MarkerName::Required | MarkerName::Immutable | MarkerName::UniqueItems) => {
                problem.help(format!("write `{key}=true`")).replace(format!("{key}=true"))
            }
            Some(_) => problem.help(format!("write `{key}=<value>`")),
            None => problem.help("quote a value that contains spaces"),
        });
    }

    /// Skips a value: up to a space or a separating `|` outside quotes and brackets.
    fn skip_value(&mut self) -> Result<(), Reported> {
        let start = self.at;
        let mut quote: Option<usize> = None;
        let mut brackets: Vec<usize> = Vec::new();
        let mut escaped = false;
        let mut stray = None;
        let mut end = self.text.len();
        for (index, letter) in self.rest().char_indices().map(|(index, letter)| (start + index, letter)) {
            if escaped {
                escaped = false;
                continue;
            }
            match letter {
                '\\' if quote.is_some() => escaped = true,
                '"' => quote = if quote.is_some() { None } else { Some(index) },
                _ if quote.is_some() => {}
                '{' | '[' => brackets.push(index),
                '}' | ']' => stray = if brackets.pop().is_some() { stray } else { Some(index) },
                '|' if brackets.is_empty() && self.separates(index) => {
                    end = index;
                    break;
                }
                _ if letter.is_whitespace() && brackets.is_empty() => {
                    end = index;
                    break;
                }
                _ => {}
            }
        }
        self.at = end;
        let (position, message) = match (quote, brackets.first(), stray) {
            (Some(position), _, _) => (position, "unclosed quote"),
            (None, Some(position), _) => (*position, "unclosed bracket/brace"),
            (None, None, Some(position)) => (position, "unmatched closing bracket/brace"),
            (None, None, None) => return Ok(()),
        };
        let problem = Problem::new(Code::MarkerUnclosed, Place::value(self.path), message);
        let problem = problem.within(self.range(position, position + 1));
        self.problems
            .push(problem.help("put the value in double quotes, and escape quotes inside it as `\\\"`"));
        Err(Reported)
    }

    /// Whether a `|` directly after a value ends it: it does if a marker follows, otherwise it is part of the value, for
    /// example of a regular expression.
    fn separates(&self, index: usize) -> bool {
        let rest = self.text.get(index + 1..).unwrap_or("").trim_start();
        rest.split_once('=').is_some_and(|(key, _)| MarkerName::find(key.trim_end()).is_some())
    }
}

/// The marker for a name that OpenAPI or other tools use.
fn translated(key: &str) -> Option<&'static str> {
    match key {
        "min" => Some("minimum"),
        "max" => Some("maximum"),
        "desc" | "doc" => Some("description"),
        "regex" => Some("pattern"),
        "optional" => Some("required"),
        "values" | "oneOf" => Some("enum"),
        "x-kubernetes-list-type" => Some("listType"),
        "x-kubernetes-list-map-keys" | "listMapKeys" => Some("listMapKey"),
        "readonly" | "readOnly" => Some("immutable"),
        _ => None,
    }
}

/// Removes surrounding quotes, and the backslashes before quotes and backslashes. Other backslashes are kept, for
/// regular expressions.
fn unquoted(raw: &str) -> String {
    let Some(inner) = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return raw.trim().to_owned();
    };
    let mut result = String::with_capacity(inner.len());
    let mut letters = inner.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some('"' | '\\')) => result.extend(letters.next()),
            _ => result.push(letter),
        }
    }
    result
}
