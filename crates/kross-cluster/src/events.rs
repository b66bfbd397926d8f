//! Records Kubernetes Events in the background. Reporting never waits and never fails: repeated reports are counted,
//! and excess reports are dropped and counted.
//!
//! `kube::runtime::events::Recorder` sends its requests within the call, so a slow API server would delay the reconcile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use kross_api::truncate;
use kross_value::{Object, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior};

use crate::client::ClusterClient;
use crate::discovery::ApiKind;
use crate::leader_election::now_text;
use crate::object::StoredObject;
use crate::supervisor::{Task, catch_async};

mod series;

use series::{Recorded, Repeat, Series};

/// The maximum number of reports that wait to be written.
const QUEUE_CAPACITY: usize = 2048;
/// Writes that run at once.
const CONCURRENT_WRITES: usize = 16;
/// How often the counts of repeated events are written.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);
/// The pause after a panic.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
const MAX_NOTE: usize = 1024;
const MAX_WORD: usize = 128;
const MAX_NAME: usize = 220;

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, unless it is cluster-scoped.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl From<&StoredObject> for Regarding {
    fn from(object: &StoredObject) -> Self {
        Self {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            namespace: object.namespace().map(ToString::to_string),
            name: object.name().to_string(),
            uid: object.uid().to_string(),
        }
    }
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Expected behaviour.
    Normal,
    /// Something that needs attention.
    Warning,
}

/// What an event reports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// The object.
    pub regarding: Regarding,
    /// The type.
    pub severity: Severity,
    /// The reason, in one word.
    pub reason: String,
    /// The action that was attempted, in one word.
    pub action: String,
    /// The message.
    pub note: String,
}

/// Statistics of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventStats {
    /// Written as a new event.
    pub written: u64,
    /// Counted as a repetition of an event.
    pub repeated: u64,
    /// Dropped: too many at once, or too many for one object.
    pub dropped: u64,
    /// Rejected by the cluster, or not delivered.
    pub failed: u64,
}

#[derive(Default)]
struct Counters {
    written: AtomicU64,
    repeated: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// Records events. Clones share the queue.
#[derive(Clone)]
pub struct Events {
    sender: mpsc::Sender<Message>,
    counters: Arc<Counters>,
}

enum Message {
    Report(Box<Report>),
    Flush(oneshot::Sender<()>),
}

impl Events {
    /// Starts to write events as `controller`, from the process `instance`.
    #[must_use]
    pub fn start(client: ClusterClient, controller: &str, instance: &str) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        let counters = Arc::new(Counters::default());
        let writer = Writer {
            kind: ApiKind::custom("events.k8s.io", "v1", "Event", "events", true),
            client,
            controller: controller.to_owned(),
            instance: truncate(instance, MAX_WORD),
            counters: Arc::clone(&counters),
        };
        tokio::spawn(writer.supervise(receiver));
        Self { sender, counters }
    }

    /// Reports something. Returns at once.
    pub fn report(&self, report: Report) {
        if self.sender.try_send(Message::Report(Box::new(report))).is_err() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns when everything reported so far was written or has failed. For shutdown and tests.
    pub async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        if self.sender.send(Message::Flush(done)).await.is_ok() {
            let _ = is_done.await;
        }
    }

    /// Statistics of the reports so far.
    #[must_use]
    pub fn stats(&self) -> EventStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EventStats {
            written: read(&self.counters.written),
            repeated: read(&self.counters.repeated),
            dropped: read(&self.counters.dropped),
            failed: read(&self.counters.failed),
        }
    }
}

struct Writer {
    kind: ApiKind,
    client: ClusterClient,
    controller: String,
    instance: String,
    counters: Arc<Counters>,
}

impl Writer {
    /// Runs until all senders are dropped. After a panic, what was being written is lost, and those who wait for it go on.
    async fn supervise(self, mut receiver: mpsc::Receiver<Message>) {
        while catch_async(Task::Events, self.run(&mut receiver)).await.is_err() {
            tokio::time::sleep(RESTART_PAUSE).await;
        }
    }

    async fn run(&self, receiver: &mut mpsc::Receiver<Message>) {
        let mut series = Series::default();
        let mut ticks = tokio::time::interval(COUNT_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut messages = Vec::with_capacity(CONCURRENT_WRITES);
        loop {
            tokio::select! {
                received = receiver.recv_many(&mut messages, CONCURRENT_WRITES) => {
                    if received == 0 {
                        return self.write_counts(&mut series).await;
                    }
                    self.take(&mut series, &mut messages).await;
                }
                _ = ticks.tick() => self.write_counts(&mut series).await,
            }
        }
    }

    async fn take(&self, series: &mut Series, messages: &mut Vec<Message>) {
        let mut flushed = Vec::new();
        let mut fresh = Vec::new();
        for message in messages.drain(..) {
            match message {
                Message::Flush(done) => flushed.push(done),
                Message::Report(report) => match series.record(&report, Instant::now()) {
                    Recorded::New { name } => fresh.push((report, name)),
                    Recorded::Repeated => drop(self.counters.repeated.fetch_add(1, Ordering::Relaxed)),
                    Recorded::TooMany => drop(self.counters.dropped.fetch_add(1, Ordering::Relaxed)),
                },
            }
        }
        join_all(fresh.iter().map(|(report, name)| self.write(report, name))).await;
        if !flushed.is_empty() {
            self.write_counts(series).await;
        }
        for done in flushed {
            let _ = done.send(());
        }
    }

    async fn write(&self, report: &Report, name: &str) {
        let written = self.client.create(&self.kind, &self.event(report, name), &self.controller).await;
        match written {
            Ok(_) => drop(self.counters.written.fetch_add(1, Ordering::Relaxed)),
            Err(error) => {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(%error, "cannot create event");
            }
        }
    }

    async fn write_counts(&self, series: &mut Series) {
        let repeats = series.repeats(Instant::now());
        let writes = repeats.iter().map(|Repeat { namespace, name, count }| async move {
            let counted =
                Value::object([("count", Value::Int(*count)), ("lastObservedTime", now_text().into())]);
            let patch = Value::object([("series", counted)]);
            let patched = self
                .client
                .merge_patch(&self.kind, Some(namespace), name, None, &self.controller, &patch)
                .await;
            if let Err(error) = patched {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(%error, "cannot update event count");
            }
        });
        join_all(writes).await;
    }

    fn event(&self, report: &Report, name: &str) -> Value {
        let Regarding { api_version, kind, namespace, name: regarding, uid } = &report.regarding;
        let mut reference: Object = [
            ("apiVersion", api_version.as_str().into()),
            ("kind", kind.as_str().into()),
            ("name", regarding.as_str().into()),
            ("uid", uid.as_str().into()),
        ]
        .into_iter()
        .collect();
        if let Some(namespace) = namespace {
            reference.insert("namespace", namespace.as_str().into());
        }
        let metadata = [("name", name.into()), ("namespace", series::namespace(&report.regarding).into())];
        Value::object([
            ("apiVersion", "events.k8s.io/v1".into()),
            ("kind", "Event".into()),
            ("metadata", Value::object(metadata)),
            ("eventTime", now_text().into()),
            ("reportingController", self.controller.as_str().into()),
            ("reportingInstance", self.instance.as_str().into()),
            ("type", format!("{:?}", report.severity).into()),
            ("reason", truncate(&report.reason, MAX_WORD).into()),
            ("action", truncate(&report.action, MAX_WORD).into()),
            ("note", truncate(&report.note, MAX_NOTE).into()),
            ("regarding", reference.into()),
        ])
    }
}
