//! Turns permissions into the RBAC objects that grant exactly those.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::api::ObjectMeta;

const RBAC: &str = "rbac.authorization.k8s.io";

/// A rule: these verbs on these resources of these API groups (`""` is the core group).
#[must_use]
pub fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(owned(groups)),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// The permissions of a user: rules for the whole cluster and rules for single namespaces.
#[derive(Clone, Debug, Default)]
pub struct Access {
    cluster: Vec<PolicyRule>,
    namespaces: BTreeMap<String, Vec<PolicyRule>>,
}

impl Access {
    /// Nothing beyond what every authenticated user may do.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Everything.
    #[must_use]
    pub fn all() -> Self {
        let mut paths = rule(&[], &[], &["*"]);
        (paths.api_groups, paths.resources) = (None, None);
        paths.non_resource_urls = Some(vec!["*".to_owned()]);
        Self::none().in_cluster([rule(&["*"], &["*"], &["*"]), paths])
    }

    /// Also allows `rules` in every namespace and on cluster-scoped objects.
    #[must_use]
    pub fn in_cluster(mut self, rules: impl IntoIterator<Item = PolicyRule>) -> Self {
        self.cluster.extend(rules);
        self
    }

    /// Also allows `rules` in one namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str, rules: impl IntoIterator<Item = PolicyRule>) -> Self {
        self.namespaces.entry(namespace.to_owned()).or_default().extend(rules);
        self
    }

    /// One rule per scope, to check whether the API server enforces the rules yet.
    pub(crate) fn samples(&self) -> Vec<(Option<String>, PolicyRule)> {
        let cluster = self.cluster.first().map(|rule| (None, rule.clone()));
        let namespaces = self
            .namespaces
            .iter()
            .filter_map(|(namespace, rules)| Some((Some(namespace.clone()), rules.first()?.clone())));
        cluster.into_iter().chain(namespaces).collect()
    }

    pub(crate) fn cluster_objects(
        &self,
        name: &str,
        subject: &Subject,
    ) -> Option<(ClusterRole, ClusterRoleBinding)> {
        if self.cluster.is_empty() {
            return None;
        }
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let role = ClusterRole {
            metadata: metadata.clone(),
            rules: Some(self.cluster.clone()),
            ..ClusterRole::default()
        };
        let binding = ClusterRoleBinding {
            metadata,
            role_ref: role_ref("ClusterRole", name),
            subjects: Some(vec![subject.clone()]),
        };
        Some((role, binding))
    }

    pub(crate) fn namespace_objects(
        &self,
        name: &str,
        subject: &Subject,
    ) -> Vec<(String, Role, RoleBinding)> {
        let objects = |(namespace, rules): (&String, &Vec<PolicyRule>)| {
            let metadata = ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            };
            let role = Role { metadata: metadata.clone(), rules: Some(rules.clone()) };
            let subjects = Some(vec![subject.clone()]);
            let binding = RoleBinding { metadata, role_ref: role_ref("Role", name), subjects };
            (namespace.clone(), role, binding)
        };
        self.namespaces.iter().map(objects).collect()
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: RBAC.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
}

/// A user of the cluster, for RBAC and access reviews.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) subject: Subject,
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl User {
    pub(crate) fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            subject: Subject {
                kind: "ServiceAccount".to_owned(),
                name: name.to_owned(),
                namespace: Some(namespace.to_owned()),
                api_group: None,
            },
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
        }
    }

    pub(crate) fn named(name: &str, group: Option<&str>) -> Self {
        Self {
            subject: Subject {
                kind: "User".to_owned(),
                name: name.to_owned(),
                namespace: None,
                api_group: Some(RBAC.to_owned()),
            },
            name: name.to_owned(),
            groups: group.into_iter().map(str::to_owned).collect(),
        }
    }

    /// The name of the roles and bindings of this user.
    pub(crate) fn role_name(&self) -> String {
        format!("kross:{}", self.name)
    }
}
