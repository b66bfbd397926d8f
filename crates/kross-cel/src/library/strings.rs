//! Functions for strings: searching, splitting, replacing, quoting. Positions count characters, as everywhere in CEL.

use super::arguments::{any, charge_bytes, functions, grow, int, items, text, write_bytes};
use super::format::format;
use super::{Call, ELEMENT, Library};
use crate::error::Fault;
use crate::value::Value;

/// Functions for strings.
pub static LIBRARY: Library = Library {
    name: "strings",
    functions: functions! {
        "charAt": "Returns the character at a position; the empty string for the position after the last character." {
            "(string).charAt(int) -> string" => char_at,
        }
        "format": "Formats the arguments: `%s`, `%d`, `%f`, `%e`, `%b`, `%x`, `%X`, `%o`, `%%`; `%.2f` sets the precision." {
            "(string).format(list(dyn)) -> string" => format,
        }
        "indexOf": "Returns the position of the first occurrence, at or after an offset if given; -1 if there is none." {
            "(string).indexOf(string) -> int" => index_of,
            "(string).indexOf(string, int) -> int" => index_of_from,
        }
        "join": "Concatenates the strings of a list, with a separator between them if given." {
            "(list(string)).join() -> string" => join,
            "(list(string)).join(string) -> string" => join,
        }
        "lastIndexOf": "Returns the position of the last occurrence, at or before an offset if given; -1 if there is none." {
            "(string).lastIndexOf(string) -> int" => last_index_of,
            "(string).lastIndexOf(string, int) -> int" => last_index_of_from,
        }
        "lowerAscii": "Converts `A` to `Z` to lower case." {
            "(string).lowerAscii() -> string" => lower_ascii,
        }
        "replace": "Replaces occurrences of the first string by the second: all, or at most as many as the limit; a negative limit means all." {
            "(string).replace(string, string) -> string" => replace,
            "(string).replace(string, string, int) -> string" => replace,
        }
        "reverse": "Returns the characters in reverse order." {
            "(string).reverse() -> string" => reverse,
        }
        "split": "Splits the string at a separator, into at most as many parts as the limit; a negative limit means all." {
            "(string).split(string) -> list(string)" => split,
            "(string).split(string, int) -> list(string)" => split,
        }
        "strings.quote": "Puts the string in double quotes and escapes quotes, backslashes and control characters." {
            "strings.quote(string) -> string" => quote,
        }
        "substring": "Returns the characters from a position up to, but not including, another one, or to the end." {
            "(string).substring(int) -> string" => substring,
            "(string).substring(int, int) -> string" => substring,
        }
        "trim": "Removes whitespace at both ends." {
            "(string).trim() -> string" => trim,
        }
        "upperAscii": "Converts `a` to `z` to upper case." {
            "(string).upperAscii() -> string" => upper_ascii,
        }
    },
};

fn out_of_range() -> Fault {
    Fault::invalid("index out of range")
}

/// The byte offset of the character at `position`; the length of the text for the position after the last one.
fn byte_offset(text: &str, position: i64) -> Result<usize, Fault> {
    let wanted = usize::try_from(position).map_err(|_| out_of_range())?;
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(wanted).ok_or_else(out_of_range)
}

fn position(text: &str, offset: usize) -> Value {
    let characters = text.char_indices().take_while(|(at, _)| *at < offset).count();
    Value::Int(i64::try_from(characters).unwrap_or(i64::MAX))
}

