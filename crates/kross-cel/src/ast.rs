//! The syntax tree of a parsed expression. Macros are nodes of their own and are not expanded to folds: the checker can
//! report what the author wrote, and the evaluator can run them without an accumulator.

use std::sync::Arc;

use kross_value::Text;

use crate::Span;

/// Identifies a node of one expression. Ids are dense and start at 0, so that side tables can be vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(pub u32);

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Ast {
    /// The text it was parsed from.
    pub source: Text,
    /// The outermost node.
    pub root: Expr,
    /// How many nodes there are; every [`ExprId`] is below it.
    pub nodes: u32,
}

/// A node and its position in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Identifies the node in side tables.
    pub id: ExprId,
    /// Its position.
    pub span: Span,
    /// The node itself.
    pub node: Node,
}

impl Expr {
    /// The child nodes, in source order.
    #[must_use]
    pub fn children(&self) -> Vec<&Self> {
        match &self.node {
            Node::Literal(_) | Node::Ident { .. } | Node::Error => Vec::new(),
            Node::Select { operand, .. } | Node::Unary { operand, .. } => vec![operand],
            Node::Index { operand, index, .. } => vec![operand, index],
            Node::Binary { left, right, .. } => vec![left, right],
            Node::Conditional { condition, then, otherwise } => vec![condition, then, otherwise],
            Node::Call { receiver, arguments, .. } => {
                receiver.as_deref().into_iter().chain(arguments).collect()
            }
            Node::List { items } => items.iter().map(|item| &item.value).collect(),
            Node::Map { entries } => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
            Node::Struct { fields, .. } => fields.iter().map(|field| &field.value).collect(),
            Node::Comprehension(comprehension) => {
                let Comprehension { range, filter, body, .. } = &**comprehension;
                [range].into_iter().chain(filter).chain([body]).collect()
            }
            Node::Bind { value, body, .. } => vec![value, body],
            Node::OptionalMap { operand, body, .. } => vec![operand, body],
        }
    }
}

/// A name and its position in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// The name.
    pub text: Text,
    /// Its position.
    pub span: Span,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// `1`, `-1`, `0x1`
    Int(i64),
    /// `1u`
    UInt(u64),
    /// `1.0`
    Double(f64),
    /// `'a'`
    String(Text),
    /// `b'a'`
    Bytes(Arc<[u8]>),
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A constant.
    Literal(Literal),
    /// A variable, or the first part of a qualified name. `rooted` is the leading dot of `.x`.
    Ident {
        /// The name.
        name: Text,
        /// Whether it is looked up in the root scope only, not among the container's names and macro variables.
        rooted: bool,
    },
    /// `operand.field`
    Select {
        /// The value whose field is selected.
        operand: Box<Expr>,
        /// The field.
        field: Name,
        /// How the field is selected.
        access: Access,
    },
    /// `operand[index]` or `operand[?index]`
    Index {
        /// What is indexed.
        operand: Box<Expr>,
        /// The index or key.
        index: Box<Expr>,
        /// Whether it is `[?index]`.
        optional: bool,
    },
    /// `-x`, `!x`
    Unary {
        /// The operator.
        operator: UnaryOperator,
        /// What it applies to.
        operand: Box<Expr>,
    },
    /// `a + b`, `a && b`, `a in b`
    Binary {
        /// The operator.
        operator: BinaryOperator,
        /// The position of the operator.
        operator_span: Span,
        /// Left side.
        left: Box<Expr>,
        /// Right side.
        right: Box<Expr>,
    },
    /// `condition ? then : otherwise`
    Conditional {
        /// The condition.
        condition: Box<Expr>,
        /// If true.
        then: Box<Expr>,
        /// If false.
        otherwise: Box<Expr>,
    },
    /// `f(x)`, `x.f(y)`. The checker decides whether `a.f(y)` is a member call or a call of the qualified function `a.f`.
    Call {
        /// The function.
        function: Name,
        /// The value before the dot.
        receiver: Option<Box<Expr>>,
        /// The arguments in parentheses.
        arguments: Vec<Expr>,
    },
    /// `[a, ?b]`
    List {
        /// The elements.
        items: Vec<Item>,
    },
    /// `{k: v, ?k: v}`
    Map {
        /// The entries.
        entries: Vec<Entry>,
    },
    /// `a.b.C{field: value}`
    Struct {
        /// The qualified name.
        type_name: Name,
        /// The fields.
        fields: Vec<FieldInit>,
    },
    /// A macro that iterates over a list or a map.
    Comprehension(Box<Comprehension>),
    /// `cel.bind(name, value, body)`
    Bind {
        /// The variable.
        variable: Name,
        /// The value it is bound to.
        value: Box<Expr>,
        /// The expression that it is visible in.
        body: Box<Expr>,
    },
    /// `operand.optMap(name, body)`, `operand.optFlatMap(name, body)`
    OptionalMap {
        /// The optional.
        operand: Box<Expr>,
        /// The variable for the optional's value.
        variable: Name,
        /// The transformation.
        body: Box<Expr>,
        /// Whether the body returns an optional itself.
        flat: bool,
    },
    /// A placeholder for text that the parser rejected; the checker ignores it.
    Error,
}

/// How a field is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `a.b`
    Plain,
    /// `has(a.b)`
    Test,
    /// `a.?b`
    Optional,
}

/// An element of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The element.
    pub value: Expr,
    /// Whether it is `?x`: omitted if the optional is empty.
    pub optional: bool,
}

/// An entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: Expr,
    /// The value.
    pub value: Expr,
    /// Whether it is `?key: value`.
    pub optional: bool,
}

/// A field of a struct literal.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldInit {
    /// The field.
    pub name: Name,
    /// Its value.
    pub value: Expr,
    /// Whether it is `?name: value`.
    pub optional: bool,
}

/// A macro over a list or a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    /// Which macro.
    pub kind: ComprehensionKind,
    /// The macro's name as written.
    pub name: Name,
    /// The list or map that it iterates over.
    pub range: Expr,
    /// Element of a list or key of a map; with `second`: index of a list or key of a map.
    pub variable: Name,
    /// Element of a list or value of a map, in the two-variable forms.
    pub second: Option<Name>,
    /// The filter of `map(x, filter, body)` and `transform…(k, v, filter, body)`.
    pub filter: Option<Expr>,
    /// The predicate or transformation.
    pub body: Expr,
}

/// Which macro.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComprehensionKind {
    /// `all`
    All,
    /// `exists`
    Exists,
    /// `exists_one`, `existsOne`
    ExistsOne,
    /// `map`
    Map,
    /// `filter`
    Filter,
    /// `transformList`
    TransformList,
    /// `transformMap`
    TransformMap,
    /// `transformMapEntry`
    TransformMapEntry,
    /// `sortBy`
    SortBy,
}

/// A prefix operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOperator {
    /// `-`
    Negate,
    /// `!`
    Not,
}

/// An infix operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOperator {
    /// `||`
    Or,
    /// `&&`
    And,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `in`
    In,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

impl BinaryOperator {
    /// The operator's text, which is also its name in the function table.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

impl UnaryOperator {
    /// The operator's text. In the function table they are `-_` and `!_`.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Negate => "-",
            Self::Not => "!",
        }
    }
}
