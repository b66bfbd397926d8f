//! What can be written inside `${…}`: variables and functions, or the members of the value before a dot.

use gen_lsp_types::CompletionItemKind;
use kross_cel::ast::{Ast, Expr, Node};
use kross_cel::library::kro::runtime::VARIABLE as RUNTIME;
use kross_cel::types::Type;
use kross_graph::{Analysis, FieldScope, is_definition};

use super::{Proposal, is_name_part};
use crate::cursor::Cursor;
use crate::documentation::{FUNCTIONS, GLOBAL_MACROS, MACROS, view};
use crate::embedded::parsed;
use crate::origin::{Local, Origin, Root, origin_of};
use crate::schema_fields::Step;
use crate::symbols::Definition;
use crate::workspace::{At, Workspace};

/// Stands for the name that is being typed.
const MARKER: &str = "kross0cursor";

/// The expression that is being typed, made complete.
struct Completed {
    ast: Ast,
}

impl Completed {
    /// Closes what is open in `inside`, with the marker at its end.
    fn new(inside: &str) -> Option<Self> {
        let before = inside.trim_end_matches(is_name_part);
        let closers = closers(before);
        let whole = format!("{before}{MARKER}{closers}");
        let with_else = format!("{before}{MARKER} : null{closers}");
        let innermost = before.get(last_open(before)..).map(|part| format!("{part}{MARKER}"));
        let texts = [Some(whole), Some(with_else), innermost];
        texts
            .into_iter()
            .flatten()
            .map(|text| Self { ast: parsed(text) })
            .find(|found| find(&found.ast.root).is_some())
    }

    fn marker(&self) -> Option<&Expr> {
        find(&self.ast.root)
    }
}

/// The node that has the marker as its name.
fn find(expr: &Expr) -> Option<&Expr> {
    let is_marker = match &expr.node {
        Node::Ident { name, .. } => &**name == MARKER,
        Node::Select { field, .. } => &*field.text == MARKER,
        _ => false,
    };
    if is_marker { Some(expr) } else { expr.children().into_iter().find_map(find) }
}

/// The brackets that are open at the end of a text, with their offsets.
fn open_brackets(text: &str) -> Vec<(usize, char)> {
    let mut open = Vec::new();
    let mut quote = None;
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(mark), letter) if letter == mark => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '(' | '[' | '{') => open.push((at, letter)),
            (None, ')' | ']' | '}') => {
                open.pop();
            }
            _ => {}
        }
    }
    open
}

fn closers(text: &str) -> String {
    let closer = |open: char| match open {
        '(' => ')',
        '[' => ']',
        _ => '}',
    };
    open_brackets(text).into_iter().rev().map(|(_, open)| closer(open)).collect()
}

/// Where the innermost part of a text begins.
fn last_open(text: &str) -> usize {
    let open = open_brackets(text).last().map_or(0, |(at, _)| at + 1);
    let separator = text.rfind([',', '?', ':', '&', '|', ' ']).map_or(0, |at| at + 1);
    open.max(separator)
}

impl Workspace {
    /// The completions for an expression of which `inside` is typed.
    pub(super) fn in_expression(&self, at: &At<'_>, cursor: &Cursor, inside: &str) -> Vec<Proposal> {
        if !is_definition(at.document()) || is_in_string(inside) {
            return Vec::new();
        }
        let path = cursor.value_path();
        let analysis = self.analysis(at.document());
        let Some(scope) = analysis.scope(&path) else { return Vec::new() };
        let Some(completed) = Completed::new(inside) else { return Vec::new() };
        let Some(marker) = completed.marker() else { return Vec::new() };
        let definition = Definition::new(at.document());
        let names = definition.names(&path);
        let checked = scope.env.check(completed.ast.clone()).0;
        match &marker.node {
            Node::Select { operand, .. } => {
                let (origin, _) = origin_of(&completed.ast, operand, &names);
                let mut found = namespace(operand);
                found.extend(self.members(checked.type_of(operand.id), &origin, &analysis, at));
                found
            }
            _ => {
                let (_, locals) = origin_of(&completed.ast, marker, &names);
                variables(&scope, &locals)
            }
        }
    }

    /// The fields and functions of a value.
    fn members(&self, of: &Type, origin: &Origin, analysis: &Analysis, at: &At<'_>) -> Vec<Proposal> {
        let mut found: Vec<Proposal> = Vec::new();
        let inner = match of {
            Type::Nullable(inner) | Type::Optional(inner) => inner,
            other => other,
        };
        if let Type::Object(object) = inner {
            for name in object.field_names() {
                let proposal = Proposal::new(name.as_str(), CompletionItemKind::Field).rank(2);
                let detail = object.field(&name).map(|field| field.to_string()).unwrap_or_default();
                let documentation = self.field_documentation(origin, &name, analysis, at);
                found.push(proposal.detail(detail).documented(documentation));
            }
        }
        for (name, usage, documentation) in MACROS.iter().filter(|(name, ..)| has_macro(of, name)) {
            let proposal = Proposal::new(*name, CompletionItemKind::Method).insert(format!("{name}("));
            found.push(proposal.detail(*usage).documented(Some((*documentation).to_owned())));
        }
        found.extend(member_functions(of));
        found
    }

    /// The documentation of a field of a value: how the schema declares it, or the description of its kind.
    pub(crate) fn field_documentation(
        &self,
        origin: &Origin,
        name: &str,
        analysis: &Analysis,
        at: &At<'_>,
    ) -> Option<String> {
        let Origin::Part(root, steps) = origin else { return None };
        let mut steps = steps.clone();
        steps.push(Step::Field(name.to_owned()));
        self.documentation_of(root, &steps, analysis, at)
    }

