//! The results of the parser: values, trees and errors.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use kross_cel::ast::{Access, ComprehensionKind, Expr, Literal, Node};
use kross_cel::syntax::{Limits, parse};

/// A tree in one line, with parentheses around operators.
fn show(expr: &Expr) -> String {
    let list = |items: &[Expr]| items.iter().map(show).collect::<Vec<_>>().join(", ");
    match &expr.node {
        Node::Literal(Literal::String(text)) => format!("{text:?}"),
        Node::Literal(Literal::Bytes(bytes)) => format!("b{bytes:?}"),
        Node::Literal(Literal::Int(value)) => value.to_string(),
        Node::Literal(Literal::UInt(value)) => format!("{value}u"),
        Node::Literal(Literal::Double(value)) => format!("{value:?}"),
        Node::Literal(Literal::Bool(value)) => value.to_string(),
        Node::Literal(Literal::Null) => "null".into(),
        Node::Ident { name, rooted } => format!("{}{name}", if *rooted { "." } else { "" }),
        Node::Select { operand, field, access } => {
            let operand = show(operand);
            match access {
                Access::Plain => format!("{operand}.{}", field.text),
                Access::Test => format!("has({operand}.{})", field.text),
                Access::Optional => format!("{operand}.?{}", field.text),
            }
        }
        Node::Index { operand, index, optional } => {
            format!("{}[{}{}]", show(operand), if *optional { "?" } else { "" }, show(index))
        }
        Node::Unary { operator, operand } => format!("({}{})", operator.symbol(), show(operand)),
        Node::Binary { operator, left, right, .. } => {
            format!("({} {} {})", show(left), operator.symbol(), show(right))
        }
        Node::Conditional { condition, then, otherwise } => {
            format!("({} ? {} : {})", show(condition), show(then), show(otherwise))
        }
        Node::Call { function, receiver, arguments } => match receiver {
            Some(receiver) => format!("{}.{}({})", show(receiver), function.text, list(arguments)),
            None => format!("{}({})", function.text, list(arguments)),
        },
        Node::List { items } => {
            let items: Vec<String> = items
                .iter()
                .map(|item| format!("{}{}", if item.optional { "?" } else { "" }, show(&item.value)))
                .collect();
            format!("[{}]", items.join(", "))
        }
        Node::Map { entries } => {
            let entries: Vec<String> = entries
                .iter()
                .map(|entry| {
                    let mark = if entry.optional { "?" } else { "" };
                    format!("{mark}{}: {}", show(&entry.key), show(&entry.value))
                })
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        Node::Struct { type_name, fields } => {
            let fields: Vec<String> = fields
                .iter()
                .map(|field| {
                    let mark = if field.optional { "?" } else { "" };
                    format!("{mark}{}: {}", field.name.text, show(&field.value))
                })
                .collect();
            format!("{}{{{}}}", type_name.text, fields.join(", "))
        }
        Node::Comprehension(inner) => {
            let mut arguments = vec![inner.variable.text.to_string()];
            arguments.extend(inner.second.iter().map(|name| name.text.to_string()));
            arguments.extend(inner.filter.iter().map(|filter| format!("if {}", show(filter))));
            arguments.push(show(&inner.body));
            format!("{:?}({}; {})", inner.kind, show(&inner.range), arguments.join(", "))
        }
        Node::Bind { variable, value, body } => {
            format!("bind({} = {}; {})", variable.text, show(value), show(body))
        }
        Node::OptionalMap { operand, variable, body, flat } => {
            format!("optional(flat {flat}; {}; {}, {})", show(operand), variable.text, show(body))
        }
        Node::Error => "!".into(),
    }
}

fn tree(text: &str) -> String {
    let parsed = parse(text, &Limits::default());
    assert!(parsed.issues.is_empty(), "{text}: {:?}", parsed.issues);
    show(&parsed.ast.root)
}

/// Each error as its code, the text at its position, and the message.
fn errors(text: &str) -> Vec<String> {
    let parsed = parse(text, &Limits::default());
    parsed
        .issues
        .iter()
        .map(|issue| format!("{} `{}` {}", issue.code, &text[issue.span.range()], issue.message))
        .collect()
}

fn codes(text: &str) -> Vec<&'static str> {
    parse(text, &Limits::default()).issues.iter().map(|issue| issue.code.id()).collect()
}

