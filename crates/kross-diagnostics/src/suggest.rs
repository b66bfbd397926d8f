//! Finds the existing name that was probably meant by an unknown one. Every "did you mean" uses this function, so that
//! all of them apply the same threshold.

/// Names longer than this are not compared: nobody mistypes them by hand, and the comparison is quadratic.
const LONGEST: usize = 256;

/// The candidate that was probably meant by `word`, if any is close enough.
///
/// The same name in another case wins; then the fewest insertions, deletions, replacements and swaps of
/// neighbours, at most a third of the longer name; then the first among equals. `word` itself is never the answer.
///
/// ```
/// use kross_diagnostics::suggest;
///
/// assert_eq!(suggest("replcias", ["name", "replicas"]), Some("replicas"));
/// assert_eq!(suggest("APIVersion", ["kind", "apiVersion"]), Some("apiVersion"));
/// assert_eq!(suggest("metadata", ["kind", "spec"]), None);
/// ```
#[must_use]
pub fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = Folded::of(word)?;
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        if candidate == word {
            continue;
        }
        let Some(meant) = Folded::of(candidate) else { continue };
        let allowed = match typed.length.max(meant.length) {
            0 | 1 => 0,
            longer => (longer / 3).max(1),
        };
        if typed.length.abs_diff(meant.length) > allowed {
            continue;
        }
        let distance = strsim::osa_distance(&typed.text, &meant.text);
        if distance == 0 || distance <= allowed && distance < typed.length.min(meant.length) {
            if best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, candidate));
            }
            if distance == 0 {
                break;
            }
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// A name in lower case, and its number of characters.
struct Folded {
    text: String,
    length: usize,
}

impl Folded {
    fn of(word: &str) -> Option<Self> {
        if word.is_empty() || word.len() > LONGEST {
            return None;
        }
        let text: String = word.chars().flat_map(char::to_lowercase).collect();
        Some(Self { length: text.chars().count(), text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_of_neighbours_is_one_edit() {
        use strsim::osa_distance as distance;

        assert_eq!(suggest("spce", ["spec"]), Some("spec"));
        assert_eq!(distance("spce", "spec"), 1);
        assert_eq!(distance("spec", "spec"), 0);
        assert_eq!(distance("", "spec"), 4);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("ca", "abc"), 3);
    }

    #[test]
    fn another_case_beats_fewer_edits_in_the_same_case() {
        assert_eq!(suggest("NAME", ["NAMES", "name"]), Some("name"));
        assert_eq!(suggest("configmap", ["configMaps", "configMap"]), Some("configMap"));
    }

    #[test]
    fn the_closest_wins_and_the_first_among_equals() {
        assert_eq!(suggest("namespce", ["name", "namespaces", "namespace"]), Some("namespace"));
        assert_eq!(suggest("bat", ["cat", "hat"]), Some("cat"));
    }

    #[test]
    fn short_names_need_more_than_a_letter_in_common() {
        assert_eq!(suggest("a", ["b"]), None);
        assert_eq!(suggest("ab", ["cd"]), None);
        assert_eq!(suggest("id", ["if"]), Some("if"));
        assert_eq!(suggest("ip", ["uri"]), None);
    }

    #[test]
    fn the_word_itself_and_the_empty_word_are_never_suggested() {
        assert_eq!(suggest("spec", ["spec"]), None);
        assert_eq!(suggest("", ["a"]), None);
        assert_eq!(suggest("a", [""]), None);
    }

    #[test]
    fn very_long_names_are_not_compared() {
        let long = "x".repeat(10_000);
        assert_eq!(suggest(&long, [long.get(1..).unwrap()]), None);
    }
}
