//! The ServiceAccount of an instance: evaluates the name that the definition gives. A name that is empty or invalid is an
//! error, and never stands for the controller's own permissions.

use std::cell::RefCell;

use kross_api::ServiceAccount;
use kross_cel::Budget;
use kross_cel::value::Value as CelValue;
use kross_graph::{AccountTemplate, Graph, Scope};
use kross_value::Value;

use crate::defaults::defaulted;
use crate::instance::Instance;
use crate::settings::Settings;

/// Why it is not known as which ServiceAccount the objects of an instance are read and written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// The expression failed.
    #[error("cannot evaluate the ServiceAccount of the instance: {0}")]
    Expression(String),
    /// The name is empty.
    #[error(
        "the ServiceAccount of the instance is empty: `spec.access.serviceAccountName` of the definition must have a value"
    )]
    Empty,
    /// The name is no name of a ServiceAccount.
    #[error(
        "the ServiceAccount of the instance is invalid: `spec.access.serviceAccountName` of the definition must be the name of a \
         ServiceAccount in namespace `{namespace}`: lower-case letters, digits, `-` and `.`"
    )]
    Invalid {
        /// The namespace.
        namespace: String,
    },
    /// The definition asks for a ServiceAccount in a way that is not valid, and its graph is not known.
    #[error("the ServiceAccount of the instance is not known: `spec.access` of the definition is invalid")]
    Definition,
    /// The instance has no namespace, and the definition names none.
    #[error(
        "the instance has no namespace: set `spec.access` with `serviceAccountName` and `serviceAccountNamespace` in the \
         definition"
    )]
    NoNamespace,
}

/// The ServiceAccount of an instance. `graph` has the defaults of the instance's schema, where it is known.
///
/// # Errors
/// There is none that could be used.
pub fn account(
    template: &AccountTemplate,
    graph: Option<&Graph>,
    instance: &Value,
    settings: &Settings,
) -> Result<ServiceAccount, AccountError> {
    let defaulted = graph.and_then(|graph| defaulted(graph, instance));
    let given = defaulted.as_ref().unwrap_or(instance);
    let instance = Instance::of(given);
    let budget = RefCell::new(Budget::new(settings.budget));
    let mut scope = Scope::new(&budget);
    let with_status = graph.is_some_and(|graph| graph.instance.external);
    let schema = instance.schema(with_status);
    scope.set("schema", CelValue::from_data(&schema, Some(&template.schema_type)));
    let name =
        template.name.render_string(&scope).map_err(|error| AccountError::Expression(error.to_string()))?;
    named(instance.namespace(), template.namespace.as_deref(), name.as_deref().unwrap_or_default())
}

/// The ServiceAccount of an instance whose definition names none, where one is configured for all of these.
///
/// # Errors
/// The instance has no namespace: nothing says which namespace's account to use.
pub fn default_account(name: &str, instance: &Value) -> Result<ServiceAccount, AccountError> {
    named(Instance::of(instance).namespace(), None, name)
}

fn named(own: Option<&str>, given: Option<&str>, name: &str) -> Result<ServiceAccount, AccountError> {
    if name.is_empty() {
        return Err(AccountError::Empty);
    }
    // An instance with a namespace never gets an account of another one.
    let namespace = own.or(given).ok_or(AccountError::NoNamespace)?;
    ServiceAccount::new(namespace, name)
        .ok_or_else(|| AccountError::Invalid { namespace: namespace.to_owned() })
}

#[cfg(test)]
mod tests {
    use kross_api::{Access, Scope as InstanceScope};
    use kross_graph::{Resolvers, compile_access};
    use kross_schema::{Bundle, SchemaResolver};
    use serde_json::json;

    use super::*;

    struct Kubernetes(std::sync::Arc<Bundle>);

    impl Resolvers for Kubernetes {
        fn local(&self) -> &dyn SchemaResolver {
            &*self.0
        }
    }

    fn account_of(name: &str, instance: serde_json::Value) -> Result<String, AccountError> {
        let access = Access { service_account_name: name.to_owned(), service_account_namespace: None };
        let template =
            compile_access(&access, InstanceScope::Namespaced, &Kubernetes(Bundle::latest())).unwrap();
        account(&template, None, &Value::from(instance), &Settings::default())
            .map(|account| account.to_string())
    }

    fn instance(spec: &serde_json::Value) -> serde_json::Value {
        json!({"metadata": {"name": "x", "namespace": "shop"}, "spec": spec})
    }

    #[test]
    fn an_account_is_in_the_namespace_of_its_instance() {
        assert_eq!(account_of("deployer", instance(&json!({}))).unwrap(), "shop/deployer");
        let chosen = instance(&json!({"team": "blue"}));
        assert_eq!(account_of("${schema.spec.team}-deployer", chosen).unwrap(), "shop/blue-deployer");
    }

    #[test]
    fn an_account_without_a_usable_name_is_an_error() {
        let chosen = |value: serde_json::Value| {
            account_of("${schema.spec.account}", instance(&json!({"account": value}))).unwrap_err()
        };
        assert_eq!(chosen(json!("")), AccountError::Empty);
        assert_eq!(chosen(json!(null)), AccountError::Empty);
        let invalid = AccountError::Invalid { namespace: "shop".to_owned() };
        for name in ["system:admin", "a/b", "Deployer", " ", "-", "a\nb"] {
            assert_eq!(chosen(json!(name)), invalid, "{name}");
        }
        assert_eq!(chosen(json!({"a": 1})), invalid);
        let missing = account_of("${schema.spec.account}", instance(&json!({}))).unwrap_err();
        assert!(matches!(missing, AccountError::Expression(_)), "{missing}");
        let without = json!({"metadata": {"name": "x"}});
        assert_eq!(account_of("deployer", without.clone()).unwrap_err(), AccountError::NoNamespace);
        assert_eq!(
            default_account("deployer", &Value::from(without)).unwrap_err(),
            AccountError::NoNamespace
        );
    }
}
