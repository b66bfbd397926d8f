//! Evaluates a program: walks its tree, spends the cost of each node, and adds the position to errors.

mod access;
mod build;
mod logic;
mod loops;
mod text;
mod walk;

use kross_value::Text;

use super::Budget;
use super::node::{Binary, Call, Node, OrElse, Path, Root};
use crate::Span;
use crate::ast::BinaryOperator;
use crate::error::{EvalError, Fault};
use crate::library::operators;
use crate::value::Value;

/// Errors are boxed, so that the result stays small.
pub(super) type Outcome<T = Value> = Result<T, Box<EvalError>>;

/// One evaluation.
pub(super) struct Machine<'run> {
    slots: &'run [Option<Value>],
    locals: Vec<Value>,
    /// The values of `cel.bind` variables that are not evaluated yet.
    bound: Vec<Option<&'run Node>>,
    variables: &'run [Text],
    budget: &'run mut Budget,
    /// Whether selecting a field of null is an error, see [`super::Program::strict_presence`].
    strict: bool,
}

/// Adds the position to a fault.
#[inline]
fn at(span: Span) -> impl Fn(Fault) -> Box<EvalError> {
    move |fault| Box::new(EvalError { fault, span })
}

impl<'run> Machine<'run> {
    pub(super) fn new(
        slots: &'run [Option<Value>],
        locals: usize,
        variables: &'run [Text],
        budget: &'run mut Budget,
    ) -> Self {
        Self {
            slots,
            locals: if locals == 0 { Vec::new() } else { vec![Value::Null; locals] },
            bound: Vec::new(),
            variables,
            budget,
            strict: false,
        }
    }

    pub(super) fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    pub(super) fn run(&mut self, root: &'run Node) -> Outcome {
        self.eval(root)
    }

