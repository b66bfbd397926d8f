//! Turns what a graph needs in another cluster into what that cluster has to say about it: the schemas of the kinds, and
//! what we may do with them. Asking is answered at once; the cluster is asked elsewhere, again and again, and whoever
//! asked is woken when there is an answer and when it changes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kross_cluster::{Backoff, Cache, ClusterClient, ClusterId, Lookup, ObjectKey, WorkQueue};
use kross_value::Text;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::graphs::Graphs;
use crate::key::{InstanceKey, Key};

mod documents;
mod needs;
mod permissions;
mod run;
mod site;

pub(crate) use documents::ClusterSchemas;
pub(crate) use needs::{Needs, Place};
pub(crate) use permissions::Denied;

use documents::Documents;
use run::PreflightTask;
use site::Site;

/// How often clusters are asked.
#[derive(Clone, Copy, Debug)]
pub struct PreflightPace {
    /// The time after which a cluster that has all that is needed is asked whether that is still so.
    pub settled: Duration,
    /// The same for a cluster that lacks something.
    pub unsettled: Duration,
    /// The waits after failures.
    pub backoff: Backoff,
    /// After failing for so long a cluster is not asked any more, until somebody wants to know.
    pub give_up: Duration,
}

impl Default for PreflightPace {
    fn default() -> Self {
        Self {
            settled: Duration::from_secs(30),
            unsettled: Duration::from_secs(5),
            backoff: Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(30) },
            give_up: Duration::from_secs(600),
        }
    }
}

/// Who wants to know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Asker {
    /// A definition, by name.
    Definition(Text),
    /// An instance.
    Instance(ObjectKey),
}

/// What a cluster has to say.
#[derive(Clone, Debug)]
pub(crate) enum Survey {
    /// Nothing yet.
    Pending,
    /// It could not be asked; tries go on.
    Failed(Text),
    /// An answer.
    Known(Arc<Findings>),
}

/// An answer of a cluster.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The schemas of the kinds, as far as the cluster has them.
    pub(crate) schemas: Arc<ClusterSchemas>,
    /// What we lack.
    pub(crate) denied: Vec<Denied>,
    /// Who we are over there.
    pub(crate) user: Option<Text>,
}

impl Findings {
    /// Another text when anything is different.
    pub(crate) fn fingerprint(&self) -> &Text {
        self.schemas.fingerprint()
    }

    /// What we lack, in words.
    pub(crate) fn lacking(&self, display: &str) -> Option<String> {
        if self.denied.is_empty() {
            return None;
        }
        let user = self.user.as_deref();
        let user = user.map_or("the kubeconfig's user".to_owned(), |user| format!("user `{user}`"));
        let denied: Vec<String> = self.denied.iter().map(ToString::to_string).collect();
        Some(format!(
            "cluster `{display}`: {user} may not {}; grant it, for example what `kross rbac FILE --remote` prints",
            denied.join(", nor ")
        ))
    }

    fn is_same(&self, other: &Self) -> bool {
        self.fingerprint() == other.fingerprint() && self.denied == other.denied && self.user == other.user
    }
}

/// Whom to wake, and who is still there.
pub(crate) struct Audience {
    pub(crate) definitions: Cache,
    pub(crate) definition_queue: WorkQueue<Key>,
    pub(crate) graphs: Arc<Graphs>,
    pub(crate) instance_queue: WorkQueue<InstanceKey>,
}

impl Audience {
    fn wake(&self, asker: Asker) {
        match asker {
            Asker::Definition(name) => self.definition_queue.add(&Key::Definition(name)),
            Asker::Instance(key) => self.instance_queue.add(&InstanceKey(key)),
        }
    }

    fn is_there(&self, asker: &Asker) -> bool {
        match asker {
            Asker::Definition(name) => self.definitions.get(None, name) != Lookup::Absent,
            Asker::Instance(key) => self.graphs.serving(&key.group, &key.kind).is_some_and(|served| {
                served.instances.get(key.namespace.as_deref(), &key.name) != Lookup::Absent
            }),
        }
    }
}

/// The surveys of all clusters.
pub(crate) struct Preflights {
    pace: PreflightPace,
    audience: Arc<Audience>,
    documents: Arc<Documents>,
    sites: Mutex<HashMap<(ClusterId, Text), Weak<Site>>>,
    running: Arc<Mutex<HashMap<SurveyKey, Arc<State>>>>,
}

/// One cluster, as one credential sees it, and what is needed there.
type SurveyKey = (ClusterId, Text, Arc<Needs>);

/// What is known, and who wants to know more.
struct State {
    answer: Mutex<Answer>,
    /// The latest way to the cluster by which somebody asked: an older one may have been given up meanwhile.
    client: Mutex<ClusterClient>,
    /// Ends a wait.
    again: Notify,
}

struct Answer {
    preflight: Survey,
    askers: HashSet<Asker>,
    /// When somebody last asked.
    asked: Instant,
    /// When a wait was last ended by somebody who asked.
    hurried: Option<Instant>,
}

/// Whoever asks about a cluster that failed makes it be asked again, but no more often than this.
const HURRY: Duration = Duration::from_secs(1);
/// How long somebody who was woken may take to ask again.
const PATIENCE: Duration = Duration::from_secs(60);

impl Preflights {
    pub(crate) fn new(pace: PreflightPace, audience: Audience) -> Self {
        Self {
            pace,
            audience: Arc::new(audience),
            documents: Arc::default(),
            sites: Mutex::default(),
            running: Arc::default(),
        }
    }

