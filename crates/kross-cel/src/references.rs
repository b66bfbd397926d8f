//! Finds what an expression reads: the variables of its environment and the fields of each, also through the variables of
//! macros. `items.filter(i, i.on).map(i, i.name)` reads `items[*].on` and `items[*].name`.

mod walk;

use std::fmt;

use kross_value::Text;

use crate::Span;
use crate::checked::Checked;

/// A segment of a path into a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathSegment {
    /// A field of an object, or a constant key of a map.
    Field(Text),
    /// A constant index of a list.
    Index(i64),
    /// Any element or value: the index is known only at run time, or a macro iterates over all of them.
    Any,
}

/// A value that an expression reads, with everything in it unless it is shallow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The variable's full name.
    pub variable: Text,
    /// The path into it; empty for the whole variable.
    pub path: Vec<PathSegment>,
    /// The position in the expression.
    pub span: Span,
    /// Whether it may be absent: it is read with `has()`, `.?` or `[?]`.
    pub optional: bool,
    /// Whether only its size or its keys matter, as for a list that a macro iterates over.
    pub shallow: bool,
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.variable)?;
        for step in &self.path {
            match step {
                PathSegment::Field(name) if is_plain(name) => write!(f, ".{name}")?,
                PathSegment::Field(name) => write!(f, "[{name:?}]")?,
                PathSegment::Index(index) => write!(f, "[{index}]")?,
                PathSegment::Any => f.write_str("[*]")?,
            }
        }
        Ok(())
    }
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|letter: char| letter == '_' || letter.is_ascii_alphabetic())
        && name.chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric())
}

/// A variable of the environment, and its first use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The variable's full name.
    pub variable: Text,
    /// The position in the expression.
    pub span: Span,
}

/// What an expression reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Every variable that is used, once, in source order.
    pub variables: Vec<Mention>,
    /// Every value that is read, once. A value that is bound but never used is not read.
    pub reads: Vec<Read>,
}

impl References {
    /// Finds what an expression reads.
    ///
    /// ```
    /// use kross_cel::Env;
    /// use kross_cel::references::References;
    /// use kross_cel::types::Type;
    ///
    /// let env = Env::standard().with_variables([("schema", Type::Dyn)]);
    /// let checked = env.compile("schema.spec.ports.map(port, port.number)").unwrap();
    /// let reads = References::of(&checked).reads;
    /// assert_eq!(reads.iter().filter(|read| !read.shallow).count(), 1);
    /// assert_eq!(reads[1].to_string(), "schema.spec.ports[*].number");
    /// ```
    #[must_use]
    pub fn of(checked: &Checked) -> Self {
        walk::walk(checked)
    }
}
