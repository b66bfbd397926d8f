//! Shortens messages that are too long, and never in the middle of what is between backticks: a command or a name that was cut
//! must not be copied.

const MARK: char = '`';

/// The beginning of a text, with an ellipsis if it was cut, in at most `limit` bytes.
///
/// ```
/// use kross_api::truncate;
///
/// assert_eq!(truncate("short", 10), "short");
/// assert_eq!(truncate("run `kross why shop/web` now", 20), "run …");
/// ```
#[must_use]
pub fn truncate(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    format!("{}…", head(text, limit.saturating_sub('…'.len_utf8())))
}

/// The beginning and the end of a text, with an ellipsis between them if it was cut, in about `limit` bytes. Errors of an API
/// server begin with the object and end with what is wrong.
#[must_use]
pub fn cut_middle(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = limit / 4;
    let tail = text.ceil_char_boundary(text.len() - end);
    let (before, tail) = text.split_at(tail);
    let tail = match is_open(before) {
        true => tail.split_once(MARK).map_or(tail, |(_, rest)| rest),
        false => tail,
    };
    format!("{} … {}", head(text, limit - end).trim_end(), tail.trim_start())
}

/// What is left of a text within `limit` bytes.
fn head(text: &str, limit: usize) -> &str {
    let head = text.get(..text.floor_char_boundary(limit)).unwrap_or_default();
    match head.rsplit_once(MARK) {
        // Not for what began long before: it is no command.
        Some((before, cut)) if is_open(head) && cut.len() < 200 => before,
        _ => head,
    }
}

fn is_open(text: &str) -> bool {
    text.matches(MARK).count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_whole_or_not_at_all() {
        let text = "cluster `eu` does not answer; run `kross cluster check eu --namespace team` to see why";
        assert_eq!(truncate(text, 45), "cluster `eu` does not answer; run …");
        assert_eq!(
            truncate(text, 78),
            "cluster `eu` does not answer; run `kross cluster check eu --namespace team`…"
        );
        for limit in 3..text.len() {
            let short = truncate(text, limit);
            assert!(
                short.len() <= limit && short.matches(MARK).count().is_multiple_of(2),
                "{limit}: {short}"
            );
        }
    }

    #[test]
    fn the_end_of_a_text_that_is_cut_in_the_middle_stays() {
        let text = format!("Deployment `web` {} annotate `a b c d` with `kross.run/x`", "x".repeat(300));
        for limit in 40..200 {
            let short = cut_middle(&text, limit);
            assert!(short.matches(MARK).count().is_multiple_of(2) && short.contains('…'), "{limit}: {short}");
        }
        assert!(cut_middle(&text, 200).ends_with("with `kross.run/x`"));
        assert_eq!(cut_middle("ä", 1).chars().filter(|letter| *letter == '…').count(), 1);
    }
}
