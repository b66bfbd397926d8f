//! Turns needs into roles: one for the whole cluster and one for each namespace, every rule once, in a stable order, with its
//! reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::str::FromStr;

use serde_json::{Value as Json, json};

/// An API verb, in the order in which roles list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    Impersonate,
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
            Self::Impersonate => "impersonate",
        }
    }
}

/// The scope of a need.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// All namespaces, or objects without one.
    Cluster,
    /// The namespaces that have instances.
    Instances,
    /// One namespace.
    Namespace(String),
}

/// A permission that is needed, and why.
#[derive(Clone, Debug)]
pub(super) struct Need {
    scope: Scope,
    target: Target,
    verbs: Vec<Verb>,
    why: String,
}

/// The objects that a permission is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    group: String,
    resource: String,
    /// The name of the one object, if it is known.
    name: Option<String>,
}

impl Need {
    pub(super) fn new(group: &str, resource: &str, verbs: &[Verb], why: impl Into<String>) -> Self {
        let target = Target { group: group.to_owned(), resource: resource.to_owned(), name: None };
        Self { scope: Scope::Cluster, target, verbs: verbs.to_vec(), why: why.into() }
    }

    pub(super) fn named(self, name: &str) -> Self {
        self.named_by(Some(name.to_owned()))
    }

    pub(super) fn named_by(mut self, name: Option<String>) -> Self {
        self.target.name = name;
        self
    }

    /// Limits the need to a scope.
    pub(super) fn scoped(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Limits the need to a namespace, if it is known and the kind is namespaced.
    pub(super) fn within(mut self, namespace: Option<String>, namespaced: bool) -> Self {
        if let Some(namespace) = namespace.filter(|_| namespaced) {
            self.scope = Scope::Namespace(namespace);
        }
        self
    }
}

/// The subject of the bindings.
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
                _ => Err("use `ServiceAccount:NAMESPACE/NAME` for a ServiceAccount".to_owned()),
            },
            _ => Err("use `User:NAME`, `Group:NAME` or `ServiceAccount:NAMESPACE/NAME`".to_owned()),
        }
    }
}

/// The verbs of a rule, and the reasons for them.
#[derive(Debug, Default)]
struct Rule {
    verbs: BTreeSet<Verb>,
    why: Vec<String>,
}

/// All rules for one cluster.
#[derive(Debug, Default)]
pub(super) struct Roles(BTreeMap<Scope, BTreeMap<Target, Rule>>);

impl Extend<Need> for Roles {
    fn extend<T: IntoIterator<Item = Need>>(&mut self, needs: T) {
        for Need { scope, target, verbs, why } in needs {
            let rule = self.0.entry(scope).or_default().entry(target).or_default();
            rule.verbs.extend(verbs);
            if !rule.why.contains(&why) {
                rule.why.push(why);
            }
        }
    }
}

impl Roles {
    /// The roles as YAML, with bindings if there is a subject.
    pub(super) fn print(mut self, header: &str, name: &str, subject: Option<&Subject>) -> String {
        self.drop_covered();
        let mut documents = Vec::new();
        for (scope, rules) in &self.0 {
            documents.push(role(scope, name, rules));
            let bound = subject.filter(|_| *scope != Scope::Instances);
            documents.extend(bound.map(|subject| binding(scope, name, subject)));
        }
        format!("{header}{}", documents.join("---\n"))
    }

    /// The rules as RBAC has them, by namespace; those of the whole cluster have none.
    pub(super) fn rules(mut self) -> BTreeMap<Option<String>, Vec<Json>> {
        self.drop_covered();
        let mut found: BTreeMap<Option<String>, Vec<Json>> = BTreeMap::new();
        for (scope, rules) in &self.0 {
            let namespace = match scope {
                Scope::Cluster | Scope::Instances => None,
                Scope::Namespace(namespace) => Some(namespace.clone()),
            };
            found.entry(namespace).or_default().extend(rules.iter().map(|(target, rule)| {
                let verbs: Vec<&str> = rule.verbs.iter().map(|verb| verb.as_str()).collect();
                let mut json =
                    json!({"apiGroups": [target.group], "resources": [target.resource], "verbs": verbs});
                if let (Some(name), Some(json)) = (&target.name, json.as_object_mut()) {
                    json.insert("resourceNames".to_owned(), json!([name]));
                }
                json
            }));
        }
        found
    }

    /// Drops verbs on one object that are granted on all objects, and verbs in a namespace that are granted cluster-wide.
    fn drop_covered(&mut self) {
        let granted: BTreeMap<(Scope, Target), BTreeSet<Verb>> = self
            .0
            .iter()
            .flat_map(|(scope, rules)| rules.iter().map(move |(target, rule)| (scope, target, rule)))
            .map(|(scope, target, rule)| ((scope.clone(), target.clone()), rule.verbs.clone()))
            .collect();
        for (scope, rules) in &mut self.0 {
            for (target, rule) in rules.iter_mut() {
                let unnamed = Target { name: None, ..target.clone() };
                for wider in [Scope::Cluster, scope.clone()] {
                    for granted_target in [&unnamed, target] {
                        if (&wider, granted_target) != (scope, target)
                            && let Some(verbs) = granted.get(&(wider.clone(), granted_target.clone()))
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

fn role(scope: &Scope, name: &str, rules: &BTreeMap<Target, Rule>) -> String {
    let mut text = match scope {
        Scope::Cluster => head("ClusterRole", scope, name),
        Scope::Instances => format!(
            "# Bind it in each namespace that has instances:\n\
             #   kubectl create rolebinding {name}-instances --clusterrole={name}-instances --namespace=NAMESPACE \
             --serviceaccount=NAMESPACE:NAME\n{}",
            head("ClusterRole", scope, &format!("{name}-instances"))
        ),
        Scope::Namespace(_) => head("Role", scope, name),
    };
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

fn binding(scope: &Scope, name: &str, subject: &Subject) -> String {
    let (kind, role) = match scope {
        Scope::Cluster | Scope::Instances => ("ClusterRoleBinding", "ClusterRole"),
        Scope::Namespace(_) => ("RoleBinding", "Role"),
    };
    let mut text = head(kind, scope, name);
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

fn head(kind: &str, scope: &Scope, name: &str) -> String {
    let namespace = match scope {
        Scope::Cluster | Scope::Instances => String::new(),
        Scope::Namespace(namespace) => format!("  namespace: {namespace}\n"),
    };
    format!("apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{namespace}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_that_is_granted_cluster_wide_is_not_granted_again() {
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
    fn subjects_are_parsed() {
        assert_eq!("User:a:b".parse(), Ok(Subject::User("a:b".to_owned())));
        let account = Subject::ServiceAccount { namespace: "a".to_owned(), name: "b".to_owned() };
        assert_eq!("ServiceAccount:a/b".parse(), Ok(account));
        for text in ["a", "User:", "ServiceAccount:a", "Somebody:a"] {
            assert!(text.parse::<Subject>().is_err(), "{text}");
        }
    }
}
