//! Formats diagnostics for terminals, pull requests, machines and status conditions.
//! One module per output; all of them neutralise control characters in the user's text.

mod admission;
mod condition;
mod github;
mod json;
mod lines;
mod neutral;
mod sarif;
mod summary;
mod terminal;

use std::str::FromStr;

pub use admission::{Cause, causes, limit_warnings, warnings};
pub use condition::{CONDITION_LIMIT, condition};
pub use github::github;
pub use json::{json, json_lines};
pub use lines::{line, lines};
pub use neutral::{neutral, neutral_line};
pub use sarif::sarif;
pub use summary::{explain_hint, summary};
pub use terminal::{Colour, terminal};

use crate::{Diagnostics, Sources};

/// The output formats that a user can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Source excerpts, without colour.
    Plain,
    /// Source excerpts, in colour.
    Coloured,
    /// One line per diagnostic.
    Lines,
    /// A JSON array.
    Json,
    /// A JSON object per line.
    JsonLines,
    /// Workflow commands that GitHub shows next to the changed lines.
    Github,
    /// A SARIF log, for code scanning.
    Sarif,
}

impl Format {
    /// The names that [`Format::from_str`] accepts; whether to use colour depends on the terminal.
    pub const NAMES: &'static [&'static str] = &["full", "short", "json", "jsonl", "github", "sarif"];

    /// Renders all of `diagnostics`; the result is empty if there are none, except for JSON, which is an empty array, and SARIF.
    #[must_use]
    pub fn render(self, diagnostics: &Diagnostics, sources: &Sources) -> String {
        match self {
            Self::Plain => terminal(diagnostics, sources, Colour::Never, None),
            Self::Coloured => terminal(diagnostics, sources, Colour::Always, None),
            Self::Lines => lines(diagnostics, sources),
            Self::Json => json(diagnostics, sources),
            Self::JsonLines => json_lines(diagnostics, sources),
            Self::Github => github(diagnostics, sources),
            Self::Sarif => sarif(diagnostics, sources),
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
            "sarif" => Ok(Self::Sarif),
            _ => Err(format!("unknown format `{name}`, expected one of {}", Self::NAMES.join(", "))),
        }
    }
}
