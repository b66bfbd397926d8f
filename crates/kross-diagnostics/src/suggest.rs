//! Turns a name that does not exist into the existing one that was probably meant. Everything that says "did you
//! mean" asks here, so that all of them are equally daring.

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
    let typed: Vec<char> = folded(word)?;
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        if candidate == word {
            continue;
        }
        let Some(meant) = folded(candidate) else { continue };
        let allowed = match typed.len().max(meant.len()) {
            0 | 1 => 0,
            longer => (longer / 3).max(1),
        };
        if typed.len().abs_diff(meant.len()) > allowed {
            continue;
        }
        let distance = distance(&typed, &meant);
        if distance == 0 || distance <= allowed && distance < typed.len().min(meant.len()) {
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

fn folded(word: &str) -> Option<Vec<char>> {
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    Some(word.chars().flat_map(char::to_lowercase).collect())
}

/// Damerau-Levenshtein distance in its restricted form: no letter takes part in two edits.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.iter().enumerate() {
        let mut current = Vec::with_capacity(to.len() + 1);
        let mut left = row + 1;
        current.push(left);
        for (column, other) in to.iter().enumerate() {
            let diagonal = at(&last, column) + usize::from(letter != other);
            let mut least = diagonal.min(at(&last, column + 1) + 1).min(left + 1);
            let swapped = row > 0
                && column > 0
                && from.get(row - 1) == Some(other)
                && to.get(column - 1) == Some(letter)
                && letter != other;
            if swapped {
                least = least.min(at(&before, column - 1) + 1);
            }
            current.push(least);
            left = least;
        }
        before = std::mem::replace(&mut last, current);
    }
    at(&last, to.len())
}

fn at(row: &[usize], column: usize) -> usize {
    row.get(column).copied().unwrap_or(usize::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_of_neighbours_is_one_edit() {
        let distance = |from: &str, to: &str| {
            distance(&from.chars().collect::<Vec<_>>(), &to.chars().collect::<Vec<_>>())
        };
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
    fn the_word_itself_and_the_empty_word_are_no_answer() {
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
