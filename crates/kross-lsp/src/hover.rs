//! What is known of the thing under the cursor: its type, its documentation, and its value for an instance in the workspace.

use std::ops::Range;

use gen_lsp_types::{Contents, Hover, MarkupContent, MarkupKind, Position};
use kross_cel::ast::{Expr, Node};
use kross_cel::checked::Checked;
use kross_cel::types::Type;
use kross_diagnostics::Path;
use kross_graph::{Analysis, is_definition};

use crate::documentation::{FUNCTIONS, GLOBAL_MACROS, MACROS, constraints, type_name, view};
use crate::embedded::{Embedded, at as value_at};
use crate::origin::{Origin, origin_of};
use crate::recovery::bytes;
use crate::rename::declared_as;
use crate::schema_fields::schema_path;
use crate::symbols::Definition;
use crate::workspace::{At, Workspace};

/// A text about a range of a file.
struct About {
    text: String,
    bytes: Range<usize>,
}

impl Workspace {
    /// What is known of the thing at a position.
    #[must_use]
    pub fn hover(&self, uri: &str, position: Position) -> Option<Hover> {
        let at = self.at(uri, position)?;
        let about = self.about_expression(&at).or_else(|| self.about_key(&at))?;
        let contents = MarkupContent { kind: MarkupKind::Markdown, value: about.text };
        Some(Hover {
            contents: Contents::MarkupContent(contents),
            range: Some(at.file.text.range(about.bytes)),
        })
    }

    fn about_expression(&self, at: &At<'_>) -> Option<About> {
        let document = at.document();
        if !is_definition(document) {
            return None;
        }
        let definition = Definition::new(document);
        let contains = |expression: &&Embedded| {
            let whole = expression.whole(document);
            whole.start <= at.offset && at.offset <= whole.end
        };
        let expression = definition.expressions.iter().find(contains)?;
        let analysis = self.analysis(document);
        let scope = analysis.scope(&expression.path)?;
        let (checked, _) = scope.env.check(expression.ast.clone());
        let nodes = expression.nodes_at(document, at.offset);
        let node = nodes.last()?;
        let (origin, _) = origin_of(&expression.ast, node, &definition.names(&expression.path));
        let mut text = describe(node, &checked)?;
        let documentation = match &origin {
            Origin::Part(root, steps) if !steps.is_empty() => {
                self.documentation_of(root, steps, &analysis, at)
            }
            Origin::Part(crate::origin::Root::Resource(id), _) => resource_line(&analysis, id),
            _ => None,
        };
        let documentation = documentation.or_else(|| function_documentation(node));
        if let Some(documentation) = documentation {
            text.push_str("\n\n");
            text.push_str(&documentation);
        }
        let source = expression.ast.source.get(node.span.range()).unwrap_or_default();
        if let Some(value) = self.bound(document).and_then(|bound| {
            let value = bound.evaluate(&scope.env, source)?;
            Some(format!("\n\nFor the instance `{}`:\n```cel\n{value}\n```", bound.instance))
        }) {
            text.push_str(&value);
        }
        Some(About { text, bytes: expression.bytes(document, node.span) })
    }

    /// A key of a definition, of a template or of an instance.
    fn about_key(&self, at: &At<'_>) -> Option<About> {
        let document = at.document();
        let (path, range) = key_at(at)?;
        if is_definition(document)
            && let Some(declared) = self.about_declaration(at, &path)
        {
            return Some(About { text: declared, bytes: range });
        }
        let typed = self.typed(at, path.segments())?;
        let field = view(&typed.root, &typed.steps)?;
        let mut text = format!("```yaml\n{}: {}\n```", crate::rename::last_key(&path)?, type_name(&field));
        for line in constraints(field.schema()) {
            text.push_str(&format!("\n\n{line}"));
        }
        if let Some(description) = self.description(&typed.kind, &typed.steps) {
            text.push_str(&format!("\n\n{description}"));
        }
        Some(About { text, bytes: range })
    }

