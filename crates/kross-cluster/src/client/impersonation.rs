//! Impersonation: requests as a ServiceAccount with the credential of somebody who may impersonate it. The API server checks
//! both.

use http::{HeaderMap, HeaderName, HeaderValue};
use kross_api::ServiceAccount;

use super::ClusterClient;

const USER: HeaderName = HeaderName::from_static("impersonate-user");

/// A ServiceAccount that requests are made as.
///
/// Only the user is sent. The API server then adds the groups of the ServiceAccount itself; groups that are sent would each
/// need the permission to impersonate that group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation {
    account: ServiceAccount,
    user: HeaderValue,
}

impl Impersonation {
    /// None if the name cannot be sent, which a valid name always can.
    fn new(account: &ServiceAccount) -> Option<Self> {
        let user = HeaderValue::from_str(&account.user()).ok()?;
        Some(Self { account: account.clone(), user })
    }

    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        headers.insert(USER, self.user.clone());
    }
}

impl ClusterClient {
    /// The same client, whose requests are made as this ServiceAccount. Discovery and caches stay those of the credential. None
    /// if its name cannot be sent: then there is no client at all, rather than one with all permissions.
    #[must_use]
    pub fn impersonating(&self, account: &ServiceAccount) -> Option<Self> {
        let impersonation = Some(Impersonation::new(account)?.into());
        Some(Self { impersonation, ..self.clone() })
    }

    /// The ServiceAccount that requests are made as, if it is another user than that of the credential.
    #[must_use]
    pub fn impersonated(&self) -> Option<&ServiceAccount> {
        self.impersonation.as_deref().map(|impersonation| &impersonation.account)
    }

    /// The same client as the user of its credential.
    pub(crate) fn as_itself(&self) -> Self {
        Self { impersonation: None, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_one_user_and_no_groups() {
        let account = ServiceAccount::new("shop", "deployer").unwrap();
        let mut headers = HeaderMap::new();
        Impersonation::new(&account).unwrap().add_to(&mut headers);
        assert_eq!(headers.len(), 1);
        assert_eq!(headers["Impersonate-User"], "system:serviceaccount:shop:deployer");
    }
}
