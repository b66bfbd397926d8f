//! The keys that seal the cookies of sessions. All replicas read them from one Secret, so that each accepts the cookies of the
//! others; the first replica that finds none, or an old one, writes a new key.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{Timestamp, ToSpan};
use kross_api::managers;
use kross_cluster::{ApiError, ApiKind, ClusterClient, StoredObject};
use kross_value::Value;
use parking_lot::RwLock;
use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

/// The length of a key.
const KEY_BYTES: usize = 32;
/// How often the Secret is read while its key is in use.
const INTERVAL: Duration = Duration::from_secs(60);
/// How often it is read at most, for cookies of a key that is not known.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long reading and writing it may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many days a key seals cookies. It opens them for as long again.
const KEY_DAYS: i64 = 30;

const CURRENT: &str = "key";
const PREVIOUS: &str = "previous-key";
const SINCE: &str = "since";

/// Where the keys of sessions are kept: a Secret, and the client that reads and writes it.
#[derive(Clone, Debug)]
pub struct SessionSecret {
    /// A client with the right to get and patch the Secret.
    pub client: ClusterClient,
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub name: String,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    /// The Secret cannot be read or written.
    #[error("cannot keep the key of sessions in Secret `{namespace}/{name}`")]
    Secret {
        namespace: String,
        name: String,
        #[source]
        source: Box<ApiError>,
    },
    /// The API server did not answer in time.
    #[error("the API server did not answer within {}s", TIMEOUT.as_secs())]
    Late,
    /// The system has no random numbers.
    #[error("the system has no random numbers for the key of sessions")]
    NoRandomNumbers,
}

/// A key, and what names it in cookies.
pub(super) struct Key {
    pub(super) id: [u8; 4],
    pub(super) aead: LessSafeKey,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

/// The keys in use.
#[derive(Clone)]
struct Ring {
    current: Arc<Key>,
    previous: Option<Arc<Key>>,
    since: Timestamp,
}

/// The keys of sessions.
pub(super) struct SessionKeys {
    secret: Option<SessionSecret>,
    ring: RwLock<Option<Ring>>,
    /// When the Secret was read last.
    read: Mutex<Option<Instant>>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl Key {
    fn new(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Option<Arc<Self>> {
        let aead = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes.as_slice()).ok()?);
        let digest = Sha256::digest(bytes.as_slice());
        let id = digest.first_chunk().copied()?;
        Some(Arc::new(Self { id, aead, bytes }))
    }

    fn random() -> Result<Arc<Self>, KeyError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        SystemRandom::new().fill(bytes.as_mut_slice()).map_err(|_| KeyError::NoRandomNumbers)?;
        Self::new(bytes).ok_or(KeyError::NoRandomNumbers)
    }
}

impl Ring {
    fn random(previous: Option<Arc<Key>>) -> Result<Self, KeyError> {
        Ok(Self { current: Key::random()?, previous, since: Timestamp::now() })
    }

    /// Reads the data of a Secret; none if it has no key.
    fn read(secret: &Value) -> Option<Self> {
        let bytes = |name: &str| {
            let encoded = secret.at(&["data", name])?.as_str()?;
            STANDARD.decode(encoded).ok().map(Zeroizing::new)
        };
        let key =
            |name: &str| Key::new(Zeroizing::new(<[u8; KEY_BYTES]>::try_from(bytes(name)?.as_slice()).ok()?));
        let since = String::from_utf8(bytes(SINCE)?.to_vec()).ok()?.parse().ok()?;
        Some(Self { current: key(CURRENT)?, previous: key(PREVIOUS), since })
    }

    fn data(&self) -> Value {
        let encoded = |key: &Key| Value::from(STANDARD.encode(key.bytes.as_slice()));
        Value::object([
            (CURRENT, encoded(&self.current)),
            (PREVIOUS, self.previous.as_deref().map_or(Value::Null, encoded)),
            (SINCE, STANDARD.encode(self.since.to_string()).into()),
        ])
    }

    fn is_due(&self) -> bool {
        let age = (24 * KEY_DAYS).hours();
        self.since.checked_add(age).is_ok_and(|due| due < Timestamp::now())
    }

    fn find(&self, id: [u8; 4]) -> Option<Arc<Key>> {
        [Some(&self.current), self.previous.as_ref()].into_iter().flatten().find(|key| key.id == id).cloned()
    }
}

impl SessionKeys {
    /// The keys in a Secret; without one, a key of this process that nobody else has.
    pub(super) fn new(secret: Option<SessionSecret>) -> Result<Self, KeyError> {
        let own = if secret.is_none() { Some(Ring::random(None)?) } else { None };
        Ok(Self { secret, ring: RwLock::new(own), read: Mutex::default() })
    }