fn length(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn char_at(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let text = text(arguments, 0)?;
    charge_bytes(call, text.len())?;
    let offset = byte_offset(text, int(arguments, 1)?)?;
    let character = text.get(offset..).and_then(|rest| rest.chars().next());
    Ok(Value::string(character.map(String::from).unwrap_or_default()))
}

fn index_of(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (text, wanted) = (text(arguments, 0)?, text(arguments, 1)?);
    charge_bytes(call, text.len() + wanted.len())?;
    Ok(text.find(wanted.as_str()).map_or(Value::Int(-1), |offset| position(text, offset)))
}

fn index_of_from(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (text, wanted, from) = (text(arguments, 0)?, text(arguments, 1)?, int(arguments, 2)?);
    charge_bytes(call, text.len() + wanted.len())?;
    if wanted.is_empty() && from >= 0 {
        return Ok(Value::Int(from.min(length(text))));
    }
    let start = byte_offset(text, from)?;
    let found = text.get(start..).and_then(|rest| rest.find(wanted.as_str()));
    Ok(found.map_or(Value::Int(-1), |offset| position(text, start + offset)))
}

fn last_index_of(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (text, wanted) = (text(arguments, 0)?, text(arguments, 1)?);
    charge_bytes(call, text.len() + wanted.len())?;
    Ok(text.rfind(wanted.as_str()).map_or(Value::Int(-1), |offset| position(text, offset)))
}

fn last_index_of_from(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (text, wanted, from) = (text(arguments, 0)?, text(arguments, 1)?, int(arguments, 2)?);
    charge_bytes(call, text.len() + wanted.len())?;
    if wanted.is_empty() && from >= 0 {
        return Ok(Value::Int(from.min(length(text))));
    }
    let start = byte_offset(text, from)?;
    if start == text.len() {
        return Ok(Value::Int(-1));
    }
    // A match may start at `start` and extend beyond it.
    let mut end = (start + wanted.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let found = text.get(..end).and_then(|head| head.rfind(wanted.as_str()));
    Ok(found.map_or(Value::Int(-1), |offset| position(text, offset)))
}

fn join(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let separator = if arguments.len() > 1 { text(arguments, 1)?.as_str() } else { "" };
    let items = items(call, arguments, 0)?;
    let mut length = 0_usize;
    for at in 0..items.len() {
        length = length.saturating_add(text(&items, at)?.len()).saturating_add(separator.len());
    }
    grow(call, "join", length)?;
    let mut joined = String::with_capacity(length);
    for at in 0..items.len() {
        if at > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text(&items, at)?);
    }
    Ok(Value::string(joined))
}

fn lower_ascii(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let text = text(arguments, 0)?;
    write_bytes(call, text.len())?;
    Ok(Value::string(text.to_ascii_lowercase()))
}

fn upper_ascii(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let text = text(arguments, 0)?;
    write_bytes(call, text.len())?;
    Ok(Value::string(text.to_ascii_uppercase()))
}

fn replace(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (text, old, new) = (text(arguments, 0)?, text(arguments, 1)?, text(arguments, 2)?);
    let limit = if arguments.len() > 3 { int(arguments, 3)? } else { -1 };
    charge_bytes(call, text.len() + old.len())?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let occurrences = text.matches(old.as_str()).take(limit).count();
    if occurrences == 0 {
        return any(arguments, 0).cloned();
    }
    let removed = occurrences.saturating_mul(old.len());
    let added = occurrences.saturating_mul(new.len());
    grow(call, "replace", text.len().saturating_sub(removed).saturating_add(added))?;
    Ok(Value::string(text.replacen(old.as_str(), new, occurrences)))
}

fn reverse(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let text = text(arguments, 0)?;
    write_bytes(call, text.len())?;
    Ok(Value::string(text.chars().rev().collect::<String>()))
}

fn split(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (text, separator) = (text(arguments, 0)?, text(arguments, 1)?);
    let limit = if arguments.len() > 2 { int(arguments, 2)? } else { -1 };
    write_bytes(call, text.len() + separator.len())?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let pieces: Vec<Value> = if limit == 0 {
        Vec::new()
    } else if separator.is_empty() {
        explode(text, limit)
    } else {
        text.splitn(limit, separator.as_str()).map(Value::string).collect()
    };
    call.allocate(pieces.len() * ELEMENT)?;
    call.charge(pieces.len())?;
    Ok(Value::list(pieces))
}

/// The characters, at most `limit` pieces; the last piece is the rest.
fn explode(text: &str, limit: usize) -> Vec<Value> {
    let mut pieces = Vec::new();
    for (at, character) in text.char_indices() {
        if pieces.len() + 1 == limit {
            pieces.push(Value::string(text.get(at..).unwrap_or_default()));
            break;
        }
        pieces.push(Value::string(String::from(character)));
    }
    pieces
}

fn quote(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let text = text(arguments, 0)?;
    write_bytes(call, text.len())?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        let escape = match character {
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{b}' => 'v',
            '\\' => '\\',
            '"' => '"',
            other => {
                quoted.push(other);
                continue;
            }
        };
        quoted.extend(['\\', escape]);
    }
    quoted.push('"');
    Ok(Value::string(quoted))
}

