//! Turns a bearer token into cookies that only the replicas of the controller can read, and back. Nothing of a session is kept on
//! the server, so that every replica accepts every session.

use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::aead::{Aad, NONCE_LEN, Nonce};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use super::keys::{Key, KeyError, SessionKeys};

/// The name of the cookie. Browsers accept the prefix only over TLS, for this host alone.
const COOKIE: &str = "__Host-kross";
/// What a browser accepts in one cookie, with some room for its name and attributes.
const PART: usize = 3_500;
/// Into how many cookies a long token is divided.
const PARTS: usize = 4;
/// The version of the format, which is also sealed.
const VERSION: u8 = 1;
const ID_BYTES: usize = 4;
const EXPIRY_BYTES: usize = 8;

/// The longest token that fits.
pub(super) const MAX_TOKEN_BYTES: usize = 10 << 10;

/// What a session cookie says.
pub(super) struct Opened {
    pub(super) token: Zeroizing<String>,
    pub(super) expires: Timestamp,
}

/// The cookie of a request.
pub(super) enum SessionCookie {
    /// There is none.
    None,
    /// It has expired, was changed, or is of a key that is not in use any more.
    Invalid,
    /// It is valid.
    Valid(Opened),
}

/// The values of `Set-Cookie` that begin a session.
pub(super) async fn sealed(
    keys: &SessionKeys,
    token: &str,
    expires: Timestamp,
    now: Timestamp,
) -> Result<Vec<HeaderValue>, KeyError> {
    let text = seal(&*keys.current().await?, token, expires)?;
    let seconds = expires.as_second().saturating_sub(now.as_second()).max(0);
    let mut parts = text.as_bytes().chunks(PART).map(String::from_utf8_lossy);
    Ok((0..PARTS)
        .filter_map(|number| match parts.next() {
            Some(part) => set_cookie(number, &part, seconds),
            // Those of a longer token before.
            None => set_cookie(number, "", 0),
        })
        .collect())
}

/// The values of `Set-Cookie` that end a session.
pub(super) fn cleared() -> Vec<HeaderValue> {
    (0..PARTS).filter_map(|number| set_cookie(number, "", 0)).collect()
}

fn set_cookie(number: usize, value: &str, seconds: i64) -> Option<HeaderValue> {
    let name = name(number);
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict");
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn name(number: usize) -> String {
    if number == 0 { COOKIE.to_owned() } else { format!("{COOKIE}-{number}") }
}

/// The session of a request.
pub(super) async fn read(keys: &SessionKeys, headers: &HeaderMap, now: Timestamp) -> SessionCookie {
    let Some(text) = joined(headers) else { return SessionCookie::None };
    let opened = async {
        let mut sealed = Zeroizing::new(URL_SAFE_NO_PAD.decode(&text).ok()?);
        let id = sealed.get(1..=ID_BYTES)?.try_into().ok()?;
        open(&*keys.find(id).await?, &mut sealed)
    };
    match opened.await {
        Some(opened) if opened.expires > now => SessionCookie::Valid(opened),
        _ => SessionCookie::Invalid,
    }
}

/// The parts of the cookie in a request.
fn joined(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let pairs: Vec<(&str, &str)> = cookies
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .collect();
    let part = |number: usize| {
        let name = name(number);
        pairs.iter().find(|(known, value)| *known == name && !value.is_empty()).map(|(_, value)| *value)
    };
    let parts: Vec<&str> = (0..PARTS).map_while(part).collect();
    (!parts.is_empty()).then(|| parts.concat())
}

/// Version, key id, nonce, and what is sealed: the time when the session ends, and the token.
fn seal(key: &Key, token: &str, expires: Timestamp) -> Result<String, KeyError> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(|_| KeyError::NoRandomNumbers)?;
    let mut content = Zeroizing::new(expires.as_second().to_be_bytes().to_vec());
    // Sealing appends a tag. With room for it, the buffer is not copied.
    content.reserve(token.len() + key.aead.algorithm().tag_len());
    content.extend_from_slice(token.as_bytes());
    let head = head(key.id);
    key.aead
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(head), &mut *content)
        .map_err(|_| KeyError::NoRandomNumbers)?;
    Ok(URL_SAFE_NO_PAD.encode([&head[..], &nonce, &content].concat()))
}