#[test]
fn operators_have_the_precedence_of_the_grammar() {
    assert_eq!(tree("1 + 2 * 3 - 4"), "((1 + (2 * 3)) - 4)");
    assert_eq!(tree("a < b == c"), "((a < b) == c)");
    assert_eq!(tree("a || b && c || d"), "((a || (b && c)) || d)");
    assert_eq!(tree("a && b && c && d"), "((a && b) && (c && d))");
    assert_eq!(tree("a ? b : c ? d : e"), "(a ? b : (c ? d : e))");
    assert_eq!(tree("!a.b"), "(!a.b)");
    assert_eq!(tree("!!a"), "a");
    assert_eq!(tree("-a + -1"), "((-a) + -1)");
    assert_eq!(tree("a-1"), "(a - 1)");
    assert_eq!(tree("!-1"), "(!-1)");
    assert_eq!(tree("!(-a)"), "(!(-a))");
    assert_eq!(codes("-!a"), ["K0501"]);
    assert_eq!(codes("!-a"), ["K0501"]);
    assert_eq!(tree("a in b + c"), "(a in (b + c))");
    assert_eq!(tree("(a + b) * c"), "((a + b) * c)");
}

#[test]
fn all_forms_of_numbers_are_parsed() {
    assert_eq!(
        tree("[0, 0x1F, 7u, 0xFFu, 1.5, .5, 1e3, 1.5e-3]"),
        "[0, 31, 7u, 255u, 1.5, 0.5, 1000.0, 0.0015]"
    );
    assert_eq!(tree("-9223372036854775808"), "-9223372036854775808");
    assert_eq!(tree("-0x1"), "-1");
    assert_eq!(tree("18446744073709551615u"), "18446744073709551615u");
    assert_eq!(tree("1.f(2)"), "1.f(2)");
    assert_eq!(codes("9223372036854775808"), ["K0505"]);
    assert_eq!(codes("-9223372036854775809"), ["K0505"]);
    assert_eq!(codes("1e999"), ["K0505"]);
    assert_eq!(codes("12abc + 1"), ["K0505"]);
    assert_eq!(codes("0X1F"), ["K0505"]);
}

