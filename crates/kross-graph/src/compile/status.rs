//! The author's status and conditions: every leaf is an expression, and its schema is inferred from its type.

use kross_cel::ast::{Ast, Expr, Literal, Node};
use kross_cel::types::Type;
use kross_diagnostics::{Code, Path, Place, Problem};
use kross_schema::openapi::Schema;
use kross_value::{Key, Value};

use super::Compiler;
use super::context::{Context, Position, Variables};
use super::expressions::is_text;
use super::resource::{list, object};
use crate::expression::Expression;
use crate::template::Template;

/// The conditions that kross sets on every instance.
const BUILT_IN: [&str; 4] = ["InstanceManaged", "GraphResolved", "ResourcesReady", "Ready"];

/// The author's status.
pub(super) struct Status {
    pub(super) template: Template,
    pub(super) schema: Schema,
    pub(super) conditions: Vec<Expression>,
}

impl Compiler<'_> {
    pub(super) fn status(&mut self, variables: &Variables) -> Status {
        let path = Path::root().key("spec").key("schema").key("status");
        let Some(status) = self.spec.schema.status.as_ref().and_then(Value::as_object) else {
            return Status {
                template: Template::default(),
                schema: Schema::object([]),
                conditions: Vec::new(),
            };
        };
        let context = self.status_context(Position::Status, variables);
        let mut fields = Vec::new();
        let mut schema = Schema::object([]);
        let mut conditions = Vec::new();
        for (key, value) in status.iter() {
            let path = path.key(key.as_str());
            if key.as_str() == "conditions" {
                conditions = self.author_conditions(value, &path, variables);
                continue;
            }
            let (template, field) = self.status_field(value, &path, &context);
            schema.properties.insert(key.clone(), field);
            fields.push((key.clone(), template));
        }
        Status { template: object(fields), schema, conditions }
    }

    fn status_field(&mut self, value: &Value, path: &Path, context: &Context) -> (Template, Schema) {
        match value {
            Value::Object(entries) => {
                let mut schema = Schema::object([]);
                let mut fields: Vec<(Key, Template)> = Vec::new();
                for (key, value) in entries.iter() {
                    let (template, field) = self.status_field(value, &path.key(key.as_str()), context);
                    schema.properties.insert(key.clone(), field);
                    fields.push((key.clone(), template));
                }
                (object(fields), schema)
            }
            Value::List(items) => {
                let compiled: Vec<_> = items
                    .iter()
                    .enumerate()
                    .map(|(at, item)| self.status_field(item, &path.index(at), context))
                    .collect();
                let mut schemas = compiled.iter().map(|(_, schema)| schema);
                let first = schemas.next().cloned().unwrap_or_else(Schema::anything);
                let item = schemas.fold(first, merge_item_schemas);
                (list(compiled.into_iter().map(|(template, _)| template).collect()), Schema::array(item))
            }
            Value::String(text) if text.contains("${") && !is_text(text) => {
                let template = self.text(text, path, context).unwrap_or_default();
                self.check_reads(&template, path);
                let schema = match &template {
                    Template::Expression(expression) => kross_schema::schema_of(&expression.result),
                    _ => kross_schema::schema_of(&Type::String),
                };
                (template, schema)
            }
            other => {
                let problem = Problem::new(
                    Code::LiteralStatus,
                    Place::value(path),
                    format!("a status field must be an expression, found a literal {}", other.kind()),
                );
                self.report(problem.help("read it from `schema` or from a resource with `${…}`"));
                (Template::default(), Schema::anything())
            }
        }
    }

    fn check_reads(&mut self, template: &Template, path: &Path) {
        let expressions = template.expressions();
        if expressions.is_empty()
            || expressions.iter().any(|expression| !expression.references.variables.is_empty())
        {
            return;
        }
        let problem = Problem::new(
            Code::StatusReadsNothing,
            Place::value(path),
            "the status expression reads neither `schema` nor a resource",
        );
        self.report(problem.help("read a field of `schema` or of a resource"));
    }

    fn author_conditions(&mut self, value: &Value, path: &Path, variables: &Variables) -> Vec<Expression> {
        let Some(items) = value.as_list() else {
            let message = format!("`conditions` must be a list of expressions, found {}", value.kind());
            self.report(Problem::new(Code::InvalidCondition, Place::value(path), message));
            return Vec::new();
        };
        let context = self.status_context(Position::Conditions, variables);
        let (mut conditions, mut trees) = (Vec::new(), Vec::new());
        let mut types: Vec<(String, Path)> = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let path = path.index(at);
            let Some(text) = item.as_str() else {
                let message = format!("a condition must be one `${{…}}` expression, found {}", item.kind());
                self.report(Problem::new(Code::InvalidCondition, Place::value(&path), message));
                continue;
            };
            let Some((ast, expression)) = self.condition(text, &path, &context) else {
                continue;
            };
            if !is_conditions(&expression.result) {
                let message = format!(
                    "a condition must be created with `runtime.newCondition`, found {}",
                    expression.result
                );
                let problem = Problem::new(Code::InvalidCondition, Place::value(&path), message);
                self.report(problem.help("write `${runtime.newCondition({type: '…', status: '…'})}`"));
            }
            self.check_condition_literals(&ast, &path, &mut types);
            trees.push((ast, path));
            conditions.push(expression);
        }
        self.check_condition_references(&trees, &types);
        conditions
    }

    /// The expression of a condition, and its syntax tree to check literals in.
    fn condition(&mut self, text: &str, path: &Path, context: &Context) -> Option<(Ast, Expression)> {
        let inner = self.standalone_range(text, path)?;
        let checking = self.checked(text, inner.clone(), path, context)?;
        let ast = checking.checked.ast.clone();
        Some((ast, self.lower(checking, inner.start, path)?))
    }

    /// Checks what is known before evaluation: literal types are unique, literal statuses are valid.
    fn check_condition_literals(&mut self, ast: &Ast, path: &Path, types: &mut Vec<(String, Path)>) {
        let mut found = Vec::new();
        new_conditions(&ast.root, &mut found);
        for fields in found {
            if let Some(status) =
                fields.status.filter(|status| !["True", "False", "Unknown"].contains(status))
            {
                let message = format!("`{status}` is not a valid condition status");
                let problem = Problem::new(Code::InvalidCondition, Place::value(path), message);
                self.report(problem.help("use 'True', 'False' or 'Unknown'"));
            }
            for field in ["type", "status"] {
                if !fields.names.contains(&field) {
                    let problem = Problem::new(
                        Code::InvalidCondition,
                        Place::value(path),
                        format!("the condition has no `{field}`"),
                    );
                    self.report(problem.help("a condition needs `type` and `status`"));
                }
            }
            let Some(name) = fields.condition_type else {
                continue;
            };
            if let Some((_, first)) = types.iter().find(|(known, _)| known == name) {
                let problem = Problem::new(
                    Code::DuplicateCondition,
                    Place::value(path),
                    format!("two conditions have the type `{name}`"),
                );
                self.report(problem.also(Place::value(first), "the first one").help("merge the conditions"));
            } else {
                types.push((name.to_owned(), path.clone()));
            }
        }
    }

    /// `runtime.condition(schema, 'X')` reads the conditions that kross sets, not those that authors define.
    fn check_condition_references(&mut self, trees: &[(Ast, Path)], types: &[(String, Path)]) {
        for (ast, path) in trees {
            let mut found = Vec::new();
            schema_conditions(&ast.root, &mut found);
            for name in found.into_iter().filter(|name| !BUILT_IN.contains(name)) {
                let message = if types.iter().any(|(known, _)| known == name) {
                    format!("author-defined conditions cannot reference each other: `{name}`")
                } else {
                    format!("the instance has no condition `{name}`")
                };
                let problem = Problem::new(Code::ConditionReference, Place::value(path), message);
                self.report(
                    problem
                        .help(format!("use one of {}", BUILT_IN.map(|name| format!("`{name}`")).join(", "))),
                );
            }
        }
    }
}

