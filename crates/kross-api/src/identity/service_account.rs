//! A ServiceAccount, and the user and groups that it is for an API server.

use std::fmt;

use super::names::{is_namespace, is_object_name};

/// A ServiceAccount. Its name and namespace are valid, so it is always somebody: a request as an empty user would be one as
/// the controller itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceAccount {
    namespace: String,
    name: String,
}

impl ServiceAccount {
    /// A ServiceAccount; none if the namespace or the name is empty or invalid.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Option<Self> {
        let is_valid = is_namespace(namespace) && is_object_name(name);
        is_valid.then(|| Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its user name.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// The groups that every API server adds to it.
    #[must_use]
    pub fn groups(&self) -> [String; 3] {
        [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

impl fmt::Display for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_without_a_valid_name_or_namespace_does_not_exist() {
        let account = ServiceAccount::new("team-a", "deployer.v1").unwrap();
        assert_eq!(account.user(), "system:serviceaccount:team-a:deployer.v1");
        assert_eq!(account.groups()[1], "system:serviceaccounts:team-a");
        let long = "a".repeat(254);
        for (namespace, name) in [
            ("", "deployer"),
            ("team-a", ""),
            ("team-a", "De"),
            ("team-a", "a:b"),
            ("team:b", "deployer"),
            ("team.a", "deployer"),
            ("team-a", "a\r\nImpersonate-Group: system:masters"),
            ("team-a", "../x"),
            ("team-a", &long),
        ] {
            assert_eq!(ServiceAccount::new(namespace, name), None, "{namespace}/{name}");
        }
    }
}
