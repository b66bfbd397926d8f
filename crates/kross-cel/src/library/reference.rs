//! Renders the function reference as Markdown.

use std::fmt::Write as _;

use super::{GATED, Library, standard};

/// The heading of a library and its description.
fn heading(library: &Library) -> (&'static str, &'static str) {
    match library.name {
        "strings" => {
            ("Strings", "Searching, splitting, replacing and formatting. Positions count characters.")
        }
        "lists" => (
            "Lists",
            "Slicing, sorting and flattening. `list.sortBy(item, key)` sorts by a key of each element.",
        ),
        "math" => ("Math", "Extremes, rounding, signs and bit operations."),
        "sets" => ("Sets", "Lists as sets: order and duplicates are ignored."),
        "encoders" => ("Encoders", "Base64."),
        "regex" => ("Regular expressions", "Patterns have Go's RE2 syntax."),
        "kubernetes.lists" => ("Kubernetes: lists", "Sums, extremes and positions."),
        "kubernetes.regex" => ("Kubernetes: regular expressions", "Finding matches in a string."),
        "kubernetes.urls" => ("Kubernetes: URLs", "URLs and their parts, as Go parses them."),
        "kubernetes.net.ip" => ("Kubernetes: IP addresses", "IPv4 and IPv6, without zones."),
        "kubernetes.net.cidr" => ("Kubernetes: CIDR ranges", "Address ranges such as `10.0.0.0/8`."),
        "kubernetes.quantity" => (
            "Kubernetes: quantities",
            "Resource quantities such as `1500m` and `2Gi`, with exact arithmetic.",
        ),
        "kubernetes.semver" => ("Kubernetes: versions", "Semantic versions."),
        "kubernetes.format" => {
            ("Kubernetes: named formats", "Validation of strings, with the reasons why a string is invalid.")
        }
        "random" => ("Random values", "Deterministic: the same seed always gives the same value."),
        "json" => ("JSON", "Parsing and serialization."),
        "maps" => ("Maps", "Merging of maps."),
        "hash" => ("Hashes", "Digests of a string, as bytes; `base64.encode` converts them to a string."),
        "kro.lists" => ("List updates", "Copies of a list with one element replaced, inserted or removed."),
        "kro.omit" => ("Omit", "For templates, behind the feature gate `CELOmitFunction`."),
        "kro.runtime" => ("Conditions", "Only in `status.conditions` of a definition's schema."),
        other => (other, ""),
    }
}

/// Whether a function is an operator.
fn is_operator(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_alphabetic())
}

/// All libraries with their functions, signatures and documentation, as Markdown.
#[must_use]
pub fn reference_markdown() -> String {
    let mut out = String::from(
        "# Functions\n\n\
         Every function that an expression can call, with its signatures. In `(list(A)).indexOf(A) -> int` the type in\n\
         the first parentheses is the receiver: the function is called as `list.indexOf(item)`. Single capital letters\n\
         are type parameters: each stands for any type, and for the same type throughout a signature.\n",
    );
    for library in standard().chain(GATED.iter().copied()) {
        let (title, about) = heading(library);
        let _ = write!(out, "\n## {title}\n");
        if !about.is_empty() {
            let _ = write!(out, "\n{about}\n");
        }
        for function in library.functions {
            let kind = if is_operator(function.name) { "operator " } else { "" };
            let _ = write!(out, "\n### {kind}`{}`\n\n{}\n\n```text\n", function.name, function.doc);
            for overload in function.overloads {
                let _ = writeln!(out, "{}", overload.signature);
            }
            out.push_str("```\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_and_signature_is_in_the_reference() {
        let reference = reference_markdown();
        for library in standard().chain(GATED.iter().copied()) {
            for function in library.functions {
                assert!(reference.contains(&format!("`{}`", function.name)), "{}", function.name);
                for overload in function.overloads {
                    assert!(reference.contains(overload.signature), "{}", overload.signature);
                }
            }
        }
        assert!(reference.contains("### `quantity`\n\nParses a quantity.\n"));
    }

    #[test]
    fn every_extension_has_a_heading() {
        for library in super::super::EXTENSIONS.iter().chain(GATED) {
            assert!(!heading(library).1.is_empty(), "{}", library.name);
        }
    }
}
