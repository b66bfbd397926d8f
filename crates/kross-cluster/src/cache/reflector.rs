//! The reflector of a cache: lists, watches from the resource version of the list, resumes the watch after a failure,
//! and lists again when that version has expired. Without a watch it polls.
//!
//! This is not `kube::runtime::watcher`: it shares the compact objects, the work queue's backoff, the per-cluster
//! limits and the audit of this crate, distinguishes a kind that is no longer served from an empty list, and can be
//! woken while it backs off.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use kross_api::{FailureReason, Operation, SyncMode};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::decoder::{Event, Lines};
use super::metadata::{self, MetadataPage};
use super::shared::WriterToken;
use super::sync_policy::SyncMethod;
use super::{CacheKey, CacheOptions, Change, Selection};
use super::{poll, rollback};
use crate::audit::AuditVerb;
use crate::client::{ApiResponse, ClusterClient, PendingAudit};
use crate::client::{Expected, ListProgress, PageSize, Query, Target};
use crate::discovery::{ApiKind, push_encoded};
use crate::error::{ApiError, Attempt, Retry, Status};
use crate::object::StoredObject;
use crate::offload;
use crate::supervisor::Panicked;
use crate::transport::{ResponseBody, TransportError};
use crate::workqueue::Backoff;

/// The server is asked to close a watch after a random time between once and twice this.
const WATCH_TIMEOUT: Duration = Duration::from_secs(300);
/// How long after that a watch counts as dead, for servers that do not close it.
const WATCH_TIMEOUT_GRACE: Duration = Duration::from_secs(30);
/// A watch that was open for this long was healthy: the next failure counts as the first one.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);
/// The longest delay before a watch is resumed that the server closes at once.
const MAX_RESUME_DELAY: Duration = Duration::from_secs(1);
/// The delay before a request that is expected to succeed.
pub(super) const SHORT_DELAY: Duration = Duration::from_millis(100);

/// How a watch ended.
enum WatchEnd {
    /// Normally: resume from the last resource version.
    Resume,
    /// The resource version has expired, or the schema of the kind has changed: list again.
    Expired,
    /// With an error.
    Failed(ApiError),
}

/// What fills a cache.
pub(super) struct Reflector {
    pub(super) writer: WriterToken,
    pub(super) client: ClusterClient,
    pub(super) kind: Arc<ApiKind>,
    /// Limits the lists in this cluster that run at once.
    pub(super) lists: Arc<Semaphore>,
    backoff: Backoff,
    persistent_backoff: Backoff,
    resync_period: Option<Duration>,
    /// When the objects are listed again although nothing has failed.
    resync_at: Option<Instant>,
    failures: u32,
    /// How often in a row a resource version has expired, or a watch was closed, at once.
    interruptions: u32,
    /// Whether the last response was that the kind is not served.
    missing: bool,
    /// An object whose deletion the watch has to report.
    pub(super) missing_object: Option<rollback::MissingObject>,
}

impl Reflector {
    pub(super) fn new(
        writer: WriterToken,
        client: ClusterClient,
        kind: Arc<ApiKind>,
        lists: Arc<Semaphore>,
        options: &CacheOptions,
    ) -> Self {
        let CacheOptions { backoff, persistent_backoff, resync_period, .. } = *options;
        Self {
            writer,
            client,
            kind,
            lists,
            backoff,
            persistent_backoff,
            resync_period,
            resync_at: None,
            failures: 0,
            interruptions: 0,
            missing: false,
            missing_object: None,
        }
    }

    /// Keeps the cache in sync until the task is aborted.
    pub(super) async fn run(mut self, method: SyncMethod) {
        let (version, _permit) = match method {
            SyncMethod::Watch { permit } => (None, permit),
            SyncMethod::Poll { interval, permits } => {
                let (version, permit) = poll::poll(&mut self, interval, permits).await;
                self.writer.set_mode(SyncMode::Watch);
                (Some(version), Some(permit))
            }
        };
        if let Some(version) = version {
            self.watch_from(version).await;
        }
        loop {
            match self.list().await {
                Ok(version) => {
                    self.missing = false;
                    self.watch_from(version).await;
                }
                // The list took so long that the API server has compacted the version of its first pages.
                Err(error) if error.is_expired() => self.pause_interrupted(self.backoff.cap).await,
                Err(error) => self.back_off(&error).await,
            }
        }
    }

