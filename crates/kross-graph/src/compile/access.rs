//! `spec.access`: compiles the name of the ServiceAccount, and checks what it may depend on and where its namespace comes from.

use kross_api::{Access, Scope, ServiceAccount};
use kross_cel::types::Type;
use kross_diagnostics::{Code, Path, Place, Problem};
use kross_value::{Text, Value};

use super::Compiler;
use super::context::{Context, Position, Variables};
use crate::graph::AccountTemplate;
use crate::template::Template;

/// A name with which any other name can be checked.
const SOME_NAME: &str = "x";

impl Compiler<'_> {
    /// The ServiceAccount of the instances, if the definition names one.
    pub(super) fn account(&mut self, schema_type: &Type, variables: &Variables) -> Option<AccountTemplate> {
        let access = self.spec.access.as_ref()?;
        let path = Path::root().key("spec").key("access");
        let namespace = self.account_namespace(access, &path);
        let context = Context { position: Position::Access, env: variables.schema_only().clone(), own: None };
        let name_path = path.key("serviceAccountName");
        let name = self.string(&access.service_account_name, &name_path, &context)?;
        if let Template::Literal(Value::String(name)) = &name
            && ServiceAccount::new(SOME_NAME, name).is_none()
        {
            let message = format!("`{name}` is not a valid name of a ServiceAccount");
            let problem = Problem::new(Code::InvalidServiceAccount, Place::value(&name_path), message);
            self.report(problem.help("use lower-case letters, digits, `-` and `.`, for example `deployer`"));
        }
        Some(AccountTemplate { name, namespace, schema_type: schema_type.clone() })
    }

    /// The namespace of the ServiceAccount, for instances that have none.
    fn account_namespace(&mut self, access: &Access, path: &Path) -> Option<Text> {
        let field = path.key("serviceAccountNamespace");
        let problem = match (self.scope, access.service_account_namespace.as_deref()) {
            (Scope::Namespaced, None) => return None,
            (Scope::Namespaced, Some(_)) => {
                let message = "an instance can use only the ServiceAccounts of its own namespace";
                Problem::new(Code::ServiceAccountNamespace, Place::key(&field), message)
                    .help("remove `serviceAccountNamespace`, and create the ServiceAccount in the namespace of the instances")
            }
            (Scope::Cluster, None) => {
                let message = "instances without namespace need the namespace of the ServiceAccount";
                Problem::new(Code::ServiceAccountNamespace, Place::key(path), message)
                    .help("add `serviceAccountNamespace` with the namespace of the ServiceAccount")
            }
            (Scope::Cluster, Some(namespace)) if namespace.contains("${") => {
                let message = "the namespace of the ServiceAccount cannot be an expression";
                Problem::new(Code::ServiceAccountNamespace, Place::value(&field), message).help(
                    "write the namespace: whoever could choose it could use the ServiceAccounts of others",
                )
            }
            (Scope::Cluster, Some(namespace)) => {
                if ServiceAccount::new(namespace, SOME_NAME).is_some() {
                    return Some(namespace.into());
                }
                let message = format!("`{namespace}` is not a valid namespace");
                Problem::new(Code::ServiceAccountNamespace, Place::value(&field), message)
                    .help("use lower-case letters, digits and `-`")
            }
        };
        self.report(problem);
        None
    }
}
