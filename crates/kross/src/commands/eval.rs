//! Turns a CEL expression and documents bound to variables into a value, printed as JSON, or into diagnostics.

use std::path::PathBuf;

use anyhow::{Context, bail};
use kross_cel::error::{EvalError, Issue};
use kross_cel::template::scan;
use kross_cel::types::Type;
use kross_cel::value::{Value as CelValue, to_data};
use kross_cel::{Budget, Env, Program, Span, library};
use kross_diagnostics::{Code, Diagnostic, Diagnostics, SourceId, Sources, Span as SourceSpan};
use kross_graph::Resolvers;
use kross_schema::GroupVersionKind;
use kross_value::{Text, Value};

use crate::input::{Input, SchemaArguments, Schemas};
use crate::output::{Outcome, Output};

const EXAMPLES: &str = "\
Examples:
  # Evaluate an expression against an instance
  kross eval 'schema.spec.replicas * 2' --with schema=instance.yaml

  # Print the type of an expression
  kross eval --type '[1, 2].map(x, string(x))'";

/// Arguments of `kross eval`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// CEL expression, with or without `${` and `}` around it
    #[arg(value_name = "EXPRESSION", allow_hyphen_values = true)]
    expression: String,
    /// Bind a document to a variable: `--with schema=instance.yaml`; several documents become a list
    #[arg(long, value_name = "NAME=PATH")]
    with: Vec<String>,
    /// Print the type of the expression instead of its value
    #[arg(long = "type")]
    print_type: bool,
    #[command(flatten)]
    schemas: SchemaArguments,
}

/// A variable with its type and value.
struct Variable {
    name: Text,
    value_type: Type,
    value: CelValue,
}

/// Checks and evaluates the expression.
///
/// # Errors
/// A document cannot be read.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let Arguments { expression, with, print_type, schemas } = arguments;
    let mut input = Input::default();
    let schemas = input.schemas(schemas)?;
    let mut variables = Vec::new();
    for binding in with {
        variables.push(bind(binding, &mut input, &schemas)?);
    }
    let mut diagnostics = std::mem::take(&mut input.diagnostics);
    if diagnostics.has_errors() {
        return report(&diagnostics, &input.sources, output);
    }
    let scanned = scan(expression);
    let text = match scanned.expressions().next().filter(|_| scanned.is_standalone()) {
        Some(inner) => expression.get(inner).unwrap_or(expression),
        None => expression,
    };
    let source = input.sources.add("<expression>", text);
    let env = environment()?.with_variables(
        variables.iter().map(|variable| (variable.name.clone(), variable.value_type.clone())),
    );
    let checked = match env.compile(text) {
        Ok(checked) => checked,
        Err(issues) => {
            let issues = issues.into_iter().map(|issue| with_binding(issue, text, &env));
            diagnostics.extend(issues.map(|issue| of_issue(issue, source)));
            return report(&diagnostics, &input.sources, output);
        }
    };
    if *print_type {
        output.data(checked.result())?;
        return Ok(Outcome::Success);
    }
    let lookup = |name: &Text| {
        variables.iter().find(|variable| variable.name == *name).map(|variable| variable.value.clone())
    };
    let value =
        Program::new(&checked).and_then(|program| program.evaluate_with(lookup, &mut Budget::default()));
    let whole = Span::new(0, u32::try_from(text.len()).unwrap_or(u32::MAX));
    let data = value.and_then(|value| to_data(&value).map_err(|fault| EvalError { fault, span: whole }));
    match data {
        Ok(data) => {
            output.data(
                serde_json::to_string_pretty(&data.unwrap_or_default()).context("cannot print the value")?,
            )?;
            Ok(Outcome::Success)
        }
        Err(error) => {
            diagnostics.push(of_error(&error, source));
            report(&diagnostics, &input.sources, output)
        }
    }
}

/// Says how to bind an unknown variable, unless a known variable or a function was probably meant.
fn with_binding(issue: Issue, text: &str, env: &Env) -> Issue {
    let name = text.get(issue.span.range()).unwrap_or_default();
    let is_function = env.functions().find(name).is_some();
    if issue.code != Code::UndeclaredReference || issue.replacement.is_some() || is_function {
        return issue;
    }
    issue.help(format!("bind a document to it with `--with {name}=FILE`; a string needs quotes"))
}

/// The functions of every context in which expressions occur.
fn environment() -> anyhow::Result<Env> {
    let env = Env::new(library::standard().chain([&library::kro::omit::LIBRARY]));
    env.context("cannot declare the CEL functions")
}

/// Reads `NAME=PATH`. An object of a known kind gets the types of its schema, anything else is dynamic.
fn bind(binding: &str, input: &mut Input, schemas: &Schemas) -> anyhow::Result<Variable> {
    let Some((name, path)) = binding.split_once('=') else {
        bail!("`{binding}` is not a binding: use `--with NAME=PATH`");
    };
    let documents = input.read(&[PathBuf::from(path)])?;
    let types: Vec<Type> = documents.iter().map(|document| type_of(document.value(), schemas)).collect();
    let values = documents
        .iter()
        .zip(&types)
        .map(|(document, read_as)| CelValue::from_data(document.value(), Some(read_as)));
    let values: Vec<CelValue> = values.collect();
    let (value_type, value) = match (types.as_slice(), values.as_slice()) {
        ([], _) | (_, []) => bail!("no document in {path}"),
        ([only], [value]) => (only.clone(), value.clone()),
        ([first, rest @ ..], _) => {
            let item = if rest.iter().all(|other| other == first) { first.clone() } else { Type::Dyn };
            (Type::list(item), CelValue::list(values))
        }
    };
    Ok(Variable { name: name.into(), value_type, value })
}

fn type_of(document: &Value, schemas: &Schemas) -> Type {
    let text = |field: &str| document.get(field).and_then(Value::as_str);
    let kind =
        text("apiVersion").zip(text("kind")).map(|(version, kind)| GroupVersionKind::new(version, kind));
    let resolved = kind.and_then(|kind| schemas.local().resolve(&kind));
    resolved.map_or(Type::Dyn, |resolved| resolved.schema.cel_type())
}

fn of_issue(issue: Issue, source: SourceId) -> Diagnostic {
    let span = SourceSpan::new(source, issue.span.start, issue.span.end);
    let diagnostic = Diagnostic::new(issue.code, issue.message).at(span);
    match (issue.help, issue.replacement) {
        (Some(help), Some(replacement)) => diagnostic.fix(help, span, replacement),
        (Some(help), None) => diagnostic.help(help),
        (None, _) => diagnostic,
    }
}

fn of_error(error: &EvalError, source: SourceId) -> Diagnostic {
    let code = if error.fault.is_pending() { Code::NotThereYet } else { Code::EvaluationFailed };
    let diagnostic = Diagnostic::new(code, error.to_string()).at(SourceSpan::new(
        source,
        error.span.start,
        error.span.end,
    ));
    if error.fault.is_pending() {
        diagnostic
            .help("in a graph, kross waits until the field exists; to continue without it, use `.?field` or `.orValue(…)`")
    } else {
        diagnostic
    }
}

fn report(diagnostics: &Diagnostics, sources: &Sources, output: &mut Output) -> anyhow::Result<Outcome> {
    let format = output.note_format();
    output.note(format.render(diagnostics, sources).trim_end());
    Ok(Outcome::No)
}
