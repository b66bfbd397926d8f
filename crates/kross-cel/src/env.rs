//! The environment of an expression: functions, typed variables, named types. Functions are shared, and more variables are
//! added in a new layer, so that the many environments of one graph are cheap.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use kross_value::Text;

use crate::ast::Ast;
use crate::check;
use crate::checked::Checked;
use crate::error::Issue;
use crate::library::{FunctionTable, Library, OverloadId, SignatureError};
use crate::syntax::{Limits, parse};
use crate::types::Type;

/// The functions, variables and types that an expression may use.
///
/// ```
/// use kross_cel::env::Env;
/// use kross_cel::types::Type;
///
/// let env = Env::standard().with_variables([("replicas", Type::Int)]);
/// let checked = env.compile("replicas > 2 ? 'many' : 'few'").unwrap();
/// assert_eq!(checked.result(), &Type::String);
///
/// let issues = env.compile("replcias + 'x'").unwrap_err();
/// assert_eq!(issues.len(), 1);
/// assert_eq!(issues[0].help.as_deref(), Some("did you mean `replicas`?"));
/// ```
#[derive(Clone, Debug)]
pub struct Env {
    functions: Arc<FunctionTable>,
    layer: Arc<Layer>,
    /// The prefixes that names are looked up with, longest first, the empty one last.
    container: Arc<[Text]>,
    limits: Limits,
}

/// The names that one extension adds to an environment.
#[derive(Debug, Default)]
struct Layer {
    below: Option<Arc<Layer>>,
    names: HashMap<Text, Declared>,
    /// The first parts of qualified names.
    roots: Vec<Text>,
}

/// What a name is declared as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// A variable of this type.
    Variable(Type),
    /// The name of this type.
    Type(Type),
}

impl Layer {
    fn find(&self, name: &str) -> Option<(&Text, &Declared)> {
        let mut layer = Some(self);
        while let Some(current) = layer {
            if let Some(found) = current.names.get_key_value(name) {
                return Some(found);
            }
            layer = current.below.as_deref();
        }
        None
    }

    fn is_root(&self, name: &str) -> bool {
        let mut layer = Some(self);
        while let Some(current) = layer {
            if current.roots.iter().any(|root| *root == *name) {
                return true;
            }
            layer = current.below.as_deref();
        }
        false
    }

    fn declare(&mut self, name: Text, declared: Declared) {
        if let Some((root, _)) = name.split_once('.')
            && !self.roots.iter().any(|known| *known == *root)
        {
            self.roots.push(root.into());
        }
        self.names.insert(name, declared);
    }
}

impl Env {
    /// All libraries that are always enabled, and the types of the language.
    #[must_use]
    pub fn standard() -> Self {
        static STANDARD: OnceLock<Env> = OnceLock::new();
        STANDARD
            .get_or_init(|| {
                #[expect(clippy::expect_used, reason = "a test parses every signature of the table")]
                Self::new(crate::library::standard()).expect("every signature can be parsed")
            })
            .clone()
    }

