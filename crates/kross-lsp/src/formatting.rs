//! Formats a file as `kross fmt` does, with one edit of the lines that change.

use gen_lsp_types::TextEdit;
use kross_graph::format_text;

use crate::workspace::Workspace;

impl Workspace {
    /// The edits that format a file. None if it has errors, or uses YAML that is not formatted.
    #[must_use]
    pub fn formatting(&self, uri: &str) -> Option<Vec<TextEdit>> {
        let file = self.file(uri)?;
        let text = file.text.as_str();
        let formatted = format_text(uri, text).ok()?;
        if formatted == text {
            return Some(Vec::new());
        }
        let (before, after) = (lines(text), lines(&formatted));
        let same = before.iter().zip(&after).take_while(|(one, other)| one == other).count();
        let rest = before.len().min(after.len()) - same;
        let tail = before.iter().rev().zip(after.iter().rev()).take(rest);
        let tail = tail.take_while(|(one, other)| one == other).count();
        let length =
            |lines: &[&str], count: usize| lines.iter().take(count).map(|line| line.len()).sum::<usize>();
        let start = length(&before, same);
        let end = length(&before, before.len() - tail);
        let with = formatted.get(start..length(&after, after.len() - tail)).unwrap_or_default();
        Some(vec![TextEdit { range: file.text.range(start..end), new_text: with.to_owned() }])
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}