fn substring(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (text, start) = (text(arguments, 0)?, int(arguments, 1)?);
    write_bytes(call, text.len())?;
    let end = if arguments.len() > 2 { int(arguments, 2)? } else { length(text) };
    if arguments.len() > 2 && start > end {
        return Err(Fault::invalid("invalid substring range: the start is after the end"));
    }
    let piece = text.get(byte_offset(text, start)?..byte_offset(text, end)?);
    Ok(Value::string(piece.unwrap_or_default()))
}

fn trim(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let text = text(arguments, 0)?;
    write_bytes(call, text.len())?;
    Ok(Value::string(text.trim()))
}

#[cfg(test)]
mod tests {
    use super::super::arguments::testing::{err, ok, strings};
    use super::*;

    #[test]
    fn positions_count_characters() {
        assert_eq!(ok(char_at, [Value::string("ta©o"), Value::Int(2)]), "\"©\"");
        assert_eq!(ok(char_at, [Value::string("ta©o"), Value::Int(4)]), "\"\"");
        assert_eq!(err(char_at, [Value::string("ta©o"), Value::Int(5)]), "index out of range");
        assert_eq!(err(char_at, [Value::string("ta©o"), Value::Int(-1)]), "index out of range");
        let find = |at| [Value::string("ta©o©αT"), Value::string("©"), Value::Int(at)];
        assert_eq!(ok(index_of_from, find(3)), "4");
        assert_eq!(ok(index_of_from, find(5)), "-1");
        assert_eq!(ok(index_of_from, find(7)), "-1");
        assert_eq!(err(index_of_from, find(8)), "index out of range");
        assert_eq!(ok(last_index_of_from, find(3)), "2");
        assert_eq!(ok(last_index_of_from, find(4)), "4");
        assert_eq!(ok(last_index_of_from, find(7)), "-1");
        assert_eq!(err(last_index_of_from, find(8)), "index out of range");
    }

    #[test]
    fn the_empty_string_is_found_at_the_offset() {
        let find = |at| [Value::string("ta©o"), Value::string(""), Value::Int(at)];
        assert_eq!(ok(index_of, [Value::string("abc"), Value::string("")]), "0");
        assert_eq!(ok(last_index_of, [Value::string("abc"), Value::string("")]), "3");
        assert_eq!((ok(index_of_from, find(3)), ok(index_of_from, find(9))), ("3".into(), "4".into()));
        assert_eq!(
            (ok(last_index_of_from, find(3)), ok(last_index_of_from, find(9))),
            ("3".into(), "4".into())
        );
        assert_eq!(err(index_of_from, find(-1)), "index out of range");
    }

    #[test]
    fn the_last_match_may_extend_beyond_the_offset_but_not_start_after_it() {
        let find = |what: &str, at| [Value::string("hello wello"), Value::string(what), Value::Int(at)];
        assert_eq!(ok(last_index_of_from, find("ello", 6)), "1");
        assert_eq!(ok(last_index_of_from, find("ello", 7)), "7");
        assert_eq!(ok(last_index_of_from, find("hello wello!", 0)), "-1");
        assert_eq!(ok(last_index_of_from, [Value::string("a©"), Value::string("aa"), Value::Int(0)]), "-1");
    }

