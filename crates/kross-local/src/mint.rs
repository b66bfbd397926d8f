//! Creates kubeconfigs for users with chosen permissions: by token or certificate, valid, expired or revoked.

use std::fmt::Debug;
use std::time::{Duration, Instant, SystemTime};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ControlPlane;
use crate::access::{Access, User};
use crate::certificates::{CertificateError, Validity};
use crate::kubeconfig::{ClientError, Credential, Kubeconfig};
use crate::token::{self, Account, TokenError};

/// The lifetime of tokens: longer than any test or demo runs.
const TOKEN_SECONDS: i64 = 30 * 24 * 3600;
/// How long the API server may take to enforce new rules.
const RBAC_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a kubeconfig could not be created.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// The client of the administrator could not be created.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The API server rejected a request.
    #[error("cannot {action} for `{user}`")]
    Request {
        /// What was attempted.
        action: &'static str,
        /// The user.
        user: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server does not enforce the rules in time.
    #[error("the API server does not enforce the rules of `{user}` after {}s", RBAC_TIMEOUT.as_secs())]
    NotEnforced {
        /// The user.
        user: String,
    },
    /// The API server returned a ServiceAccount without a UID, or a TokenRequest without a token.
    #[error("the API server returned no {what} for `{user}`")]
    Incomplete {
        /// What is missing.
        what: &'static str,
        /// The user.
        user: String,
    },
    /// The certificate could not be issued.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The token could not be signed.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl ControlPlane {
    /// A kubeconfig with a token of the ServiceAccount `namespace/name`. Creates the namespace and the ServiceAccount if they
    /// are missing. The API server enforces the rules when this returns.
    ///
    /// # Errors
    /// The API server rejects a request.
    pub async fn mint_token(
        &self,
        namespace: &str,
        name: &str,
        access: &Access,
    ) -> Result<Kubeconfig, MintError> {
        let minter = Minter::new(self, User::service_account(namespace, name)).await?;
        minter.service_account(namespace, name).await?;
        minter.allow(access).await?;
        let token = minter.token(namespace, name).await?;
        Ok(self.kubeconfig_of(name, Credential::Token(token)))
    }

    /// A kubeconfig with a client certificate for `user`, a member of `group` if given.
    ///
    /// # Errors
    /// The API server rejects a request.
    pub async fn mint_certificate(
        &self,
        user: &str,
        group: Option<&str>,
        access: &Access,
    ) -> Result<Kubeconfig, MintError> {
        Minter::new(self, User::named(user, group)).await?.allow(access).await?;
        let identity = self.authority().client(user, group, Validity::Current)?;
        Ok(self.kubeconfig_of(user, Credential::Certificate(identity)))
    }

    /// A kubeconfig with a token that expired an hour ago. The ServiceAccount exists and has its permissions, so that only the
    /// token is invalid.
    ///
    /// # Errors
    /// The API server rejects a request.
    pub async fn mint_expired_token(
        &self,
        namespace: &str,
        name: &str,
        access: &Access,
    ) -> Result<Kubeconfig, MintError> {
        let hour = 3_600;
        self.mint_token_valid(namespace, name, access, |now| {
            (now.saturating_sub(2 * hour), now.saturating_sub(hour))
        })
        .await
    }

    /// A kubeconfig with a token that was issued some time ago and is valid for some more time.
    ///
    /// # Errors
    /// The API server rejects a request.
    pub async fn mint_aged_token(
        &self,
        namespace: &str,
        name: &str,
        access: &Access,
        (age, left): (Duration, Duration),
    ) -> Result<Kubeconfig, MintError> {
        let valid = |now: u64| (now.saturating_sub(age.as_secs()), now.saturating_add(left.as_secs()));
        self.mint_token_valid(namespace, name, access, valid).await
    }

    async fn mint_token_valid(
        &self,
        namespace: &str,
        name: &str,
        access: &Access,
        valid: impl Fn(u64) -> (u64, u64),
    ) -> Result<Kubeconfig, MintError> {
        let minter = Minter::new(self, User::service_account(namespace, name)).await?;
        let uid = minter.service_account(namespace, name).await?;
        minter.allow(access).await?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let token = token::valid(&self.account_key(), &Account { namespace, name, uid: &uid }, valid(now))?;
        Ok(self.kubeconfig_of(name, Credential::Token(token)))
    }

    /// A kubeconfig with a client certificate that expired at the end of 2020.
    ///
    /// # Errors
    /// The API server rejects a request.
    pub async fn mint_expired_certificate(
        &self,
        user: &str,
        group: Option<&str>,
        access: &Access,
    ) -> Result<Kubeconfig, MintError> {
        Minter::new(self, User::named(user, group)).await?.allow(access).await?;
        let identity = self.authority().client(user, group, Validity::Expired)?;
        Ok(self.kubeconfig_of(user, Credential::Certificate(identity)))
    }

    /// A kubeconfig with a token whose ServiceAccount is deleted before its first use.
    ///
    /// # Errors
    /// The API server rejects a request.
    pub async fn mint_revoked_token(
        &self,
        namespace: &str,
        name: &str,
        access: &Access,
    ) -> Result<Kubeconfig, MintError> {
        let kubeconfig = self.mint_token(namespace, name, access).await?;
        self.revoke(namespace, name).await?;
        Ok(kubeconfig)
    }

    /// Deletes a ServiceAccount, which revokes its tokens. The API server caches a token that it has accepted for about ten
    /// seconds, so a token that was in use stays valid for that long.
    ///
    /// # Errors
    /// The API server rejects a request, or the ServiceAccount does not exist.
    pub async fn revoke(&self, namespace: &str, name: &str) -> Result<(), MintError> {
        let minter = Minter::new(self, User::service_account(namespace, name)).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(minter.client.clone(), namespace);
        let deleted = accounts.delete(name, &DeleteParams::default()).await;
        deleted.map(drop).map_err(minter.error("delete the ServiceAccount"))
    }

    fn kubeconfig_of(&self, user: &str, credential: Credential) -> Kubeconfig {
        let user = user.replace(':', "-");
        Kubeconfig { name: format!("{}-{user}", self.name()), credential, ..self.admin().clone() }
    }
}

