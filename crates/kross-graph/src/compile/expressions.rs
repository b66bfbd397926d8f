//! Turns the text between `${` and `}` into an [`Expression`]: parses it, checks it in its context, records what it reads.

use std::ops::Range;

use kross_cel::checked::Checked;
use kross_cel::error::Issue;
use kross_cel::references::{Mention, References};
use kross_cel::syntax::{Limits, parse};
use kross_cel::template::{Scan, ScannedPart, scan};
use kross_cel::types::Type;
use kross_diagnostics::{Code, Path, Place, Problem, Severity};
use kross_value::Text;

use super::Compiler;
use super::context::{Context, Position};
use crate::expression::Expression;
use crate::names;
use crate::template::{Part, Template};

/// An expression that is checked and not compiled to a program yet.
pub(super) struct Checking {
    pub(super) source: Text,
    pub(super) checked: Checked,
    pub(super) references: References,
}

impl Compiler<'_> {
    /// The expression of a field that must be exactly one `${…}`.
    pub(super) fn standalone(&mut self, text: &str, path: &Path, context: &Context) -> Option<Expression> {
        let inner = self.standalone_range(text, path)?;
        self.expression(text, inner, path, context)
    }

    /// The range of the expression in such a field.
    pub(super) fn standalone_range(&mut self, text: &str, path: &Path) -> Option<Range<usize>> {
        let scan = self.scan(text, path)?;
        if !scan.is_standalone() {
            self.report(not_standalone(text, path, &scan));
            return None;
        }
        scan.expressions().next()
    }

    /// A list of conditions: expressions that return a bool or an optional bool.
    pub(super) fn conditions(&mut self, texts: &[String], path: &Path, context: &Context) -> Vec<Expression> {
        let mut conditions = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            let path = path.index(at);
            let Some(expression) = self.standalone(text, &path, context) else {
                continue;
            };
            if !is_bool(&expression.result) {
                let message =
                    format!("{} must be a bool, found {}", context.position.name(), expression.result);
                let problem = Problem::new(Code::ConditionNotBool, Place::value(&path), message);
                self.report(problem.help("write a comparison, for example with `==` or `>`"));
            }
            conditions.push(expression);
        }
        conditions
    }

    /// A string as a template: literal, one expression, or text with expressions in it.
    pub(super) fn text(&mut self, text: &Text, path: &Path, context: &Context) -> Option<Template> {
        let scan = self.scan(text, path)?;
        if !scan.has_expressions() {
            return Some(Template::Literal(text.clone().into()));
        }
        if scan.is_standalone() {
            let inner = scan.expressions().next()?;
            return self.expression(text, inner, path, context).map(|it| Template::Expression(Box::new(it)));
        }
        let mut parts = Vec::new();
        let mut whole = true;
        for part in &scan.parts {
            match part {
                ScannedPart::Literal(range) => {
                    parts.push(Part::Literal(text.get(range.clone()).unwrap_or("").into()));
                }
                ScannedPart::Expression { inner, .. } => {
                    match self.expression(text, inner.clone(), path, context) {
                        Some(expression) => {
                            self.check_text_part(&expression, inner, path);
                            parts.push(Part::Expression(expression));
                        }
                        None => whole = false,
                    }
                }
            }
        }
        whole.then_some(Template::Text(parts))
    }

    fn check_text_part(&mut self, expression: &Expression, inner: &Range<usize>, path: &Path) {
        if matches!(expression.result, Type::String | Type::Dyn | Type::Error) {
            return;
        }
        let place = Place::within(path, inner.clone());
        if expression.uses_omit() {
            self.report(omit_problem(place, "a part of a string"));
            return;
        }
        let message = format!("cannot interpolate {} into a string", expression.result.with_article());
        let problem = Problem::new(Code::TextNeedsString, place, message);
        let source = expression.source.trim();
        self.report(match &expression.result {
            Type::Int | Type::UInt | Type::Double | Type::Bool | Type::Timestamp | Type::Duration => {
                problem.help("convert it to a string").replace(format!("string({source})"))
            }
            Type::Bytes => problem.help("encode it as base64").replace(format!("base64.encode({source})")),
            Type::Optional(_) => problem.help("add a default for the empty optional with `.orValue('…')`"),
            Type::Nullable(_) => problem.help("add a default for null: `x == null ? '…' : x`"),
            _ => problem.help("read one of its fields, or encode it as JSON with `json.marshal(…)`"),
        });
    }

    fn scan(&mut self, text: &str, path: &Path) -> Option<Scan> {
        let scan = scan(text);
        for problem in &scan.problems {
            let place = Place::within(path, problem.range.clone());
            self.report(Problem::new(problem.code, place, &*problem.message).help(&*problem.help));
        }
        (!has_errors(&scan)).then_some(scan)
    }

    /// Parses, checks and compiles one expression.
    pub(super) fn expression(
        &mut self,
        text: &str,
        inner: Range<usize>,
        path: &Path,
        context: &Context,
    ) -> Option<Expression> {
        let start = inner.start;
        let checking = self.checked(text, inner, path, context)?;
        self.lower(checking, start, path)
    }

    /// Compiles a checked expression to a program.
    pub(super) fn lower(&mut self, checking: Checking, start: usize, path: &Path) -> Option<Expression> {
        let Checking { source, checked, references } = checking;
        match Expression::new(source, path, &checked, references) {
            Ok(expression) => Some(expression),
            Err(error) => {
                let range = error.span.range();
                let place = Place::within(path, range.start + start..range.end + start);
                self.report(Problem::new(Code::ExpressionTooLarge, place, error.to_string()));
                None
            }
        }
    }

    /// Parses and checks one expression, and records its dependencies.
    pub(super) fn checked(
        &mut self,
        text: &str,
        inner: Range<usize>,
        path: &Path,
        context: &Context,
    ) -> Option<Checking> {
        let source: Text = text.get(inner.clone())?.into();
        let parsed = parse(source.clone(), &Limits::default());
        if !parsed.issues.is_empty() {
            self.report_issues(parsed.issues, path, inner.start);
            return None;
        }
        let (checked, issues) = context.env.check(parsed.ast);
        if !issues.is_empty() {
            self.report_check_issues(issues, &source, path, inner.start, context);
            return None;
        }
        let references = References::of(&checked);
        if context.position.adds_dependencies() && self.reads_itself(&references, path, inner.start, context)
        {
            return None;
        }
        if context.position.adds_dependencies() {
            self.record_dependencies(&references, context);
        }
        Some(Checking { source, checked, references })
    }

    fn report_issues(&mut self, issues: Vec<Issue>, path: &Path, offset: usize) {
        for issue in issues {
            let range = issue.span.range();
            let place = Place::within(path, range.start + offset..range.end + offset);
            let mut problem = Problem::new(issue.code, place, issue.message);
            problem.help = issue.help;
            problem.replacement = issue.replacement;
            self.report(problem);
        }
    }

    /// Reports names that exist but are not available here, each once; all other issues are reported as the checker has them.
    fn report_check_issues(
        &mut self,
        issues: Vec<Issue>,
        source: &str,
        path: &Path,
        offset: usize,
        context: &Context,
    ) {
        let mut reported: Vec<String> = Vec::new();
        let mut rest = Vec::new();
        for issue in issues {
            let name =
                source.get(issue.span.range()).and_then(|text| text.split('.').next()).unwrap_or("").trim();
            if let Some(problem) = self.id_with_operators(&issue, source, path, offset) {
                self.report(problem);
            } else if issue.code != Code::UndeclaredReference || !self.exists(name) {
                rest.push(issue);
            } else if !reported.iter().any(|known| known == name) {
                let start = issue.span.range().start + offset;
                let place = Place::within(path, start..start + name.len());
                self.report(out_of_context(name, place, context));
                reported.push(name.to_owned());
            }
        }
        self.report_issues(rest, path, offset);
    }

    /// The diagnostic for a variable that is a part of an invalid id: CEL reads `my-service` as a subtraction.
    fn id_with_operators(&self, issue: &Issue, source: &str, path: &Path, offset: usize) -> Option<Problem> {
        let at = issue.span.range().start;
        let covers = |id: &&str| {
            id.contains('-')
                && source.match_indices(*id).any(|(start, id)| (start..start + id.len()).contains(&at))
        };
        let id = self.ids.keys().copied().filter(|_| issue.code == Code::UndeclaredReference).find(covers)?;
        let start = source.get(..at + id.len()).unwrap_or(source).rfind(id)? + offset;
        let message = format!("`{id}` is a subtraction in CEL");
        let problem = Problem::new(Code::InvalidName, Place::within(path, start..start + id.len()), message);
        let fixed = names::fix(id);
        Some(problem.help(format!("rename the resource to `{fixed}`")).replace(fixed))
    }

    /// A template cannot read the object that is created from it.
    fn reads_itself(
        &mut self,
        references: &References,
        path: &Path,
        offset: usize,
        context: &Context,
    ) -> bool {
        let own = |mention: &&Mention| context.own.as_ref() == Some(&mention.variable);
        let Some(mention) = references.variables.iter().find(own) else {
            return false;
        };
        let range = mention.span.range();
        let place = Place::within(path, range.start + offset..range.end + offset);
        self.report(out_of_context(&mention.variable, place, context));
        true
    }

    /// Whether a name is declared anywhere in the definition.
    fn exists(&self, name: &str) -> bool {
        self.ids.contains_key(name)
            || self.axes.contains(name)
            || ["schema", "resources", "runtime", "each"].contains(&name)
    }

    fn record_dependencies(&mut self, references: &References, context: &Context) {
        // A forEach variable with the name of its resource hides it; that was reported already.
        let resources = self.spec.resources.iter();
        let index_of = |name: &Text| {
            resources.clone().position(|resource| *name == *resource.id && context.own.is_some())
        };
        for mention in &references.variables {
            if let Some(index) = index_of(&mention.variable) {
                self.edges.entry(index).or_default();
            }
        }
        for read in &references.reads {
            if let Some(index) = index_of(&read.variable) {
                let whole = read.to_string();
                let field = whole.strip_prefix(read.variable.as_str()).unwrap_or("").trim_start_matches('.');
                self.edges.entry(index).or_default().insert(field.to_owned());
            }
        }
    }
}

