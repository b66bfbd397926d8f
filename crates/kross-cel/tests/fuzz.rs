//! Runs all stages (parse, check, lower, evaluate, serialize) on random tokens and mutated expressions. Nothing may panic,
//! hang or overflow the stack.
//!
//! `KROSS_FUZZ_INPUTS` sets the number of inputs, `KROSS_FUZZ_SEED` the seed; run with `--release` for millions of inputs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    missing_docs
)]

#[path = "types/provider.rs"]
mod provider;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kross_cel::references::References;
use kross_cel::syntax::{Limits, parse};
use kross_cel::types::Type;
use kross_cel::value::{Value, to_data};
use kross_cel::{Budget, Env, Program};

const INPUTS: u64 = 50_000;
/// The budget of one evaluation: enough to enter every loop, too little to stay in it.
const UNITS: u64 = 20_000;
/// An input that takes longer hangs, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

const CORPUS: &[&str] = &[
    r#"schema.spec.name + "-" + string(schema.spec.replicas)"#,
    "items.map(x, x * 2).filter(y, y % 2 == 0).size() > 3",
    "items.all(x, x >= 0) && items.exists(x, x == 7) || items.exists_one(x, x == 3)",
    "has(schema.spec.name) ? schema.?status.?ready.orValue(false) : [?schema.?x, 1, 2][1] == 1",
    "{'a': 1, 2: 'b', true: null, 3u: [1.5, b'x']}[dyn(2)]",
    "cel.bind(a, [1, 2], cel.bind(b, [a, a], [b, b] == [b, b]))",
    "optional.of(1).optMap(x, x + 1).or(optional.none()).value()",
    "items.map(i, v, i + v)",
    "schema.metadata.labels.transformMap(k, v, k + v).size()",
    "schema.metadata.labels.transformMapEntry(k, v, {v: k})",
    "items.sortBy(x, -x).first().orValue(0)",
    "timestamp('2024-01-02T03:04:05Z') + duration('1h30m') > timestamp(0)",
    "timestamp('2009-02-13T23:31:30Z').getDayOfYear('Europe/Berlin')",
    "'héllo wörld'.matches('^h.*d$') && 'abc'.contains('b') && 'x'.startsWith('')",
    "string(1.5e300) + string(b'abc') + string(true) + string(7u)",
    "int('123') + int(1.9) + int(2u) + int(timestamp(5)) - -9223372036854775808",
    "9223372036854775807 + 1 == 1 / 0 || 5 % 0 == 1",
    "type(1) == int && type([]) == list && type(null) != type(optional.none())",
    r#"'a' in ['a', "b", r'\c', '''d''', "\u00e9\n"] && 1 in {1: 2}"#,
    "'%s %d %.2f %x'.format(['a', 1, 2.5, 255]) == 'a b'.split(' ').join('-')",
    "'hello'.charAt(1) + 'hello'.substring(1, 3) + 'a,b'.replace(',', '')",
    "lists.range(5).slice(1, 3).reverse().flatten().distinct().sort()",
    "math.greatest(1, 2.0, 3u) < math.least([4, 5])",
    "sets.contains([1, 2], [1]) && sets.intersects([1], [1])",
    "quantity('1.5Gi').add(quantity('100m')).isGreaterThan(quantity('1k'))",
    "ip('10.0.0.1').isLoopback() || cidr('10.0.0.0/8').containsIP('10.1.2.3')",
    "url('https://a.b/c?d=e').getHost() == semver('1.2.3').major() + ''",
    "base64.encode(b'hi') == 'aGk=' && base64.decode('aGk=') == b'hi'",
    "random.seededString(8, 'x') + hash.sha256('x').size() + json.marshal({'a': [1]})",
    "json.unmarshal('{\"a\": [1, {}]}').a[1].deepMerge({'b': 2}).merge({'c': omit()})",
    ".schema.spec.name == schema['spec']['name'] && !(-1 < 0) && (true ? 1 : 2) == 1",
];

