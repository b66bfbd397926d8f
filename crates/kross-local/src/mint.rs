//! Turns a user and what they may do into a kubeconfig for them: by token, by certificate, expired, or revoked.

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

/// Tokens that are meant to work do so for longer than any test or demo runs.
const TOKEN_SECONDS: i64 = 30 * 24 * 3600;
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a kubeconfig could not be minted.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// There is no client to do it with.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The API server said no.
    #[error("cannot {action} for `{user}`")]
    Request {
        /// What was attempted.
        action: &'static str,
        /// For whom.
        user: String,
        /// What the API server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The rules did not come into force.
    #[error("the rules given to `{user}` are not in force after {}s", PATIENCE.as_secs())]
    NotInForce {
        /// For whom.
        user: String,
    },
    /// The API server gave a ServiceAccount without an identity, or a token request without a token.
    #[error("the API server gave no {what} for `{user}`")]
    Incomplete {
        /// What is missing.
        what: &'static str,
        /// For whom.
        user: String,
    },
    /// The certificate could not be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The token could not be signed.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl ControlPlane {
    /// A kubeconfig for the ServiceAccount `namespace/name` by token. Namespace and ServiceAccount are made when missing, and
    /// the rules are in force when this returns.
    ///
    /// # Errors
    /// The API server refuses.
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

    /// A kubeconfig by client certificate for `user`, a member of `group` when given.
    ///
    /// # Errors
    /// The API server refuses.
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

    /// A kubeconfig by token that was good until an hour ago. The ServiceAccount exists and has its rules, so the token is
    /// all that is wrong with it.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn mint_expired_token(
        &self,
        namespace: &str,
        name: &str,
        access: &Access,
    ) -> Result<Kubeconfig, MintError> {
        let minter = Minter::new(self, User::service_account(namespace, name)).await?;
        let uid = minter.service_account(namespace, name).await?;
        minter.allow(access).await?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let token = token::expired(&self.account_key(), &Account { namespace, name, uid: &uid }, now)?;
        Ok(self.kubeconfig_of(name, Credential::Token(token)))
    }

    /// A kubeconfig by client certificate that was good until the end of 2020.
    ///
    /// # Errors
    /// The API server refuses.
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

    /// A kubeconfig by token whose ServiceAccount is deleted before anybody uses it.
    ///
    /// # Errors
    /// The API server refuses.
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

    /// Deletes a ServiceAccount and with it the worth of its tokens. The API server remembers a token that it has accepted for
    /// about ten seconds, so one that was in use goes on working for that long.
    ///
    /// # Errors
    /// The API server refuses, or there is no such ServiceAccount.
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

/// The administrator at work for one user.
struct Minter {
    client: Client,
    user: User,
}

impl Minter {
    async fn new(plane: &ControlPlane, user: User) -> Result<Self, MintError> {
        Ok(Self { client: plane.client().await?, user })
    }

    /// Makes sure that the ServiceAccount exists, and gives its UID.
    async fn service_account(&self, namespace: &str, name: &str) -> Result<String, MintError> {
        self.namespace(namespace).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let account = ServiceAccount {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..ServiceAccount::default()
        };
        let account = self.apply("make the ServiceAccount", &accounts, name, &account).await?;
        account.metadata.uid.ok_or_else(|| self.incomplete("UID"))
    }

    async fn namespace(&self, name: &str) -> Result<(), MintError> {
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        self.apply("make the namespace", &namespaces, name, &namespace).await.map(drop)
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

    /// Writes the rules down and waits until the API server goes by them.
    async fn allow(&self, access: &Access) -> Result<(), MintError> {
        let name = self.user.role_name();
        if let Some((role, binding)) = access.cluster_objects(&name, &self.user.subject) {
            self.apply("make the ClusterRole", &Api::all(self.client.clone()), &name, &role).await?;
            self.apply("make the ClusterRoleBinding", &Api::all(self.client.clone()), &name, &binding)
                .await?;
        }
        for (namespace, role, binding) in access.namespace_objects(&name, &self.user.subject) {
            self.namespace(&namespace).await?;
            let client = || self.client.clone();
            self.apply("make the Role", &Api::namespaced(client(), &namespace), &name, &role).await?;
            self.apply("make the RoleBinding", &Api::namespaced(client(), &namespace), &name, &binding)
                .await?;
        }
        let started = Instant::now();
        for (namespace, rule) in access.samples() {
            while !self.allowed(namespace.as_deref(), &rule).await? {
                if started.elapsed() > PATIENCE {
                    return Err(MintError::NotInForce { user: self.user.name.clone() });
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
