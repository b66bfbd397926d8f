//! Holds literal formats to the values that are put into them: `'%d'.format(['x'])` is a mistake before it runs.

use kross_diagnostics::Code;

use crate::ast::{Ast, Expr, Item, Literal, Name, Node};
use crate::error::Issue;
use crate::library::format::{Clause, Piece, pieces};
use crate::types::Type;

/// Whether a call formats a literal text, so that [`mistakes`] has something to look at.
pub(super) fn is_literal_format(function: &Name, receiver: Option<&Expr>) -> bool {
    function.text == "format"
        && matches!(receiver, Some(Expr { node: Node::Literal(Literal::String(_)), .. }))
}

/// The mistakes in all literal formats with a literal list of values.
pub(super) fn mistakes(ast: &Ast, types: &[Type]) -> Vec<Issue> {
    let mut found = Vec::new();
    let mut rest = vec![&ast.root];
    while let Some(expr) = rest.pop() {
        rest.extend(expr.children());
        if let Node::Call { function, receiver: Some(receiver), arguments } = &expr.node
            && function.text == "format"
            && let Node::Literal(Literal::String(text)) = &receiver.node
            && let [Expr { node: Node::List { items }, .. }] = arguments.as_slice()
        {
            look(text, receiver, items, types, &mut found);
        }
    }
    found
}

fn look(text: &str, receiver: &Expr, items: &[Item], types: &[Type], found: &mut Vec<Issue>) {
    let pieces = match pieces(text) {
        Ok(pieces) => pieces,
        Err(reason) => {
            let message = format!("expected a format, found a mistake in it: {reason}");
            let help =
                "the clauses are `%s`, `%d`, `%f`, `%e`, `%b`, `%x`, `%X` and `%o`; `%%` is a percent sign";
            found.push(Issue::new(Code::WrongFormat, receiver.span, message).help(help));
            return;
        }
    };
    let clauses: Vec<Clause> = pieces
        .into_iter()
        .filter_map(|piece| if let Piece::Clause(clause) = piece { Some(clause) } else { None })
        .collect();
    // Optional elements may or may not be there when it runs.
    if clauses.len() != items.len() && !items.iter().any(|item| item.optional) {
        let (wanted, given) = (clauses.len(), items.len());
        let message = format!("expected as many values as clauses, which are {wanted}, found {given}");
        found.push(Issue::new(Code::WrongFormat, receiver.span, message));
        return;
    }
    for (clause, item) in clauses.iter().zip(items) {
        if item.optional {
            return;
        }
        if let Some((expr, kind)) = refused(*clause, &item.value, types) {
            let (verb, takes) = (clause.verb(), clause.takes());
            let message = format!("expected {takes} for `{verb}`, found {kind}");
            found.push(Issue::new(Code::WrongFormat, expr.span, message));
        }
    }
}

/// The part of a value that a clause does not take, with its type. `%s` looks into lists and maps.
fn refused<'a>(clause: Clause, expr: &'a Expr, types: &'a [Type]) -> Option<(&'a Expr, &'a Type)> {
    let kind = types.get(expr.id.0 as usize)?;
    if !accepts(clause, kind) {
        return Some((expr, kind));
    }
    match &expr.node {
        Node::List { items } => items.iter().find_map(|item| refused(clause, &item.value, types)),
        Node::Map { entries } => entries.iter().find_map(|entry| {
            refused(clause, &entry.key, types).or_else(|| refused(clause, &entry.value, types))
        }),
        _ => None,
    }
}

fn accepts(clause: Clause, kind: &Type) -> bool {
    match kind {
        Type::Nullable(inner) => return accepts(clause, inner),
        Type::Dyn | Type::Error | Type::Variable(_) | Type::Parameter(_) => return true,
        _ => {}
    }
    match clause {
        Clause::String => !matches!(kind, Type::Optional(_) | Type::Object(_) | Type::Opaque(_)),
        Clause::Decimal | Clause::Fixed(_) | Clause::Scientific(_) => {
            matches!(kind, Type::Int | Type::UInt | Type::Double)
        }
        Clause::Binary => matches!(kind, Type::Int | Type::UInt | Type::Bool),
        Clause::Hex | Clause::UpperHex => matches!(kind, Type::Int | Type::UInt | Type::String | Type::Bytes),
        Clause::Octal => matches!(kind, Type::Int | Type::UInt),
    }
}

#[cfg(test)]
mod tests {
    use crate::env::Env;
    use crate::types::Type;

    fn messages(expression: &str) -> Vec<String> {
        let env = Env::standard().with_variables([("n", Type::Int), ("d", Type::Dyn)]);
        match env.compile(expression) {
            Ok(_) => Vec::new(),
            Err(issues) => issues.into_iter().map(|issue| issue.message).collect(),
        }
    }

    #[test]
    fn values_must_fit_their_clauses() {
        assert!(messages("'%s has %d of %.2f, %x'.format(['a', n, 1.5, b'x'])").is_empty());
        assert!(messages("'%d %s'.format([d, [1, {'a': d}]])").is_empty());
        assert_eq!(
            messages("'%d'.format(['x'])"),
            ["expected ints, uints and doubles for `%d`, found string"]
        );
        assert_eq!(messages("'%s'.format([[optional.of(1)]])").len(), 1);
        assert_eq!(messages("'%o %b'.format([1.0, null])").len(), 2);
    }

    #[test]
    fn there_must_be_as_many_values_as_clauses() {
        let too_few = "expected as many values as clauses, which are 2, found 1";
        assert_eq!(messages("'%d %d'.format([n])"), [too_few]);
        assert_eq!(messages("'%%'.format([n])").len(), 1);
        assert!(messages("'%d %d'.format([?d.?x, n])").is_empty());
    }

    #[test]
    fn the_format_itself_is_read() {
        let found = messages("'%y'.format([n])");
        assert_eq!(found, ["expected a format, found a mistake in it: unrecognized formatting clause `%y`"]);
        assert!(messages("d.format([n, n])").is_empty());
    }
}
