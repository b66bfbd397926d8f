//! The values of scalars: plain scalars by their content, tagged scalars by their tag.

use granit_parser::{ScalarStyle, Tag};
use kross_diagnostics::{Code, Diagnostic};
use kross_value::Value;

use super::super::node::Bytes;
use super::super::scalar::{self, Plain};
use super::{Builder, Scalar};

const CORE: &str = "tag:yaml.org,2002:";

impl Builder<'_> {
    /// The value of a scalar. An invalid scalar is reported and becomes null.
    pub(super) fn value(&mut self, scalar: &Scalar<'_>, bytes: &Bytes) -> Value {
        let text = if bytes.is_empty() { "" } else { scalar.text };
        let Some(tag) = scalar.tag else {
            return match scalar.style {
                ScalarStyle::Plain => self.plain(text, bytes),
                _ => Value::from(text),
            };
        };
        let name = tag.suffix_in_namespace(CORE);
        let value = match (name.as_deref(), scalar::plain(text)) {
            (Some("str" | "timestamp"), _) => Some(Value::from(text)),
            (Some("int"), Plain::Value(value @ Value::Int(_))) => Some(value),
            (Some("float"), Plain::Value(value @ (Value::Int(_) | Value::Float(_)))) => Some(value),
            (Some("float"), Plain::NotANumber) => Some(self.plain(text, bytes)),
            (Some("bool"), Plain::Value(value @ Value::Bool(_))) => Some(value),
            (Some("bool"), Plain::Word(value)) => Some(Value::Bool(value)),
            (Some("null"), Plain::Value(Value::Null)) => Some(Value::Null),
            (Some("int" | "float" | "bool" | "null" | "binary" | "map" | "seq"), _) => None,
            _ if is_non_specific(tag) => Some(Value::from(text)),
            _ => {
                self.unknown_tag(tag, scalar.tag_bytes.clone());
                let Scalar { text, style, .. } = *scalar;
                return self.value(&Scalar { text, style, tag: None, tag_bytes: None }, bytes);
            }
        };
        value.unwrap_or_else(|| {
            self.wrong_tag(tag, scalar.tag_bytes.clone(), bytes);
            Value::Null
        })
    }

    fn plain(&mut self, text: &str, bytes: &Bytes) -> Value {
        let span = self.span(bytes.clone());
        match scalar::plain(text) {
            Plain::Value(value) => value,
            Plain::Word(value) => {
                let diagnostic = Diagnostic::new(
                    Code::BooleanWord,
                    format!("`{text}` is parsed as the boolean `{value}`"),
                );
                self.push(diagnostic.at(span).fix("quote it if it is a string", span, format!("\"{text}\"")));
                Value::Bool(value)
            }
            Plain::NotANumber => {
                let diagnostic =
                    Diagnostic::new(Code::NotANumber, format!("`{text}` cannot be represented in JSON"))
                        .at(span);
                self.push(diagnostic.fix("quote it if it is a string", span, format!("\"{text}\"")));
                Value::Null
            }
        }
    }

    pub(super) fn check_tag(&mut self, tag: Option<&Tag>, bytes: Option<Bytes>, fitting: &[&str]) {
        let Some(tag) = tag.filter(|tag| !is_non_specific(tag)) else { return };
        match tag.suffix_in_namespace(CORE) {
            Some(name) if fitting.contains(&name.as_ref()) => {}
            Some(_) => self.wrong_tag(tag, bytes, &(0..0)),
            None => self.unknown_tag(tag, bytes),
        }
    }

    fn wrong_tag(&mut self, tag: &Tag, tag_bytes: Option<Bytes>, bytes: &Bytes) {
        let name = tag.original();
        let binary = tag.suffix_in_namespace(CORE).as_deref() == Some("binary");
        let message = if binary {
            "binary values cannot be represented in JSON".to_owned()
        } else {
            format!("the value does not match the tag `{name}`")
        };
        let help =
            if binary { "remove the tag: fields for binary data expect base64" } else { "remove the tag" };
        let place = tag_bytes.unwrap_or_else(|| bytes.clone());
        self.push(Diagnostic::new(Code::InvalidTag, message).at(self.span(place)).help(help));
    }

    fn unknown_tag(&mut self, tag: &Tag, bytes: Option<Bytes>) {
        let diagnostic =
            Diagnostic::new(Code::UnknownTag, format!("the tag `{}` is ignored", tag.original()));
        let diagnostic = diagnostic.help("remove the tag");
        self.push(match bytes {
            Some(bytes) => diagnostic.at(self.span(bytes)),
            None => diagnostic,
        });
    }
}

/// The tag `!`, which makes every scalar a string.
fn is_non_specific(tag: &Tag) -> bool {
    tag.original() == "!"
}
