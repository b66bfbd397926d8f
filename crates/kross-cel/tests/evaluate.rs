//! Evaluates expressions: results, costs and error messages.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kross_cel::error::{EvalError, Fault};
use kross_cel::syntax::{Limits, parse};
use kross_cel::types::{ObjectType, Type, TypeId, TypeProvider};
use kross_cel::value::{Value, to_data};
use kross_cel::{Budget, Cancellation, Env, Program};
use kross_value::{Text, Value as Data};

const SCHEMA: &str = r#"{
    "metadata": {"name": "web", "labels": {"app": "web", "tier": "front"}},
    "spec": {"replicas": 3, "ratio": 2, "key": "aGk=", "at": "2024-01-02T03:04:05Z", "every": "90s",
             "ports": [{"name": "http", "port": 80.0}, {"name": "https", "port": 443}], "empty": null,
             "matrix": [[1, 2], [3, 4]]}
}"#;

/// Object types, as from a schema.
#[derive(Debug)]
struct Table;

const ROOT: u32 = 0;
const METADATA: u32 = 1;
const SPEC: u32 = 2;
const PORT: u32 = 3;

impl TypeProvider for Table {
    fn type_name(&self, id: TypeId) -> String {
        ["Root", "Metadata", "Spec", "Port"][id.0 as usize].into()
    }

    fn field(&self, id: TypeId, field: &str) -> Option<Type> {
        Some(match (id.0, field) {
            (ROOT, "metadata") => object(METADATA),
            (ROOT, "spec") => object(SPEC),
            (METADATA, "name") | (PORT, "name") => Type::String,
            (METADATA, "labels") => Type::map(Type::String, Type::String),
            (SPEC, "replicas") | (PORT, "port") => Type::Int,
            (SPEC, "ratio") => Type::Double,
            (SPEC, "key") => Type::Bytes,
            (SPEC, "at") => Type::Timestamp,
            (SPEC, "every") => Type::Duration,
            (SPEC, "empty") => Type::nullable(Type::String),
            (SPEC, "ports") => Type::list(object(PORT)),
            (SPEC, "matrix") => Type::list(Type::list(Type::Int)),
            _ => return None,
        })
    }

    fn field_names(&self, _: TypeId) -> Vec<Text> {
        Vec::new()
    }

    fn needs_conversion(&self, id: TypeId) -> bool {
        id.0 != METADATA
    }
}

fn object(id: u32) -> Type {
    static PROVIDER: std::sync::LazyLock<Arc<dyn TypeProvider>> =
        std::sync::LazyLock::new(|| Arc::new(Table));
    Type::Object(ObjectType::new(PROVIDER.clone(), TypeId(id)))
}

fn schema() -> Data {
    serde_json::from_str(SCHEMA).unwrap()
}

fn program(text: &str, schema_type: Type) -> Program {
    let env = Env::standard().with_variables([("schema", schema_type), ("absent", Type::Dyn)]);
    Program::new(&env.compile(text).unwrap_or_else(|issues| panic!("`{text}`: {issues:?}"))).unwrap()
}

fn run(program: &Program, value: &Value, budget: &mut Budget) -> Result<Value, EvalError> {
    program.evaluate_with(|name| (*name == "schema").then(|| value.clone()), budget)
}

/// Evaluates with `schema` as raw JSON of type `dyn`.
fn evaluate(text: &str) -> Result<Value, EvalError> {
    run(&program(text, Type::Dyn), &Value::from(&schema()), &mut Budget::default())
}

/// Evaluates with `schema` as a typed object.
fn typed(text: &str) -> Result<Value, EvalError> {
    let value = Value::from_data(&schema(), Some(&object(ROOT)));
    run(&program(text, object(ROOT)), &value, &mut Budget::default())
}

fn shown(text: &str) -> String {
    evaluate(text).unwrap_or_else(|error| panic!("`{text}`: {error}")).to_string()
}

/// The text at the position of an error, and its message.
fn failure(text: &str) -> (&str, String) {
    let error = evaluate(text).expect_err(text);
    (&text[error.span.range()], error.to_string())
}

#[test]
fn programs_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Program>();
    shared::<Value>();
}