    #[test]
    fn split_limits_are_those_of_go() {
        let split_at = |text: &str, separator: &str, limit| {
            ok(split, [Value::string(text), Value::string(separator), Value::Int(limit)])
        };
        assert_eq!(split_at("a,b,c", ",", -1), r#"["a", "b", "c"]"#);
        assert_eq!(split_at("a,b,c", ",", 0), "[]");
        assert_eq!(split_at("a,b,c", ",", 2), r#"["a", "b,c"]"#);
        assert_eq!(split_at("", ",", -1), r#"[""]"#);
        assert_eq!(split_at("", "", -1), "[]");
        assert_eq!(split_at("a©b", "", -1), r#"["a", "©", "b"]"#);
        assert_eq!(split_at("a©b", "", 2), r#"["a", "©b"]"#);
    }

    #[test]
    fn replace_limits_are_those_of_go_and_the_result_is_limited() {
        let replaced = |text: &str, old: &str, new: &str, limit| {
            ok(replace, [Value::string(text), Value::string(old), Value::string(new), Value::Int(limit)])
        };
        assert_eq!(replaced("aaa", "a", "b", -5), r#""bbb""#);
        assert_eq!(replaced("aaa", "a", "b", 2), r#""bba""#);
        assert_eq!(replaced("aaa", "a", "b", 0), r#""aaa""#);
        assert_eq!(replaced("ab", "", "-", -1), r#""-a-b-""#);
        assert_eq!(replaced("ab", "", "-", 2), r#""-a-b""#);
        let long = Value::string("a".repeat(10_000));
        let message = err(replace, [long.clone(), Value::string("a"), long]);
        assert!(message.contains("larger than"), "{message}");
    }

    #[test]
    fn substrings_must_be_within_the_text() {
        let cut = |start, end| [Value::string("ta©o©αT"), Value::Int(start), Value::Int(end)];
        assert_eq!(ok(substring, cut(2, 6)), r#""©o©α""#);
        assert_eq!(ok(substring, cut(7, 7)), r#""""#);
        assert_eq!(ok(substring, [Value::string("tacocat"), Value::Int(4)]), r#""cat""#);
        assert_eq!(err(substring, cut(3, 1)), "invalid substring range: the start is after the end");
        assert_eq!(err(substring, cut(1, 50)), "index out of range");
        assert_eq!(err(substring, cut(-1, 2)), "index out of range");
        assert_eq!(err(substring, [Value::string("a"), Value::Int(9)]), "index out of range");
    }

    #[test]
    fn join_needs_strings() {
        assert_eq!(ok(join, [strings(["a", "b"])]), r#""ab""#);
        assert_eq!(ok(join, [strings(["a", "b"]), Value::string(", ")]), r#""a, b""#);
        assert_eq!(err(join, [Value::list(vec![Value::Int(1)])]), "expected string, found int");
    }

    #[test]
    fn quoting_escapes_quotes_and_control_characters() {
        let quoted = ok(quote, [Value::string("a\"\\\n\u{7}😀")]);
        assert_eq!(quoted, "\"\\\"a\\\\\\\"\\\\\\\\\\\\n\\\\a😀\\\"\"");
    }

    #[test]
    fn case_conversion_affects_only_ascii() {
        assert_eq!(ok(upper_ascii, [Value::string("tacoCαt")]), r#""TACOCαT""#);
        assert_eq!(ok(lower_ascii, [Value::string("TACOCΑT")]), r#""tacocΑt""#);
        assert_eq!(ok(reverse, [Value::string("Ta©")]), r#""©aT""#);
        assert_eq!(ok(trim, [Value::string("\u{a0}\u{85} x\u{3000}")]), r#""x""#);
    }
}
