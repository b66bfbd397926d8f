//! Admits to pages whom the API server allows: a TokenReview tells who it is, a SubjectAccessReview whether the user may use
//! the method on the path. The same rule, and the same answers, as the secure metrics of controller-runtime.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::timeout;

mod decisions;

pub(crate) use decisions::Decisions;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// How many reviews wait for the API server at once, whoever causes them.
const MAX_REVIEWS: usize = 4;
const REVIEW_TIMEOUT: Duration = Duration::from_secs(8);
/// How long an allowed user keeps access after it was taken away.
const ALLOWED_AGE: Duration = Duration::from_secs(60);
/// How long a denied user waits after it was given access.
const DENIED_AGE: Duration = Duration::from_secs(10);
/// How many decisions of each kind are kept.
const MAX_DECISIONS: usize = 512;
/// Longer tokens are not sent to the API server.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Why a review could not be made.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReviewError(pub String);

/// Posts a review to a path of the API server.
type Post = dyn Fn(&'static str, Bytes) -> BoxFuture<'static, Result<Bytes, ReviewError>> + Send + Sync;

/// Decides who may read pages. Clones share the decisions.
#[derive(Clone)]
pub struct AccessControl(Arc<Inner>);

struct Inner {
    post: Box<Post>,
    reviews: Semaphore,
    users: Mutex<Cached<Arc<User>>>,
    accesses: Mutex<Cached<()>>,
}

type Key = [u8; 32];

/// Decisions of one kind. The others cannot push out those that allow.
struct Cached<T> {
    allowed: Decisions<Key, T>,
    denied: Decisions<Key, ()>,
}

/// Who sent a request, as the API server knows the token.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct User {
    #[serde(default)]
    username: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    extra: BTreeMap<String, Vec<String>>,
}

impl fmt::Debug for AccessControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessControl").finish_non_exhaustive()
    }
}

impl AccessControl {
    /// Asks the API server with `post`, which sends a body to a path and returns the answer.
    pub fn new(
        post: impl Fn(&'static str, Bytes) -> BoxFuture<'static, Result<Bytes, ReviewError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            post: Box::new(post),
            reviews: Semaphore::new(MAX_REVIEWS),
            users: Mutex::new(Cached::new()),
            accesses: Mutex::new(Cached::new()),
        }))
    }

    /// The pages, for those who may read them.
    pub fn protect(&self, pages: Router) -> Router {
        pages.layer(from_fn_with_state(self.clone(), admit))
    }

    /// Whether a user may use a verb on a path that is not of a resource.
    pub(crate) async fn allows(&self, user: &User, verb: &str, path: &str) -> Result<bool, ReviewError> {
        let User { username, uid, groups, extra } = user;
        let spec = json!({"user": username, "uid": uid, "groups": groups, "extra": extra,
            "nonResourceAttributes": {"path": path, "verb": verb}});
        let key = Sha256::digest(spec.to_string()).into();
        let decided = || self.0.accesses.lock().decision(&key);
        let review =
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        let status: AccessStatus = match self.reviewed(decided, ACCESS_REVIEWS, &review).await? {
            Reviewed::Cached(decision) => return Ok(decision.is_some()),
            Reviewed::Now(status) => status,
        };
        let decision = (status.allowed && !status.denied).then_some(());
        self.0.accesses.lock().store(key, decision);
        Ok(decision.is_some())
    }

    /// Who has a token; none if the API server does not know it.
    async fn user(&self, token: &str) -> Result<Option<Arc<User>>, ReviewError> {
        // The token itself is not kept.
        let key = Sha256::digest(token).into();
        let decided = || self.0.users.lock().decision(&key);
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let status: TokenStatus = match self.reviewed(decided, TOKEN_REVIEWS, &review).await? {
            Reviewed::Cached(decision) => return Ok(decision),
            Reviewed::Now(status) => status,
        };
        // A user without a name would be reviewed as nobody in particular.
        let user = status.user.filter(|user| status.authenticated && !user.username.is_empty()).map(Arc::new);
        self.0.users.lock().store(key, user.clone());
        Ok(user)
    }

    /// The decision that is known, also after waiting for other reviews; otherwise the status of a new review.
    async fn reviewed<S: for<'a> Deserialize<'a>, D>(
        &self,
        decided: impl Fn() -> Option<D>,
        path: &'static str,
        review: &serde_json::Value,
    ) -> Result<Reviewed<S, D>, ReviewError> {
        if let Some(decision) = decided() {
            return Ok(Reviewed::Cached(decision));
        }
        let reviewed = async {
            // The semaphore is never closed.
            let _permit = self.0.reviews.acquire().await;
            if let Some(decision) = decided() {
                return Ok(Reviewed::Cached(decision));
            }
            let answer = (self.0.post)(path, Bytes::from(review.to_string())).await?;
            let answer: Answer<S> = serde_json::from_slice(&answer)
                .map_err(|_| ReviewError("the API server answered with something else".to_owned()))?;
            Ok(Reviewed::Now(answer.status))
        };
        let late = |_| Err(ReviewError(format!("no answer after {}s", REVIEW_TIMEOUT.as_secs())));
        timeout(REVIEW_TIMEOUT, reviewed).await.unwrap_or_else(late)
    }
}

