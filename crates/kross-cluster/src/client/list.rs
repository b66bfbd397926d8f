//! Lists: read page by page, until the last page or until they exceed a bound.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use kross_api::{FailureReason, Operation};
use tokio::time::{Instant, sleep};

use super::expected::Expected;
use super::{ApiRequest, ClientOptions, ClusterClient, JSON, PageSize, Query, Target, nameless};
use crate::audit::AuditVerb;
use crate::discovery::{ApiKind, push_encoded};
use crate::error::ApiError;
use crate::object::{ObjectList, StoredObject, read_list};
use crate::offload;
use crate::workqueue::Backoff;

/// A list with more pages is given up.
const MAX_PAGES: usize = 4000;
/// The same for pages that have no objects and are not the last one.
const MAX_EMPTY_PAGES: usize = 100;
/// A list may take this many times as long as one page.
const MAX_PAGE_TIMES: u32 = 20;
/// How often a list is started again when it expires while it is read.
const MAX_ATTEMPTS: u32 = 3;
/// The pauses before that.
const EXPIRED: Backoff = Backoff { base: Duration::from_millis(100), cap: Duration::from_secs(2) };

/// The pages of a list that were read so far. A hostile server can go on for ever.
#[derive(Debug)]
pub(crate) struct ListProgress {
    until: Instant,
    max_time: Duration,
    max_bytes: usize,
    pages: usize,
    empty_pages: usize,
    bytes: usize,
    tokens: HashSet<String>,
}

impl ListProgress {
    fn new(options: &ClientOptions) -> Self {
        let max_time = options.list_timeout.saturating_mul(MAX_PAGE_TIMES);
        Self {
            until: Instant::now() + max_time,
            max_time,
            max_bytes: options.max_list,
            pages: 0,
            empty_pages: 0,
            bytes: 0,
            tokens: HashSet::new(),
        }
    }

    /// Adds a page.
    ///
    /// # Errors
    /// The list exceeds a bound.
    fn add(&mut self, bytes: usize, objects: usize, next: Option<&str>) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.max_bytes {
            return Err(format!("the list is larger than {} bytes", self.max_bytes));
        }
        let Some(next) = next else { return Ok(()) };
        self.pages += 1;
        self.empty_pages += usize::from(objects == 0);
        if !self.tokens.insert(next.to_owned()) {
            return Err("the list repeats a `continue` token".to_owned());
        }
        if self.pages >= MAX_PAGES {
            return Err(format!("the list has more than {MAX_PAGES} pages"));
        }
        if self.empty_pages > MAX_EMPTY_PAGES {
            return Err(format!("the list has more than {MAX_EMPTY_PAGES} pages without objects"));
        }
        if Instant::now() > self.until {
            return Err(format!("the list takes longer than {}s", self.max_time.as_secs()));
        }
        Ok(())
    }
}

