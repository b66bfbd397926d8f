//! Parses signatures such as `(list(A)).indexOf(A) -> int`.

use std::sync::Arc;

use crate::types::{OpaqueType, Type};

/// The parameters and the result of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Whether it is called on its first parameter: `x.f(y)`.
    pub member: bool,
    /// The parameters, the receiver first.
    pub parameters: Vec<Type>,
    /// Whether the last parameter is variadic.
    pub variadic: bool,
    /// The result type.
    pub result: Type,
    /// The type parameters it uses, in order of appearance.
    pub type_parameters: Vec<char>,
}

/// A signature that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureError {
    /// The signature.
    pub signature: String,
    /// The reason.
    pub reason: String,
}

impl std::fmt::Display for SignatureError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "invalid signature `{}`: {}", self.signature, self.reason)
    }
}

impl std::error::Error for SignatureError {}

impl Signature {
    /// Parses the signature of a function called `name`.
    ///
    /// # Errors
    /// If the text is not a signature of `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self, SignatureError> {
        Reader { rest: text, type_parameters: Vec::new() }
            .signature(name)
            .map_err(|reason| SignatureError { signature: text.to_owned(), reason })
    }

    /// Whether both have the same parameters, regardless of the names of type parameters.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let names = |signature: &Self| {
            let letters = &signature.type_parameters;
            let rename = |declared: &Type| {
                let numbered = (0u32..).map(Type::Variable);
                let pairs: Vec<(char, Type)> = letters.iter().copied().zip(numbered).collect();
                declared.instantiate(&pairs)
            };
            signature.parameters.iter().map(rename).collect::<Vec<_>>()
        };
        self.member == other.member && self.variadic == other.variadic && names(self) == names(other)
    }

    /// Whether it accepts this many arguments, including the receiver.
    #[must_use]
    pub fn takes(&self, arguments: usize) -> bool {
        arguments == self.parameters.len() || self.variadic && arguments > self.parameters.len()
    }

    /// The type of the parameter at a position; the last one repeats if it is variadic.
    #[must_use]
    pub fn parameter(&self, position: usize) -> Option<&Type> {
        match self.parameters.get(position) {
            None if self.variadic => self.parameters.last(),
            found => found,
        }
    }

    /// The opaque types in it.
    #[must_use]
    pub fn opaque_types(&self) -> Vec<Type> {
        let mut found = Vec::new();
        for part in self.parameters.iter().chain(std::iter::once(&self.result)) {
            collect_opaque(part, &mut found);
        }
        found
    }
}

fn collect_opaque(part: &Type, found: &mut Vec<Type>) {
    match part {
        Type::Opaque(_) => found.push(part.clone()),
        Type::List(inner) | Type::Optional(inner) | Type::Type(inner) | Type::Nullable(inner) => {
            collect_opaque(inner, found);
        }
        Type::Map(entry) => {
            collect_opaque(&entry.0, found);
            collect_opaque(&entry.1, found);
        }
        _ => {}
    }
}

struct Reader<'a> {
    rest: &'a str,
    type_parameters: Vec<char>,
}

