//! Turns what a user may read into pages: fleet, definitions, instances, targets.

use maud::{DOCTYPE, Markup, html};

mod definition;
mod definitions;
mod fleet;
mod instance;
mod instances;
mod object;
mod parts;
mod targets;

pub(super) use definition::definition;
pub(super) use definitions::definitions;
pub(super) use fleet::fleet;
pub(super) use instance::instance;
pub(super) use instances::instances;
pub(super) use targets::targets;

use super::query::Query;

/// The views, with their addresses.
const VIEWS: &[(&str, &str)] =
    &[("/", "Fleet"), ("/definitions", "Definitions"), ("/instances", "Instances"), ("/targets", "Targets")];

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

/// A whole page around its content.
pub(super) fn page(content: &Content, query: &Query) -> Markup {
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
                    a .brand href="/" { "kross" }
                    nav aria-label="Views" {
                        @for (address, name) in VIEWS {
                            a href=(address) aria-current=[(*name == content.view).then_some("page")] { (name) }
                        }
                    }
                    form action="/instances" role="search" {
                        input type="search" name="q" id="search" value=(query.get("q")) placeholder="Search instances  /"
                            aria-label="Search instances";
                    }
                    span #connection role="status" aria-live="polite" {}
                }
                main #content tabindex="-1" { (content.body) }
            }
        }
    }
}
