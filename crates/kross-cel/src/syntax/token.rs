//! The tokens of the language, and their names in messages.

use crate::Span;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    End,
    /// Already reported by the lexer; the parser does not report it again.
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
    /// Its name in messages.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::End => "the end of the expression",
            Self::Invalid => "an invalid token",
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

/// A token and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

/// Whether a word is reserved: it may be the name of a field, but not of a variable or a function.
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
