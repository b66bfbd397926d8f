//! Checks literal format strings against their arguments: `'%d'.format(['x'])` is an error before evaluation.

use kross_diagnostics::Code;

use crate::ast::{Ast, Expr, Item, Literal, Name, Node};
use crate::error::Issue;
use crate::library::format::{Clause, Piece, pieces};
use crate::types::Type;

/// Whether a call formats a literal string, which [`check`] can check.
pub(super) fn is_literal_format(function: &Name, receiver: Option<&Expr>) -> bool {
    function.text == "format"
        && matches!(receiver, Some(Expr { node: Node::Literal(Literal::String(_)), .. }))
}

/// Checks all literal format strings with a literal list of arguments.
pub(super) fn check(ast: &Ast, types: &[Type]) -> Vec<Issue> {
    let mut found = Vec::new();
    let mut rest = vec![&ast.root];
    while let Some(expr) = rest.pop() {
        rest.extend(expr.children());
        if let Node::Call { function, receiver: Some(receiver), arguments } = &expr.node
            && function.text == "format"
            && let Node::Literal(Literal::String(text)) = &receiver.node
            && let [Expr { node: Node::List { items }, .. }] = arguments.as_slice()
        {
            check_format(text, receiver, items, types, &mut found);
        }
    }
    found
}

fn check_format(text: &str, receiver: &Expr, items: &[Item], types: &[Type], found: &mut Vec<Issue>) {
    let pieces = match pieces(text) {
        Ok(pieces) => pieces,
        Err(reason) => {
            let message = format!("invalid format string: {reason}");
            let help = "use `%s`, `%d`, `%f`, `%e`, `%b`, `%x`, `%X` or `%o`, and `%%` for a percent sign";
            found.push(Issue::new(Code::WrongFormat, receiver.span, message).help(help));
            return;
        }
    };
    let clauses: Vec<Clause> = pieces
        .into_iter()
        .filter_map(|piece| if let Piece::Clause(clause) = piece { Some(clause) } else { None })
        .collect();
    // Optional elements may be absent at run time.
    if clauses.len() != items.len() && !items.iter().any(|item| item.optional) {
        let (wanted, given) = (clauses.len(), items.len());
        let message = format!("the format string needs {wanted} arguments, found {given}");
        found.push(Issue::new(Code::WrongFormat, receiver.span, message));
        return;
    }
    for (clause, item) in clauses.iter().zip(items) {
        if item.optional {
            return;
        }
        if let Some((expr, kind)) = mismatch(*clause, &item.value, types) {
            let (verb, takes) = (clause.verb(), clause.takes());
            let message = format!("`{verb}` formats {takes}, found {kind}");
            found.push(Issue::new(Code::WrongFormat, expr.span, message));
        }
    }
}

/// The part of a value that a clause cannot format, with its type. `%s` also formats the contents of lists and maps.
fn mismatch<'a>(clause: Clause, expr: &'a Expr, types: &'a [Type]) -> Option<(&'a Expr, &'a Type)> {
    let kind = types.get(expr.id.0 as usize)?;
    if !accepts(clause, kind) {
        return Some((expr, kind));
    }
    match &expr.node {
        Node::List { items } => items.iter().find_map(|item| mismatch(clause, &item.value, types)),
        Node::Map { entries } => entries.iter().find_map(|entry| {
            mismatch(clause, &entry.key, types).or_else(|| mismatch(clause, &entry.value, types))
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
    fn arguments_must_match_their_clauses() {
        assert!(messages("'%s has %d of %.2f, %x'.format(['a', n, 1.5, b'x'])").is_empty());
        assert!(messages("'%d %s'.format([d, [1, {'a': d}]])").is_empty());
        assert_eq!(messages("'%d'.format(['x'])"), ["`%d` formats ints, uints and doubles, found string"]);
        assert_eq!(messages("'%s'.format([[optional.of(1)]])").len(), 1);
        assert_eq!(messages("'%o %b'.format([1.0, null])").len(), 2);
    }

    #[test]
    fn there_must_be_as_many_arguments_as_clauses() {
        let too_few = "the format string needs 2 arguments, found 1";
        assert_eq!(messages("'%d %d'.format([n])"), [too_few]);
        assert_eq!(messages("'%%'.format([n])").len(), 1);
        assert!(messages("'%d %d'.format([?d.?x, n])").is_empty());
    }

    #[test]
    fn invalid_clauses_are_reported() {
        let found = messages("'%y'.format([n])");
        assert_eq!(found, ["invalid format string: unrecognized formatting clause `%y`"]);
        assert!(messages("d.format([n, n])").is_empty());
    }
}