    /// Reads a list page by page into the store, and returns its resource version.
    async fn list(&mut self) -> Result<String, ApiError> {
        // The semaphore is never closed.
        let _permit = self.lists.acquire().await;
        self.writer.listing();
        let mut next: Option<String> = None;
        let mut version = String::new();
        let mut size = PageSize::of(&self.kind);
        let mut progress = self.client.list_progress();
        loop {
            let page = self.page(next.as_deref(), &mut size, &mut progress).await?;
            if next.is_none() {
                version = page.resource_version;
                self.writer.change(|store| {
                    store.begin_list(version.parse().ok());
                    None::<Change>
                });
            }
            self.writer.dropped(page.dropped);
            self.writer.load().wait_until_received().await;
            self.writer.change(|store| {
                page.items.into_iter().filter_map(|object| store.listed(object)).collect::<Vec<_>>()
            });
            self.check_load()?;
            next = page.next;
            if next.is_none() {
                // A resync in which nothing changed concerns nobody.
                self.writer.synced(!self.is_resync_due());
                return Ok(version);
            }
        }
    }

    pub(super) async fn page(
        &self,
        next: Option<&str>,
        size: &mut PageSize,
        progress: &mut ListProgress,
    ) -> Result<crate::ObjectList, ApiError> {
        let selection = &self.writer.key().selection;
        let (labels, fields) = (selection.labels(), selection.fields());
        let query = Query { labels: labels.as_deref(), fields: fields.as_deref() };
        self.client.list_page(&self.kind, selection.namespace(), &query, next, size, progress).await
    }

    pub(super) async fn metadata_page(
        &self,
        next: Option<&str>,
        size: &mut PageSize,
        progress: &mut ListProgress,
    ) -> Result<MetadataPage, ApiError> {
        let selection = &self.writer.key().selection;
        let (labels, fields) = (selection.labels(), selection.fields());
        let query = Query { labels: labels.as_deref(), fields: fields.as_deref() };
        self.metadata_list(selection.namespace(), &query, next, size, progress).await
    }

    /// A list of the metadata of one object.
    pub(super) async fn metadata_of(&self, object: &StoredObject) -> Result<MetadataPage, ApiError> {
        let field = format!("metadata.name={}", object.name());
        let labels = self.writer.key().selection.labels();
        let query = Query { labels: labels.as_deref(), fields: Some(&field) };
        let namespace = object.namespace().map(|namespace| &**namespace);
        let mut progress = self.client.list_progress();
        self.metadata_list(namespace, &query, None, &mut PageSize::ONE.clone(), &mut progress).await
    }

    async fn metadata_list(
        &self,
        namespace: Option<&str>,
        query: &Query<'_>,
        next: Option<&str>,
        size: &mut PageSize,
        progress: &mut ListProgress,
    ) -> Result<MetadataPage, ApiError> {
        let page =
            self.client.list_page_as(&self.kind, namespace, query, next, size, metadata::ACCEPT).await?;
        let bytes = page.len();
        let unreadable = || {
            let problem = "cannot parse the metadata list";
            ApiError::new(self.attempt(), FailureReason::ServerError, problem)
        };
        let page = offload::parse(page, MetadataPage::read).await.map_err(|_| unreadable())?;
        let mut page = page.map_err(|_| unreadable())?;
        let all = page.items.len();
        self.client.add_page(&self.kind, namespace, progress, (bytes, all, page.next.as_deref()))?;
        let expected = Expected::new(&self.kind, namespace, query);
        page.items.retain(|item| item.matches(&expected));
        self.client.count_unexpected(&self.kind, all - page.items.len());
        Ok(page)
    }

