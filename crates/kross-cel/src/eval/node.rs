//! The evaluated tree: like the parsed one, with every name lowered to a position, a path or a function pointer.

use kross_value::{Key, Text};

use super::shape::Resolved;
use crate::Span;
use crate::ast::{Access, BinaryOperator, ComprehensionKind};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

/// A node of the evaluated tree.
#[derive(Debug)]
pub(super) enum Node {
    /// A literal or folded constant.
    Constant(Value),
    /// A variable of the environment.
    Variable(u32, Span),
    /// A variable of a macro.
    Local(u32),
    /// A variable of `cel.bind`, evaluated when it is first read.
    Bound(u32),
    /// Constant fields and indexes of a variable.
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
    /// `a + b + c` of strings.
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
    /// A node that always fails.
    Fail(Box<EvalError>),
}

/// The start of a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Root {
    /// A variable of the environment.
    Variable(u32, Span),
    /// A variable of a macro.
    Local(u32),
    /// A variable of `cel.bind`.
    Bound(u32),
}

/// Fields and elements of a variable.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) root: Root,
    pub(super) steps: Vec<PathStep>,
    /// The root's type, if raw JSON has to be converted to it. A view of exactly this type can be walked as raw JSON,
    /// because the type of the leaf is known.
    pub(super) root_type: Option<Type>,
    /// The type of the leaf, if it needs conversion.
    pub(super) leaf_type: Option<Type>,
}

/// One step of a path.
#[derive(Debug)]
pub(super) struct PathStep {
    pub(super) key: StepKey,
    /// The path up to and including this step.
    pub(super) span: Span,
}

/// What a step selects.
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
    /// Whether it is `orValue`, which returns the value and not the optional.
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