const TOKENS: &[&str] = &[
    "schema",
    "items",
    "spec",
    "name",
    "x",
    "y",
    "k",
    "v",
    "int",
    "string",
    "list",
    "type",
    "dyn",
    "has",
    "size",
    "all",
    "exists",
    "exists_one",
    "map",
    "filter",
    "transformList",
    "transformMap",
    "sortBy",
    "cel.bind",
    "optMap",
    "optFlatMap",
    "orValue",
    "or",
    "optional.of",
    "optional.none",
    "matches",
    "format",
    "join",
    "split",
    "in",
    "true",
    "false",
    "null",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    ".",
    "?",
    ".?",
    "[?",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "&&",
    "||",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "1u",
    "18446744073709551615u",
    "0x1f",
    "1.5",
    "1e308",
    ".5",
    "'a'",
    "\"b\"",
    "b'c'",
    "r'\\d'",
    "'''x'''",
    "'é😀'",
    "'\\u00e9'",
    "'\\xff'",
    "'1h'",
    "'[a-z'",
    "'%s'",
    "duration",
    "timestamp",
    "bytes",
    "double",
    "bool",
    "\n",
    " ",
    "//x\n",
    "as",
    "break",
    "`a-b`",
    "é",
    "\\",
    "$",
    "@",
    "#",
    "\u{0}",
    "'",
    "\"",
];

/// The same numbers for a seed on every machine.
struct Random(fastrand::Rng);

impl Random {
    fn with_seed(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound.max(1))
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

fn input(random: &mut Random) -> String {
    match random.below(10) {
        0..=2 => tokens(random),
        3 => nested(random),
        _ => mutated(random),
    }
}

fn tokens(random: &mut Random) -> String {
    (0..random.below(24)).map(|_| random.pick(TOKENS)).collect::<Vec<_>>().join(random.pick(&["", " "]))
}

/// Deeply nested input, which may overflow the stack.
fn nested(random: &mut Random) -> String {
    let times = 1 + random.below(400);
    let (open, close) = [
        ("(", ")"),
        ("[", "]"),
        ("{1:", "}"),
        ("!", ""),
        ("-", ""),
        ("1+", ""),
        ("x.", ""),
        ("[1].map(x,", ")"),
        ("true?1:", ""),
        ("true&&", ""),
        ("cel.bind(a,[a],", ")"),
        ("f(", ")"),
        ("[[[[", "]]]]"),
        ("'a'+", ""),
        ("optional.of(", ")"),
        ("1 in [", "]"),
        ("cel.bind(a, [1], cel.bind(a, [a, a],", "))"),
    ][random.below(17)];
    let inner = random.pick(&["1", "x", "schema", "items", ""]);
    format!("{}{inner}{}", open.repeat(times), close.repeat(times))
}

fn mutated(random: &mut Random) -> String {
    let mut text: Vec<char> = random.pick(CORPUS).chars().collect();
    for _ in 0..random.below(5) {
        let at = random.below(text.len() + 1);
        let end = (at + 1 + random.below(6)).min(text.len());
        match random.below(5) {
            0 => drop(text.drain(at.min(end)..end)),
            1 => drop(text.splice(at..at, random.pick(TOKENS).chars())),
            2 => drop(text.splice(at.min(end)..end, random.pick(TOKENS).chars())),
            3 => {
                let other: Vec<char> = random.pick(CORPUS).chars().collect();
                let from = random.below(other.len());
                let to = (from + random.below(30)).min(other.len());
                drop(text.splice(at..at, other[from..to].iter().copied()));
            }
            _ => {
                let piece: Vec<char> = text[at.min(end)..end].to_vec();
                let times = random.below(4);
                drop(text.splice(at..at, std::iter::repeat_n(piece, times).flatten()));
            }
        }
    }
    text.into_iter().collect()
}

struct World {
    env: Env,
    typed: Env,
    schema: Value,
    items: Value,
}

impl World {
    fn new() -> Self {
        let schema: kross_value::Value = serde_json::from_str(
            r#"{"spec": {"name": "web", "replicas": 3, "x": null}, "metadata": {"labels": {"a": "b", "c": "d"}}}"#,
        )
        .unwrap();
        let items = kross_value::Value::list((0..12).map(kross_value::Value::Int));
        Self {
            env: Env::standard().with_variables([
                ("schema", Type::Dyn),
                ("items", Type::list(Type::Int)),
                ("x", Type::map(Type::String, Type::Dyn)),
            ]),
            typed: provider::environment(),
            schema: Value::from(&schema),
            items: Value::from_data(&items, Some(&Type::list(Type::Int))),
        }
    }

