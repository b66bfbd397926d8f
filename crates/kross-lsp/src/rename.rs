//! Renames a symbol everywhere, or says why the name cannot be used: it is not valid, it is taken, or an expression has a variable of
//! that name, which would hide it.

use std::collections::HashMap;
use std::ops::Range;

use gen_lsp_types::{Position, Range as EditorRange, TextEdit, Uri, WorkspaceEdit};
use kross_cel::ast::Node;
use kross_diagnostics::{Path, PathSegment};
use kross_graph::{fix_name, validate_name};
use kross_value::Value;

use crate::embedded::at as value_at;
use crate::navigation::Found;
use crate::origin::Named;
use crate::symbols::{Definition, Symbol};
use crate::workspace::Workspace;

/// Why something cannot be renamed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenameError {
    /// There is nothing at the position that has a name of its own.
    #[error("only ids, fields and types of the schema, and variables can be renamed")]
    NotASymbol,
    /// The name is not valid.
    #[error("`{name}` is not a valid name; use another one, for example `{example}`")]
    Invalid {
        /// The name.
        name: String,
        /// A similar one that is valid.
        example: String,
    },
    /// Something else has the name.
    #[error("`{name}` is already the name of {what}")]
    Taken {
        /// The name.
        name: String,
        /// What has it.
        what: &'static str,
    },
}

impl Workspace {
    /// The range of the name at a position, if it can be renamed.
    #[must_use]
    pub fn prepare_rename(&self, uri: &str, position: Position) -> Option<EditorRange> {
        let at = self.at(uri, position)?;
        let found = self.symbol_at(&at)?;
        Some(at.file.text.range(found.bytes))
    }

    /// The edits that rename the symbol at a position.
    ///
    /// # Errors
    /// There is no symbol, or the name cannot be used.
    pub fn rename(&self, uri: &str, position: Position, name: &str) -> Result<WorkspaceEdit, RenameError> {
        let found =
            self.at(uri, position).and_then(|at| self.symbol_at(&at)).ok_or(RenameError::NotASymbol)?;
        check(&found, name)?;
        let mut changes: HashMap<Uri, Vec<TextEdit>> = HashMap::new();
        let mut seen: Vec<(&str, Range<usize>)> = Vec::new();
        for place in self.places(&found) {
            let key = (place.uri, place.bytes.clone());
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let edit = TextEdit { range: place.text.range(place.bytes), new_text: name.to_owned() };
            changes.entry(Uri::from(place.uri)).or_default().push(edit);
        }
        Ok(WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() })
    }
}

fn check(found: &Found<'_>, name: &str) -> Result<(), RenameError> {
    let document = &found.definition.document;
    let definition = Definition::new(document);
    let taken = |what| Err(RenameError::Taken { name: name.to_owned(), what });
    match &found.symbol {
        Symbol::Resource(_) | Symbol::Axis(..) => {
            validate_name(name)
                .map_err(|_| RenameError::Invalid { name: name.to_owned(), example: fix_name(name) })?;
            if definition.ids.iter().any(|id| id == name) {
                return taken("a resource");
            }
            if definition.axes.iter().flatten().any(|(axis, _)| axis == name) {
                return taken("a `forEach` variable");
            }
        }
        Symbol::Local(..) => valid_field(name)?,
        Symbol::Field(path) => {
            valid_field(name)?;
            let siblings = path.parent().unwrap_or_default();
            if value_at(document.value(), &siblings.key(name)).is_some() {
                return taken("a field");
            }
        }
        Symbol::Type(_) => {
            valid_field(name)?;
            if document.value().at(&["spec", "schema", "types", name]).is_some()
                || kross_schema::simple::TYPES.contains(&name)
            {
                return taken("a type");
            }
        }
    }
    if is_hidden(&definition, &found.symbol, name) {
        return taken("a variable in one of the expressions");
    }
    Ok(())
}

fn valid_field(name: &str) -> Result<(), RenameError> {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    if first && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        return Ok(());
    }
    Err(RenameError::Invalid { name: name.to_owned(), example: fix_name(name) })
}

/// Whether an expression that uses the symbol as a variable has another variable with the new name.
fn is_hidden(definition: &Definition<'_>, symbol: &Symbol, name: &str) -> bool {
    if matches!(symbol, Symbol::Field(_) | Symbol::Type(_)) {
        return false;
    }
    definition.expressions.iter().any(|expression| {
        let mentions = definition.resolve(expression).mentions;
        let uses =
            mentions.iter().any(|mention| definition.symbol(mention, expression).as_ref() == Some(symbol));
        let text =
            |mention: &crate::origin::Mention| expression.ast.source.get(mention.span.range()) == Some(name);
        let declares =
            mentions.iter().any(|mention| matches!(mention.named, Named::Local(_)) && text(mention));
        uses && (declares || matches!(symbol, Symbol::Local(..)) && has_ident(&expression.ast.root, name))
    })
}

/// Whether an expression uses a variable of this name.
fn has_ident(expr: &kross_cel::ast::Expr, name: &str) -> bool {
    let here = matches!(&expr.node, Node::Ident { name: found, .. } if &**found == name);
    here || expr.children().into_iter().any(|child| has_ident(child, name))
}

/// The last key of a path.
pub(crate) fn last_key(path: &Path) -> Option<&str> {
    match path.segments().last()? {
        PathSegment::Key(key) => Some(key),
        PathSegment::Index(_) => None,
    }
}

/// The text of a field's declaration, such as `integer | default=3`.
pub(crate) fn declared_as<'v>(definition: &'v Value, path: &Path) -> Option<&'v str> {
    value_at(definition, path)?.as_str()
}
