//! The revisions of a definition, and what one changed in the other.

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::super::query::Query;
use super::super::super::viewer::Viewer;
use super::super::{parts, yaml};
use crate::read_model::{Definition, text};

const REVISIONS: &str = "graphrevisions.internal.kro.run";
/// Lines around a change that are shown.
const CONTEXT: usize = 3;

/// The difference of any two revisions: of the newest to the one before it, until others are chosen.
pub(super) async fn revisions(
    viewer: &Viewer,
    definition: &Definition,
    query: &Query,
    now: Timestamp,
) -> Markup {
    let listed = match viewer.list_named(REVISIONS, None).await {
        None => return html! {},
        Some(Err(error)) => {
            return html! { section { h2 { "Revisions" } (parts::unreadable("revisions", &error)) } };
        }
        Some(Ok(listed)) => listed,
    };
    let is_own = |it: &Json| text(it, "/spec/snapshot/name") == Some(definition.name());
    let mut all: Vec<(i64, Json)> = listed
        .into_iter()
        .filter(is_own)
        .filter_map(|it| Some((it.pointer("/spec/revision").and_then(Json::as_i64)?, it)))
        .collect();
    all.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    let number = |key: &str| {
        query.get(key).parse::<i64>().ok().filter(|wanted| all.iter().any(|(it, _)| it == wanted))
    };
    let newest = all.first().map(|(number, _)| *number);
    let to = number("to").or(newest).unwrap_or_default();
    let before = all.iter().map(|(number, _)| *number).find(|number| *number < to);
    let from = number("from").or(before).unwrap_or(to);
    let snapshot = |wanted: i64| {
        all.iter().find(|(number, _)| *number == wanted).map(|(_, it)| lines(it)).unwrap_or_default()
    };
    html! {
        section .revisions {
            h2 { "Revisions" small { (all.len()) " kept" } }
            @match all.len() {
                0 => p .note { "None yet: a definition that is accepted gets its first revision." },
                1 => p .note { "Revision " (to) ", created " (parts::ago(created(&all, to), now)) " ago. A change of the spec makes the next one." },
                _ => {
                    form .filters method="get" aria-label="Compare two revisions" {
                        (choice(&all, "from", "From", from))
                        (choice(&all, "to", "To", to))
                        @if let Some(node) = query.given("node") { input type="hidden" name="node" value=(node); }
                        button type="submit" { "Compare" }
                    }
                    p .note {
                        "Revision " (from) " is " (parts::ago(created(&all, from), now)) " old, revision " (to) " "
                        (parts::ago(created(&all, to), now)) "."
                    }
                    (shown(&snapshot(from), &snapshot(to)))
                }
            }
        }
    }
}

fn created(all: &[(i64, Json)], wanted: i64) -> Option<&str> {
    all.iter()
        .find(|(number, _)| *number == wanted)
        .and_then(|(_, it)| text(it, "/metadata/creationTimestamp"))
}

fn choice(all: &[(i64, Json)], name: &str, label: &str, chosen: i64) -> Markup {
    html! {
        label { span { (label) }
            select name=(name) {
                @for (number, _) in all { option value=(number) selected[*number == chosen] { "revision " (number) } }
            }
        }
    }
}

fn lines(revision: &Json) -> Vec<String> {
    let spec = revision.pointer("/spec/snapshot/spec").unwrap_or(&Json::Null);
    yaml::text(spec).lines().map(str::to_owned).collect()
}

fn shown(old: &[String], new: &[String]) -> Markup {
    let changes = difference(old, new);
    let near = |at: usize| {
        let around = changes.get(at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(changes.len()));
        around.is_some_and(|around| around.iter().any(|(sign, _)| *sign != ' '))
    };
    let (added, removed) = (count(&changes, '+'), count(&changes, '-'));
    let mut skipped = false;
    html! {
        @if old == new { p .note { "The specs are equal." } }
        @else {
            p .note { (added) " lines added, " (removed) " removed" }
            pre .difference tabindex="0" role="region" aria-label="What changed" {
                @for (at, (sign, line)) in changes.iter().enumerate() {
                    @if near(at) {
                        span .added[*sign == '+'].removed[*sign == '-'] { (sign) " " (line) "\n" }
                    } @else if !skipped { span .gap { "  ⋯\n" } }
                    ({ skipped = !near(at); "" })
                }
            }
        }
    }
}

fn count(changes: &[(char, &str)], wanted: char) -> usize {
    changes.iter().filter(|(sign, _)| *sign == wanted).count()
}

/// Lines with `+`, `-` or a blank, by the longest common subsequence between the common beginning and end.
fn difference<'l>(old: &'l [String], new: &'l [String]) -> Vec<(char, &'l str)> {
    let begin = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (old.get(begin..).unwrap_or_default(), new.get(begin..).unwrap_or_default());
    let end = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let old_middle = old_rest.get(..old_rest.len() - end).unwrap_or_default();
    let new_middle = new_rest.get(..new_rest.len() - end).unwrap_or_default();
    let common = common_lengths(old_middle, new_middle);
    let length = |a: usize, b: usize| common.get(a).and_then(|row| row.get(b)).copied().unwrap_or_default();
    let kept = |line: &'l String| (' ', line.as_str());
    let mut changes: Vec<(char, &str)> = old.iter().take(begin).map(kept).collect();
    let (mut a, mut b) = (0, 0);
    loop {
        match (old_middle.get(a), new_middle.get(b)) {
            (Some(left), Some(right)) if left == right => {
                changes.push(kept(left));
                (a, b) = (a + 1, b + 1);
            }
            (Some(left), right) if right.is_none() || length(a + 1, b) >= length(a, b + 1) => {
                changes.push(('-', left));
                a += 1;
            }
            (_, Some(right)) => {
                changes.push(('+', right));
                b += 1;
            }
            _ => break,
        }
    }
    changes.extend(old.iter().skip(old.len() - end).map(kept));
    changes
}

/// The lengths of the longest common subsequences of all tails. Specs that differ in too many lines are shown as replaced.
fn common_lengths(old: &[String], new: &[String]) -> Vec<Vec<u32>> {
    const MAX_CELLS: usize = 4_000_000;
    if old.len().saturating_mul(new.len()) > MAX_CELLS {
        return Vec::new();
    }
    let mut lengths = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for (a, left) in old.iter().enumerate().rev() {
        for (b, right) in new.iter().enumerate().rev() {
            let at =
                |a: usize, b: usize| lengths.get(a).and_then(|row| row.get(b)).copied().unwrap_or_default();
            let best = if left == right { at(a + 1, b + 1) + 1 } else { at(a + 1, b).max(at(a, b + 1)) };
            if let Some(cell) = lengths.get_mut(a).and_then(|row| row.get_mut(b)) {
                *cell = best;
            }
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_every_line_once_in_order() {
        let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (old, new) = (list("a b c d e"), list("a x c e f"));
        let text: String = difference(&old, &new)
            .iter()
            .flat_map(|(sign, line)| [sign.to_string(), (*line).to_owned()])
            .collect();
        assert_eq!(text, " a-b+x c-d e+f");
        assert!(difference(&old, &old).iter().all(|(sign, _)| *sign == ' '));
    }
}
