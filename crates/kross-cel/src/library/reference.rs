//! Turns the table of functions into the reference that people read.

use std::fmt::Write as _;

use super::{GATED, Library, standard};

/// The name of a library, as a heading, and what it is about.
fn heading(library: &Library) -> (&'static str, &'static str) {
    match library.name {
        "strings" => ("Strings", "Pieces, positions and replacements of text. Positions count characters."),
        "lists" => {
            ("Lists", "Pieces and order of lists. `list.sortBy(item, key)` sorts by a key of each element.")
        }
        "math" => ("Math", "Numbers: extremes, rounding, signs and bits."),
        "sets" => ("Sets", "Lists seen as sets: order and repetition do not matter."),
        "encoders" => ("Encoders", "Bytes as text."),
        "regex" => ("Regular expressions", "Patterns are those of Go (RE2)."),
        "kubernetes.lists" => ("Kubernetes: lists", "Sums, extremes and positions."),
        "kubernetes.regex" => ("Kubernetes: regular expressions", "Matches in text."),
        "kubernetes.urls" => ("Kubernetes: URLs", "URLs and their parts, as Go reads them."),
        "kubernetes.net.ip" => ("Kubernetes: IP addresses", "Version 4 and 6, without zones."),
        "kubernetes.net.cidr" => ("Kubernetes: ranges of IP addresses", "Such as `10.0.0.0/8`."),
        "kubernetes.quantity" => ("Kubernetes: quantities", "Amounts such as `1500m` and `2Gi`, exactly."),
        "kubernetes.semver" => ("Kubernetes: versions", "Semantic versions."),
        "kubernetes.format" => {
            ("Kubernetes: named formats", "What a string must look like, with the reasons why not.")
        }
        "random" => ("Random values", "A seed decides them, so that they never change."),
        "json" => ("JSON", "Text to values and back."),
        "maps" => ("Maps", "Maps put over one another."),
        "hash" => ("Digests", "Of text, as bytes; `base64.encode` makes text of them."),
        "kro.lists" => ("Edits of lists", "A list with one element changed, added or taken away."),
        "kro.omit" => ("Omit", "For templates, behind the feature gate `CELOmitFunction`."),
        "kro.runtime" => ("Conditions", "Only in `status.conditions` of a definition's schema."),
        other => (other, ""),
    }
}

/// Whether a function is written between or before its arguments.
fn is_operator(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_alphabetic())
}

/// All libraries, their functions, signatures and explanations, as Markdown.
#[must_use]
pub fn reference_markdown() -> String {
    let mut out = String::from(
        "# Functions\n\n\
         Every function that an expression can call, with its signatures. In `(list(A)).indexOf(A) -> int` the first\n\
         parentheses hold what the function is called on; single capital letters stand for any type, the same one\n\
         wherever the letter is.\n",
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
        assert!(reference.contains("### `quantity`\n\nThe quantity that the text is.\n"));
    }

    #[test]
    fn every_extension_has_a_heading() {
        for library in super::super::EXTENSIONS.iter().chain(GATED) {
            assert!(!heading(library).1.is_empty(), "{}", library.name);
        }
    }
}
