//! Leader election with a Lease: one process leads at a time, and stops before another one can take over.
//!
//! `kube` has no leader election, and the crates that do depend on older versions of it. The rules are those of
//! client-go, with the same Lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use kross_value::{Object, Value};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};

use crate::client::ClusterClient;
use crate::discovery::ApiKind;
use crate::error::ApiError;
use crate::fence::{Fence, FenceTime};
use crate::object::StoredObject;

mod candidate;

use candidate::{Candidate, ElectionAction, LeaseRecord};

/// The Lease, and the identity and timing of a candidate.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The identity of this candidate, which must be unique.
    pub identity: String,
    /// How long other candidates wait after the last renewal before they take over.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it stops leading. Must be shorter than the lease duration, or two
    /// candidates could lead at once.
    pub renew_deadline: Duration,
    /// The time between two attempts.
    pub retry_period: Duration,
}

impl LeaseOptions {
    /// A candidate with kro's timing.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// The lease duration as it is written, in whole seconds.
    fn written_duration(&self) -> Duration {
        Duration::from_secs(self.lease_duration.as_secs().max(1))
    }

    /// How long after a renewal this candidate may write: not as long as other candidates wait, so that its last writes
    /// have arrived when they take over.
    fn write_duration(&self) -> Duration {
        self.renew_deadline.min(self.written_duration())
    }
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Not known yet.
    Unknown,
    /// This process.
    Leading,
    /// Another process, or none.
    Standby {
        /// The leader, if it is known.
        leader: Option<String>,
    },
}

/// How often the Lease has changed its holder, as a candidate knows it. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct LeaseTransitions(Arc<AtomicI64>);

impl LeaseTransitions {
    /// The number in the Lease that was read or written last; 0 before.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn observe(&self, record: &LeaseRecord) {
        self.0.store(record.transitions, Ordering::Relaxed);
    }
}

/// The participation of a process in an election. Dropping it ends that, and the Lease expires.
pub struct LeaderElection {
    leadership: watch::Receiver<Leadership>,
    transitions: LeaseTransitions,
    fence: Fence,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
}

impl LeaderElection {
    /// Starts to acquire and renew the Lease. Pass a client of its own if possible, so that renewals do not queue
    /// behind other requests.
    #[must_use]
    pub fn start(client: ClusterClient, options: LeaseOptions) -> Self {
        let (sender, leadership) = watch::channel(Leadership::Unknown);
        let (stop, stopped) = oneshot::channel();
        let (fence, transitions) = (Fence::closed(), LeaseTransitions::default());
        let runner = Runner {
            kind: ApiKind::custom("coordination.k8s.io", "v1", "Lease", "leases", true),
            candidate: Candidate::new(&options),
            client,
            options: Arc::new(options),
            leadership: sender,
            transitions: transitions.clone(),
            fence: fence.clone(),
            known: None,
        };
        let task = tokio::spawn(runner.run(stopped));
        Self { leadership, transitions, fence, stop: Some(stop), task }
    }

    /// Permits writes while this process holds the Lease. For the clients of everything that only the leader may write.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// How often the Lease has changed its holder.
    #[must_use]
    pub fn transitions(&self) -> LeaseTransitions {
        self.transitions.clone()
    }

    /// Who leads, now and whenever it changes.
    #[must_use]
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Whether this process leads.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        *self.leadership.borrow() == Leadership::Leading
    }

    /// Stops participating, and releases the Lease if this process holds it, so that nobody has to wait until it
    /// expires.
    pub async fn resign(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        // The task fails only if it is aborted, which has the same result.
        let _ = (&mut self.task).await;
    }
}

impl Drop for LeaderElection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Runner {
    kind: ApiKind,
    candidate: Candidate,
    client: ClusterClient,
    options: Arc<LeaseOptions>,
    leadership: watch::Sender<Leadership>,
    transitions: LeaseTransitions,
    fence: Fence,
    /// The last known Lease, so that a renewal needs no read.
    known: Option<StoredObject>,
}