/// A decision, or the status of a review that decides it.
enum Reviewed<S, D> {
    Cached(D),
    Now(S),
}

#[derive(Deserialize)]
struct Answer<S> {
    status: S,
}

#[derive(Deserialize)]
struct TokenStatus {
    #[serde(default)]
    authenticated: bool,
    user: Option<User>,
}

#[derive(Deserialize)]
struct AccessStatus {
    #[serde(default)]
    allowed: bool,
    #[serde(default)]
    denied: bool,
}

impl<T: Clone> Cached<T> {
    fn new() -> Self {
        Self {
            allowed: Decisions::new(MAX_DECISIONS, ALLOWED_AGE),
            denied: Decisions::new(MAX_DECISIONS, DENIED_AGE),
        }
    }

    fn decision(&self, key: &Key) -> Option<Option<T>> {
        self.allowed.get(key).map(Some).or_else(|| self.denied.get(key).map(|()| None))
    }

    fn store(&mut self, key: Key, decision: Option<T>) {
        match decision {
            Some(value) => self.allowed.insert(key, value),
            None => self.denied.insert(key, ()),
        }
    }
}

async fn admit(State(access): State<AccessControl>, mut request: Request, next: Next) -> Response {
    let user = match bearer_token(request.headers()) {
        None => Ok(None),
        Some(token) => access.user(token).await,
    };
    let user = match user {
        Ok(Some(user)) => user,
        Ok(None) => return (StatusCode::UNAUTHORIZED, "Unauthorized\n").into_response(),
        Err(error) => {
            tracing::warn!(%error, "cannot authenticate a request for a page");
            return (StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed\n").into_response();
        }
    };
    let verb = request.method().as_str().to_ascii_lowercase();
    let name = &user.username;
    match access.allows(&user, &verb, request.uri().path()).await {
        Ok(true) => {}
        Ok(false) => {
            let text = format!("Authorization denied for user {name}\n");
            return (StatusCode::FORBIDDEN, text).into_response();
        }
        Err(error) => {
            tracing::warn!(%error, user = %name, "cannot authorize a request for a page");
            let text = format!("Authorization for user {name} failed\n");
            return (StatusCode::INTERNAL_SERVER_ERROR, text).into_response();
        }
    }
    request.extensions_mut().insert(user);
    next.run(request).await
}

/// The bearer token of a request.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let plausible = !token.is_empty() && token.len() <= MAX_TOKEN_BYTES && !token.contains(' ');
    (scheme.eq_ignore_ascii_case("bearer") && plausible).then_some(token)
}

#[cfg(test)]
mod tests;
