//! Turns `KIND/NAME` or `KIND NAME` from the command line into a reference to an object.

use anyhow::bail;

/// A kind and a name, as they were typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectReference {
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl ObjectReference {
    /// Parses `KIND/NAME`, or `KIND` and `NAME` as two arguments.
    ///
    /// # Errors
    /// It is neither.
    pub(crate) fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let parts: Vec<&str> = match arguments {
            [both] => both.splitn(2, '/').collect(),
            [kind, name] if !kind.contains('/') && !name.contains('/') => vec![kind, name],
            _ => Vec::new(),
        };
        match parts.as_slice() {
            [kind, name] if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { kind: (*kind).to_owned(), name: (*name).to_owned() })
            }
            _ => bail!(
                "`{}` does not name an object: use `KIND/NAME`, such as `WebApplication/shop`",
                arguments.join(" ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> anyhow::Result<ObjectReference> {
        ObjectReference::parse(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn both_spellings_of_kubectl_name_an_object() {
        let expected = ObjectReference { kind: "shop".to_owned(), name: "web".to_owned() };
        assert_eq!(parse(&["shop/web"]).unwrap(), expected);
        assert_eq!(parse(&["shop", "web"]).unwrap(), expected);
        for wrong in [&["shop"] as &[&str], &["shop/"], &["/web"], &["a/b/c"], &["shop", "a/b"]] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(error.contains("use `KIND/NAME`"), "{error}");
        }
    }
}
