//! Breaks sentences between words, so that they fit a terminal. What is in backticks stays in one piece, since it may be a
//! command to copy.

/// Wraps a text into lines of at most `width` characters, if there is a width. Further lines are indented.
pub(super) fn wrap(text: &str, width: Option<usize>, indent: usize) -> String {
    let Some(width) = width.filter(|width| *width > indent + 20) else { return text.to_owned() };
    let mut wrapped = String::with_capacity(text.len());
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
        }
        let mut column = if number > 0 { indent } else { 0 };
        for (at, word) in words(line).into_iter().enumerate() {
            let length = word.chars().count();
            if at > 0 && column + 1 + length > width {
                wrapped.push('\n');
                wrapped.push_str(&" ".repeat(indent));
                column = indent;
            } else if at > 0 {
                wrapped.push(' ');
                column += 1;
            }
            wrapped.push_str(word);
            column += length;
        }
    }
    wrapped
}

/// The words of a line; what is between two backticks is one word.
fn words(line: &str) -> Vec<&str> {
    let (mut words, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, character) in line.char_indices() {
        match character {
            '`' => quoted = !quoted && line.get(at + 1..).is_some_and(|rest| rest.contains('`')),
            ' ' if !quoted => {
                words.extend(line.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    words.extend(line.get(start..));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_never_inside_of_backticks() {
        let text = "run it with `kubectl annotate shop web kro.run/reconcile=suspended` and then again";
        assert_eq!(
            wrap(text, Some(40), 2),
            "run it with\n  `kubectl annotate shop web kro.run/reconcile=suspended`\n  and then again"
        );
        assert_eq!(wrap(text, None, 2), text);
        assert_eq!(
            wrap("an ` alone is no quote of these words", Some(30), 0),
            "an ` alone is no quote of\nthese words"
        );
    }
}
