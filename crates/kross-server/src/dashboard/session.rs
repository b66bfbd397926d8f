//! The session of a dashboard on a loopback address: a key that is printed for the user who started it, and a cookie with it.

use axum::http::{HeaderMap, header};
use base64::Engine;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};

/// The name of the cookie.
const COOKIE: &str = "kross-session";

/// A key that only the user knows who started the dashboard.
pub(super) struct Session {
    key: String,
}

impl Session {
    /// A new key; none if the system has no random numbers.
    pub(super) fn new() -> Option<Self> {
        let mut bytes = [0_u8; 24];
        SystemRandom::new().fill(&mut bytes).ok()?;
        Some(Self { key: base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes) })
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Compares digests, so that the time says nothing about the key.
    pub(super) fn has_key(&self, key: &str) -> bool {
        Sha256::digest(key) == Sha256::digest(&self.key)
    }

    /// What sets the cookie. It lasts as long as the browser.
    pub(super) fn cookie(&self) -> String {
        format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict", self.key)
    }

    /// Whether a request has the cookie.
    pub(super) fn admits(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == COOKIE && self.has_key(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cookie_of_the_session_admits() {
        let session = Session::new().unwrap();
        let with = |cookie: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, cookie.parse().unwrap());
            session.admits(&headers)
        };
        assert!(with(&format!("a=b; {COOKIE}={}", session.key())));
        assert!(
            !with("a=b")
                && !with(&format!("{COOKIE}="))
                && !with(&format!("{COOKIE}={}", Session::new().unwrap().key()))
        );
        assert!(!session.admits(&HeaderMap::new()));
        assert!(session.cookie().ends_with("; HttpOnly; SameSite=Strict"));
    }
}