    fn run(&self, text: &str) {
        let parsed = parse(text, &Limits::default());
        let clean = parsed.issues.is_empty();
        for issue in &parsed.issues {
            assert!(text.get(issue.span.range()).is_some(), "the span of `{}` is outside", issue.message);
        }
        let _ = References::of(&self.typed.check(parsed.ast.clone()).0);
        let (checked, issues) = self.env.check(parsed.ast.clone());
        let _ = References::of(&checked);
        for issue in &issues {
            assert!(text.get(issue.span.range()).is_some(), "the span of `{}` is outside", issue.message);
        }
        if clean {
            let checked = if issues.is_empty() { checked } else { self.env.resolve(parsed.ast) };
            self.evaluate(text, &checked);
        }
    }

    fn evaluate(&self, text: &str, checked: &kross_cel::checked::Checked) {
        let Ok(program) = Program::new(checked) else { return };
        let result = program.evaluate_with(
            |name| match name.as_str() {
                "schema" => Some(self.schema.clone()),
                "items" => Some(self.items.clone()),
                _ => None,
            },
            &mut Budget::new(UNITS),
        );
        match result {
            Ok(value) => {
                let _ = (value.to_string(), to_data(&value));
            }
            Err(error) => {
                let _ = error.to_string();
                assert!(text.get(error.span.range()).is_some(), "the span of `{error}` is outside");
            }
        }
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.replace('_', "").parse().expect("a number"))
}

/// The input that a thread is running, and its start time.
type Current = Mutex<Option<(Instant, String)>>;

/// Prints an input that hangs and aborts the process.
fn watch(current: &[Current], running: &AtomicBool) {
    while running.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(50));
        for slot in current {
            if let Some((since, text)) = &*slot.lock().unwrap()
                && since.elapsed() > TIMEOUT
            {
                eprintln!("this input hangs: {text:?}");
                std::process::abort();
            }
        }
    }
}

#[test]
fn no_input_panics_or_hangs() {
    let (inputs, seed) = (number("KROSS_FUZZ_INPUTS", INPUTS), number("KROSS_FUZZ_SEED", 1));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(8);
    let current: Vec<Current> = (0..threads).map(|_| Mutex::default()).collect();
    let (done, running, failures) =
        (AtomicU64::new(0), AtomicBool::new(true), Mutex::new(Vec::<String>::new()));
    let start = Instant::now();
    let work = |thread: usize| {
        let world = World::new();
        for round in (thread as u64..inputs).step_by(threads) {
            let text = input(&mut Random::with_seed(seed.wrapping_mul(0x0100_0000_01b3).wrapping_add(round)));
            *current[thread].lock().unwrap() = Some((Instant::now(), text.clone()));
            if catch_unwind(AssertUnwindSafe(|| world.run(&text))).is_err() {
                let mut failures = failures.lock().unwrap();
                failures.push(text);
                if failures.len() > 10 {
                    break;
                }
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        *current[thread].lock().unwrap() = None;
    };
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&current, &running));
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let work = &work;
                scope.spawn(move || work(thread))
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        running.store(false, Ordering::Relaxed);
    });
    let failures = failures.into_inner().unwrap();
    println!("{} inputs in {:.1} s", done.load(Ordering::Relaxed), start.elapsed().as_secs_f64());
    assert!(failures.is_empty(), "inputs that panic: {failures:#?}");
}