    /// What a cluster has to say about what is needed there. Returns at once; the asker is woken when that changes.
    pub(crate) fn ask(&self, client: &ClusterClient, needs: &Arc<Needs>, asker: Asker) -> Survey {
        let key = (client.cluster().clone(), client.access().clone(), Arc::clone(needs));
        let mut running = self.running.lock();
        if let Some(state) = running.get(&key) {
            return state.ask(client, asker);
        }
        let state = Arc::new(State::new(client, asker));
        running.insert(key.clone(), Arc::clone(&state));
        drop(running);
        let site = self.site(client);
        // Half the time between two surveys, so that each of them asks if nobody else does.
        let age = self.pace.unsettled / 2;
        let surveyor = PreflightTask::new(site, Arc::clone(needs), Arc::clone(&self.documents), age);
        let follow = Follow {
            pace: self.pace,
            audience: Arc::clone(&self.audience),
            state,
            key,
            running: Arc::downgrade(&self.running),
        };
        tokio::spawn(follow.run(surveyor));
        Survey::Pending
    }

    /// What is shared by all who ask about a cluster with one credential.
    fn site(&self, client: &ClusterClient) -> Arc<Site> {
        let key = (client.cluster().clone(), client.access().clone());
        let mut sites = self.sites.lock();
        if let Some(known) = sites.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        sites.retain(|_, site| site.strong_count() > 0);
        let site = Arc::new(Site::default());
        sites.insert(key, Arc::downgrade(&site));
        site
    }
}

impl State {
    fn new(client: &ClusterClient, asker: Asker) -> Self {
        let asked = Instant::now();
        let answer =
            Answer { preflight: Survey::Pending, askers: HashSet::from([asker]), asked, hurried: None };
        Self { answer: Mutex::new(answer), client: Mutex::new(client.pinned()), again: Notify::new() }
    }

    fn ask(&self, client: &ClusterClient, asker: Asker) -> Survey {
        let mut known = self.client.lock();
        if client.is_later_than(&known) {
            *known = client.pinned();
        }
        drop(known);
        let mut answer = self.answer.lock();
        answer.askers.insert(asker);
        answer.asked = Instant::now();
        let failed = matches!(answer.preflight, Survey::Failed(_));
        if failed && answer.hurried.is_none_or(|last| last.elapsed() > HURRY) {
            answer.hurried = Some(Instant::now());
            self.again.notify_one();
        }
        answer.preflight.clone()
    }
}

/// The task behind a survey.
struct Follow {
    pace: PreflightPace,
    audience: Arc<Audience>,
    state: Arc<State>,
    key: SurveyKey,
    running: Weak<Mutex<HashMap<SurveyKey, Arc<State>>>>,
}

impl Follow {
    /// Runs until nobody is interested any more.
    async fn run(self, mut surveyor: PreflightTask) {
        let mut failures = 0_u32;
        let mut healthy = Instant::now();
        loop {
            let client = self.state.client.lock().clone();
            let surveyed = surveyor.preflight(&client).await;
            let wait = match surveyed {
                Ok(findings) => {
                    failures = 0;
                    healthy = Instant::now();
                    let settled = findings.denied.is_empty() && findings.schemas.is_complete();
                    self.answer(Survey::Known(Arc::new(findings)));
                    if settled {
                        self.dismiss_instances();
                    }
                    let pace = if settled { self.pace.settled } else { self.pace.unsettled };
                    pace.mul_f64(1.0 + random() / 3.0)
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    tracing::debug!(cluster = %self.key.0, %error, "cannot survey a cluster");
                    self.answer(Survey::Failed(error.to_string().into()));
                    self.pace.backoff.delay(failures, random())
                }
            };
            // Whichever comes first; both are a reason to go on.
            let _ = tokio::time::timeout(wait, self.state.again.notified()).await;
            if self.is_abandoned() || (failures > 0 && healthy.elapsed() > self.pace.give_up) {
                return self.end();
            }
        }
    }

    /// Takes an answer, and wakes whoever asked if it is another one.
    fn answer(&self, preflight: Survey) {
        let mut answer = self.state.answer.lock();
        let same = match (&answer.preflight, &preflight) {
            (Survey::Known(before), Survey::Known(after)) => before.is_same(after),
            (Survey::Failed(before), Survey::Failed(after)) => before == after,
            // What was found out holds until it is known to be different.
            (Survey::Known(_), Survey::Failed(_)) => return,
            _ => false,
        };
        if same {
            return;
        }
        answer.preflight = preflight;
        let askers = std::mem::take(&mut answer.askers);
        drop(answer);
        for asker in askers {
            self.audience.wake(asker);
        }
    }

    /// Instances are content with what fits: there are many of them, and they ask again when they have something to write.
    fn dismiss_instances(&self) {
        self.state.answer.lock().askers.retain(|asker| matches!(asker, Asker::Definition(_)));
    }

    /// Whether nobody who asked is there any more.
    fn is_abandoned(&self) -> bool {
        let mut answer = self.state.answer.lock();
        answer.askers.retain(|asker| self.audience.is_there(asker));
        answer.askers.is_empty() && answer.asked.elapsed() > PATIENCE
    }

    fn end(self) {
        if let Some(running) = self.running.upgrade() {
            running.lock().remove(&self.key);
        }
        // Whoever asked in the last moment asks again.
        for asker in std::mem::take(&mut self.state.answer.lock().askers) {
            self.audience.wake(asker);
        }
    }
}

/// Something in 0..1 that spreads requests; nothing depends on its quality.
#[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
fn random() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(()) >> 11) as f64 / (1_u64 << 53) as f64
}