    /// A field that the definition itself declares: of its spec, its types or its status.
    fn about_declaration(&self, at: &At<'_>, path: &Path) -> Option<String> {
        let document = at.document();
        let schema = schema_path();
        let [_, _, part, _, ..] = path.segments() else { return None };
        if path.segments().get(..2) != Some(schema.segments()) {
            return None;
        }
        let name = crate::rename::last_key(path)?;
        let is_status = matches!(part, kross_diagnostics::PathSegment::Key(key) if key == "status");
        if !is_status {
            let text = declared_as(document.value(), path).unwrap_or("object");
            return Some(format!("```yaml\n{name}: {text}\n```"));
        }
        let definition = Definition::new(document);
        let expression = definition.expressions.iter().find(|expression| expression.path == *path)?;
        let env = self.analysis(document).scope(path)?.env;
        let result = env.check(expression.ast.clone()).0.result().to_string();
        Some(format!("```cel\n{name}: {result}\n```"))
    }
}

/// The key at a place, with its bytes; for an item the key of its list.
fn key_at(at: &At<'_>) -> Option<(Path, Range<usize>)> {
    let document = at.document();
    let mut path = Path::root();
    loop {
        let value = value_at(document.value(), &path)?;
        let keys: Vec<Path> = match value {
            kross_value::Value::Object(entries) => entries.keys().map(|key| path.key(key.as_str())).collect(),
            kross_value::Value::List(items) => (0..items.len()).map(|index| path.index(index)).collect(),
            _ => return None,
        };
        let on_key = |path: &Path| {
            let key = bytes(document.key_span(path)?);
            (key.start <= at.offset && at.offset <= key.end).then_some(key)
        };
        if let Some((path, key)) = keys.iter().find_map(|path| Some((path, on_key(path)?))) {
            return Some((path.clone(), key));
        }
        let contains = |path: &Path| {
            document
                .exact_span(path)
                .map(bytes)
                .is_some_and(|span| span.start <= at.offset && at.offset <= span.end)
        };
        path = keys.into_iter().find(contains)?;
    }
}

/// A node with its type.
fn describe(node: &Expr, checked: &Checked) -> Option<String> {
    let found = checked.type_of(node.id);
    let name = match &node.node {
        Node::Ident { name, .. } => name.to_string(),
        Node::Select { field, .. } => field.text.to_string(),
        Node::Call { function, .. } => {
            return Some(format!("```cel\n{}: {found}\n```", signature(&function.text)));
        }
        Node::Comprehension(comprehension) => {
            let name = &*comprehension.name.text;
            let usage = MACROS.iter().find(|(known, ..)| *known == name).map_or(name, |(_, usage, _)| usage);
            return Some(format!("```cel\n{usage}: {found}\n```"));
        }
        Node::Literal(_) | Node::Error => return None,
        _ => "value".to_owned(),
    };
    if *found == Type::Error {
        return None;
    }
    Some(format!("```cel\n{name}: {found}\n```"))
}

fn signature(function: &str) -> String {
    let known = FUNCTIONS.get(function).and_then(|function| function.overloads.first());
    let of_macro =
        GLOBAL_MACROS.iter().find(|(name, ..)| *name == function).map(|(_, usage, _)| (*usage).to_owned());
    of_macro
        .or_else(|| known.map(|overload| overload.signature.to_owned()))
        .unwrap_or_else(|| function.to_owned())
}

fn function_documentation(node: &Expr) -> Option<String> {
    let name = match &node.node {
        Node::Call { function, .. } => &*function.text,
        Node::Comprehension(comprehension) => &*comprehension.name.text,
        _ => return None,
    };
    let of_macro = MACROS.iter().chain(GLOBAL_MACROS).find(|(known, ..)| *known == name);
    let of_macro = of_macro.map(|(_, _, documentation)| (*documentation).to_owned());
    of_macro.or_else(|| {
        let function = FUNCTIONS.get(name).or_else(|| {
            let suffix = format!(".{name}");
            FUNCTIONS.iter().find(|(known, _)| known.ends_with(&suffix)).map(|(_, function)| function)
        })?;
        let signatures: Vec<&str> = function.overloads.iter().map(|overload| overload.signature).collect();
        Some(format!("{}\n\n```text\n{}\n```", function.doc, signatures.join("\n")))
    })
}

/// The kind of a resource, and its cluster.
fn resource_line(analysis: &Analysis, id: &str) -> Option<String> {
    let resource = analysis.resources.iter().find(|resource| *resource.id == *id)?;
    let kind = &resource.kind;
    if kind.kind.is_empty() {
        return None;
    }
    let place = crate::hints::placement(&resource.placement);
    Some(format!("`{}` of `{}`, {place}", kind.kind, kind.api_version()))
}
