//! Draws an answer for people: the chain, the sentence, and the commands.

use std::fmt::Write;

use kross_server::read_model::why::{Answer, Link};

use super::super::wrap::wrap;
use crate::hub::Tone;

/// Draws an answer in lines of at most `width`. Commands are never broken, so that they can be copied.
pub(super) fn draw(answer: &Answer, coloured: bool, width: Option<usize>) -> String {
    let Answer { ready, chain, why, next, notes } = answer;
    let mut drawn = String::new();
    // Writing to a string cannot fail.
    for (depth, Link { object, state, tone }) in chain.iter().enumerate() {
        let indent = match depth {
            0 => String::new(),
            depth => format!("{}└─ ", "   ".repeat(depth - 1)),
        };
        let _ = writeln!(drawn, "{indent}{object}  {}", tone.paint(state, coloured));
    }
    if !why.is_empty() {
        let tone = if *ready { Tone::Good } else { Tone::Plain };
        let label = if *ready { "" } else { "why: " };
        let text = wrap(&format!("{label}{why}"), width, label.len());
        let _ = writeln!(drawn, "\n{}", tone.paint(&text, coloured));
    }
    for note in notes {
        let _ = writeln!(drawn, "{}", Tone::Faint.paint(&wrap(&format!("note: {note}"), width, 6), coloured));
    }
    if !next.is_empty() {
        drawn.push_str("\nnext:\n");
        for command in next {
            let _ = writeln!(drawn, "  {command}");
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_wrapped_and_commands_are_not() {
        let link = |object: &str, state: &str| Link {
            object: object.to_owned(),
            state: state.to_owned(),
            tone: Tone::Bad,
        };
        let answer = Answer {
            chain: vec![link("Shop team/web", "ERROR"), link("db: Deployment team/web-db", "Error")],
            why: "cluster `eu` is not connected: connection refused; check `server` in the kubeconfig"
                .to_owned(),
            next: vec![
                "kubectl create secret generic eu-kubeconfig -n team --from-file=kubeconfig=FILE".to_owned(),
            ],
            notes: vec!["cannot look into cluster `eu`".to_owned()],
            ..Answer::default()
        };
        insta::assert_snapshot!(draw(&answer, false, Some(50)));
    }
}
