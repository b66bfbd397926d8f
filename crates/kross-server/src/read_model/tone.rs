//! Turns how good something is into a colour.

/// How a text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Neither good nor bad.
    #[default]
    Plain,
    /// As desired.
    Good,
    /// Not yet as desired.
    Busy,
    /// Failed.
    Bad,
    /// Not expected to be anything.
    Faint,
}

impl Tone {
    /// The text with the colour codes of a terminal, if it is coloured.
    #[must_use]
    pub fn paint(self, text: &str, coloured: bool) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Good => "32",
            Self::Busy => "33",
            Self::Bad => "31",
            Self::Faint => "2",
        };
        if coloured && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
