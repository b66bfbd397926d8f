//! The parts that pages share: times, states, conditions, commands to copy, empty states, what could not be read.

use jiff::Timestamp;
use kross_cluster::ApiError;
use maud::{Markup, html};
use serde_json::Value as Json;

use super::super::drawing::{shape, tone_class};
use super::super::query::Query;
use crate::read_model::{Tone, age, for_people};

/// Rows of one page of a list.
pub(super) const PAGE: usize = 50;

/// How long ago a time was, exact on hover. The page keeps it up to date by itself.
pub(super) fn ago(time: Option<&str>, now: Timestamp) -> Markup {
    let parsed = time.and_then(|time| time.parse::<Timestamp>().ok());
    html! {
        @match (time, parsed) {
            (Some(text), Some(time)) => time datetime=(text) title=(text) { (age(time, now)) },
            _ => span .none { "–" },
        }
    }
}

/// How long until a time, exact on hover.
pub(super) fn until(time: &str, now: Timestamp) -> Markup {
    html! {
        @match time.parse::<Timestamp>() {
            Ok(then) if then > now => span title=(time) { "in " (age(now, then)) },
            Ok(then) => span title=(time) { (age(then, now)) " ago" },
            Err(_) => (time),
        }
    }
}

/// A state: a word, a shape and a colour.
pub(super) fn badge(word: &str, tone: Tone) -> Markup {
    html! { span .badge.(tone_class(tone)) { (shape(tone)) (word) } }
}

/// How many of a list are in which state, as a bar and in words.
pub(super) fn bar(parts: &[(Tone, usize)]) -> Markup {
    let total: usize = parts.iter().map(|(_, count)| count).sum();
    let mut x = 0;
    html! {
        svg .bar viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true" {
            rect .faint x="0" y="0" width="1000" height="8" {}
            @for (tone, count) in parts {
                @let width = (count * 1_000).checked_div(total).unwrap_or_default();
                @let next = x + width;
                @let from = std::mem::replace(&mut x, next);
                rect .(tone_class(*tone)) x=(from) y="0" width=(width) height="8" {}
            }
        }
    }
}

/// One figure of a page.
pub(super) fn tile(figure: &Markup, label: &str, tone: Tone, link: Option<&str>) -> Markup {
    let inner = html! { strong { (figure) } span { (label) } };
    html! {
        li .tile.(tone_class(tone)) {
            @match link { Some(link) => a href=(link) { (inner) }, None => div { (inner) } }
        }
    }
}

/// A command with a button that copies it.
pub(super) fn command(text: &str) -> Markup {
    html! {
        div .command {
            code tabindex="0" { (text) }
            button type="button" data-copy=(text) aria-label=(format!("Copy the command {text}")) { "Copy" }
        }
    }
}

/// What a list without entries says, and what to do next.
pub(super) fn empty(title: &str, message: &str, next: Option<&str>) -> Markup {
    html! {
        section .empty {
            svg .picture viewBox="0 0 96 48" aria-hidden="true" {
                rect x="1" y="9" width="26" height="30" rx="5" {} rect x="35" y="9" width="26" height="30" rx="5" {}
                rect x="69" y="9" width="26" height="30" rx="5" {} path d="M27 24h8M61 24h8" {}
            }
            h2 { (title) }
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
                "You may not list " (what) " here: " (error.message()) ". "
                "Choose a namespace in which you may, or ask for the permission."
            } @else {
                "Cannot list " (what) ": " (error.message())
            }
        }
    }
}

/// Every condition of an object: its status, reason and time, and what it says. Each has the same height, whatever it says, until
/// it is opened: nothing moves when it changes.
pub(super) fn conditions(object: &Json, now: Timestamp) -> Markup {
    let all = object.pointer("/status/conditions").and_then(Json::as_array);
    let text = |condition: &Json, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    html! {
        @if all.is_none_or(Vec::is_empty) { p .note { "None yet." } }
        ul .conditions {
            @for condition in all.into_iter().flatten() {
                @let status = text(condition, "status");
                @let tone = match status.as_str() { "True" => Tone::Good, "False" => Tone::Bad, _ => Tone::Busy };
                @let (reason, message) = (text(condition, "reason"), for_people(&text(condition, "message"), now));
                li {
                    details {
                        summary {
                            span .line {
                                strong { (text(condition, "type")) }
                                (badge(&status, tone))
                                (ago(condition["lastTransitionTime"].as_str(), now))
                            }
                            span .reason { (reason) @if status != "True" && !message.is_empty() { ": " (message) } }
                        }
                        p .message { @if message.is_empty() { (reason) } @else { (message) } }
                    }
                }
            }
        }
    }
}

/// The pages of a long list.
pub(super) fn pager(query: &Query, page: usize, pages: usize, total: usize) -> Markup {
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

/// The page of a list that is asked for, and how many there are.
pub(super) fn paged(query: &Query, total: usize) -> (usize, usize) {
    let pages = total.div_ceil(PAGE);
    (query.number("page").min(pages.saturating_sub(1)), pages)
}

/// The field that limits a list to what has a text.
pub(super) fn text_filter(query: &Query, example: &str) -> Markup {
    html! {
        label { span { "Filter" } input type="search" name="q" value=(query.get("q")) placeholder=(example) autocomplete="off"; }
    }
}

/// The field that limits a list to a namespace.
pub(super) fn namespace_filter(query: &Query, names: &[String]) -> Markup {
    html! {
        label { span { "Namespace" }
            input name="namespace" list="namespaces" value=(query.get("namespace")) placeholder="all" autocomplete="off";
        }
        datalist id="namespaces" { @for name in names { option value=(name) {} } }
    }
}

/// The field that limits a list to one of some values.
pub(super) fn choice(query: &Query, name: &str, label: &str, values: &[String]) -> Markup {
    html! {
        label { span { (label) }
            select name=(name) {
                option value="" selected[query.given(name).is_none()] { "all" }
                @for value in values { option value=(value) selected[query.get(name) == value] { (value) } }
            }
        }
    }
}

/// The field that limits a list to what fails.
pub(super) fn failing_filter(query: &Query, label: &str) -> Markup {
    html! {
        label .check { input type="checkbox" name="failing" value="1" checked[query.given("failing").is_some()]; span { (label) } }
    }
}