    /// Whether it is time to list although nothing has failed.
    fn is_resync_due(&self) -> bool {
        self.resync_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Watches from a resource version until it has expired, the kind is not served, or a resync is due.
    async fn watch_from(&mut self, mut version: String) {
        let period = self.resync_period.map(|period| period.mul_f64(1.0 + fastrand::f64() / 10.0));
        self.resync_at = period.map(|period| Instant::now() + period);
        let mut interrupted = false;
        self.missing_object = None;
        loop {
            if interrupted {
                match self.has_rolled_back().await {
                    Ok(false) => {}
                    Ok(true) => return,
                    Err(error) => {
                        self.back_off(&error).await;
                        if error.missing().is_some() {
                            return;
                        }
                        continue;
                    }
                }
            }
            let started = Instant::now();
            let timeout = WATCH_TIMEOUT.mul_f64(1.0 + fastrand::f64());
            let end = self.watch_once(&mut version, timeout).await;
            interrupted =
                matches!(end, WatchEnd::Failed(_)) || rollback::is_interruption(timeout, started.elapsed());
            if started.elapsed() > HEALTHY_AFTER {
                (self.failures, self.interruptions) = (0, 0);
            }
            match end {
                WatchEnd::Resume if self.writer.relist().is_due() => {
                    self.pause(SHORT_DELAY).await;
                    return;
                }
                WatchEnd::Resume if self.is_resync_due() => return,
                // Do not hammer a server that closes every watch at once.
                WatchEnd::Resume if started.elapsed() < HEALTHY_AFTER => {
                    self.pause_interrupted(MAX_RESUME_DELAY).await;
                }
                WatchEnd::Resume => {}
                // A server could let every version expire at once.
                WatchEnd::Expired => {
                    self.pause_interrupted(self.backoff.cap).await;
                    return;
                }
                WatchEnd::Failed(error) => {
                    self.back_off(&error).await;
                    // Whether the kind is still served, the next list finds out.
                    let is_list_due = self.writer.relist().is_due() || self.is_resync_due();
                    if error.missing().is_some() || error.is_too_large() || is_list_due {
                        return;
                    }
                }
            }
        }
    }

    async fn watch_once(&mut self, version: &mut String, timeout: Duration) -> WatchEnd {
        let deadline = Instant::now() + timeout + WATCH_TIMEOUT_GRACE;
        let deadline = self.resync_at.map_or(deadline, |resync| resync.min(deadline));
        let pending = self.begin_audit(AuditVerb::Watch);
        let response = match self.client.open_watch(self.watch_path(version, timeout)).await {
            Ok(response) => response,
            Err(error) => {
                let failure = ApiError::from_transport(self.attempt(), &error);
                match error {
                    // Nothing was sent: the circuit breaker rejects every attempt while the cluster is unreachable.
                    TransportError::NotConnected { .. } | TransportError::Closed => pending.discard(),
                    _ => pending.finish_with(None, Some(failure.reason())),
                }
                return WatchEnd::Failed(failure);
            }
        };
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            let (end, reason) = self.refused(head.status, head.headers, body).await;
            pending.finish_with(None, Some(reason));
            return end;
        }
        pending.finish_with(None, None);
        self.writer.live();
        self.read(body, deadline, version).await
    }

