//! Parses JSON as Go's `encoding/json` does: every number is a double, the last of duplicate keys wins, and half of a
//! surrogate pair becomes the replacement character.

use std::collections::BTreeMap;

use kross_value::Text;

use crate::value::Value;

/// The largest nesting depth.
const MAX_DEPTH: usize = 500;

/// Why text is not JSON, and the position.
type SyntaxError = (&'static str, usize);

pub(super) fn read(text: &str) -> Result<Value, SyntaxError> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.skip_space();
    if reader.at < text.len() { reader.error("unexpected text after the value") } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn error<T>(&self, why: &'static str) -> Result<T, SyntaxError> {
        Err((why, self.at))
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Consumes a punctuation mark, if it is next.
    fn eat(&mut self, mark: u8) -> bool {
        let found = self.peek() == Some(mark);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Value, SyntaxError> {
        if depth > MAX_DEPTH {
            return self.error("values are nested too deeply");
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string().map(Value::string),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.word(),
            None => self.error("unexpected end"),
        }
    }

    fn word(&mut self) -> Result<Value, SyntaxError> {
        for (word, value) in
            [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))]
        {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.error("expected a value")
    }

    fn list(&mut self, depth: usize) -> Result<Value, SyntaxError> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.eat(b']') {
            return Ok(Value::list(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.eat(b']') {
                return Ok(Value::list(items));
            }
            if !self.eat(b',') {
                return self.error("expected `,` or `]`");
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, SyntaxError> {
        self.at += 1;
        let mut entries: BTreeMap<Text, Value> = BTreeMap::new();
        self.skip_space();
        if self.eat(b'}') {
            return Ok(Value::map(Vec::new()));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return self.error("expected a key in double quotes");
            }
            let key = self.string()?;
            self.skip_space();
            if !self.eat(b':') {
                return self.error("expected `:`");
            }
            entries.insert(key.into(), self.value(depth + 1)?);
            self.skip_space();
            if self.eat(b'}') {
                return Ok(Value::map(
                    entries.into_iter().map(|(key, value)| (Value::String(key), value)).collect(),
                ));
            }
            if !self.eat(b',') {
                return self.error("expected `,` or `}`");
            }
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Value, SyntaxError> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') && self.digits() == 0 {
            return self.error("expected a digit");
        }
        if self.eat(b'.') && self.digits() == 0 {
            return self.error("expected a digit after the point");
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            if self.digits() == 0 {
                return self.error("expected a digit in the exponent");
            }
        }
        let number: Option<f64> = self.text.get(start..self.at).and_then(|digits| digits.parse().ok());
        match number.filter(|number| number.is_finite()) {
            Some(number) => Ok(Value::Double(number)),
            None => Err(("the number is too large", start)),
        }
    }

    fn string(&mut self) -> Result<String, SyntaxError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let plain = rest
                .find(|letter: char| letter == '"' || letter == '\\' || letter < ' ')
                .unwrap_or(rest.len());
            out.push_str(rest.get(..plain).unwrap_or_default());
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return self.error("a control character must be escaped"),
                None => return self.error("the string is not closed"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        self.at += 1;
        let letter = self.peek();
        self.at += 1;
        Ok(match letter {
            Some(letter @ (b'"' | b'\\' | b'/')) => char::from(letter),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => {
                self.at -= 1;
                return self.error("unknown escape");
            }
        })
    }

    fn four_digits(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        digits
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit())
            .then(|| u32::from_str_radix(digits, 16).ok())
            .flatten()
    }

    fn unicode(&mut self) -> Result<char, SyntaxError> {
        let Some(first) = self.four_digits(self.at) else {
            return self.error("expected four hexadecimal digits");
        };
        self.at += 4;
        if (0xd800..0xdc00).contains(&first)
            && self.rest().starts_with("\\u")
            && let Some(second @ 0xdc00..0xe000) = self.four_digits(self.at + 2)
        {
            self.at += 6;
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}