/// Whether a string has no expressions, not even invalid ones, although it may contain `${`.
pub(super) fn is_text(text: &str) -> bool {
    let scan = scan(text);
    !scan.has_expressions() && !has_errors(&scan)
}

fn has_errors(scan: &Scan) -> bool {
    scan.problems.iter().any(|problem| problem.code.severity() == Severity::Error)
}

fn is_bool(result: &Type) -> bool {
    match result {
        Type::Bool | Type::Dyn | Type::Error => true,
        Type::Optional(inner) | Type::Nullable(inner) => is_bool(inner),
        _ => false,
    }
}

fn not_standalone(text: &str, path: &Path, scan: &Scan) -> Problem {
    let problem = Problem::new(
        Code::NotStandalone,
        Place::value(path),
        "this field must be exactly one `${…}` expression",
    );
    if !scan.has_expressions() {
        return problem
            .label("not an expression")
            .help("wrap it in `${…}`")
            .replace(format!("${{{}}}", text.trim()));
    }
    if text.ends_with('\n') && scan.expressions().count() == 1 {
        return problem.help("use `|-` instead of `|` to strip the trailing newline");
    }
    problem.help("write one expression; combine conditions with `&&`")
}

fn out_of_context(name: &str, place: Place, context: &Context) -> Problem {
    let position = context.position;
    let own = context.own.as_ref().is_some_and(|own| *own == *name);
    let what = || match name {
        "resources" => "the state of its resources".to_owned(),
        "runtime" | "each" => format!("`{name}`"),
        resource => format!("the resource `{resource}`"),
    };
    if position == Position::Access {
        let message = format!("the ServiceAccount of an instance cannot depend on {}", what());
        return Problem::new(Code::AccessReadsResource, place, message).help("read only `schema`");
    }
    if position == Position::DefinitionCluster {
        let message = format!("the cluster of the definition cannot depend on {}", what());
        return Problem::new(Code::ClusterReadsResource, place, message)
            .help("read only `schema`, or set the cluster on the resources instead");
    }
    if own && position.adds_dependencies() {
        let message = format!("`{name}` cannot read itself");
        return Problem::new(Code::SelfReference, place, message)
            .help("read the object in `readyWhen` or `status`, which are evaluated after it exists");
    }
    let problem =
        Problem::new(Code::OutOfContext, place, format!("`{name}` is not available in {}", position.name()));
    match position {
        Position::ReadyWhen => {
            let mut names: Vec<String> =
                context.env.variables().map(|(name, _)| format!("`{name}`")).collect();
            names.sort();
            problem.help(format!("`readyWhen` can read only {}", names.join(" and ")))
        }
        _ if name == "runtime" => problem.help("`runtime` is available only in `status.conditions`"),
        _ if name == "each" => problem.help("`each` is available only in the `readyWhen` of a collection"),
        _ => problem,
    }
}

/// The diagnostic for `omit()` in a required field.
pub(super) fn omit_problem(place: Place, what: &str) -> Problem {
    Problem::new(Code::OmitNotAllowed, place, format!("{what} cannot be omitted"))
        .help("return a value in every case instead of `omit()`")
}
