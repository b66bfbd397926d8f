//! Requests a token of a ServiceAccount (TokenRequest). It is sent and fenced as a write, and the record of it in the audit log
//! has no part of the token.

use std::fmt;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use kross_api::{FailureReason, Operation};
use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroizing;

use super::rest::Target;
use crate::audit::AuditVerb;
use crate::client::{ApiRequest, ClusterClient, JSON};
use crate::discovery::ApiKind;
use crate::error::ApiError;
use crate::kubeconfig::{CredentialLifetime, ServiceAccountName, TokenClaims};

/// A token of a ServiceAccount. Its `Debug` output does not show it.
pub struct IssuedToken {
    /// The token.
    pub token: Zeroizing<String>,
    /// From when until when it is valid. The cluster may give less than was asked for.
    pub lifetime: CredentialLifetime,
}

impl fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedToken").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Answer {
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Zeroizing<String>,
    expiration_timestamp: Option<Timestamp>,
}

impl ClusterClient {
    /// Requests a token of a ServiceAccount that is valid for this long, if the cluster gives that much.
    ///
    /// # Errors
    /// The cluster rejects the request or does not answer, or what it issues is not a token of that ServiceAccount that expires.
    pub async fn request_token(
        &self,
        account: &ServiceAccountName,
        duration: Duration,
    ) -> Result<IssuedToken, ApiError> {
        let accounts = ApiKind::custom("", "v1", "ServiceAccount", "serviceaccounts", true);
        let requests = ApiKind::custom("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests", true);
        let (namespace, name) = (Some(account.namespace.as_str()), account.name.as_str());
        let target = Target { kind: &accounts, namespace, name, operation: Operation::Create };
        let path = target.path(self, Some("token"))?;
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": duration.as_secs()}});
        let request = ApiRequest {
            fence: self.fence().clone(),
            ..ApiRequest::write(Method::POST, path, JSON, request.to_string().into())
        };
        let pending = self.begin_audit(AuditVerb::Create, &requests, namespace, name);
        let response = self.send(&target, request).await;
        match &response {
            Err(error) if error.is_fenced() => pending.discard(),
            _ => pending.finish(&response),
        }
        let body = response?.body;
        issued(&body, account)
            .map_err(|problem| ApiError::new(target.attempt(self), FailureReason::ServerError, problem))
    }
}

/// Reads the token, and checks that it is one of the ServiceAccount: a hostile server can answer anything.
fn issued(body: &[u8], account: &ServiceAccountName) -> Result<IssuedToken, &'static str> {
    let Ok(Answer { status: Status { token, expiration_timestamp } }) = serde_json::from_slice(body) else {
        return Err("the cluster issued no token");
    };
    let claims = TokenClaims::of(&token).ok_or("the cluster issued a token that is no JSON Web Token")?;
    if claims.service_account().as_ref() != Some(account) {
        return Err("the cluster issued a token of another user");
    }
    let mut lifetime = claims.lifetime();
    lifetime.expires_at = lifetime.expires_at.or(expiration_timestamp);
    if lifetime.expires_at.is_none() {
        return Err("the cluster issued a token that does not expire");
    }
    Ok(IssuedToken { token, lifetime })
}

#[cfg(test)]
mod tests {
    use base64::Engine;

    use super::*;

    #[test]
    fn only_a_token_of_the_account_that_expires_is_taken() {
        let account = ServiceAccountName::parse("a/b").unwrap();
        let answer = |claims: serde_json::Value| {
            let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims.to_string());
            json!({"status": {"token": format!("e30.{claims}.c2ln")}}).to_string()
        };
        let subject = "system:serviceaccount:a:b";
        let good = issued(answer(json!({"sub": subject, "exp": 2_000, "iat": 1_000})).as_bytes(), &account);
        let good = good.unwrap();
        assert_eq!(good.lifetime.duration().unwrap().as_secs(), 1_000);
        assert!(!format!("{good:?}").contains("e30"));
        for bad in [
            answer(json!({"sub": "system:serviceaccount:a:admin", "exp": 2_000})),
            answer(json!({"sub": subject})),
            json!({"status": {"token": "s3cret"}}).to_string(),
            "{}".to_owned(),
        ] {
            assert!(issued(bad.as_bytes(), &account).is_err(), "{bad}");
        }
    }
}
