//! Signs ServiceAccount tokens with the control plane's own key, for tokens that no API server would issue.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::json;

/// Why a token could not be signed.
#[derive(Debug, thiserror::Error)]
#[error("cannot sign a token for ServiceAccount `{account}`")]
pub struct TokenError {
    account: String,
}

/// The ServiceAccount of a token.
pub(crate) struct Account<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

/// A token that is valid from one moment until another, in seconds since 1970.
pub(crate) fn valid(
    key: &str,
    account: &Account<'_>,
    (from, until): (u64, u64),
) -> Result<String, TokenError> {
    let Account { namespace, name, uid } = account;
    let issuer = "https://kubernetes.default.svc";
    let claims = json!({
        "iss": issuer,
        "aud": [issuer],
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
        "iat": from,
        "nbf": from,
        "exp": until,
        "kubernetes.io": { "namespace": namespace, "serviceaccount": { "name": name, "uid": uid } },
    });
    sign(key, &claims).ok_or_else(|| TokenError { account: format!("{namespace}/{name}") })
}

fn sign(key: &str, claims: &serde_json::Value) -> Option<String> {
    let encoded: String = key.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(encoded).ok()?;
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random).ok()?;
    let header = json!({ "alg": "ES256", "typ": "JWT" });
    let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&header), part(claims));
    let signature = pair.sign(&random, message.as_bytes()).ok()?;
    Some(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
}
