//! Finds the matches of a regular expression, as in Kubernetes.

use super::super::arguments::{functions, int, text};
use super::super::extract::charge_search;
use super::super::pattern::compile;
use super::super::{Call, Library};
use crate::error::Fault;
use crate::value::Value;

/// Kubernetes' functions for regular expressions.
pub static LIBRARY: Library = Library {
    name: "kubernetes.regex",
    functions: functions! {
        "find": "Returns the first match, or the empty string." {
            "(string).find(string) -> string" => find,
        }
        "findAll": "Returns all matches, or at most as many as given." {
            "(string).findAll(string) -> list(string)" => find_all,
            "(string).findAll(string, int) -> list(string)" => find_all,
        }
    },
};

fn find(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (subject, pattern) = (text(arguments, 0)?, text(arguments, 1)?);
    charge_search(call, subject, pattern)?;
    let regex = compile(call, subject, pattern)?;
    Ok(Value::string(regex.find(subject).map_or("", |found| found.as_str())))
}

fn find_all(call: &mut Call<'_>, arguments: &[Value]) -> Result<Value, Fault> {
    let (subject, pattern) = (text(arguments, 0)?, text(arguments, 1)?);
    let limit = if arguments.len() > 2 { int(arguments, 2)? } else { -1 };
    charge_search(call, subject, pattern)?;
    let regex = compile(call, subject, pattern)?;
    let mut matches = Vec::new();
    for found in regex.find_iter(subject).take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        call.charge(1)?;
        matches.push(Value::string(found.as_str()));
    }
    Ok(Value::list(matches))
}

#[cfg(test)]
mod tests {
    use super::super::super::arguments::testing::{err, ok};
    use super::*;

    #[test]
    fn matches_are_found_up_to_a_limit() {
        let find_in = |pattern: &str| [Value::string("123 abc 456"), Value::string(pattern)];
        assert_eq!(ok(find, find_in("[0-9]+")), "\"123\"");
        assert_eq!(ok(find, find_in("xyz")), "\"\"");
        assert_eq!(ok(find_all, find_in("[0-9]+")), r#"["123", "456"]"#);
        let limited = |limit| [Value::string("123 abc 456"), Value::string("[0-9]+"), Value::Int(limit)];
        assert_eq!(ok(find_all, limited(1)), r#"["123"]"#);
        assert_eq!(ok(find_all, limited(0)), "[]");
        assert_eq!(ok(find_all, limited(-1)), r#"["123", "456"]"#);
        assert!(err(find, find_in("(")).contains("is not a valid regular expression"));
    }

    #[test]
    fn empty_matches_next_to_a_match_are_skipped() {
        assert_eq!(ok(find_all, [Value::string("baac"), Value::string("a*")]), r#"["", "aa", ""]"#);
    }
}
