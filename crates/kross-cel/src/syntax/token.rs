//! The words of the language, and how messages name them.

use crate::Span;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    End,
    /// Reported by the lexer already; the parser stays silent about it.
    Invalid,
    Identifier,
    /// An identifier in backticks; the span covers the backticks.
    Escaped,
    Int,
    UInt,
    Double,
    String,
    Bytes,
    True,
    False,
    Null,
    In,
    Dot,
    Comma,
    Colon,
    Question,
    OpenParenthesis,
    CloseParenthesis,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Exclamation,
}

impl Kind {
    /// How a message names what it expected.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::End => "the end of the expression",
            Self::Invalid => "something else",
            Self::Identifier | Self::Escaped => "a name",
            Self::Int | Self::UInt | Self::Double => "a number",
            Self::String => "a string",
            Self::Bytes => "a byte string",
            Self::True => "`true`",
            Self::False => "`false`",
            Self::Null => "`null`",
            Self::In => "`in`",
            Self::Dot => "`.`",
            Self::Comma => "`,`",
            Self::Colon => "`:`",
            Self::Question => "`?`",
            Self::OpenParenthesis => "`(`",
            Self::CloseParenthesis => "`)`",
            Self::OpenBracket => "`[`",
            Self::CloseBracket => "`]`",
            Self::OpenBrace => "`{`",
            Self::CloseBrace => "`}`",
            Self::Or => "`||`",
            Self::And => "`&&`",
            Self::Equal => "`==`",
            Self::NotEqual => "`!=`",
            Self::Less => "`<`",
            Self::LessOrEqual => "`<=`",
            Self::Greater => "`>`",
            Self::GreaterOrEqual => "`>=`",
            Self::Plus => "`+`",
            Self::Minus => "`-`",
            Self::Star => "`*`",
            Self::Slash => "`/`",
            Self::Percent => "`%`",
            Self::Exclamation => "`!`",
        }
    }
}

/// A word with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Span,
}

/// Words that the language keeps for itself; they may name fields, but neither variables nor functions.
pub(super) fn is_reserved(word: &str) -> bool {
    matches!(
        word,
        "as" | "break"
            | "const"
            | "continue"
            | "else"
            | "for"
            | "function"
            | "if"
            | "import"
            | "let"
            | "loop"
            | "namespace"
            | "package"
            | "return"
            | "var"
            | "void"
            | "while"
    )
}
