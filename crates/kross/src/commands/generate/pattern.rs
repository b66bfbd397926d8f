//! A string that matches a regular expression.

use regex_syntax::hir::{Class, Hir, HirKind};

/// A string of a permitted length that matches; none if none was found.
pub(super) fn example(pattern: &str, least: usize, most: usize, number: usize) -> Option<String> {
    let parsed = regex_syntax::parse(pattern).ok()?;
    let regex = regex::Regex::new(pattern).ok()?;
    // Repetitions are made longer until the string is long enough.
    let found = (0..=64_u32).filter_map(|more| {
        let mut text = String::new();
        write(&parsed, more, number, &mut text);
        let length = text.chars().count();
        if length < least && !pattern.ends_with('$') {
            text.extend(std::iter::repeat_n('a', least - length));
        }
        let fits = (least..=most).contains(&text.chars().count()) && regex.is_match(&text);
        fits.then_some(text)
    });
    // One repetition more than needed makes for values that look like values: `a` instead of nothing.
    let mut found = found.take(2);
    let first = found.next()?;
    Some(if first.is_empty() { found.next().unwrap_or(first) } else { first })
}

fn write(hir: &Hir, more: u32, number: usize, out: &mut String) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => out.extend(letter(class, number)),
        HirKind::Repetition(repetition) => {
            let count = (repetition.min + more).min(repetition.max.unwrap_or(u32::MAX));
            for _ in 0..count.min(256) {
                write(&repetition.sub, more.min(1), number, out);
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, more, number, out),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, more, number, out)),
        HirKind::Alternation(choices) => {
            if let Some(choice) = choices.get(number % choices.len().max(1)) {
                write(choice, more, number, out);
            }
        }
    }
}

/// A letter of a class, a readable one if it has one.
fn letter(class: &Class, number: usize) -> Option<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.ranges().iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => {
            class.ranges().iter().map(|range| (char::from(range.start()), char::from(range.end()))).collect()
        }
    };
    let has = |letter: &char| ranges.iter().any(|(first, last)| (first..=last).contains(&letter));
    let readable: Vec<char> =
        ('a'..='z').chain('A'..='Z').chain('1'..='9').chain(['0']).filter(has).collect();
    let chosen = readable.get(number % readable.len().max(1)).copied();
    chosen.or_else(|| ranges.first().map(|(first, _)| *first))
}

#[cfg(test)]
mod tests {
    use super::example;

    #[test]
    fn the_example_matches_its_pattern() {
        for (pattern, least, most, expected) in [
            ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 0, 63, Some("a")),
            ("^[a-z]{3}-[0-9]+$", 0, 63, Some("aaa-1")),
            ("^(eu|us)-west-[1-3]$", 0, 63, Some("eu-west-1")),
            ("^[a-z]*$", 5, 63, Some("aaaaa")),
            ("^\\d+(\\.\\d+)?Gi$", 0, 63, Some("1Gi")),
            ("x", 0, 10, Some("x")),
            ("^[a-z]{8}$", 0, 4, None),
            ("(", 0, 4, None),
        ] {
            assert_eq!(example(pattern, least, most, 0).as_deref(), expected, "{pattern}");
        }
        assert_eq!(example("^(eu|us)$", 0, 9, 1).as_deref(), Some("us"));
    }
}