    /// The documentation of a part of a variable.
    pub(crate) fn documentation_of(
        &self,
        root: &Root,
        steps: &[Step],
        analysis: &Analysis,
        at: &At<'_>,
    ) -> Option<String> {
        match root {
            Root::Schema | Root::Declared(_) => {
                let value = at.document().value();
                let declared = Definition::new(at.document()).declared(root, steps)?;
                let text = crate::rename::declared_as(value, &declared)?;
                Some(format!("```yaml\n{}: {text}\n```", crate::rename::last_key(&declared)?))
            }
            Root::Resource(id) => {
                let resource = analysis.resources.iter().find(|resource| *resource.id == **id)?;
                let resolved = resource.resolved.as_ref()?;
                let is_list = matches!(resource.variable_type, Type::List(_));
                let steps = if is_list { steps.get(1..)? } else { steps };
                view(&resolved.schema, steps)?;
                self.description(&resolved.kind, steps)
            }
            Root::Resources => None,
        }
    }
}

/// Whether the text ends inside a string literal.
fn is_in_string(inside: &str) -> bool {
    let mut quote = None;
    let mut escaped = false;
    for letter in inside.chars() {
        match (quote, letter) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(mark), letter) if letter == mark => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            _ => {}
        }
    }
    quote.is_some()
}

/// The functions in a namespace, such as `math`.
fn namespace(operand: &Expr) -> Vec<Proposal> {
    let Node::Ident { name, .. } = &operand.node else { return Vec::new() };
    let prefix = format!("{name}.");
    let mut found: Vec<Proposal> = Vec::new();
    for (name, function) in FUNCTIONS.iter() {
        if let Some(label) = name.strip_prefix(prefix.as_str()) {
            let signature = function.overloads.first().map(|overload| overload.signature).unwrap_or_default();
            let proposal = Proposal::new(label, CompletionItemKind::Function).insert(format!("{label}("));
            found.push(proposal.detail(signature).documented(Some(function.doc.to_owned())));
        }
    }
    found
}

/// The variables and global functions.
fn variables(scope: &FieldScope, locals: &[Local]) -> Vec<Proposal> {
    let mut found: Vec<Proposal> = Vec::new();
    for local in locals.iter().rev() {
        if !found.iter().any(|proposal| proposal.label == *local.name) {
            found.push(Proposal::new(&*local.name, CompletionItemKind::Variable).rank(1));
        }
    }
    for (name, found_type) in scope.env.variables() {
        let is_own = scope.own.as_ref() == Some(name);
        if !is_own && !name.is_empty() && !found.iter().any(|proposal| proposal.label == **name) {
            let rank = if &**name == "schema" { 1 } else { 2 };
            let rank = if &**name == RUNTIME || &**name == "resources" { 3 } else { rank };
            found.push(
                Proposal::new(&**name, CompletionItemKind::Variable)
                    .detail(found_type.to_string())
                    .rank(rank),
            );
        }
    }
    for (name, usage, documentation) in GLOBAL_MACROS {
        let proposal = Proposal::new(*name, CompletionItemKind::Function).insert(format!("{name}("));
        found.push(proposal.detail(*usage).documented(Some((*documentation).to_owned())));
    }
    let table = scope.env.functions();
    for name in table.names().filter(|name| name.starts_with(|first: char| first.is_ascii_alphabetic())) {
        let overloads = table.find(name).unwrap_or_default().iter().filter_map(|id| table.overload(*id));
        let Some(overload) = overloads.into_iter().find(|overload| !overload.signature.member) else {
            continue;
        };
        let proposal = Proposal::new(name, CompletionItemKind::Function).insert(format!("{name}("));
        let documentation = FUNCTIONS.get(name).map(|function| function.doc.to_owned());
        found.push(proposal.detail(overload.text).documented(documentation));
    }
    found
}

/// The functions that can be called on a value.
fn member_functions(of: &Type) -> Vec<Proposal> {
    let mut found = Vec::new();
    for (name, function) in FUNCTIONS.iter() {
        let fits = |signature: &&str| {
            let parsed = kross_cel::library::Signature::parse(name, signature).ok();
            parsed.is_some_and(|parsed| {
                parsed.member && parsed.parameters.first().is_some_and(|receiver| accepts(receiver, of))
            })
        };
        if let Some(signature) = function.overloads.iter().map(|overload| overload.signature).find(fits) {
            let proposal = Proposal::new(*name, CompletionItemKind::Method).insert(format!("{name}("));
            found.push(proposal.detail(signature).documented(Some(function.doc.to_owned())));
        }
    }
    found
}

/// Whether a function that is declared for one type can be called on a value of another.
fn accepts(declared: &Type, of: &Type) -> bool {
    match (declared, of) {
        (_, Type::Dyn | Type::Error | Type::Variable(_)) | (Type::Dyn | Type::Parameter(_), _) => true,
        (declared, Type::Nullable(inner)) => accepts(declared, inner),
        (Type::List(declared), Type::List(of)) => accepts(declared, of),
        (Type::Map(_), Type::Map(_) | Type::Object(_)) | (Type::Optional(_), Type::Optional(_)) => true,
        (Type::Opaque(declared), Type::Opaque(of)) => declared.name == of.name,
        (declared, of) => declared == of,
    }
}

/// Whether a macro can be called on a value.
fn has_macro(of: &Type, name: &str) -> bool {
    let of_optional = name.starts_with("opt");
    match of {
        Type::Dyn | Type::Error => true,
        Type::Nullable(inner) => has_macro(inner, name),
        Type::Optional(_) => of_optional,
        Type::List(_) => !of_optional && !name.starts_with("transformMap"),
        Type::Map(_) | Type::Object(_) => !of_optional && name != "sortBy",
        _ => false,
    }
}
