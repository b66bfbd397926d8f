//! Turns needs into roles: one for the whole cluster and one for each namespace, every rule once, in a stable order, with why
//! it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::str::FromStr;

/// A verb of Kubernetes' own, in the order that people list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
}

impl Verb {
    fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// Where a need is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In all namespaces, or in none.
    Cluster,
    /// In one namespace.
    Namespace(String),
}

/// Something that must be allowed.
#[derive(Clone, Debug)]
pub(super) struct Need {
    place: Place,
    target: Target,
    verbs: Vec<Verb>,
    why: String,
}

/// What it must be allowed on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    group: String,
    resource: String,
    /// One object of it, where its name is known.
    name: Option<String>,
}

impl Need {
    pub(super) fn new(group: &str, resource: &str, verbs: &[Verb], why: impl Into<String>) -> Self {
        let target = Target { group: group.to_owned(), resource: resource.to_owned(), name: None };
        Self { place: Place::Cluster, target, verbs: verbs.to_vec(), why: why.into() }
    }

    pub(super) fn named(self, name: &str) -> Self {
        self.named_by(Some(name.to_owned()))
    }

    pub(super) fn named_by(mut self, name: Option<String>) -> Self {
        self.target.name = name;
        self
    }

    /// In a namespace, where it is known and the kind has any.
    pub(super) fn within(mut self, namespace: Option<String>, namespaced: bool) -> Self {
        if let Some(namespace) = namespace.filter(|_| namespaced) {
            self.place = Place::Namespace(namespace);
        }
        self
    }
}

/// Who gets the privileges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("User", name)) if !name.is_empty() => Ok(Self::User(name.to_owned())),
            Some(("Group", name)) if !name.is_empty() => Ok(Self::Group(name.to_owned())),
            Some(("ServiceAccount", account)) => match account.split_once('/') {
                Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                    Ok(Self::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() })
                }
                _ => Err("write a ServiceAccount as `ServiceAccount:NAMESPACE/NAME`".to_owned()),
            },
            _ => Err("write `User:NAME`, `Group:NAME` or `ServiceAccount:NAMESPACE/NAME`".to_owned()),
        }
    }
}

/// Verbs, and why each need is there.
#[derive(Debug, Default)]
struct Rule {
    verbs: BTreeSet<Verb>,
    why: Vec<String>,
}

/// Everything that is needed in one cluster.
#[derive(Debug, Default)]
pub(super) struct Roles(BTreeMap<Place, BTreeMap<Target, Rule>>);

impl Extend<Need> for Roles {
    fn extend<T: IntoIterator<Item = Need>>(&mut self, needs: T) {
        for Need { place, target, verbs, why } in needs {
            let rule = self.0.entry(place).or_default().entry(target).or_default();
            rule.verbs.extend(verbs);
            if !rule.why.contains(&why) {
                rule.why.push(why);
            }
        }
    }
}

impl Roles {
    /// The roles, and their bindings where there is somebody to bind.
    pub(super) fn print(mut self, header: &str, name: &str, subject: Option<&Subject>) -> String {
        self.drop_covered();
        let mut documents = Vec::new();
        for (place, rules) in &self.0 {
            documents.push(role(place, name, rules));
            documents.extend(subject.map(|subject| binding(place, name, subject)));
        }
        format!("{header}{}", documents.join("---\n"))
    }