impl Runner {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let started = Instant::now();
            // A leader whose request hangs must still stop leading in time.
            let limit = self.candidate.leads_until().unwrap_or(started + self.options.renew_deadline);
            // Not cancelled when the process stops: a write that arrives after that would hold the Lease for nobody.
            let (mut stopping, grace) = (false, self.options.retry_period);
            let tried = {
                let mut try_once = std::pin::pin!(timeout_at(limit, self.try_once(started)));
                tokio::select! {
                    tried = &mut try_once => tried,
                    _ = &mut stopped => {
                        stopping = true;
                        timeout_at(Instant::now() + grace, try_once).await.and_then(|tried| tried)
                    }
                }
            };
            if let Ok(Err(error)) = &tried {
                tracing::warn!(%error, "cannot acquire or renew lease");
            }
            if !matches!(tried, Ok(Ok(()))) {
                // The known Lease may be outdated.
                self.known = None;
            }
            if stopping {
                break;
            }
            self.publish(Instant::now());
            let wake = match self.candidate.leads_until() {
                Some(until) => until.min(Instant::now() + self.options.retry_period),
                None => Instant::now() + self.options.retry_period,
            };
            tokio::select! {
                () = tokio::time::sleep_until(wake) => {}
                _ = &mut stopped => break,
            }
            self.publish(Instant::now());
        }
        let leads = self.candidate.leads(Instant::now());
        // Before the Lease is released: another candidate may take over at once.
        self.fence.close();
        if leads {
            self.leadership.send_replace(Leadership::Standby { leader: None });
            self.release().await;
        }
    }

    fn publish(&mut self, now: Instant) {
        // Its clock also runs while the machine is suspended, unlike that of the runtime.
        if !self.fence.is_open() || !self.candidate.leads(now) {
            self.candidate.stop_leading();
            self.fence.close();
        }
        let leadership = if self.candidate.leads(now) {
            Leadership::Leading
        } else {
            match self.candidate.holder() {
                None if *self.leadership.borrow() == Leadership::Unknown => return,
                leader => Leadership::Standby { leader: leader.map(str::to_owned) },
            }
        };
        self.leadership.send_if_modified(|published| {
            let changed = *published != leadership;
            *published = leadership;
            changed
        });
    }

    async fn try_once(&mut self, started: Instant) -> Result<(), ApiError> {
        let known = match self.known.take() {
            Some(known) if self.candidate.leads(started) => Some(known),
            _ => self.read().await?,
        };
        let record = known.as_ref().map(LeaseRecord::read);
        if let Some(record) = &record {
            self.transitions.observe(record);
        }
        let (now, sent) = (Instant::now(), FenceTime::now());
        let written = match self.candidate.next_action(record.as_ref(), now) {
            ElectionAction::Wait => {
                self.known = known;
                return Ok(());
            }
            ElectionAction::Create => self.write(None, 0).await?,
            ElectionAction::TakeOver { transitions } => self.write(known.as_ref(), transitions).await?,
            ElectionAction::Renew { transitions } => self.write(known.as_ref(), transitions).await?,
        };
        // The time before the request: the API server may have renewed the Lease at any moment since.
        self.candidate.renewed(started);
        self.fence.extend(sent, self.options.write_duration());
        self.transitions.observe(&LeaseRecord::read(&written));
        self.known = Some(written);
        Ok(())
    }

    async fn read(&self) -> Result<Option<StoredObject>, ApiError> {
        let LeaseOptions { namespace, name, .. } = &*self.options;
        match self.client.get(&self.kind, Some(namespace), name).await {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if error.is_object_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, known: Option<&StoredObject>, transitions: i64) -> Result<StoredObject, ApiError> {
        let mut spec = Object::new();
        let now = now_text();
        let renewing =
            known.map(LeaseRecord::read).is_some_and(|record| record.holder == self.options.identity);
        let acquired = known
            .filter(|_| renewing)
            .and_then(|lease| lease.value().at(&["spec", "acquireTime"]))
            .cloned()
            .unwrap_or_else(|| now.as_str().into());
        let seconds = i64::try_from(self.options.written_duration().as_secs()).unwrap_or(i64::MAX);
        spec.insert("holderIdentity", self.options.identity.as_str().into());
        spec.insert("leaseDurationSeconds", Value::Int(seconds));
        spec.insert("acquireTime", acquired);
        spec.insert("renewTime", now.into());
        spec.insert("leaseTransitions", Value::Int(transitions));
        self.put(known, spec).await
    }

    async fn put(&self, known: Option<&StoredObject>, spec: Object) -> Result<StoredObject, ApiError> {
        let LeaseOptions { namespace, name, identity, .. } = &*self.options;
        let mut lease: Object = match known {
            Some(known) => known.value().as_object().cloned().unwrap_or_default(),
            None => {
                let metadata = [("name", name.as_str().into()), ("namespace", namespace.as_str().into())];
                [
                    ("apiVersion", "coordination.k8s.io/v1".into()),
                    ("kind", "Lease".into()),
                    ("metadata", Value::object(metadata)),
                ]
                .into_iter()
                .collect()
            }
        };
        lease.insert("spec", spec.into());
        let lease = Value::Object(lease);
        match known {
            Some(_) => self.client.replace(&self.kind, &lease, None, identity).await,
            None => self.client.create(&self.kind, &lease, identity).await,
        }
    }

    /// Releases the Lease.
    async fn release(&self) {
        let release = async {
            let lease = match &self.known {
                Some(known) => Some(known.clone()),
                None => self.read().await?,
            };
            let Some(lease) = lease else { return Ok(()) };
            let record = LeaseRecord::read(&lease);
            if record.holder != self.options.identity {
                return Ok(());
            }
            let mut spec = Object::new();
            spec.insert("holderIdentity", "".into());
            spec.insert("leaseDurationSeconds", Value::Int(1));
            spec.insert("renewTime", now_text().into());
            spec.insert("acquireTime", now_text().into());
            spec.insert("leaseTransitions", Value::Int(record.transitions));
            self.put(Some(&lease), spec).await.map(drop)
        };
        let limit = Instant::now() + self.options.retry_period;
        if let Ok(Err(error)) = timeout_at(limit, release).await {
            tracing::warn!(%error, "cannot release lease");
        }
    }
}

/// The current time as in the Kubernetes API, with microseconds.
pub(crate) fn now_text() -> String {
    format!("{:.6}", jiff::Timestamp::now())
}