impl ClusterClient {
    /// Lists the objects that match a label selector, in one namespace or in all.
    ///
    /// # Errors
    /// One of them cannot be read, or the cluster rejects the request or does not answer.
    pub async fn list(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Result<Vec<StoredObject>, ApiError> {
        let listed = self.list_with_outlines(kind, namespace, selector).await?;
        listed.into_iter().map(|object| self.readable_item(kind, &object).map(|()| object)).collect()
    }

    /// Fails if an object of a list is an outline.
    pub(super) fn readable_item(&self, kind: &ApiKind, object: &StoredObject) -> Result<(), ApiError> {
        let Some(error) = object.unreadable() else { return Ok(()) };
        let (namespace, name) = (object.namespace().map(|namespace| &**namespace), object.name());
        let target = Target { kind, namespace, name, operation: Operation::Get };
        Err(ApiError::unreadable(target.attempt(self), error))
    }

    /// Like [`ClusterClient::list`], with the outlines of objects that cannot be read ([`StoredObject::unreadable`]).
    ///
    /// # Errors
    /// Not even the name of one of them can be read, or the cluster rejects the request or does not answer.
    pub async fn list_with_outlines(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Result<Vec<StoredObject>, ApiError> {
        let query = Query { labels: selector, ..Query::default() };
        let pending = self.begin_audit(AuditVerb::List, kind, namespace, "");
        let mut attempts = 1;
        let listed = loop {
            match self.list_pages(kind, namespace, &query).await {
                // The list took so long that the API server has compacted the version of its first pages.
                Err(error) if error.is_expired() && attempts < MAX_ATTEMPTS => {
                    sleep(EXPIRED.delay(attempts, fastrand::f64())).await;
                    attempts += 1;
                }
                listed => break listed,
            }
        };
        pending.finish(&listed);
        listed
    }

    async fn list_pages(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        query: &Query<'_>,
    ) -> Result<Vec<StoredObject>, ApiError> {
        let mut items = Vec::new();
        let mut next = None;
        let mut size = PageSize::of(kind);
        let mut progress = self.list_progress();
        loop {
            let page =
                self.list_page(kind, namespace, query, next.as_deref(), &mut size, &mut progress).await?;
            // An object that is missing here may be one of them.
            if page.dropped > 0 {
                let target = Target { kind, namespace, name: "", operation: Operation::Get };
                let problem = nameless(page.dropped);
                return Err(ApiError::new(target.attempt(self), FailureReason::ServerError, &problem));
            }
            items.extend(page.items);
            next = page.next;
            if next.is_none() {
                return Ok(items);
            }
        }
    }

    /// The bounds of a list that begins.
    pub(crate) fn list_progress(&self) -> ListProgress {
        ListProgress::new(self.options())
    }

    /// Adds a page to the progress of a list.
    ///
    /// # Errors
    /// The list exceeds a bound.
    pub(crate) fn add_page(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        progress: &mut ListProgress,
        (bytes, objects, next): (usize, usize, Option<&str>),
    ) -> Result<(), ApiError> {
        progress.add(bytes, objects, next).map_err(|problem| {
            let target = Target { kind, namespace, name: "", operation: Operation::Get };
            ApiError::over_limit(target.attempt(self), &problem)
        })
    }

    /// A page of a list. Objects that do not match the request are left out.
    pub(crate) async fn list_page(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        query: &Query<'_>,
        next: Option<&str>,
        size: &mut PageSize,
        progress: &mut ListProgress,
    ) -> Result<ObjectList, ApiError> {
        let body = self.list_page_as(kind, namespace, query, next, size, JSON).await?;
        let attempt = || Target { kind, namespace, name: "", operation: Operation::Get }.attempt(self);
        let (bytes, api_version, name) = (body.len(), kind.api_version(), kind.kind.clone());
        let page = offload::parse(body, move |bytes| read_list(bytes, &api_version, &name)).await.map_err(
            |panicked| ApiError::new(attempt(), FailureReason::ServerError, &panicked.to_string()),
        )?;
        let mut page = page.map_err(|error| ApiError::unreadable(attempt(), &error))?;
        if let Some(other) = self.other_kind_of(&page, kind) {
            let problem = format!("the response is the list of another kind, {other}");
            return Err(ApiError::unexpected_response(attempt(), &problem));
        }
        // API servers always say as of which version nothing exists.
        if page.items.is_empty() && page.resource_version.is_empty() {
            let problem = "the list has neither objects nor a resource version";
            return Err(ApiError::unexpected_response(attempt(), problem));
        }
        let all = page.items.len();
        self.add_page(kind, namespace, progress, (bytes, all, page.next.as_deref()))?;
        let expected = Expected::new(kind, namespace, query);
        page.items.retain(|object| expected.matches(object));
        self.count_unexpected(kind, all - page.items.len());
        Ok(page)
    }

    /// The kind whose list a page is, if that is another one that the cluster serves: such a list proves nothing about the requested
    /// kind. What a CustomResourceDefinition calls its lists is not known here.
    fn other_kind_of(&self, page: &ObjectList, kind: &ApiKind) -> Option<String> {
        let listed = page.kind.strip_suffix("List").filter(|listed| *listed != &*kind.kind)?;
        let (group, version) = page.api_version.rsplit_once('/').unwrap_or(("", &page.api_version));
        self.discovery().cached(group, Some(version), listed).map(|other| other.kind.to_string())
    }

    /// A page of a list in another representation, unparsed. A page that is too large is requested again in a smaller
    /// size, which the caller keeps for the next page.
    pub(crate) async fn list_page_as(
        &self,
        kind: &ApiKind,
        namespace: Option<&str>,
        query: &Query<'_>,
        next: Option<&str>,
        size: &mut PageSize,
        accept: &'static str,
    ) -> Result<Bytes, ApiError> {
        let target = Target { kind, namespace, name: "", operation: Operation::Get };
        loop {
            let mut path = kind.collection_path(namespace);
            path.push_str(&format!("?limit={}", size.objects()));
            query.push(&mut path);
            if let Some(next) = next {
                path.push_str("&continue=");
                push_encoded(&mut path, next);
            }
            match self.perform(&target, ApiRequest { accept, ..ApiRequest::list(path) }).await {
                Ok(response) => return Ok(response.body),
                Err(error) => match size.halved().filter(|_| error.is_too_large()) {
                    Some(smaller) => *size = smaller,
                    None => return Err(error),
                },
            }
        }
    }
}
