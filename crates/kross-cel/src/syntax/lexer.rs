//! Splits the text of an expression into tokens. Errors within a token are reported here, and the parser gets the token
//! that was probably meant, so that it does not report the error again.

use std::borrow::Cow;

use kross_diagnostics::Code;

use super::token::{Kind, Token};
use crate::Span;
use crate::error::{Issue, excerpt};

/// The state of the lexer.
pub(super) struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    position: usize,
    pub(super) issues: Vec<Issue>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), position: 0, issues: Vec::new() }
    }

    /// The text of a token.
    pub(super) fn text(&self, span: Span) -> &'a str {
        self.text.get(span.range()).unwrap_or("")
    }

    /// The text of a token, shortened for a message.
    pub(super) fn shown(&self, span: Span) -> Cow<'a, str> {
        excerpt(self.text(span))
    }

    /// Skips the rest of the text.
    pub(super) fn stop(&mut self) {
        self.position = self.bytes.len();
    }

    /// Whether the next token is a number.
    pub(super) fn is_at_number(&mut self) -> bool {
        self.skip_space();
        self.peek(0).is_ascii_digit() || self.peek(0) == b'.' && self.peek(1).is_ascii_digit()
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.position + ahead).copied().unwrap_or(0)
    }

    fn span_from(&self, start: usize) -> Span {
        span(start, self.position)
    }

    /// The next token; at the end of the text always [`Kind::End`].
    pub(super) fn next(&mut self) -> Token {
        self.skip_space();
        let start = self.position;
        if start >= self.bytes.len() {
            return Token { kind: Kind::End, span: span(start, start) };
        }
        let kind = match self.peek(0) {
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_ascii_digit() => self.number(),
            b'\'' | b'"' => self.string(start, false, false),
            b'`' => self.escaped_identifier(),
            b'_' | b'a'..=b'z' | b'A'..=b'Z' => self.word(),
            _ => self.operator(),
        };
        Token { kind, span: self.span_from(start) }
    }

    fn skip_space(&mut self) {
        loop {
            match self.peek(0) {
                b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' => self.position += 1,
                b'/' if self.peek(1) == b'/' => {
                    while self.position < self.bytes.len() && self.peek(0) != b'\n' {
                        self.position += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn take_while(&mut self, accept: impl Fn(u8) -> bool) -> usize {
        let start = self.position;
        while self.position < self.bytes.len() && accept(self.peek(0)) {
            self.position += 1;
        }
        self.position - start
    }

    fn number(&mut self) -> Kind {
        let start = self.position;
        if self.peek(0) == b'0' && self.peek(1) == b'x' && self.peek(2).is_ascii_hexdigit() {
            self.position += 2;
            self.take_while(|byte| byte.is_ascii_hexdigit());
            return self.integer_suffix(start);
        }
        self.take_while(|byte| byte.is_ascii_digit());
        let mut double = false;
        if self.peek(0) == b'.' && self.peek(1).is_ascii_digit() {
            double = true;
            self.position += 1;
            self.take_while(|byte| byte.is_ascii_digit());
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if self.peek(1 + sign).is_ascii_digit() {
                double = true;
                self.position += 1 + sign;
                self.take_while(|byte| byte.is_ascii_digit());
            }
        }
        if double {
            self.no_letters_after_number(start);
            return Kind::Double;
        }
        self.integer_suffix(start)
    }

    fn integer_suffix(&mut self, start: usize) -> Kind {
        let unsigned = matches!(self.peek(0), b'u' | b'U');
        if unsigned {
            self.position += 1;
        }
        if self.no_letters_after_number(start) && unsigned { Kind::UInt } else { Kind::Int }
    }

    /// Reports `12abc` as one error, not as a number and an unexpected name.
    fn no_letters_after_number(&mut self, start: usize) -> bool {
        let letters = self.position;
        if self.take_while(is_word) == 0 {
            return true;
        }
        let number = self.shown(span(start, letters));
        let found = self.shown(self.span_from(letters));
        let issue = Issue::new(
            Code::InvalidNumber,
            self.span_from(start),
            format!("invalid number `{number}{found}`"),
        );
        self.issues.push(issue.help("a number ends with a digit, or with `u` if it is unsigned"));
        false
    }

    fn word(&mut self) -> Kind {
        let start = self.position;
        // `r`, `b` and `br` before a quote belong to the string.
        let (mut raw, mut bytes) = (false, false);
        for ahead in 0..3 {
            match self.peek(ahead) {
                b'r' | b'R' if !raw => raw = true,
                b'b' | b'B' if !bytes && !raw => bytes = true,
                b'\'' | b'"' => {
                    self.position += ahead;
                    return self.string(start, raw, bytes);
                }
                _ => break,
            }
        }
        self.take_while(is_word);
        match self.text(self.span_from(start)) {
            "true" => Kind::True,
            "false" => Kind::False,
            "null" => Kind::Null,
            "in" => Kind::In,
            _ => Kind::Identifier,
        }
    }

    fn string(&mut self, start: usize, raw: bool, bytes: bool) -> Kind {
        let quote = self.peek(0);
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        let width = if triple { 3 } else { 1 };
        self.position += width;
        let kind = if bytes { Kind::Bytes } else { Kind::String };
        while self.position < self.bytes.len() {
            match self.peek(0) {
                b'\\' if !raw => self.position += 2,
                b'\n' | b'\r' if !triple => break,
                byte if byte == quote && (!triple || self.peek(1) == quote && self.peek(2) == quote) => {
                    self.position += width;
                    return kind;
                }
                _ => self.position += 1,
            }
        }
        self.position = self.position.min(self.bytes.len());
        self.unterminated(start, quote, triple);
        Kind::Invalid
    }

    fn unterminated(&mut self, start: usize, quote: u8, triple: bool) {
        let quotes = char::from(quote).to_string().repeat(if triple { 3 } else { 1 });
        let at_end = self.position >= self.bytes.len();
        let found = if at_end { "the end of the expression" } else { "the end of the line" };
        let message = format!("expected `{quotes}` to close the string, found {found}");
        let mut issue = Issue::new(Code::UnclosedString, self.span_from(start), message);
        issue = if at_end {
            issue.help(format!("close the string with `{quotes}`"))
        } else {
            issue.help("write a line break as `\\n`, or use `\"\"\"` for a multi-line string")
        };
        self.issues.push(issue);
        // Whether the rest belongs to the string is unknown, so it is not parsed.
        self.stop();
    }

    fn escaped_identifier(&mut self) -> Kind {
        let start = self.position;
        self.position += 1;
        let accepted = |byte: u8| is_word(byte) || matches!(byte, b'.' | b'-' | b'/' | b' ');
        let length = self.take_while(accepted);
        if length > 0 && self.peek(0) == b'`' {
            self.position += 1;
            return Kind::Escaped;
        }
        self.take_while(|byte| byte != b'`' && byte != b'\n');
        let closed = self.peek(0) == b'`';
        if closed {
            self.position += 1;
        }
        let found = self.shown(self.span_from(start));
        let message = if closed {
            format!("expected letters, digits, `_`, `.`, `-`, `/` or spaces between backticks, found {found}")
        } else {
            "expected a closing backtick, found the end of the line".to_owned()
        };
        self.issues.push(Issue::new(Code::UnexpectedCharacter, self.span_from(start), message));
        Kind::Invalid
    }

    fn operator(&mut self) -> Kind {
        let (kind, width) = match (self.peek(0), self.peek(1)) {
            (b'=', b'=') => (Kind::Equal, 2),
            (b'!', b'=') => (Kind::NotEqual, 2),
            (b'<', b'=') => (Kind::LessOrEqual, 2),
            (b'>', b'=') => (Kind::GreaterOrEqual, 2),
            (b'&', b'&') => (Kind::And, 2),
            (b'|', b'|') => (Kind::Or, 2),
            (b'<', _) => (Kind::Less, 1),
            (b'>', _) => (Kind::Greater, 1),
            (b'!', _) => (Kind::Exclamation, 1),
            (b'.', _) => (Kind::Dot, 1),
            (b',', _) => (Kind::Comma, 1),
            (b':', _) => (Kind::Colon, 1),
            (b'?', _) => (Kind::Question, 1),
            (b'(', _) => (Kind::OpenParenthesis, 1),
            (b')', _) => (Kind::CloseParenthesis, 1),
            (b'[', _) => (Kind::OpenBracket, 1),
            (b']', _) => (Kind::CloseBracket, 1),
            (b'{', _) => (Kind::OpenBrace, 1),
            (b'}', _) => (Kind::CloseBrace, 1),
            (b'+', _) => (Kind::Plus, 1),
            (b'-', _) => (Kind::Minus, 1),
            (b'*', _) => (Kind::Star, 1),
            (b'/', _) => (Kind::Slash, 1),
            (b'%', _) => (Kind::Percent, 1),
            _ => return self.not_an_operator(),
        };
        self.position += width;
        kind
    }

    /// Reports an operator of another language and returns the one that it means.
    fn not_an_operator(&mut self) -> Kind {
        let start = self.position;
        let (kind, meant) = match self.peek(0) {
            b'=' => (Kind::Equal, "=="),
            b'&' => (Kind::And, "&&"),
            b'|' => (Kind::Or, "||"),
            _ => return self.unexpected_character(),
        };
        self.position += 1;
        let found = self.text(self.span_from(start));
        let message = format!("unknown operator `{found}`");
        let issue = Issue::new(Code::UnknownOperator, self.span_from(start), message)
            .help(format!("did you mean `{meant}`?"))
            .replace(meant);
        self.issues.push(issue);
        kind
    }

    fn unexpected_character(&mut self) -> Kind {
        let start = self.position;
        let rest = self.text.get(start..).unwrap_or("");
        let letter = rest.chars().next().unwrap_or('\0');
        self.position += letter.len_utf8().max(1);
        // A word in another script is reported once.
        while letter.is_alphanumeric() {
            match self.text.get(self.position..).and_then(|rest| rest.chars().next()) {
                Some(next) if next.is_alphanumeric() || next == '_' => self.position += next.len_utf8(),
                _ => break,
            }
        }
        let found = self.shown(self.span_from(start)).escape_debug().to_string();
        let message = format!("unexpected character `{found}`");
        let mut issue = Issue::new(Code::UnexpectedCharacter, self.span_from(start), message);
        if letter.is_alphanumeric() {
            issue = issue.help("names consist of the letters `a` to `z` and `A` to `Z`, digits and `_`");
        } else if letter == '$' {
            issue = issue.help("inside `${…}`, write the expression without `$`");
        } else if matches!(letter, '‘' | '’' | '“' | '”') {
            issue = issue.help("use straight quotes, `'` or `\"`");
        }
        self.issues.push(issue);
        Kind::Invalid
    }
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

fn span(start: usize, end: usize) -> Span {
    Span::new(u32::try_from(start).unwrap_or(u32::MAX), u32::try_from(end).unwrap_or(u32::MAX))
}
