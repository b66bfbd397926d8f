//! Turns bearer tokens into readers: each has a client with its own token, and caches that nobody else sees. Their number is
//! bounded, also for each user.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kross_cluster::{
    ApiError, Audit, ClientOptions, ClusterClient, ClusterId, Credential, Endpoint, KubeconfigPolicy,
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::super::viewer::Viewer;
use crate::access::Decisions;
use crate::read_model::{Hub, RemoteOptions};

const USER_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// Who sends no token, or one that the API server does not know, where it admits such users.
const ANONYMOUS: &str = "system:anonymous";
/// How many tokens may be in use at once.
const MAX_READERS: usize = 64;
/// How many tokens of one user may be in use at once.
const MAX_READERS_OF_USER: usize = 8;
/// How many pages of one token are kept up to date at once.
const MAX_STREAMS: usize = 16;
/// How long a token is remembered that nobody uses.
const UNUSED: Duration = Duration::from_secs(10 * 60);
/// How many new tokens the API server is asked about at once.
const MAX_REVIEWS: usize = 4;
const REVIEW_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a token is refused without asking again.
const REFUSED_AGE: Duration = Duration::from_secs(10);
/// How many refused tokens are remembered.
const MAX_REFUSED: usize = 512;
/// How often the API server is asked whether it still accepts a token.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// How long a token is accepted while the API server does not answer.
const UNCHECKED: Duration = Duration::from_secs(5 * 60);
/// The largest list that is read for a reader.
const MAX_LIST_BYTES: usize = 128 << 20;

/// Why nobody may read with a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// The API server does not accept the token.
    #[error("the API server does not accept the token")]
    Rejected,
    /// The API server cannot be asked.
    #[error("cannot check the token: {0}")]
    Unavailable(String),
}

type Key = [u8; 32];

/// The tokens in use.
pub(super) struct Readers {
    endpoint: Endpoint,
    kubeconfigs: KubeconfigPolicy,
    audit: Audit,
    known: Mutex<HashMap<Key, Known>>,
    refused: Mutex<Decisions<Key, ()>>,
    reviews: Semaphore,
}

struct Known {
    token: Arc<Token>,
    used: Instant,
}

/// A token in use.
pub(crate) struct Token {
    credential: Credential,
    user: String,
    viewer: Viewer,
    /// When the API server accepted it last, and when it was asked last.
    checked: tokio::sync::Mutex<(Instant, Instant)>,
    streams: Arc<Semaphore>,
    ended: AtomicBool,
}

#[derive(Deserialize)]
struct Review {
    status: ReviewStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewStatus {
    user_info: UserInfo,
}

#[derive(Deserialize)]
struct UserInfo {
    #[serde(default)]
    username: String,
}

impl Readers {
    pub(super) fn new(endpoint: Endpoint, kubeconfigs: KubeconfigPolicy, audit: Audit) -> Self {
        Self {
            endpoint,
            audit,
            // A command would run with what the controller may do, for whoever may write a Secret.
            kubeconfigs: KubeconfigPolicy { exec_allow: Vec::new(), exec_env: Vec::new(), ..kubeconfigs },
            known: Mutex::default(),
            refused: Mutex::new(Decisions::new(MAX_REFUSED, REFUSED_AGE)),
            reviews: Semaphore::new(MAX_REVIEWS),
        }
    }

    /// Whoever has a token, if the API server accepts it.
    pub(super) async fn open(&self, token: &str) -> Result<Arc<Token>, Refused> {
        let key: Key = Sha256::digest(token).into();
        if let Some(known) = self.known(&key) {
            return self.check(&key, known).await;
        }
        let begun = async {
            // The semaphore is never closed.
            let _permit = self.reviews.acquire().await;
            match self.known(&key) {
                Some(known) => Ok(known),
                None => self.begin(&key, token).await,
            }
        };
        let late = |_| Err(Refused::Unavailable(format!("no answer after {}s", REVIEW_TIMEOUT.as_secs())));
        timeout(REVIEW_TIMEOUT, begun).await.unwrap_or_else(late)
    }

    /// Forgets a token. Its pages are not kept up to date any more.
    pub(super) fn end(&self, token: &str) {
        let ended = self.known.lock().remove(&Key::from(Sha256::digest(token)));
        if let Some(ended) = ended {
            ended.token.end();
        }
    }

    fn known(&self, key: &Key) -> Option<Arc<Token>> {
        let mut known = self.known.lock();
        let entry = known.get_mut(key)?;
        entry.used = Instant::now();
        Some(Arc::clone(&entry.token))
    }