    /// The key that seals new cookies.
    pub(super) async fn current(&self) -> Result<Arc<Key>, KeyError> {
        let read = self.refresh(INTERVAL).await;
        match (self.ring.read().clone(), read) {
            // The one that was read last, while the Secret cannot be read.
            (Some(ring), _) => Ok(ring.current),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(KeyError::Late),
        }
    }

    /// The key of a cookie; none if it is not in use any more, or not one of ours.
    pub(super) async fn find(&self, id: [u8; 4]) -> Option<Arc<Key>> {
        let known = |keys: &Self| keys.ring.read().as_ref().and_then(|ring| ring.find(id));
        if let Some(known) = known(self) {
            return Some(known);
        }
        // Another replica may have written it just now.
        if let Err(error) = self.refresh(SHORTEST_INTERVAL).await {
            tracing::warn!(error = %error, "cannot read the keys of dashboard sessions");
        }
        known(self)
    }

    /// Reads the Secret unless that was done recently, and writes a key if there is none or it is due.
    async fn refresh(&self, interval: Duration) -> Result<(), KeyError> {
        let Some(secret) = &self.secret else { return Ok(()) };
        let mut read = self.read.lock().await;
        let interval = if self.ring.read().is_some() { interval } else { SHORTEST_INTERVAL };
        if read.is_some_and(|read| read.elapsed() < interval) {
            return Ok(());
        }
        *read = Some(Instant::now());
        let ring = timeout(TIMEOUT, secret.ring()).await.map_err(|_| KeyError::Late)??;
        *self.ring.write() = Some(ring);
        Ok(())
    }
}

impl SessionSecret {
    async fn ring(&self) -> Result<Ring, KeyError> {
        let failed = |source| KeyError::Secret {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            source: Box::new(source),
        };
        loop {
            let found = match self.client.get(&secrets(), Some(&self.namespace), &self.name).await {
                Ok(found) => Some(found),
                Err(error) if error.is_object_not_found() => None,
                Err(error) => return Err(failed(error)),
            };
            let stored = found.as_ref().and_then(|found| Ring::read(found.value()));
            let due = match stored {
                Some(stored) if !stored.is_due() => return Ok(stored),
                Some(stored) => Ring::random(Some(stored.current))?,
                None => Ring::random(None)?,
            };
            match self.write(found.as_ref(), &due).await {
                Ok(()) => {
                    tracing::info!(
                        namespace = self.namespace,
                        name = self.name,
                        "wrote a key of dashboard sessions"
                    );
                    return Ok(due);
                }
                // Another replica was first: its key counts.
                Err(error) if error.code() == Some(409) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    async fn write(&self, existing: Option<&StoredObject>, ring: &Ring) -> Result<(), ApiError> {
        let Self { client, namespace, name } = self;
        let Some(existing) = existing else {
            let metadata =
                Value::object([("name", name.as_str().into()), ("namespace", namespace.as_str().into())]);
            let object = Value::object([
                ("apiVersion", "v1".into()),
                ("kind", "Secret".into()),
                ("metadata", metadata),
                ("data", ring.data()),
            ]);
            client.create(&secrets(), &object, managers::DASHBOARD).await?;
            return Ok(());
        };
        let metadata = Value::object([("resourceVersion", existing.resource_version().clone().into())]);
        let patch = Value::object([("metadata", metadata), ("data", ring.data())]);
        client.merge_patch(&secrets(), Some(namespace), name, None, managers::DASHBOARD, &patch).await?;
        Ok(())
    }
}

fn secrets() -> ApiKind {
    ApiKind::custom("", "v1", "Secret", "secrets", true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_survive_in_a_secret_and_are_replaced_in_time() {
        let mut ring = Ring::random(Some(Key::random().unwrap())).unwrap();
        let secret = Value::object([("data", ring.data())]);
        let read = Ring::read(&secret).unwrap();
        assert_eq!((read.current.id, read.since), (ring.current.id, ring.since));
        let previous = ring.previous.as_ref().unwrap().id;
        assert!(read.find(previous).is_some() && read.find([0; 4]).is_none() && !read.is_due());
        ring.since = Timestamp::now() - (24 * KEY_DAYS + 1).hours();
        assert!(ring.is_due());
        for broken in
            [Value::object([]), Value::object([("data", Value::object([(CURRENT, "eA==".into())]))])]
        {
            assert!(Ring::read(&broken).is_none());
        }
    }

    #[tokio::test]
    async fn without_a_secret_a_process_has_a_key_of_its_own() {
        let [one, other] = [(); 2].map(|()| SessionKeys::new(None).unwrap());
        let id = one.current().await.unwrap().id;
        assert!(one.find(id).await.is_some() && other.find(id).await.is_none());
        assert!(!format!("{:?}", one.current().await.unwrap()).contains(&format!("{id:?}")));
    }
}