fn is_conditions(result: &Type) -> bool {
    match result {
        Type::Dyn | Type::Error => true,
        Type::List(item) => is_conditions(item),
        Type::Opaque(opaque) => opaque.name == "kro.run.Condition",
        _ => false,
    }
}

/// The literal fields of a `runtime.newCondition({…})` call.
#[derive(Default)]
struct ConditionFields<'a> {
    names: Vec<&'a str>,
    condition_type: Option<&'a str>,
    status: Option<&'a str>,
}

fn new_conditions<'a>(expression: &'a Expr, found: &mut Vec<ConditionFields<'a>>) {
    if let Node::Call { function, arguments, .. } = &expression.node
        && function.text == "newCondition"
        && let Some(Expr { node: Node::Map { entries }, .. }) = arguments.first()
    {
        let mut fields = ConditionFields::default();
        for entry in entries {
            let Some(name) = literal(&entry.key) else { continue };
            fields.names.push(name);
            match name {
                "type" => fields.condition_type = literal(&entry.value),
                "status" => fields.status = literal(&entry.value),
                _ => {}
            }
        }
        found.push(fields);
    }
    expression.children().into_iter().for_each(|child| new_conditions(child, found));
}

fn schema_conditions<'a>(expression: &'a Expr, found: &mut Vec<&'a str>) {
    if let Node::Call { function, arguments, .. } = &expression.node
        && function.text == "condition"
        && let [Expr { node: Node::Ident { name, .. }, .. }, condition] = arguments.as_slice()
        && name == "schema"
    {
        found.extend(literal(condition));
    }
    expression.children().into_iter().for_each(|child| schema_conditions(child, found));
}

fn literal(expression: &Expr) -> Option<&str> {
    match &expression.node {
        Node::Literal(Literal::String(text)) => Some(text),
        _ => None,
    }
}

/// Merges the schemas of two list items: objects get the fields of both, any other mixture becomes a schema that accepts
/// anything.
fn merge_item_schemas(left: Schema, right: &Schema) -> Schema {
    if left == *right {
        return left;
    }
    let is_plain = |schema: &Schema| *schema == Schema::of_properties(schema.properties.clone());
    if !is_plain(&left) || !is_plain(right) {
        return Schema::anything();
    }
    let mut merged = left;
    for (key, field) in right.properties.iter() {
        let field = match merged.properties.get(key) {
            Some(known) => merge_item_schemas((**known).clone(), field),
            None => (**field).clone(),
        };
        merged.properties.insert(key.clone(), field);
    }
    merged
}