    async fn check(&self, key: &Key, known: Arc<Token>) -> Result<Arc<Token>, Refused> {
        match known.check().await {
            Ok(()) => Ok(known),
            Err(refused) => {
                if refused == Refused::Rejected {
                    self.known.lock().remove(key);
                }
                Err(refused)
            }
        }
    }

    async fn begin(&self, key: &Key, token: &str) -> Result<Arc<Token>, Refused> {
        if self.refused.lock().get(key).is_some() {
            return Err(Refused::Rejected);
        }
        let unavailable = |error: &dyn std::fmt::Display| Refused::Unavailable(error.to_string());
        let credential = Credential::bearer(token).map_err(|_| Refused::Rejected)?;
        let options = options();
        let client = ClusterClient::new(ClusterId::local(), &self.endpoint, credential.clone(), options)
            .map_err(|error| unavailable(&error))?;
        let user = user(&client).await;
        if user == Err(Refused::Rejected) {
            self.refused.lock().insert(*key, ());
        }
        let user = user?;
        let namespace = client.default_namespace().to_owned();
        let mut hub =
            Hub::discover(client, namespace).await.map_err(|error| unavailable(&error.message()))?;
        let audit = Some((self.audit.clone(), user.clone()));
        hub.remotes = RemoteOptions { kubeconfigs: self.kubeconfigs.clone(), audit };
        let now = Instant::now();
        let begun = Arc::new(Token {
            credential,
            user,
            viewer: Viewer::new(hub),
            checked: tokio::sync::Mutex::new((now, now)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            ended: AtomicBool::new(false),
        });
        self.add(*key, Arc::clone(&begun));
        Ok(begun)
    }

    /// Adds a token, and forgets others if there are too many: of the user with the most, the one that was not used for longest.
    fn add(&self, key: Key, token: Arc<Token>) {
        let mut known = self.known.lock();
        let mut ended: Vec<Known> = known
            .extract_if(|_, entry| entry.used.elapsed() > UNUSED && !entry.token.is_watched())
            .map(|it| it.1)
            .collect();
        let of_user = |known: &HashMap<Key, Known>, user: &str| {
            known.values().filter(|entry| entry.token.user == user).count()
        };
        while known.len() >= MAX_READERS || of_user(&known, &token.user) >= MAX_READERS_OF_USER {
            let full = of_user(&known, &token.user) >= MAX_READERS_OF_USER;
            let candidates = known.iter().filter(|(_, entry)| !full || entry.token.user == token.user);
            let rank = |entry: &Known| (of_user(&known, &entry.token.user), entry.used.elapsed());
            let Some(oldest) = candidates.max_by_key(|(_, entry)| rank(entry)).map(|(key, _)| *key) else {
                break;
            };
            ended.extend(known.remove(&oldest));
        }
        known.insert(key, Known { token, used: Instant::now() });
        drop(known);
        // Outside the lock: this closes connections.
        ended.iter().for_each(|known| known.token.end());
    }
}

impl Token {
    /// Who has it.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn viewer(&self) -> &Viewer {
        &self.viewer
    }

    /// The right to keep a page up to date; none if there are too many.
    pub(crate) fn stream(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.streams).try_acquire_owned().ok()
    }

    fn is_watched(&self) -> bool {
        self.streams.available_permits() < MAX_STREAMS
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.viewer.wake();
    }

    /// Whether the API server still accepts it. It is asked now and then, and at once when a request was rejected.
    pub(super) async fn check(&self) -> Result<(), Refused> {
        if self.ended.load(Ordering::Relaxed) {
            return Err(Refused::Rejected);
        }
        let mut checked = self.checked.lock().await;
        let (accepted, asked) = *checked;
        let is_due = self.credential.take_rejection() || asked.elapsed() >= CHECK_INTERVAL;
        if !is_due {
            return Ok(());
        }
        let late = |_| Err(Refused::Unavailable("the API server does not answer".to_owned()));
        let answer = timeout(REVIEW_TIMEOUT, user(&self.viewer.hub().client)).await.unwrap_or_else(late);
        let now = Instant::now();
        match answer {
            Ok(_) => *checked = (now, now),
            Err(Refused::Rejected) => {
                self.end();
                return Err(Refused::Rejected);
            }
            Err(unavailable) => {
                *checked = (accepted, now);
                if accepted.elapsed() > UNCHECKED {
                    return Err(unavailable);
                }
            }
        }
        Ok(())
    }