    /// A verb on one object is not asked for where it is granted on all of them, nor one in a namespace where it is granted
    /// everywhere.
    fn drop_covered(&mut self) {
        let granted: BTreeMap<(Place, Target), BTreeSet<Verb>> = self
            .0
            .iter()
            .flat_map(|(place, rules)| rules.iter().map(move |(target, rule)| (place, target, rule)))
            .map(|(place, target, rule)| ((place.clone(), target.clone()), rule.verbs.clone()))
            .collect();
        for (place, rules) in &mut self.0 {
            for (target, rule) in rules.iter_mut() {
                let unnamed = Target { name: None, ..target.clone() };
                for wider in [Place::Cluster, place.clone()] {
                    for target_there in [&unnamed, target] {
                        if (&wider, target_there) != (place, target)
                            && let Some(verbs) = granted.get(&(wider.clone(), target_there.clone()))
                        {
                            rule.verbs.retain(|verb| !verbs.contains(verb));
                        }
                    }
                }
            }
            rules.retain(|_, rule| !rule.verbs.is_empty());
        }
        self.0.retain(|_, rules| !rules.is_empty());
    }
}

fn role(place: &Place, name: &str, rules: &BTreeMap<Target, Rule>) -> String {
    let mut text = head(if *place == Place::Cluster { "ClusterRole" } else { "Role" }, place, name);
    text.push_str("rules:\n");
    for (Target { group, resource, name }, Rule { verbs, why }) in rules {
        // Writing to a string cannot fail.
        for why in why {
            let _ = writeln!(text, "  # {why}");
        }
        let _ = writeln!(text, "  - apiGroups: [\"{group}\"]\n    resources: [\"{resource}\"]");
        if let Some(name) = name {
            let _ = writeln!(text, "    resourceNames: [\"{name}\"]");
        }
        let verbs: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
        let _ = writeln!(text, "    verbs: [\"{}\"]", verbs.join("\", \""));
    }
    text
}

fn binding(place: &Place, name: &str, subject: &Subject) -> String {
    let (kind, role) = match place {
        Place::Cluster => ("ClusterRoleBinding", "ClusterRole"),
        Place::Namespace(_) => ("RoleBinding", "Role"),
    };
    let mut text = head(kind, place, name);
    let group = "rbac.authorization.k8s.io";
    let subject = match subject {
        Subject::User(user) => format!("kind: User\n    apiGroup: {group}\n    name: \"{user}\""),
        Subject::Group(name) => format!("kind: Group\n    apiGroup: {group}\n    name: \"{name}\""),
        Subject::ServiceAccount { namespace, name } => {
            format!("kind: ServiceAccount\n    namespace: \"{namespace}\"\n    name: \"{name}\"")
        }
    };
    let _ = write!(
        text,
        "roleRef:\n  apiGroup: {group}\n  kind: {role}\n  name: {name}\nsubjects:\n  - {subject}\n"
    );
    text
}

fn head(kind: &str, place: &Place, name: &str) -> String {
    let namespace = match place {
        Place::Cluster => String::new(),
        Place::Namespace(namespace) => format!("  namespace: {namespace}\n"),
    };
    format!("apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{namespace}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_everywhere_is_not_granted_again() {
        let mut roles = Roles::default();
        roles.extend([
            Need::new("", "secrets", &[Verb::Get, Verb::List], "all"),
            Need::new("", "secrets", &[Verb::Get], "one").named("a"),
            Need::new("", "secrets", &[Verb::Get, Verb::Delete], "there")
                .within(Some("shop".to_owned()), true),
            Need::new("", "nodes", &[Verb::Get], "no namespace").within(Some("shop".to_owned()), false),
        ]);
        let text = roles.print("", "x", None);
        assert_eq!(text.matches("secrets").count(), 2, "{text}");
        assert!(
            text.contains(
                "  # there\n  - apiGroups: [\"\"]\n    resources: [\"secrets\"]\n    verbs: [\"delete\"]\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn subjects_are_read() {
        assert_eq!("User:a:b".parse(), Ok(Subject::User("a:b".to_owned())));
        let account = Subject::ServiceAccount { namespace: "a".to_owned(), name: "b".to_owned() };
        assert_eq!("ServiceAccount:a/b".parse(), Ok(account));
        for text in ["a", "User:", "ServiceAccount:a", "Somebody:a"] {
            assert!(text.parse::<Subject>().is_err(), "{text}");
        }
    }
}