#[test]
fn all_forms_of_strings_are_parsed() {
    assert_eq!(tree(r#"'a"b' + "c'd""#), r#"("a\"b" + "c'd")"#);
    assert_eq!(tree("'''a'b\nc'''"), r#""a'b\nc""#);
    assert_eq!(tree(r#"r'\d' + R"\n""#), r#"("\\d" + "\\n")"#);
    assert_eq!(tree(r"'\x41\101\u00e9\U0001F600\n\`\?'"), "\"AAé😀\\n`?\"");
    assert_eq!(tree(r"b'\xff\377é'"), "b[255, 255, 195, 169]");
    assert_eq!(tree(r"br'\n'"), "b[92, 110]");
    assert_eq!(tree("'''a\r\nb'''"), r#""a\nb""#);
    assert_eq!(tree("''"), r#""""#);
    assert_eq!(tree("\"\"\"\"\"\""), r#""""#);
    assert_eq!(codes(r"'\q'"), ["K0504"]);
    assert_eq!(codes(r"'\u12'"), ["K0504"]);
    assert_eq!(codes(r"'\ud800'"), ["K0504"]);
    assert_eq!(codes(r"'\U00110000'"), ["K0504"]);
    assert_eq!(codes(r"b'\u0041'"), ["K0504"]);
    assert_eq!(codes(r"'\400'"), ["K0504"]);
    assert_eq!(codes("'abc"), ["K0503"]);
    assert_eq!(codes("'abc\n'"), ["K0503"]);
    assert_eq!(codes("rb'a'"), ["K0501"]);
}

#[test]
fn members_indexes_and_optionals_nest() {
    assert_eq!(tree("a.b[0].c(d).?e[?f]"), "a.b[0].c(d).?e[?f]");
    assert_eq!(tree("a.`b-c`.`d.e/f g`"), "a.b-c.d.e/f g");
    assert_eq!(tree("a.namespace.if.package()"), "a.namespace.if.package()");
    assert_eq!(tree(".a.b + .f(c)"), "(.a.b + .f(c))");
    assert_eq!(tree("[?a, b,]"), "[?a, b]");
    assert_eq!(tree("{?a: b, 'c': d,}"), r#"{?a: b, "c": d}"#);
    assert_eq!(tree("a.b.C{x: 1, ?y: z}"), "a.b.C{x: 1, ?y: z}");
    assert_eq!(tree("a // all of it\n + b"), "(a + b)");
}

#[test]
fn macros_are_nodes() {
    assert_eq!(tree("has(a.b.c)"), "has(a.b.c)");
    assert_eq!(tree("a.all(x, x > 0)"), "All(a; x, (x > 0))");
    assert_eq!(tree("a.exists_one(k, v, v)"), "ExistsOne(a; k, v, v)");
    assert_eq!(tree("a.map(x, p, b)"), "Map(a; x, if p, b)");
    assert_eq!(tree("a.transformMap(k, v, p, b)"), "TransformMap(a; k, v, if p, b)");
    assert_eq!(tree("a.sortBy(x, x.y)"), "SortBy(a; x, x.y)");
    assert_eq!(tree("cel.bind(x, 1, x + x)"), "bind(x = 1; (x + x))");
    assert_eq!(tree("a.optMap(x, x) "), "optional(flat false; a; x, x)");
    assert_eq!(tree("a.optFlatMap(x, x)"), "optional(flat true; a; x, x)");
    assert_eq!(tree("all(x, y)"), "all(x, y)");
    let parsed = parse("a.existsOne(x, true)", &Limits::default());
    let Node::Comprehension(inner) = &parsed.ast.root.node else { panic!("{:?}", parsed.ast) };
    assert_eq!((inner.kind, inner.name.text.as_str()), (ComprehensionKind::ExistsOne, "existsOne"));
}

#[test]
fn invalid_macro_arguments_are_reported() {
    assert_eq!(errors("a.map(x)"), ["K0508 `map` the macro `map` takes 2 or 3 arguments, found 1"]);
    assert_eq!(
        errors("a.filter(x.y, true)"),
        ["K0509 `x.y` the variable must be a simple name, found `x.y`"]
    );
    assert_eq!(codes("has(a)"), ["K0510"]);
    assert_eq!(codes("has(a['b'])"), ["K0510"]);
    assert_eq!(codes("has(a.?b)"), ["K0510"]);
    assert_eq!(codes("has()"), ["K0508"]);
    assert_eq!(codes("a.all(x, x, true)"), ["K0515"]);
    assert_eq!(codes("cel.bind(1, 2, 3)"), ["K0509"]);
    assert_eq!(codes("a.optMap(x)"), ["K0508"]);
}

#[test]
fn errors_have_the_position_of_the_token() {
    assert_eq!(errors("a +"), ["K0501 `` expected an expression, found the end of the expression"]);
    assert_eq!(errors("a b"), ["K0501 `b` expected an operator or the end of the expression, found `b`"]);
    assert_eq!(
        errors("size(a"),
        ["K0506 `(` expected `)` to close this `(`, found the end of the expression"]
    );
    assert_eq!(errors("a)"), ["K0506 `)` unmatched `)`"]);
    assert_eq!(errors(""), ["K0512 `` expected an expression, found nothing"]);
    assert_eq!(errors("  // nothing"), ["K0512 `` expected an expression, found nothing"]);
    assert_eq!(errors("a.1"), ["K0501 `.1` expected an operator or the end of the expression, found `.1`"]);
    assert_eq!(errors("{1, 2}"), ["K0501 `,` expected `:` and a value after the key, found `,`"]);
    assert_eq!(errors("for"), ["K0507 `for` `for` is a reserved word"]);
    assert_eq!(errors("a.in"), ["K0507 `in` expected a field name, found the keyword `in`"]);
    assert_eq!(codes("a ? b ? 1 : 2 : 3"), ["K0513"]);
    assert_eq!(codes("a = b"), ["K0514"]);
    assert_eq!(codes("a and b or c"), ["K0514", "K0514"]);
    assert_eq!(codes("a & b | c"), ["K0514", "K0514"]);
    assert_eq!(codes("a # b"), ["K0502"]);
    assert_eq!(codes("größe"), ["K0502"]);
    assert_eq!(codes("a ? b"), ["K0501"]);
    assert_eq!(codes("`a`"), ["K0501"]);
    assert_eq!(codes("f(a,)"), ["K0501"]);
}

#[test]
fn independent_errors_are_all_reported_and_none_twice() {
    assert_eq!(codes("f(1 +, 2 *, 3)"), ["K0501", "K0501"]);
    assert_eq!(codes("[a b, c, d e]"), ["K0501", "K0501"]);
    assert_eq!(codes("{'a': , 'b' 2, 'c': 3}"), ["K0501", "K0501"]);
    assert_eq!(codes("f('\\q', 99999999999999999999, has(x))"), ["K0504", "K0505", "K0510"]);
    assert_eq!(codes("(a b"), ["K0501"]);
    assert_eq!(codes("[1, 2"), ["K0506"]);
    assert_eq!(codes("f(a[1, b)"), ["K0501"]);
    assert_eq!(codes("x.map(i i.name)"), ["K0501"]);
    assert_eq!(codes("((("), ["K0501"]);
}

#[test]
fn large_expressions_are_rejected_early() {
    let rejected = |text: String| {
        let limits = Limits { length: 1 << 22, ..Limits::default() };
        let parsed = parse(text, &limits);
        assert_eq!(parsed.issues.iter().map(|issue| issue.code.id()).collect::<Vec<_>>(), ["K0511"]);
    };
    rejected("(".repeat(10_000) + "1" + &")".repeat(10_000));
    rejected("[".repeat(10_000));
    rejected("1".to_owned() + &"+1".repeat(10_000));
    rejected("a".to_owned() + &".b".repeat(10_000));
    rejected("-(".repeat(10_000) + "a");
    rejected("a ? b : ".repeat(10_000) + "c");
    rejected("1 + (".repeat(10_000));
    rejected("a[".repeat(10_000));
    rejected("f(".repeat(10_000));
    rejected("[".to_owned() + &"1,".repeat(10_000) + "1]");
    rejected("a || ".repeat(20_000) + "a");
    assert_eq!(codes(&"a || ".repeat(20_000)), ["K0511"]);
    assert_eq!(tree(&("(".repeat(200) + "1" + &")".repeat(200))), "1");
    assert!(tree(&("a || ".repeat(1_000) + "a")).len() > 1_000);
    assert!(tree(&("1 + ".repeat(200) + "1")).len() > 200);
}

#[test]
fn spans_cover_the_text_of_each_node() {
    let text = "(a + b).c  ||  -1 < d";
    let parsed = parse(text, &Limits::default());
    let Node::Binary { left, right, operator_span, .. } = &parsed.ast.root.node else { panic!() };
    assert_eq!(&text[parsed.ast.root.span.range()], text);
    assert_eq!(&text[left.span.range()], "(a + b).c");
    assert_eq!(&text[right.span.range()], "-1 < d");
    assert_eq!(&text[operator_span.range()], "||");
}
