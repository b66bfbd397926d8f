//! The parts that pages share: times, states, commands to copy, empty states, what could not be read.

use jiff::Timestamp;
use kross_cluster::ApiError;
use maud::{Markup, html};

use super::super::drawing::tone_class;
use crate::read_model::{Tone, age};

/// How long ago a time was, exact on hover. The page keeps it up to date by itself.
pub(super) fn ago(time: Option<&str>, now: Timestamp) -> Markup {
    let parsed = time.and_then(|time| time.parse::<Timestamp>().ok());
    html! {
        @match (time, parsed) {
            (Some(text), Some(time)) => time datetime=(text) title=(text) { (age(time, now)) },
            _ => "–",
        }
    }
}

/// A state: a word, a shape and a colour.
pub(super) fn badge(word: &str, tone: Tone) -> Markup {
    let shape = match tone {
        Tone::Good => "●",
        Tone::Bad => "◆",
        Tone::Busy => "▲",
        Tone::Faint | Tone::Plain => "○",
    };
    html! { span .badge.(tone_class(tone)) { span aria-hidden="true" { (shape) } " " (word) } }
}

/// A command with a button that copies it.
pub(super) fn command(text: &str) -> Markup {
    html! {
        div .command {
            code { (text) }
            button type="button" data-copy=(text) aria-label=(format!("Copy the command {text}")) { "Copy" }
        }
    }
}

/// What a list without entries says, and what to do next.
pub(super) fn empty(title: &str, message: &str, next: Option<&str>) -> Markup {
    html! {
        section .empty {
            h1 { (title) }
            p { (message) }
            @if let Some(next) = next { (command(next)) }
        }
    }
}

/// Why something is not shown.
pub(super) fn unreadable(what: &str, error: &ApiError) -> Markup {
    html! {
        p .notice role="note" {
            @if error.code() == Some(403) {
                "You may not list " (what) " here. "
                "Choose a namespace in which you may, or ask for the permission."
            } @else {
                "Cannot list " (what) ": " (error.message())
            }
        }
    }
}

/// The pages of a long list.
pub(super) fn pager(query: &super::super::query::Query, page: usize, pages: usize, total: usize) -> Markup {
    html! {
        @if pages > 1 {
            nav .pager aria-label="Pages" {
                @if page > 0 { a rel="prev" href=(query.with("page", &(page - 1).to_string())) { "← Previous" } }
                span { "page " (page + 1) " of " (pages) ", " (total) " in all" }
                @if page + 1 < pages { a rel="next" href=(query.with("page", &(page + 1).to_string())) { "Next →" } }
            }
        }
    }
}

/// The field that limits a list to a namespace.
pub(super) fn namespace_filter(query: &super::super::query::Query, names: &[String]) -> Markup {
    html! {
        label { "Namespace "
            input name="namespace" list="namespaces" value=(query.get("namespace")) placeholder="all" autocomplete="off";
        }
        datalist id="namespaces" { @for name in names { option value=(name) {} } }
    }
}
