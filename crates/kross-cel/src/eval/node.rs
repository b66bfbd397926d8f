//! The tree that runs: like the parsed one, with every name turned into a position, a path or a function's code.

use kross_value::{Key, Text};

use super::shape::Resolved;
use crate::Span;
use crate::ast::{Access, BinaryOperator, ComprehensionKind};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

/// A node that runs.
#[derive(Debug)]
pub(super) enum Node {
    /// A constant, written as one or folded.
    Constant(Value),
    /// A variable of the environment.
    Variable(u32, Span),
    /// A variable of a macro.
    Local(u32),
    /// A variable of `cel.bind`, computed when it is first asked for.
    Bound(u32),
    /// Fields and elements of a variable, known beforehand.
    Path(Box<Path>),
    /// `operand.field` of anything else, `has(operand.field)`, `operand.?field`
    Select(Box<Select>),
    /// `operand[index]`, `operand[?index]`
    Index(Box<Index>),
    /// `!operand`
    Not(Box<Unary>),
    /// `-operand`
    Negate(Box<Unary>),
    /// `a && b && c`
    And(Box<Terms>),
    /// `a || b || c`
    Or(Box<Terms>),
    /// Every other operator with two sides.
    Binary(Box<Binary>),
    /// `a + b + c` of texts.
    Concat(Box<Terms>),
    /// `condition ? then : otherwise`
    Conditional(Box<Conditional>),
    /// A function.
    Call(Box<Call>),
    /// `optional.or(other)`, `optional.orValue(other)`
    OrElse(Box<OrElse>),
    /// `[a, ?b]`
    List(Box<List>),
    /// `{a: b, ?c: d}`, and objects
    Map(Box<Map>),
    /// A macro over a list or a map.
    Loop(Box<Loop>),
    /// `cel.bind(name, value, body)`
    Bind(Box<Bind>),
    /// `operand.optMap(name, body)`
    OptionalMap(Box<OptionalMap>),
    /// What cannot run.
    Fail(Box<EvalError>),
}

/// Where a path begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Root {
    /// At a variable of the environment.
    Variable(u32, Span),
    /// At a variable of a macro.
    Local(u32),
    /// At a variable of `cel.bind`.
    Bound(u32),
}

/// Fields and elements of a variable.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) root: Root,
    pub(super) steps: Vec<Step>,
    /// The root's type, where raw JSON is converted as it says. A root that is a view with this very type can be
    /// walked raw, since the type of what is at the end is known.
    pub(super) root_type: Option<Type>,
    /// The type of what is at the end, where it needs conversion.
    pub(super) leaf_type: Option<Type>,
}

/// One step of a path.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) key: StepKey,
    /// The text from the path's beginning up to here.
    pub(super) span: Span,
}

/// What a step takes.
#[derive(Debug)]
pub(super) enum StepKey {
    /// `.field`
    Field(Key),
    /// `['key']`
    Key(Key),
    /// `[0]`
    Position(i64),
}

#[derive(Debug)]
pub(super) struct Select {
    pub(super) operand: Node,
    pub(super) field: Key,
    pub(super) access: Access,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Index {
    pub(super) operand: Node,
    pub(super) index: Node,
    pub(super) optional: bool,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Unary {
    pub(super) operand: Node,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Terms {
    pub(super) terms: Vec<Node>,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Binary {
    pub(super) operator: BinaryOperator,
    pub(super) left: Node,
    pub(super) right: Node,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Conditional {
    pub(super) condition: Node,
    pub(super) then: Node,
    pub(super) otherwise: Node,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) function: Text,
    pub(super) overloads: Vec<Resolved>,
    pub(super) arguments: Vec<Node>,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct OrElse {
    pub(super) operand: Node,
    pub(super) other: Node,
    /// Whether it gives the value, not the optional.
    pub(super) value: bool,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct List {
    pub(super) items: Vec<(Node, bool)>,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Map {
    pub(super) entries: Vec<Entry>,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Node,
    pub(super) value: Node,
    pub(super) optional: bool,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Loop {
    pub(super) kind: ComprehensionKind,
    pub(super) range: Node,
    pub(super) variable: u32,
    pub(super) second: Option<u32>,
    pub(super) filter: Option<Node>,
    pub(super) body: Node,
    pub(super) span: Span,
    pub(super) filter_span: Span,
    pub(super) body_span: Span,
}

#[derive(Debug)]
pub(super) struct Bind {
    pub(super) variable: u32,
    pub(super) value: Node,
    pub(super) body: Node,
}

#[derive(Debug)]
pub(super) struct OptionalMap {
    pub(super) operand: Node,
    pub(super) variable: u32,
    pub(super) body: Node,
    pub(super) flat: bool,
    pub(super) span: Span,
}
