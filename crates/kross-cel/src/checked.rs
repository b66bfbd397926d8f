//! The result of the checker and the input of lowering: the tree, the type of each node and what each name refers to. An
//! unchecked expression has the same form with `dyn` everywhere, so that both are lowered by the same code.

use std::sync::Arc;

use kross_value::Text;

use crate::ast::{Ast, ExprId};
use crate::library::{FunctionTable, OverloadId};
use crate::types::Type;

/// A parsed expression with resolved names and, unless it is unchecked, known types.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The tree.
    pub ast: Ast,
    /// The type of each node, by [`ExprId`], without type parameters and variables. All `dyn` if unchecked.
    pub types: Vec<Type>,
    /// What each node refers to, by [`ExprId`].
    pub references: Vec<Reference>,
    /// The functions that [`OverloadId`]s number.
    pub functions: Arc<FunctionTable>,
}

impl Checked {
    /// The type of the whole expression.
    #[must_use]
    pub fn result(&self) -> &Type {
        self.type_of(self.ast.root.id)
    }

    /// The type of a node.
    #[must_use]
    pub fn type_of(&self, id: ExprId) -> &Type {
        self.types.get(id.0 as usize).unwrap_or(&Type::Dyn)
    }

    /// What a node refers to.
    #[must_use]
    pub fn reference(&self, id: ExprId) -> &Reference {
        self.references.get(id.0 as usize).unwrap_or(&Reference::None)
    }
}

/// What a node refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reference {
    /// Nothing: literals, selections, indexes, `&&`, `||`, `?:`, macros.
    #[default]
    None,
    /// An identifier that is a variable of an enclosing macro. The number counts the variables in scope from the
    /// outermost: the first variable of the outermost macro is 0, its second (if it has one) 1, and those of a
    /// macro inside its body continue from there. Macros side by side use the same numbers.
    Local(u32),
    /// A variable of the environment by its full name. On a `Select` (or a chain of them) the whole chain is that
    /// variable, and its operand has neither type nor reference of its own.
    Variable(Text),
    /// A type as a value, by its full name: `int`, `google.protobuf.Timestamp`. May be a whole `Select` chain too.
    /// On a `Struct`, the full name of the type that is built.
    Type(Text),
    /// A call, operator (`+`, `==`, `in`, `-_`, `!_`): any of these overloads, in this order; which one is decided
    /// by the values where there are several. None of them when an unchecked expression calls what does not exist.
    Function {
        /// The overloads that fit the types.
        overloads: Overloads,
        /// Whether the receiver is only the namespace of the function's name, as in `math.greatest(1, 2)`, and not
        /// to be evaluated.
        namespaced: bool,
    },
}

/// One overload or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overloads {
    /// Exactly one.
    One(OverloadId),
    /// None or several.
    Many(Arc<[OverloadId]>),
}

impl Overloads {
    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[OverloadId] {
        match self {
            Self::One(id) => std::slice::from_ref(id),
            Self::Many(ids) => ids,
        }
    }
}

impl FromIterator<OverloadId> for Overloads {
    fn from_iter<T: IntoIterator<Item = OverloadId>>(ids: T) -> Self {
        let ids: Vec<OverloadId> = ids.into_iter().collect();
        if let [id] = ids.as_slice() { Self::One(*id) } else { Self::Many(ids.into()) }
    }
}