    /// These libraries and the types of the language.
    ///
    /// # Errors
    /// When a signature cannot be parsed.
    pub fn new<'a>(libraries: impl IntoIterator<Item = &'a Library>) -> Result<Self, SignatureError> {
        let functions = FunctionTable::new(libraries)?;
        let mut layer = Layer::default();
        for (name, named) in language_types() {
            layer.declare(name.into(), Declared::Type(named));
        }
        for named in functions.opaque_types() {
            if let Type::Opaque(opaque) = named {
                layer.declare(opaque.name.clone(), Declared::Type(named.clone()));
            }
        }
        Ok(Self {
            functions: Arc::new(functions),
            layer: Arc::new(layer),
            container: Arc::from([Text::from("")]),
            limits: Limits::default(),
        })
    }

    /// The same with more variables, which hide others of the same name.
    #[must_use]
    pub fn with_variables<N: Into<Text>>(&self, variables: impl IntoIterator<Item = (N, Type)>) -> Self {
        self.extended(variables.into_iter().map(|(name, kind)| (name.into(), Declared::Variable(kind))))
    }

    /// The same with more named types, whose values expressions can write as `Name{field: value}`.
    #[must_use]
    pub fn with_types<N: Into<Text>>(&self, types: impl IntoIterator<Item = (N, Type)>) -> Self {
        self.extended(types.into_iter().map(|(name, named)| (name.into(), Declared::Type(named))))
    }

    fn extended(&self, names: impl Iterator<Item = (Text, Declared)>) -> Self {
        let mut layer = Layer { below: Some(Arc::clone(&self.layer)), ..Layer::default() };
        for (name, declared) in names {
            layer.declare(name, declared);
        }
        Self { layer: Arc::new(layer), ..self.clone() }
    }

    /// The same with names looked up below this qualified name first.
    #[must_use]
    pub fn with_container(&self, name: &str) -> Self {
        let mut prefixes = Vec::new();
        let mut rest = name;
        while !rest.is_empty() {
            prefixes.push(Text::from(format!("{rest}.")));
            rest = rest.rsplit_once('.').map_or("", |(parent, _)| parent);
        }
        prefixes.push(Text::from(""));
        Self { container: prefixes.into(), ..self.clone() }
    }

    /// The same with other limits on the size of expressions.
    #[must_use]
    pub fn with_limits(&self, limits: Limits) -> Self {
        Self { limits, ..self.clone() }
    }

    /// The functions.
    #[must_use]
    pub fn functions(&self) -> &Arc<FunctionTable> {
        &self.functions
    }

    /// Parses and checks an expression.
    ///
    /// # Errors
    /// Every error in it, sorted by position.
    pub fn compile(&self, text: impl Into<Text>) -> Result<Checked, Vec<Issue>> {
        let parsed = parse(text, &self.limits);
        let (checked, found) = self.check(parsed.ast);
        let mut issues = parsed.issues;
        if issues.is_empty() && found.is_empty() {
            return Ok(checked);
        }
        issues.extend(found);
        issues.sort_by_key(|issue| (issue.span.start, issue.span.end));
        Err(issues)
    }

    /// Checks a parsed expression and returns the result with all issues. Text that the parser rejected is not reported again.
    #[must_use]
    pub fn check(&self, ast: Ast) -> (Checked, Vec<Issue>) {
        check::check(self, ast)
    }

    /// Resolves the names of a parsed expression without checking types; mismatches are run-time errors.
    #[must_use]
    pub fn resolve(&self, ast: Ast) -> Checked {
        check::resolve(self, ast)
    }

    /// Looks up a qualified name: its full name and declaration. A leading dot means the root scope only.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(&Text, &Declared)> {
        if let Some(rooted) = name.strip_prefix('.') {
            return self.layer.find(rooted);
        }
        self.container.iter().find_map(|prefix| {
            if prefix.is_empty() {
                self.layer.find(name)
            } else {
                self.layer.find(&format!("{prefix}{name}"))
            }
        })
    }

    /// The overloads of a function by its qualified name. A leading dot means the root scope only.
    #[must_use]
    pub fn find_function(&self, name: &str) -> Option<&[OverloadId]> {
        if let Some(rooted) = name.strip_prefix('.') {
            return self.functions.find(rooted);
        }
        self.container.iter().find_map(|prefix| {
            if prefix.is_empty() {
                self.functions.find(name)
            } else {
                self.functions.find(&format!("{prefix}{name}"))
            }
        })
    }

    /// Whether a qualified name can begin with this part.
    pub(crate) fn is_root(&self, name: &str) -> bool {
        self.container.len() > 1 || self.layer.is_root(name)
    }

    /// Whether the qualified name of a function can begin with this part.
    pub(crate) fn is_namespace_root(&self, name: &str) -> bool {
        self.container.len() > 1 || self.functions.is_namespace_root(name)
    }

    /// The variables, those of the last layer first.
    pub fn variables(&self) -> impl Iterator<Item = (&Text, &Type)> {
        let mut layer = Some(&*self.layer);
        std::iter::from_fn(move || {
            let current = layer?;
            layer = current.below.as_deref();
            Some(current.names.iter().filter_map(|(name, declared)| match declared {
                Declared::Variable(kind) => Some((name, kind)),
                Declared::Type(_) => None,
            }))
        })
        .flatten()
    }
}

fn language_types() -> Vec<(&'static str, Type)> {
    vec![
        ("bool", Type::Bool),
        ("int", Type::Int),
        ("uint", Type::UInt),
        ("double", Type::Double),
        ("string", Type::String),
        ("bytes", Type::Bytes),
        ("null_type", Type::Null),
        ("type", Type::Type(Arc::new(Type::Dyn))),
        ("list", Type::list(Type::Dyn)),
        ("map", Type::map(Type::Dyn, Type::Dyn)),
        ("optional_type", Type::optional(Type::Dyn)),
        ("google.protobuf.Timestamp", Type::Timestamp),
        ("google.protobuf.Duration", Type::Duration),
    ]
}