/// Creates the objects of one user as the administrator.
struct Minter {
    client: Client,
    user: User,
}

impl Minter {
    async fn new(plane: &ControlPlane, user: User) -> Result<Self, MintError> {
        Ok(Self { client: plane.client().await?, user })
    }

    /// Creates the ServiceAccount if it does not exist. Returns its UID.
    async fn service_account(&self, namespace: &str, name: &str) -> Result<String, MintError> {
        self.namespace(namespace).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let account = ServiceAccount {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..ServiceAccount::default()
        };
        let account = self.apply("create the ServiceAccount", &accounts, name, &account).await?;
        account.metadata.uid.ok_or_else(|| self.incomplete("UID"))
    }

    async fn namespace(&self, name: &str) -> Result<(), MintError> {
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        self.apply("create the namespace", &namespaces, name, &namespace).await.map(drop)
    }

    async fn token(&self, namespace: &str, name: &str) -> Result<String, MintError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .map_err(self.error("request a token"))?;
        answer.status.map(|status| status.token).ok_or_else(|| self.incomplete("token"))
    }

    /// Creates the roles and bindings, and waits until the API server enforces them.
    async fn allow(&self, access: &Access) -> Result<(), MintError> {
        let name = self.user.role_name();
        if let Some((role, binding)) = access.cluster_objects(&name, &self.user.subject) {
            self.apply("create the ClusterRole", &Api::all(self.client.clone()), &name, &role).await?;
            self.apply("create the ClusterRoleBinding", &Api::all(self.client.clone()), &name, &binding)
                .await?;
        }
        for (namespace, role, binding) in access.namespace_objects(&name, &self.user.subject) {
            self.namespace(&namespace).await?;
            let client = || self.client.clone();
            self.apply("create the Role", &Api::namespaced(client(), &namespace), &name, &role).await?;
            self.apply("create the RoleBinding", &Api::namespaced(client(), &namespace), &name, &binding)
                .await?;
        }
        let started = Instant::now();
        for (namespace, rule) in access.samples() {
            while !self.allowed(namespace.as_deref(), &rule).await? {
                if started.elapsed() > RBAC_TIMEOUT {
                    return Err(MintError::NotEnforced { user: self.user.name.clone() });
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    async fn allowed(&self, namespace: Option<&str>, rule: &PolicyRule) -> Result<bool, MintError> {
        let first = |texts: &Option<Vec<String>>| texts.as_ref().and_then(|texts| texts.first().cloned());
        let verb = rule.verbs.first().cloned();
        let (resource, subresource) = match first(&rule.resources) {
            Some(text) => match text.split_once('/') {
                Some((resource, subresource)) => (Some(resource.to_owned()), Some(subresource.to_owned())),
                None => (Some(text), None),
            },
            None => (None, None),
        };
        let resource_attributes = resource.map(|resource| ResourceAttributes {
            namespace: namespace.map(str::to_owned),
            group: first(&rule.api_groups),
            resource: Some(resource),
            subresource,
            name: first(&rule.resource_names),
            verb: verb.clone(),
            ..ResourceAttributes::default()
        });
        let non_resource_attributes =
            first(&rule.non_resource_urls).map(|path| NonResourceAttributes { path: Some(path), verb });
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(self.user.name.clone()),
                groups: Some(self.user.groups.clone()),
                non_resource_attributes: non_resource_attributes.filter(|_| resource_attributes.is_none()),
                resource_attributes,
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer =
            reviews.create(&PostParams::default(), &review).await.map_err(self.error("review the access"))?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    async fn apply<K>(
        &self,
        action: &'static str,
        api: &Api<K>,
        name: &str,
        object: &K,
    ) -> Result<K, MintError>
    where
        K: Resource + Serialize + DeserializeOwned + Clone + Debug,
    {
        let parameters = PatchParams::apply("kross-local").force();
        api.patch(name, &parameters, &Patch::Apply(object)).await.map_err(self.error(action))
    }

    fn error(&self, action: &'static str) -> impl FnOnce(kube::Error) -> MintError {
        let user = self.user.name.clone();
        move |source| MintError::Request { action, user, source: Box::new(source) }
    }

    fn incomplete(&self, what: &'static str) -> MintError {
        MintError::Incomplete { what, user: self.user.name.clone() }
    }
}
