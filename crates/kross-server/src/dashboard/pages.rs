//! Turns what a user may read into pages: fleet, clusters, definitions, instances, targets, search.

use maud::{DOCTYPE, Markup, html};

mod cluster;
mod definition;
mod definitions;
mod fleet;
mod instance;
mod instances;
mod object;
mod parts;
mod search;
mod targets;
mod timeline;
mod yaml;

pub(super) use cluster::cluster;
pub(super) use definition::definition;
pub(super) use definitions::definitions;
pub(super) use fleet::fleet;
pub(super) use instance::instance;
pub(super) use instances::instances;
pub(super) use search::search;
pub(super) use targets::targets;

use super::query::Query;

/// The views, with their addresses.
const VIEWS: &[(&str, &str)] =
    &[("/", "Fleet"), ("/definitions", "Definitions"), ("/instances", "Instances"), ("/targets", "Targets")];

/// What every key does.
const KEYS: &[(&str, &str)] = &[
    ("/", "search everything"),
    ("g f", "fleet; likewise g d, g i and g t for definitions, instances and targets"),
    ("j k", "next and previous row of a list"),
    ("↑ ↓ ← →", "nearest node of the graph, once one has the focus"),
    ("Enter", "open the details of a node, or the page of a row"),
    ("Esc", "close the details"),
    ("+ - 0 f", "zoom in and out, original size, fit everything"),
    ("?", "this list"),
];

/// The part of a page that changes while it is watched.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) title: String,
    pub(super) view: &'static str,
    pub(super) body: Markup,
    pub(super) found: bool,
}

impl Content {
    pub(super) fn new(title: impl Into<String>, view: &'static str, body: Markup) -> Self {
        Self { title: title.into(), view, body, found: true }
    }

    pub(super) fn missing(view: &'static str, message: &str) -> Self {
        let body = parts::empty("Not found", message, None);
        Self { title: "Not found".to_owned(), view, body, found: false }
    }
}

/// A whole page around its content. A user who has logged in can log out.
pub(super) fn page(content: &Content, query: &Query, user: Option<&str>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (content.title) " · kross" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/dashboard.css";
                script type="module" src="/assets/dashboard.js" {}
            }
            body {
                a .skip href="#content" { "Skip to content" }
                header {
                    a .brand href="/" { (logo()) "kross" }
                    nav aria-label="Views" {
                        @for (address, name) in VIEWS {
                            a href=(address) aria-current=[(*name == content.view).then_some("page")] { (name) }
                        }
                    }
                    form action="/search" role="search" aria-label="Everything" {
                        input type="search" name="q" id="search" value=(search_text(content, query)) placeholder="Search everything"
                            aria-label="Search everything" aria-keyshortcuts="/" autocomplete="off";
                        kbd aria-hidden="true" { "/" }
                    }
                    span #connection role="status" aria-live="polite" { "connecting…" }
                    button #help-button type="button" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" { "?" }
                    @if let Some(user) = user {
                        form .account method="post" action="/logout" {
                            @if !user.is_empty() { span title=(user) { (user.rsplit(':').next().unwrap_or(user)) } " " }
                            button type="submit" { "Log out" }
                        }
                    }
                }
                p #lost role="alert" hidden {}
                main #content tabindex="-1" { (content.body) }
                (help())
            }
        }
    }
}

/// The filters of other pages are no searches.
fn search_text<'q>(content: &Content, query: &'q Query) -> &'q str {
    if content.view == "Search" { query.get("q") } else { "" }
}

fn logo() -> Markup {
    html! {
        svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true" {
            path d="M3 4h4l3 4-3 4H3M10 8h3" {} circle cx="3" cy="4" r="1.8" {} circle cx="3" cy="12" r="1.8" {} circle cx="13.2" cy="8" r="1.8" {}
        }
    }
}

/// What every key does.
fn help() -> Markup {
    html! {
        dialog #help aria-labelledby="help-title" {
            h2 #help-title { "Keyboard shortcuts" }
            dl {
                @for (keys, what) in KEYS { dt { @for key in keys.split(' ') { kbd { (key) } " " } } dd { (what) } }
            }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}
