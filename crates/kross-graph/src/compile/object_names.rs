//! Checks literal names and namespaces of objects, which the API server would reject only when an instance is applied.

use kross_diagnostics::{Code, Path, Place, Problem};

use super::Compiler;
use crate::graph::ObjectKind;

/// What a name may consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Labels with dots between them, at most 253 characters.
    Subdomain,
    /// One label, at most 63 characters.
    Label,
    /// Anything that can be a part of a URL's path.
    PathSegment,
}

impl Rule {
    /// The rule for the names of a kind.
    fn of(kind: &ObjectKind) -> Self {
        match (&*kind.group, &*kind.kind) {
            ("", "Namespace" | "Service") => Self::Label,
            ("rbac.authorization.k8s.io" | "certificates.k8s.io", _) | ("networking.k8s.io", "IPAddress") => {
                Self::PathSegment
            }
            _ => Self::Subdomain,
        }
    }

    fn accepts(self, name: &str) -> bool {
        match self {
            Self::Subdomain => name.len() <= 253 && name.split('.').all(is_label),
            Self::Label => name.len() <= 63 && is_label(name),
            Self::PathSegment => !matches!(name, "" | "." | "..") && !name.contains(['/', '%']),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Subdomain => {
                "use at most 253 lower-case letters, digits, `-` and `.`, with a letter or digit at both ends"
            }
            Self::Label => {
                "use at most 63 lower-case letters, digits and `-`, with a letter or digit at both ends"
            }
            Self::PathSegment => "use a name without `/` and `%`",
        }
    }
}

fn is_label(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.bytes().all(is_allowed)
}

/// The nearest name that is valid, if there is one.
fn fixed(name: &str, rule: Rule) -> Option<String> {
    let allowed = |character: char| match character.to_ascii_lowercase() {
        letter if letter.is_ascii_alphanumeric() => letter,
        '.' if rule == Rule::Subdomain => '.',
        _ => '-',
    };
    let fixed: String = name.chars().map(allowed).collect();
    let fixed = fixed.trim_matches(['-', '.']).to_owned();
    rule.accepts(&fixed).then_some(fixed)
}

impl Compiler<'_> {
    /// Checks the name and the namespace of an object, as far as they are literals.
    pub(super) fn check_object_names(
        &mut self,
        kind: &ObjectKind,
        name: Option<&str>,
        namespace: Option<&str>,
        path: &Path,
    ) {
        let what = format!("name of a {}", kind.kind);
        self.check_object_name(name, Rule::of(kind), &what, &path.key("name"));
        self.check_object_name(namespace, Rule::Label, "namespace", &path.key("namespace"));
    }

    fn check_object_name(&mut self, name: Option<&str>, rule: Rule, what: &str, path: &Path) {
        // An empty name is reported by others, or means the default.
        let Some(name) = name.filter(|name| !name.is_empty() && !name.contains("${") && !rule.accepts(name))
        else {
            return;
        };
        let message = format!("`{name}` is not a valid {what}");
        let problem = Problem::new(Code::InvalidObjectName, Place::value(path), message);
        self.report(match fixed(name, rule) {
            _ if name.contains("{{") => problem
                .help("`{{ … }}` is not evaluated: write an expression such as `${schema.metadata.name}`"),
            Some(fixed) => problem.help(rule.words()).replace(fixed),
            None => problem.help(rule.words()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule_of_their_kind() {
        let kind = |group: &str, kind: &str| ObjectKind {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            known: None,
        };
        let accepts = |of: &ObjectKind, name: &str| Rule::of(of).accepts(name);
        let config = kind("", "ConfigMap");
        for name in ["a", "web-app", "kube-root-ca.crt", "0-a.b1", &"a".repeat(253)] {
            assert!(accepts(&config, name), "{name}");
        }
        for name in ["Web_App", "-a", "a-", "a..b", ".a", "a b", "ä", &"a".repeat(254)] {
            assert!(!accepts(&config, name), "{name}");
        }
        assert!(!accepts(&kind("", "Service"), "a.b") && accepts(&kind("", "Service"), "a-b"));
        let role = kind("rbac.authorization.k8s.io", "ClusterRole");
        assert!(accepts(&role, "system:Node_1") && !accepts(&role, "a/b"));
        assert!(accepts(&kind("networking.k8s.io", "IPAddress"), "2001:db8::1"));
    }
}