    async fn read(&self, mut body: ResponseBody, deadline: Instant, version: &mut String) -> WatchEnd {
        let mut lines = Lines::default();
        let expected = self.expected();
        loop {
            let chunk = tokio::select! {
                chunk = timeout_at(deadline, body.chunk()) => chunk,
                () = self.writer.relist().overdue() => return WatchEnd::Expired,
                () = self.unreported_deletion() => {
                    self.roll_back();
                    return WatchEnd::Expired;
                }
            };
            let chunk = match chunk {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) | Err(_) => return WatchEnd::Resume,
                // A connection that breaks under a healthy watch does not mean that the cluster is unreachable: resume
                // at once.
                Ok(Err(TransportError::Broken { .. })) if body.age() > HEALTHY_AFTER => {
                    return WatchEnd::Resume;
                }
                Ok(Err(error)) => return WatchEnd::Failed(ApiError::from_transport(self.attempt(), &error)),
            };
            if lines.push(&chunk).is_err() {
                let problem = "an event of the watch is too long";
                return WatchEnd::Failed(ApiError::new(self.attempt(), FailureReason::ServerError, problem));
            }
            while let Some(line) = lines.next() {
                self.writer.load().admit(line.len()).await;
                if let Some(end) = self.event(line.freeze(), version, &expected).await {
                    return end;
                }
            }
        }
    }

    /// Drops the content of the cache if the caches of the cluster exceed their limit.
    ///
    /// # Errors
    /// They do.
    pub(super) fn check_load(&self) -> Result<(), ApiError> {
        let Some(limit) = self.writer.load().exceeded() else { return Ok(()) };
        self.writer.forget();
        let problem = format!(
            "the objects of the cluster exceed the {} MiB that may be cached of it (`--cluster-max-cache-size`)",
            limit >> 20
        );
        Err(ApiError::over_limit(self.attempt(), &problem))
    }

    /// The objects that the requests of this cache ask for.
    fn expected(&self) -> Expected {
        let selection = &self.writer.key().selection;
        let (labels, fields) = (selection.labels(), selection.fields());
        let query = Query { labels: labels.as_deref(), fields: fields.as_deref() };
        Expected::new(&self.kind, selection.namespace(), &query)
    }

    /// Applies an event. Returns how the watch ended if this was its last one.
    async fn event(&self, line: Bytes, version: &mut String, expected: &Expected) -> Option<WatchEnd> {
        // A line that cannot be parsed is skipped, for whatever reason.
        match offload::parse(line, Event::read).await.ok().flatten() {
            Some(Ok(Event::Applied(object))) if !expected.matches(&object) => {
                self.client.count_unexpected(&self.kind, 1);
            }
            Some(Ok(Event::Deleted(object))) if !expected.is_within_reach(&object) => {
                self.client.count_unexpected(&self.kind, 1);
            }
            Some(Ok(Event::Applied(object))) => {
                version.clear();
                version.push_str(object.resource_version());
                self.writer.change(|store| store.applied(*object));
                if let Err(error) = self.check_load() {
                    return Some(WatchEnd::Failed(error));
                }
            }
            Some(Ok(Event::Deleted(object))) => {
                version.clear();
                version.push_str(object.resource_version());
                self.writer.change(|store| store.deleted(&object));
            }
            Some(Ok(Event::Bookmark(reached))) => {
                self.writer.change(|store| {
                    store.advance(reached.parse().ok());
                    None::<Change>
                });
                *version = reached;
            }
            Some(Ok(Event::Failed(status))) => return Some(self.end_of(*status)),
            Some(Ok(Event::Unknown)) => {}
            // Not even its name can be read, so it cannot be stored. It must not stop the others.
            Some(Err(error)) => self.client.count_unreadable(&self.kind, &error),
            None => self.client.count_unreadable(&self.kind, &"it is not a watch event"),
        }
        None
    }

    /// How an `ERROR` event ends the watch.
    fn end_of(&self, status: Status) -> WatchEnd {
        let code = status.code().and_then(|code| StatusCode::from_u16(code).ok());
        let code = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let error = ApiError::from_status(self.attempt(), code, Some(status), None);
        if error.is_expired() { WatchEnd::Expired } else { WatchEnd::Failed(error) }
    }

    /// How a response that is not 200 ends the watch, and its reason for the audit record.
    async fn refused(
        &self,
        status: StatusCode,
        headers: http::HeaderMap,
        body: ResponseBody,
    ) -> (WatchEnd, FailureReason) {
        /// A `Status` is short.
        const LIMIT: usize = 1 << 20;
        let read =
            timeout_at(Instant::now() + WATCH_TIMEOUT_GRACE, body.read_all(LIMIT, WATCH_TIMEOUT_GRACE)).await;
        let body = read.ok().and_then(Result::ok).unwrap_or_default();
        let namespace = self.writer.key().selection.namespace();
        let target = Target { kind: &self.kind, namespace, name: "", operation: Operation::Watch };
        let response = ApiResponse { status, headers, body, foreign: false };
        let error = self.client.response_error(&target, self.attempt(), &response);
        let reason = error.reason();
        (if error.is_expired() { WatchEnd::Expired } else { WatchEnd::Failed(error) }, reason)
    }

    /// Resets the backoff after a success.
    pub(super) fn recovered(&mut self) {
        self.missing = false;
        (self.failures, self.interruptions) = (0, 0);
    }

    /// Reports a failure and waits before the next attempt.
    pub(super) async fn back_off(&mut self, error: &ApiError) {
        tracing::debug!(cache = %self.writer.key(), %error, "cannot sync cache");
        // Discovery has said twice that the kind is not served, so its objects were deleted.
        let missing = error.is_kind_not_served();
        if missing && self.missing {
            self.writer.change(super::store::Store::clear);
        }
        self.missing = missing;
        self.writer.failed(error);
        self.failures = self.failures.saturating_add(1);
        let wait = match error.retry() {
            Retry::After(wait) => wait.max(self.backoff.delay(self.failures, fastrand::f64())),
            Retry::Backoff => self.backoff.delay(self.failures, fastrand::f64()),
            Retry::WhenChanged => self.persistent_backoff.delay(self.failures, fastrand::f64()),
        };
        self.pause(wait).await;
    }

    /// Waits before the next attempt after an interruption that is no failure by itself, longer each time.
    pub(super) async fn pause_interrupted(&mut self, longest: Duration) {
        self.interruptions = self.interruptions.saturating_add(1);
        let wait = self.backoff.delay(self.interruptions, fastrand::f64());
        self.pause(wait.min(longest)).await;
    }

    pub(super) async fn pause(&self, wait: Duration) {
        // Either the delay is over, or somebody called `retry`.
        let _ = tokio::time::timeout(wait, self.writer.retry().notified()).await;
    }

    fn watch_path(&self, version: &str, timeout: Duration) -> String {
        let selection = &self.writer.key().selection;
        let mut path = self.kind.collection_path(selection.namespace());
        path.push_str("?watch=true&allowWatchBookmarks=true&timeoutSeconds=");
        path.push_str(&timeout.as_secs().to_string());
        path.push_str("&resourceVersion=");
        push_encoded(&mut path, version);
        let (labels, fields) = (selection.labels(), selection.fields());
        Query { labels: labels.as_deref(), fields: fields.as_deref() }.push(&mut path);
        path
    }

    /// Begins the audit record of a request for the objects of this cache.
    pub(super) fn begin_audit(&self, verb: AuditVerb) -> PendingAudit {
        let name = match &self.writer.key().selection {
            Selection::Name { name, .. } => name,
            Selection::All | Selection::Managed | Selection::Labels { .. } => "",
        };
        self.client.begin_audit(verb, &self.kind, self.writer.key().selection.namespace(), name)
    }

    fn attempt(&self) -> Attempt {
        self.writer.attempt()
    }
}

impl WriterToken {
    /// Called when the reflector has panicked: nothing keeps the cache in sync until the next one has listed.
    pub(super) fn panicked(&self) {
        self.failed(&ApiError::new(self.attempt(), FailureReason::ServerError, &Panicked.to_string()));
    }

    fn attempt(&self) -> Attempt {
        let CacheKey { cluster, kind, selection, .. } = self.key();
        let target = format!("{kind} ({selection})");
        Attempt { cluster: cluster.clone(), operation: Operation::Watch, target }
    }
}
