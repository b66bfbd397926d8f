//! Computes the plural of a kind, which names its CustomResourceDefinition. The rules are those of the Go library
//! `flect`, which kro uses, because the plural of an existing API must not change.

mod words;

use words::{IRREGULAR, Irregular, SUFFIXES};

/// The plural of a kind, in lower case: `policies` for `Policy`.
///
/// ```
/// assert_eq!(kross_api::plural("WebApplication"), "webapplications");
/// assert_eq!(kross_api::plural("Proxy"), "proxies");
/// ```
#[must_use]
pub fn plural(kind: &str) -> String {
    let word = kind.to_lowercase();
    exact(&word)
        .or_else(|| {
            IRREGULAR.iter().rev().filter(|entry| entry.suffix).find_map(|entry| ending(&word, entry))
        })
        .or_else(|| SUFFIXES.iter().find_map(|(singular, plural)| replace(&word, singular, plural)))
        .unwrap_or_else(|| if word.ends_with('s') { word } else { word + "s" })
}

/// The name of the CustomResourceDefinition that serves a kind.
#[must_use]
pub fn crd_name(kind: &str, group: &str) -> String {
    format!("{}.{group}", plural(kind))
}

fn exact(word: &str) -> Option<String> {
    // flect treats it as an acronym, to which its suffix rules do not apply.
    if word == "ssh" {
        return Some("sshs".to_owned());
    }
    if let Some(entry) = IRREGULAR.iter().find(|entry| entry.singular == word) {
        return Some(entry.plural.to_owned());
    }
    let known = |entry: &Irregular| entry.both_ways && (entry.plural == word || entry.alternative == word);
    IRREGULAR.iter().any(known).then(|| word.to_owned())
}

fn ending(word: &str, entry: &Irregular) -> Option<String> {
    replace(word, entry.singular, entry.plural)
}

/// Replaces the singular suffix by the plural suffix; a word that already has the plural suffix is unchanged.
fn replace(word: &str, singular: &str, plural: &str) -> Option<String> {
    if word.ends_with(plural) {
        return Some(word.to_owned());
    }
    word.strip_suffix(singular).map(|stem| format!("{stem}{plural}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_the_same_as_flects() {
        let golden = include_str!("../tests/fixtures/plurals.txt");
        let wrong: Vec<String> = golden
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(word, expected)| plural(word) != *expected)
            .map(|(word, expected)| format!("{word}: {} instead of {expected}", plural(word)))
            .collect();
        assert!(golden.lines().count() >= 400);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_crd_is_named_by_plural_and_group() {
        assert_eq!(crd_name("CheckWebEmpty", "kro.run"), "checkwebempties.kro.run");
    }
}
