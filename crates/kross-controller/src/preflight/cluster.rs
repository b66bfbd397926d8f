//! What preflights have learned about one cluster with one credential, shared by all preflights of that cluster: its OpenAPI
//! documents and the responses to access reviews.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::permissions::AccessReview;
use crate::openapi::{DocumentStore, OpenApi};

/// How long an access review that allows something is reused.
const ALLOWED_MAX_AGE: Duration = Duration::from_secs(300);

/// What is known of one cluster, as one credential sees it.
///
/// # Lock order
///
/// The lock of `reviews` is a leaf; for those of `openapi` see there.
#[derive(Debug)]
pub(super) struct ClusterPreflight {
    pub(super) openapi: OpenApi,
    /// When each review was made, and whether it allowed the access; none where the cluster could not tell.
    reviews: Mutex<HashMap<AccessReview, (Instant, Option<bool>)>>,
}

impl ClusterPreflight {
    pub(super) fn new(documents: Arc<DocumentStore>) -> Self {
        Self { openapi: OpenApi::remote(documents), reviews: Mutex::default() }
    }

    /// The response to a review, if it is known and fresh. Denials expire after `max_age`, so that a grant is noticed soon.
    pub(super) fn reviewed(&self, review: &AccessReview, max_age: Duration) -> Option<Option<bool>> {
        let reviews = self.reviews.lock();
        let (made, allowed) = reviews.get(review)?;
        let max_age = if *allowed == Some(true) { ALLOWED_MAX_AGE } else { max_age };
        (made.elapsed() < max_age).then_some(*allowed)
    }

    /// Stores the response to a review.
    pub(super) fn store(&self, review: AccessReview, allowed: Option<bool>) {
        let mut reviews = self.reviews.lock();
        reviews.retain(|_, (made, _)| made.elapsed() < ALLOWED_MAX_AGE);
        reviews.insert(review, (Instant::now(), allowed));
    }
}
