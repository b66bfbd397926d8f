//! What may be used as an id of a resource or as a forEach variable, and what kro and CEL keep for themselves.

/// Words that kro keeps for itself, as of v0.9.4.
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

/// Words of the expression language.
const LANGUAGE: &[&str] = &[
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

/// Why a name cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// Not lower camel case.
    Shape,
    /// Kept by kro.
    Reserved,
    /// A word of the expression language.
    Language,
}

/// Whether a name can be an id or a variable.
pub(crate) fn usable(name: &str) -> Result<(), Unusable> {
    let mut characters = name.chars();
    let first = characters.next().is_some_and(|first| first.is_ascii_lowercase());
    if !first || !characters.all(|character| character.is_ascii_alphanumeric()) {
        return Err(Unusable::Shape);
    }
    if RESERVED.contains(&name) {
        return Err(Unusable::Reserved);
    }
    if LANGUAGE.contains(&name) {
        return Err(Unusable::Language);
    }
    Ok(())
}

/// A usable name made from an unusable one, for a fix: `my-app` becomes `myApp`, `namespace` becomes `namespaceResource`.
pub(crate) fn mend(name: &str) -> String {
    let mut mended = String::new();
    let mut capital = false;
    for character in name.chars() {
        if !character.is_ascii_alphanumeric() {
            capital = !mended.is_empty();
        } else if mended.is_empty() {
            mended.push(if character.is_ascii_digit() { 'r' } else { character.to_ascii_lowercase() });
            if character.is_ascii_digit() {
                mended.push(character);
            }
        } else {
            mended.push(if capital { character.to_ascii_uppercase() } else { character });
            capital = false;
        }
    }
    if mended.is_empty() {
        return "resourceId".to_owned();
    }
    if usable(&mended).is_err() {
        mended.push_str("Resource");
    }
    mended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_and_odd_shapes_are_refused() {
        assert_eq!(usable("webApp2"), Ok(()));
        assert_eq!(usable("my-app"), Err(Unusable::Shape));
        assert_eq!(usable("WebApp"), Err(Unusable::Shape));
        assert_eq!(usable(""), Err(Unusable::Shape));
        let of_kro = "apiVersion context dependency dependencies each externalRef externalReference externalRefs \
             externalReferences graph instance item items kind kro metadata namespace object resource \
             resourcegraphdefinition resourceGraphDefinition resources root runtime schema self serviceAccountName \
             spec status this variables vars version";
        for word in of_kro.split_whitespace() {
            assert_eq!(usable(word), Err(Unusable::Reserved), "{word}");
        }
        let of_the_language = "true false null in as break const continue else for function if import let loop package \
             return var void while";
        for word in of_the_language.split_whitespace() {
            assert_eq!(usable(word), Err(Unusable::Language), "{word}");
        }
    }

    #[test]
    fn a_mended_name_is_usable() {
        for name in ["my-app", "WebApp", "", "namespace", "loop", "9lives", "--", "a.b_c", "é"] {
            assert_eq!(usable(&mend(name)), Ok(()), "{name} became {}", mend(name));
        }
        assert_eq!(mend("my-app"), "myApp");
    }
}