impl<'a> Reader<'a> {
    fn signature(mut self, name: &str) -> Result<Signature, String> {
        let mut parameters = Vec::new();
        let member = self.eat("(");
        if member {
            parameters.push(self.type_name()?);
            self.expect(")")?;
            self.expect(".")?;
        }
        self.expect(name)?;
        self.expect("(")?;
        let mut variadic = false;
        while !self.eat(")") {
            if parameters.len() > usize::from(member) {
                self.expect(",")?;
            }
            parameters.push(self.type_name()?);
            if self.eat("...") {
                variadic = true;
                self.expect(")")?;
                break;
            }
        }
        self.expect("->")?;
        let result = self.type_name()?;
        if !self.rest.trim().is_empty() {
            return Err(format!("unexpected `{}` at the end", self.rest.trim()));
        }
        Ok(Signature { member, parameters, variadic, result, type_parameters: self.type_parameters })
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest.trim_start().strip_prefix(token);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(format!("expected `{token}` before `{}`", self.rest.trim_start()))
        }
    }

    fn word(&mut self) -> &'a str {
        let text = self.rest.trim_start();
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '.');
        // The three dots of a variadic parameter are not part of the name.
        let (word, _) = text.split_at(end.unwrap_or(text.len()));
        let word = word.strip_suffix("...").unwrap_or(word);
        self.rest = text.strip_prefix(word).unwrap_or(text);
        word
    }

    fn type_name(&mut self) -> Result<Type, String> {
        Ok(match self.word() {
            "dyn" => Type::Dyn,
            "null" | "null_type" => Type::Null,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::UInt,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "timestamp" | "google.protobuf.Timestamp" => Type::Timestamp,
            "duration" | "google.protobuf.Duration" => Type::Duration,
            "list" => Type::List(Arc::new(self.one_argument()?)),
            "optional" | "optional_type" => Type::Optional(Arc::new(self.one_argument()?)),
            "nullable" => Type::nullable(self.one_argument()?),
            "type" => Type::Type(Arc::new(self.one_argument()?)),
            "map" => {
                self.expect("(")?;
                let key = self.type_name()?;
                self.expect(",")?;
                let value = self.type_name()?;
                self.expect(")")?;
                Type::map(key, value)
            }
            word => return self.named(word),
        })
    }

    fn one_argument(&mut self) -> Result<Type, String> {
        self.expect("(")?;
        let argument = self.type_name()?;
        self.expect(")")?;
        Ok(argument)
    }

    fn named(&mut self, word: &str) -> Result<Type, String> {
        let mut letters = word.chars();
        if let (Some(letter @ 'A'..='Z'), None) = (letters.next(), letters.next()) {
            if !self.type_parameters.contains(&letter) {
                self.type_parameters.push(letter);
            }
            return Ok(Type::Parameter(letter));
        }
        if word.contains('.') {
            return Ok(Type::Opaque(Arc::new(OpaqueType { name: word.into(), parameters: Vec::new() })));
        }
        Err(format!("unknown type `{word}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_global_member_variadic_and_operator_signatures() {
        let size = Signature::parse("size", "size(string) -> int").unwrap();
        assert_eq!((size.member, &*size.parameters, size.result), (false, &[Type::String][..], Type::Int));

        let index = Signature::parse("indexOf", "(list(A)).indexOf(A) -> int").unwrap();
        assert!(index.member);
        assert_eq!(index.parameters, [Type::list(Type::Parameter('A')), Type::Parameter('A')]);
        assert_eq!(index.type_parameters, ['A']);

        let greatest = Signature::parse("math.greatest", "math.greatest(A...) -> A").unwrap();
        assert!(greatest.variadic && greatest.takes(3) && greatest.takes(1) && !greatest.takes(0));
        assert_eq!(greatest.parameter(5), Some(&Type::Parameter('A')));

        let add = Signature::parse("+", "+(timestamp, duration) -> timestamp").unwrap();
        assert_eq!(add.parameters, [Type::Timestamp, Type::Duration]);

        let now = Signature::parse("omit", "omit() -> dyn").unwrap();
        assert!(now.takes(0) && !now.takes(1));

        let nested =
            Signature::parse("f", "f(map(string, optional(kubernetes.Quantity)), type(B)) -> B").unwrap();
        assert_eq!(nested.opaque_types(), [Type::opaque("kubernetes.Quantity")]);
    }

    #[test]
    fn rejects_invalid_signatures() {
        for text in [
            "size(string)",
            "size(strin) -> int",
            "sizes(string) -> int",
            "size(string) -> int x",
            "size(list) -> int",
        ] {
            assert!(Signature::parse("size", text).is_err(), "{text}");
        }
    }
}
