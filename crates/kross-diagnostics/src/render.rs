//! Turns a collection of diagnostics into what a terminal, a pull request, a machine or a status condition shows.
//! One module per output; all of them neutralise control characters in the user's text.

mod condition;
mod github;
mod json;
mod lines;
mod neutral;
mod summary;
mod terminal;

use std::str::FromStr;

pub use condition::{CONDITION_LIMIT, condition};
pub use github::github;
pub use json::{json, json_lines};
pub use lines::{line, lines};
pub use neutral::{neutral, neutral_line};
pub use summary::{explain_hint, summary};
pub use terminal::{Colour, terminal};

use crate::{Diagnostics, Sources};

/// The outputs a person can choose between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Excerpts of the source, without colour.
    Plain,
    /// Excerpts of the source, in colour.
    Coloured,
    /// One line each.
    Lines,
    /// A JSON array.
    Json,
    /// A JSON object per line.
    JsonLines,
    /// Workflow commands that GitHub shows beside the changed lines.
    Github,
}

impl Format {
    /// The names that [`Format::from_str`] takes, colour being the terminal's business.
    pub const NAMES: &'static [&'static str] = &["full", "short", "json", "jsonl", "github"];

    /// Renders all of `diagnostics`; empty when there are none, except for JSON, whose array is then empty.
    #[must_use]
    pub fn render(self, diagnostics: &Diagnostics, sources: &Sources) -> String {
        match self {
            Self::Plain => terminal(diagnostics, sources, Colour::Never, None),
            Self::Coloured => terminal(diagnostics, sources, Colour::Always, None),
            Self::Lines => lines(diagnostics, sources),
            Self::Json => json(diagnostics, sources),
            Self::JsonLines => json_lines(diagnostics, sources),
            Self::Github => github(diagnostics, sources),
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "full" => Ok(Self::Plain),
            "short" => Ok(Self::Lines),
            "json" => Ok(Self::Json),
            "jsonl" => Ok(Self::JsonLines),
            "github" => Ok(Self::Github),
            _ => Err(format!("unknown format `{name}`, expected one of {}", Self::NAMES.join(", "))),
        }
    }
}
