//! Which names may be resource ids and forEach variables; the rest is reserved by kro or CEL.

/// The names that kro v0.9.4 reserves.
const RESERVED: &[&str] = &[
    "apiVersion",
    "context",
    "dependencies",
    "dependency",
    "each",
    "externalRef",
    "externalRefs",
    "externalReference",
    "externalReferences",
    "graph",
    "instance",
    "item",
    "items",
    "kind",
    "kro",
    "metadata",
    "namespace",
    "object",
    "resource",
    "resourceGraphDefinition",
    "resourcegraphdefinition",
    "resources",
    "root",
    "runtime",
    "schema",
    "self",
    "serviceAccountName",
    "spec",
    "status",
    "this",
    "variables",
    "vars",
    "version",
];

/// CEL keywords and reserved identifiers.
const KEYWORDS: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Why a name is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Not lower camel case.
    NotCamelCase,
    /// Reserved by kro.
    Reserved,
    /// A keyword of CEL.
    Keyword,
}

/// Checks that a name can be an id or a variable.
///
/// # Errors
/// Why it cannot.
pub fn validate(name: &str) -> Result<(), NameError> {
    let mut characters = name.chars();
    let first = characters.next().is_some_and(|first| first.is_ascii_lowercase());
    if !first || !characters.all(|character| character.is_ascii_alphanumeric()) {
        return Err(NameError::NotCamelCase);
    }
    if RESERVED.contains(&name) {
        return Err(NameError::Reserved);
    }
    if KEYWORDS.contains(&name) {
        return Err(NameError::Keyword);
    }
    Ok(())
}

/// A valid name similar to an invalid one: `my-app` becomes `myApp`, `namespace` becomes `namespaceResource`.
#[must_use]
pub fn fix(name: &str) -> String {
    let mut fixed = String::new();
    let mut capital = false;
    for character in name.chars() {
        if !character.is_ascii_alphanumeric() {
            capital = !fixed.is_empty();
        } else if fixed.is_empty() {
            fixed.push(if character.is_ascii_digit() { 'r' } else { character.to_ascii_lowercase() });
            if character.is_ascii_digit() {
                fixed.push(character);
            }
        } else {
            fixed.push(if capital { character.to_ascii_uppercase() } else { character });
            capital = false;
        }
    }
    if fixed.is_empty() {
        return "resourceId".to_owned();
    }
    if validate(&fixed).is_err() {
        fixed.push_str("Resource");
    }
    fixed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_keywords_and_other_cases_are_rejected() {
        assert_eq!(validate("webApp2"), Ok(()));
        assert_eq!(validate("my-app"), Err(NameError::NotCamelCase));
        assert_eq!(validate("WebApp"), Err(NameError::NotCamelCase));
        assert_eq!(validate(""), Err(NameError::NotCamelCase));
        let of_kro = "apiVersion context dependency dependencies each externalRef externalReference externalRefs \
             externalReferences graph instance item items kind kro metadata namespace object resource \
             resourcegraphdefinition resourceGraphDefinition resources root runtime schema self serviceAccountName \
             spec status this variables vars version";
        for word in of_kro.split_whitespace() {
            assert_eq!(validate(word), Err(NameError::Reserved), "{word}");
        }
        let of_the_language = "true false null in as break const continue else for function if import let loop package \
             return var void while";
        for word in of_the_language.split_whitespace() {
            assert_eq!(validate(word), Err(NameError::Keyword), "{word}");
        }
    }

    #[test]
    fn a_fixed_name_is_valid() {
        for name in ["my-app", "WebApp", "", "namespace", "loop", "9lives", "--", "a.b_c", "é"] {
            assert_eq!(validate(&fix(name)), Ok(()), "{name} became {}", fix(name));
        }
        assert_eq!(fix("my-app"), "myApp");
    }
}