    /// The same for a stream, which has nobody to tell why.
    pub(crate) async fn is_accepted(&self) -> bool {
        self.check().await.is_ok()
    }
}

/// Who has the token of a client, as the API server knows it. Empty if the user may not ask that.
async fn user(client: &ClusterClient) -> Result<String, Refused> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = match client.submit(USER_REVIEWS, review.to_string().into()).await {
        Ok(answer) => answer,
        Err(error) => return refusal(&error),
    };
    let review: Review = serde_json::from_slice(&answer)
        .map_err(|_| Refused::Unavailable("the API server answered with something else".to_owned()))?;
    match review.status.user_info.username {
        user if user == ANONYMOUS => Err(Refused::Rejected),
        user => Ok(user),
    }
}

fn refusal(error: &ApiError) -> Result<String, Refused> {
    match error.code() {
        Some(401) => Err(Refused::Rejected),
        // Known, but not allowed to ask for the name. Nobody is forbidden as `system:anonymous`.
        Some(403) if !error.message().contains(ANONYMOUS) => Ok(String::new()),
        Some(403) => Err(Refused::Rejected),
        _ => Err(Refused::Unavailable(error.message().to_owned())),
    }
}

/// Few requests at once for each reader, with short times: pages are read by people.
fn options() -> ClientOptions {
    let mut options = ClientOptions {
        user_agent: format!("kross-dashboard/{}", env!("CARGO_PKG_VERSION")),
        request_timeout: Duration::from_secs(8),
        list_timeout: Duration::from_secs(30),
        max_list: MAX_LIST_BYTES,
        ..ClientOptions::default()
    };
    options.requests.max_streams = 8;
    options.watches.max_streams = 128;
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing answers there, and nothing is asked.
    fn endpoint() -> Endpoint {
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(kross_cluster::crypto_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        Endpoint::new(&"https://127.0.0.1:1".parse().unwrap(), tls, None).unwrap()
    }

    fn readers() -> Readers {
        Readers::new(endpoint(), KubeconfigPolicy::default(), Audit::default())
    }

    fn token(user: &str) -> Arc<Token> {
        let credential = Credential::bearer("x").unwrap();
        let client =
            ClusterClient::new(ClusterId::local(), &endpoint(), credential.clone(), options()).unwrap();
        let hub = Hub { client, namespace: "default".to_owned(), remotes: RemoteOptions::default() };
        let now = Instant::now();
        Arc::new(Token {
            credential,
            user: user.to_owned(),
            viewer: Viewer::new(hub),
            checked: tokio::sync::Mutex::new((now, now)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            ended: AtomicBool::new(false),
        })
    }

    fn key(number: usize) -> Key {
        Sha256::digest(number.to_string()).into()
    }

    #[tokio::test]
    async fn a_user_with_many_tokens_displaces_their_own() {
        let readers = readers();
        let quiet = token("quiet");
        readers.add(key(0), Arc::clone(&quiet));
        let first = token("loud");
        readers.add(key(1), Arc::clone(&first));
        for number in 2..100 {
            readers.add(key(number), token("loud"));
        }
        assert_eq!(readers.known.lock().len(), 1 + MAX_READERS_OF_USER);
        assert!(quiet.is_accepted().await && !first.is_accepted().await);
        // Many users: the one with the most tokens makes room.
        for number in 100..100 + MAX_READERS {
            readers.add(key(number), token(&number.to_string()));
        }
        let known = readers.known.lock();
        assert_eq!(known.len(), MAX_READERS);
        assert!(known.values().filter(|it| it.token.user == "loud").count() <= 1);
    }

    #[tokio::test]
    async fn a_token_keeps_few_pages_up_to_date() {
        let token = token("somebody");
        let mut streams: Vec<_> = (0..MAX_STREAMS).map(|_| token.stream().unwrap()).collect();
        assert!(token.stream().is_none());
        streams.pop();
        assert!(token.stream().is_some());
    }

    #[tokio::test]
    async fn commands_in_kubeconfigs_never_run_for_a_reader() {
        let policy = KubeconfigPolicy {
            exec_allow: vec!["/bin/plugin".parse().unwrap()],
            exec_env: vec!["HOME".to_owned()],
            ..KubeconfigPolicy::default()
        };
        let readers = Readers::new(endpoint(), policy.clone(), Audit::default());
        assert!(readers.kubeconfigs.exec_allow.is_empty() && readers.kubeconfigs.exec_env.is_empty());
        assert_eq!(readers.kubeconfigs.denied, policy.denied);
    }
}