    fn eval(&mut self, node: &'run Node) -> Outcome {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Local(number) => Ok(self.local(*number).clone()),
            Node::Bound(number) => {
                self.force(*number)?;
                Ok(self.local(*number).clone())
            }
            Node::Variable(slot, span) => self.variable(*slot, *span).cloned(),
            Node::Path(path) => {
                self.enter(path)?;
                self.walk(path).map(walk::Walked::into_value)
            }
            Node::Binary(binary) => self.binary(binary),
            Node::Call(call) => self.call(call),
            Node::And(terms) => self.and(terms),
            Node::Or(terms) => self.or(terms),
            Node::Not(unary) => {
                let operand = self.eval(&unary.operand)?;
                operators::not(&operand).map_err(at(unary.span))
            }
            Node::Negate(unary) => {
                let operand = self.eval(&unary.operand)?;
                operators::negate(&operand).map_err(at(unary.span))
            }
            Node::Concat(terms) => self.concat(terms),
            Node::Conditional(conditional) => self.conditional(conditional),
            Node::Select(select) => self.select(select),
            Node::Index(index) => self.index(index),
            Node::OrElse(or_else) => self.or_else(or_else),
            Node::List(list) => self.list(list),
            Node::Map(map) => self.map(map),
            Node::Loop(inner) => self.run_loop(inner),
            Node::Bind(bind) => {
                self.bind(bind.variable, &bind.value);
                self.eval(&bind.body)
            }
            Node::OptionalMap(map) => self.optional_map(map),
            Node::Fail(error) => Err(error.clone()),
        }
    }

    #[inline]
    fn spend(&mut self, units: u64, span: Span) -> Outcome<()> {
        self.budget.spend(units).map_err(at(span))
    }

    #[inline]
    fn allocate(&mut self, bytes: usize, span: Span) -> Outcome<()> {
        self.budget.allocate(bytes).map_err(at(span))
    }

    #[inline]
    fn local(&self, number: u32) -> &Value {
        self.locals.get(number as usize).unwrap_or(&Value::Null)
    }

    #[inline]
    fn set_local(&mut self, number: u32, value: Value) {
        if let Some(local) = self.locals.get_mut(number as usize) {
            *local = value;
        }
    }

    /// Binds a variable to an expression that is evaluated on first use, so that errors of unused values are ignored.
    fn bind(&mut self, number: u32, value: &'run Node) {
        let at = number as usize;
        if self.bound.len() <= at {
            self.bound.resize(at + 1, None);
        }
        if let Some(bound) = self.bound.get_mut(at) {
            *bound = Some(value);
        }
    }

    /// Evaluates the value of a bound variable, unless it already is.
    fn force(&mut self, number: u32) -> Outcome<()> {
        let Some(node) = self.bound.get_mut(number as usize).and_then(Option::take) else { return Ok(()) };
        match self.eval(node) {
            Ok(value) => {
                self.set_local(number, value);
                Ok(())
            }
            Err(error) => {
                self.bind(number, node);
                Err(error)
            }
        }
    }

    /// Spends the cost of a path and makes sure that its root is evaluated.
    #[inline]
    fn enter(&mut self, path: &'run Path) -> Outcome<()> {
        if let Root::Bound(number) = path.root {
            self.force(number)?;
        }
        self.spend(path.steps.len() as u64, path.span())
    }

    #[inline]
    fn variable(&self, slot: u32, span: Span) -> Outcome<&Value> {
        match self.slots.get(slot as usize) {
            Some(Some(value)) => Ok(value),
            _ => Err(self.no_such_variable(slot, span)),
        }
    }

    #[cold]
    fn no_such_variable(&self, slot: u32, span: Span) -> Box<EvalError> {
        let name = self.variables.get(slot as usize).map(ToString::to_string).unwrap_or_default();
        at(span)(Fault::NoSuchVariable(name))
    }

    /// The value of a node that can be read in place, without cloning it.
    #[inline]
    fn peek<'a>(&'a self, node: &'a Node) -> Option<&'a Value> {
        match node {
            Node::Constant(value) => Some(value),
            Node::Local(number) => Some(self.local(*number)),
            _ => None,
        }
    }

    fn binary(&mut self, binary: &'run Binary) -> Outcome {
        self.spend(1, binary.span)?;
        // Fast path: integer operands are the inner loop of most macros.
        if let (Some(Value::Int(left)), Some(Value::Int(right))) =
            (self.peek(&binary.left), self.peek(&binary.right))
        {
            let (left, right) = (*left, *right);
            if let Some(number) = number(binary.operator, left, right) {
                return Ok(Value::Int(number));
            }
            if let Some(truth) = truth(binary.operator, left, right) {
                return Ok(Value::Bool(truth));
            }
        }
        let left = self.eval(&binary.left)?;
        if let Node::Constant(right) = &binary.right {
            return self.operate(binary, &left, right);
        }
        let right = self.eval(&binary.right)?;
        self.operate(binary, &left, &right)
    }

    fn operate(&mut self, binary: &Binary, left: &Value, right: &Value) -> Outcome {
        if let (Value::Int(left), Value::Int(right)) = (left, right) {
            if let Some(number) = number(binary.operator, *left, *right) {
                return Ok(Value::Int(number));
            }
            if let Some(truth) = truth(binary.operator, *left, *right) {
                return Ok(Value::Bool(truth));
            }
        }
        let mut call = self.budget.call();
        operators::binary(&mut call, binary.operator, left, right).map_err(at(binary.span))
    }

    fn call(&mut self, call: &'run Call) -> Outcome {
        self.spend(1, call.span)?;
        match call.arguments.as_slice() {
            [] => self.dispatch(call, &[]),
            [only] => {
                let arguments = [self.eval(only)?];
                self.dispatch(call, &arguments)
            }
            [first, second] => {
                let arguments = [self.eval(first)?, self.eval(second)?];
                self.dispatch(call, &arguments)
            }
            more => {
                let arguments =
                    more.iter().map(|argument| self.eval(argument)).collect::<Outcome<Vec<Value>>>()?;
                self.dispatch(call, &arguments)
            }
        }
    }

    fn dispatch(&mut self, call: &Call, arguments: &[Value]) -> Outcome {
        match call.overloads.iter().find(|overload| overload.takes(arguments)) {
            Some(overload) => {
                (overload.implementation)(&mut self.budget.call(), arguments).map_err(at(call.span))
            }
            None => Err(at(call.span)(Fault::no_such_overload(&call.function, arguments))),
        }
    }

    fn or_else(&mut self, or_else: &'run OrElse) -> Outcome {
        self.spend(1, or_else.span)?;
        match (self.eval(&or_else.operand)?, or_else.value) {
            (Value::Optional(Some(inner)), true) => Ok((*inner).clone()),
            (some @ Value::Optional(Some(_)), false) => Ok(some),
            (Value::Optional(None), true) => self.eval(&or_else.other),
            (Value::Optional(None), false) => match self.eval(&or_else.other)? {
                other @ Value::Optional(_) => Ok(other),
                other => {
                    let arguments = [Value::Optional(None), other];
                    Err(at(or_else.span)(Fault::no_such_overload("or", &arguments)))
                }
            },
            (other, value) => {
                let name = if value { "orValue" } else { "or" };
                Err(at(or_else.span)(Fault::no_such_overload(name, &[other])))
            }
        }
    }
}

/// Integer arithmetic without errors; the slow path reports them. Returns a number and not a [`Value`], because moving a
/// value takes twice the time.
#[inline]
fn number(operator: BinaryOperator, left: i64, right: i64) -> Option<i64> {
    match operator {
        BinaryOperator::Add => left.checked_add(right),
        BinaryOperator::Subtract => left.checked_sub(right),
        BinaryOperator::Multiply => left.checked_mul(right),
        BinaryOperator::Divide => left.checked_div(right),
        BinaryOperator::Modulo => left.checked_rem(right),
        _ => None,
    }
}

/// Integer comparisons.
#[inline]
fn truth(operator: BinaryOperator, left: i64, right: i64) -> Option<bool> {
    Some(match operator {
        BinaryOperator::Equal => left == right,
        BinaryOperator::NotEqual => left != right,
        BinaryOperator::Less => left < right,
        BinaryOperator::LessOrEqual => left <= right,
        BinaryOperator::Greater => left > right,
        BinaryOperator::GreaterOrEqual => left >= right,
        _ => return None,
    })
}