#[test]
fn values_are_converted_to_the_types_of_the_schema() {
    for (text, expected) in [
        ("schema.spec.replicas + 1", "4"),
        ("schema.spec.ratio / 4.0", "0.5"),
        ("schema.spec.key == b'hi'", "true"),
        ("schema.spec.at.getFullYear()", "2024"),
        ("schema.spec.every > duration('1m')", "true"),
        ("schema.spec.ports[0].port", "80"),
        ("schema.spec.ports.map(p, p.port)", "[80, 443]"),
        ("schema.spec.ports.filter(p, p.port > 100).map(p, p.name)", r#"["https"]"#),
        ("schema.spec.ports.transformList(i, p, i + p.port)", "[80, 444]"),
        ("schema.spec.ports[1]", r#"{"name": "https", "port": 443}"#),
        ("schema.spec.matrix[1][0] + schema.spec.matrix.map(r, r[0])[0]", "4"),
        ("schema.spec.empty == null", "true"),
        ("schema.metadata.labels.app + schema.metadata.name", r#""webweb""#),
        ("schema.spec.?ratio.orValue(1.0)", "2.0"),
        ("cel.bind(s, schema.spec, s.ratio + s.ratio)", "4.0"),
        ("has(schema.spec.ratio) && !has(schema.spec.ports[0].name) || true", "true"),
        ("dyn(schema).spec.ratio", "2.0"),
        ("[schema][0].spec.key", r#"b"hi""#),
    ] {
        assert_eq!(
            typed(text).unwrap_or_else(|error| panic!("`{text}`: {error}")).to_string(),
            expected,
            "{text}"
        );
    }
}

#[test]
fn raw_json_of_unknown_type_is_not_converted() {
    assert_eq!(shown("schema.spec.key"), r#""aGk=""#);
    assert_eq!(shown("schema.spec.ratio"), "2");
    assert_eq!(shown("schema.metadata.labels.map(k, k)"), r#"["app", "tier"]"#);
    assert_eq!(
        shown("schema.metadata.labels.transformMap(k, v, v + k)"),
        r#"{"app": "webapp", "tier": "fronttier"}"#
    );
    assert_eq!(shown("schema.spec.ports.exists(p, p.name == 'https')"), "true");
}

#[test]
fn missing_data_is_pending_and_the_message_says_what_is_missing() {
    for (text, place, message) in [
        ("schema.status.ready", "schema.status", "no such field: status (available: metadata, spec)"),
        ("schema.spec.empty.x", "schema.spec.empty.x", "no such field: x"),
        (
            "schema.metadata.labels['zone']",
            "schema.metadata.labels['zone']",
            "no such key: zone (available: app, tier)",
        ),
        ("schema.spec.ports[7].name", "schema.spec.ports[7]", "index out of bounds: 7 (list length: 2)"),
        (
            "{'a': 1}[string(schema.spec.replicas)]",
            "{'a': 1}[string(schema.spec.replicas)]",
            "no such key: 3 (available: a)",
        ),
        ("1 + absent.x", "absent", "no such attribute: absent"),
        (
            "schema.spec.ports.map(p, p.nodePort)",
            "p.nodePort",
            "no such field: nodePort (available: name, port)",
        ),
    ] {
        assert_eq!(failure(text), (place, message.to_owned()), "{text}");
        assert!(evaluate(text).unwrap_err().fault.is_pending(), "{text}");
    }
}

#[test]
fn other_errors_have_a_position_and_a_message() {
    for (text, place, message) in [
        ("1 + 2 / (schema.spec.replicas - 3)", "2 / (schema.spec.replicas - 3)", "division by zero"),
        ("[9223372036854775807].map(x, x + 1)", "x + 1", "int `+` overflows"),
        ("int('x') == 1 && true", "int('x')", "a string of 1 character is not a valid int"),
        (
            "schema.spec.key.matches('(')",
            "schema.spec.key.matches('(')",
            "a string of 1 character is not a valid regular expression: unclosed group",
        ),
        ("schema.spec.key > 1", "schema.spec.key > 1", "no such overload: > for (string, int)"),
        (
            "optional.none().value()",
            "optional.none().value()",
            "the optional has no value, use `orValue` for a default",
        ),
        (
            "{'a': 1, schema.metadata.name: 2, 'web': 3}",
            "{'a': 1, schema.metadata.name: 2, 'web': 3}",
            "duplicate map key",
        ),
    ] {
        assert_eq!(failure(text), (place, message.to_owned()), "{text}");
        assert!(!evaluate(text).unwrap_err().fault.is_pending(), "{text}");
    }
}

#[test]
fn errors_are_ignored_if_the_other_side_determines_the_result() {
    assert_eq!(shown("schema.nothing || true"), "true");
    assert_eq!(shown("schema.nothing && false"), "false");
    assert_eq!(shown("[1, 0, 2].exists(x, 4 / x == 2)"), "true");
    assert_eq!(shown("[1, 0, 2].all(x, 4 / x == 5)"), "false");
    assert!(evaluate("[1, 0].all(x, 4 / x == 4)").is_err());
    assert!(evaluate("schema.nothing || false").unwrap_err().fault.is_pending());
    assert!(evaluate("schema.nothing ? 1 : 2").is_err());
    assert_eq!(shown("optional.of(1).orValue(1 / 0)"), "1");
}

#[test]
fn an_evaluation_ends_when_its_budget_is_exhausted() {
    let nested = program(
        "lists.range(300).map(x, lists.range(300).map(y, lists.range(300).map(z, x * y * z)))",
        Type::Dyn,
    );
    let mut budget = Budget::new(100_000);
    let error = run(&nested, &Value::Null, &mut budget).unwrap_err();
    assert_eq!((error.fault, budget.left()), (Fault::BudgetExceeded, 0));
    // `||` does not absorb it.
    let absorbed = program("lists.range(1000).all(x, lists.range(1000).all(y, y >= 0)) || true", Type::Dyn);
    let error = run(&absorbed, &Value::Null, &mut Budget::new(5_000)).unwrap_err();
    assert_eq!(error.fault, Fault::BudgetExceeded);
}

#[test]
fn an_evaluation_ends_when_it_is_cancelled() {
    let program = program("lists.range(1000).all(x, x >= 0) || true", Type::Dyn);
    let flag = Arc::new(AtomicBool::new(false));
    let is_set = Arc::clone(&flag);
    let cancellation = Cancellation::new(move || is_set.load(std::sync::atomic::Ordering::Relaxed));
    let mut budget = Budget::default().cancelled_by(cancellation);
    assert!(run(&program, &Value::Null, &mut budget).is_ok());
    flag.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(run(&program, &Value::Null, &mut budget).unwrap_err().fault, Fault::Cancelled);
}

#[test]
fn an_evaluation_ends_when_it_allocates_too_much_memory() {
    for text in [
        "lists.range(100000).map(x, random.seededString(4000, string(x)))",
        "lists.range(5000).map(x, lists.range(5000).map(y, y))",
        "lists.range(5000).map(x, [0].map(y, random.seededString(100000, string(x))).join('b').lowerAscii())",
        "lists.range(2000).map(x, 'a' + random.seededString(1000000, string(x)))",
    ] {
        let mut budget = Budget::new(10_000_000_000);
        let fault = run(&program(text, Type::Dyn), &Value::Null, &mut budget).err().map(|error| error.fault);
        assert_eq!(fault, Some(Fault::OutOfMemory), "{text}");
    }
    // Small values written a million times.
    let shared = (0..18)
        .fold("v0".to_owned(), |body, level| format!("cel.bind(v{level}, [v{0}, v{0}], {body})", level + 1));
    let text = format!("cel.bind(v18, dyn([3]), {shared})");
    let value = evaluate(&text).unwrap();
    let mut budget = Budget::new(10_000_000);
    for _ in 0..4 {
        budget.to_data(&value).unwrap();
    }
    assert!((0..10).any(|_| budget.to_data(&value).is_err()), "{} units are left", budget.left());
}

#[test]
fn values_with_shared_parts_exhaust_the_budget() {
    // v40 = [3], v39 = [v40, v40], …: 2^40 elements, built with 41 lists.
    let text = (0..40).fold("v0 == v0".to_owned(), |body, level| {
        format!("cel.bind(v{level}, [v{0}, v{0}], {body})", level + 1)
    });
    let text = format!("cel.bind(v40, [schema.spec.replicas], {text})");
    let error = evaluate(&text).unwrap_err();
    assert_eq!(error.fault, Fault::BudgetExceeded);
    let value = evaluate(&text.replace("v0 == v0", "v0")).unwrap();
    assert!(to_data(&value).is_err());
    assert!(value.to_string().len() < 500);
}

#[test]
fn expressions_that_nest_values_too_deeply_are_rejected() {
    // Each level binds a value twenty levels deeper than the one before.
    let text = (0..30).fold("a".to_owned(), |body, _| {
        format!("cel.bind(a, {}a{}, {body})", "[".repeat(20), "]".repeat(20))
    });
    let env = Env::standard().with_variables([("a", Type::Dyn)]);
    let parsed = parse(text.as_str(), &Limits::default());
    assert!(parsed.issues.is_empty());
    let error = Program::new(&env.resolve(parsed.ast)).unwrap_err();
    assert!(error.to_string().contains("nests values more than"), "{error}");
}

#[test]
fn long_chains_of_operators_are_evaluated() {
    let sum = vec!["1"; 200].join(" + ");
    assert_eq!(shown(&sum), "200");
    let text = vec!["schema.metadata.name"; 200].join(" + ");
    assert_eq!(shown(&format!("({text}).size()")), "600");
    let logic = vec!["schema.spec.replicas == 3"; 100].join(" && ");
    assert_eq!(shown(&logic), "true");
}

#[test]
fn variables_are_listed_once_and_in_order() {
    let program = program("schema.spec.replicas + absent + schema.spec.replicas", Type::Dyn);
    assert_eq!(program.variables(), [Text::from("schema"), Text::from("absent")]);
    let slots = [Some(Value::from(&schema())), Some(Value::Int(1))];
    assert_eq!(program.evaluate(&slots, &mut Budget::default()).unwrap().to_string(), "7");
    assert!(program.evaluate(&[], &mut Budget::default()).unwrap_err().fault.is_pending());
}

#[test]
fn results_are_converted_to_json() {
    for (text, json) in [
        (
            "{'a': [schema.spec.replicas, 2u, 1.5], 'b': schema.spec.ports[0], 'c': optional.none()}",
            r#"{"a":[3,2,1.5],"b":{"name":"http","port":80.0},"c":null}"#,
        ),
        ("{?'a': schema.?nothing, ?'b': optional.of(1)}", r#"{"b":1}"#),
        ("[timestamp('2024-01-02T03:04:05.6Z'), duration('90s')]", r#"["2024-01-02T03:04:05Z","1m30s"]"#),
        ("type(1)", r#""int""#),
    ] {
        assert_eq!(to_data(&evaluate(text).unwrap()).unwrap().unwrap().to_string(), json, "{text}");
    }
}

#[test]
fn bound_values_are_evaluated_on_first_use() {
    assert_eq!(shown("cel.bind(a, 1 / 0, 5)"), "5");
    assert_eq!(shown("cel.bind(a, 1 / 0, true || a == 1)"), "true");
    assert_eq!(failure("cel.bind(a, 1 / 0, [1].map(x, a + x))").1, "division by zero");
    assert_eq!(failure("cel.bind(a, 1 / 0, a == 1 || a == 2)").1, "division by zero");
    // Evaluated inside another macro, it does not overwrite that macro's variables.
    assert_eq!(
        shown("cel.bind(a, [1].map(x, [2].map(y, x + y)), [7].map(z, [8].map(w, [z, w, a[0][0]])))"),
        "[[[7, 8, 3]]]"
    );
    assert_eq!(shown("[1, 2].map(x, cel.bind(a, x * 10, [a, a + x]))"), "[[10, 11], [20, 22]]");
    assert_eq!(shown("cel.bind(a, schema.spec, a.replicas + a.ports.size())"), "5");
}

#[test]
fn nested_macros_have_separate_variables() {
    assert_eq!(shown("[1, 2].map(x, [10, 20].map(y, x + y).map(z, z * x))"), "[[11, 21], [24, 44]]");
    assert_eq!(shown("[1, 2].map(x, [3].map(x, x)[0] + x)"), "[4, 5]");
    assert_eq!(shown("[[1, 2], [3]].map(x, x.map(x, x * 2))"), "[[2, 4], [6]]");
    assert_eq!(shown("cel.bind(a, 1, cel.bind(b, a + 1, [a, b].exists(a, a == 2) && a == 1))"), "true");
    assert_eq!(shown("optional.of([1]).optMap(l, l.map(x, x + l[0]))"), "optional.of([2])");
    assert_eq!(shown("[3, 1, 2].sortBy(x, -x)"), "[3, 2, 1]");
    assert_eq!(shown("{'a': 1, 'b': 2}.transformMapEntry(k, v, v > 1, {v: k})"), r#"{2: "b"}"#);
}