fn open(key: &Key, sealed: &mut [u8]) -> Option<Opened> {
    let (given, rest) = sealed.split_at_mut_checked(1 + ID_BYTES)?;
    let (nonce, content) = rest.split_at_mut_checked(NONCE_LEN)?;
    let head = head(key.id);
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let content = key.aead.open_in_place(nonce, Aad::from(head), content).ok()?;
    let (expires, token) = content.split_first_chunk::<EXPIRY_BYTES>()?;
    let token = Zeroizing::new(std::str::from_utf8(token).ok()?.to_owned());
    let expires = Timestamp::from_second(i64::from_be_bytes(*expires)).ok()?;
    (*given == head).then_some(Opened { token, expires })
}

fn head([a, b, c, d]: [u8; ID_BYTES]) -> [u8; 1 + ID_BYTES] {
    [VERSION, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;

    use super::*;

    fn request(cookies: &[HeaderValue]) -> HeaderMap {
        let pairs: Vec<&str> =
            cookies.iter().map(|cookie| cookie.to_str().unwrap().split(';').next().unwrap()).collect();
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, format!("other=1; {}", pairs.join("; ")).parse().unwrap());
        headers
    }

    async fn token(keys: &SessionKeys, headers: &HeaderMap, now: Timestamp) -> Option<String> {
        match read(keys, headers, now).await {
            SessionCookie::Valid(opened) => Some(opened.token.to_string()),
            SessionCookie::None | SessionCookie::Invalid => None,
        }
    }

    #[tokio::test]
    async fn tokens_of_every_length_survive_in_cookies_that_do_not_show_them() {
        let (keys, now) = (SessionKeys::new(None).unwrap(), Timestamp::now());
        for length in [1, 900, 2_600, 2_700, MAX_TOKEN_BYTES] {
            let secret = "x".repeat(length);
            let cookies = sealed(&keys, &secret, now + 1.hour(), now).await.unwrap();
            assert_eq!(cookies.len(), PARTS);
            for cookie in &cookies {
                let text = cookie.to_str().unwrap();
                assert!(text.len() < 4_096 && !text.contains("xxxx") && cookie.is_sensitive(), "{text}");
                assert!(
                    text.ends_with("; Secure; HttpOnly; SameSite=Strict") && text.contains("; Path=/; "),
                    "{text}"
                );
                assert!(text.starts_with("__Host-kross") && !text.contains("Domain"), "{text}");
            }
            assert_eq!(token(&keys, &request(&cookies), now).await, Some(secret));
        }
    }

    #[tokio::test]
    async fn a_cookie_that_was_changed_or_has_expired_is_refused() {
        let (keys, now) = (SessionKeys::new(None).unwrap(), Timestamp::now());
        let cookies = sealed(&keys, "secret", now + 1.hour(), now).await.unwrap();
        let headers = request(&cookies);
        assert!(token(&keys, &headers, now + 59.minutes()).await.is_some());
        assert!(token(&keys, &headers, now + 1.hour()).await.is_none());
        let other = SessionKeys::new(None).unwrap();
        assert!(token(&other, &headers, now).await.is_none());
        let text = headers[header::COOKIE].to_str().unwrap().to_owned();
        let begin = text.find("__Host-kross=").unwrap() + "__Host-kross=".len();
        let end = text[begin..].find(';').unwrap() + begin;
        for at in begin..end {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::from_bytes(&changed).unwrap());
            // The last character has bits that mean nothing, which the decoder refuses as well.
            assert!(token(&keys, &headers, now).await.is_none(), "{at}");
        }
        assert!(matches!(read(&keys, &HeaderMap::new(), now).await, SessionCookie::None));
        assert!(matches!(read(&keys, &request(&cleared()), now).await, SessionCookie::None));
    }

    #[tokio::test]
    async fn two_cookies_of_one_token_differ() {
        let (keys, now) = (SessionKeys::new(None).unwrap(), Timestamp::now());
        let [one, other] = [
            sealed(&keys, "secret", now + 1.hour(), now).await.unwrap(),
            sealed(&keys, "secret", now + 1.hour(), now).await.unwrap(),
        ];
        assert_ne!(one[0], other[0]);
    }
}
