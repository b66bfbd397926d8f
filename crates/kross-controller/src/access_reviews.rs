//! What ServiceAccounts may read: SubjectAccessReviews in the hub, whose decisions are kept for a short time and shared by all
//! instances of an account. They are renewed only when a reconcile asks, so an idle hub sends none.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kross_api::ServiceAccount;
use kross_cluster::{ApiError, ClusterClient, ResourceAccess};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How many decisions are kept.
const MAX_DECISIONS: usize = 20_000;

/// How long decisions are kept.
#[derive(Clone, Copy, Debug)]
pub struct ReviewAges {
    /// That an account may do something: how long a revoked permission is used at most.
    pub allowed: Duration,
    /// That it may not: how long a granted permission is not noticed.
    pub denied: Duration,
}

impl Default for ReviewAges {
    fn default() -> Self {
        Self { allowed: Duration::from_secs(60), denied: Duration::from_secs(5) }
    }
}

/// The decisions.
///
/// # Lock order
///
/// The lock of the map is a leaf. The lock of an entry is async and held during its review, so that a question is asked once.
#[derive(Debug)]
pub(crate) struct AccessReviews {
    ages: ReviewAges,
    decisions: Mutex<HashMap<(ServiceAccount, ResourceAccess), Arc<Entry>>>,
}

type Entry = tokio::sync::Mutex<Option<Decision>>;

#[derive(Clone, Copy, Debug)]
struct Decision {
    allowed: bool,
    /// When the review was sent: the answer may be older than its arrival.
    asked: Instant,
}

impl AccessReviews {
    pub(crate) fn new(ages: ReviewAges) -> Self {
        Self { ages, decisions: Mutex::default() }
    }

    /// Whether an account may get an object. A permission for all objects of the kind in the namespace serves for all of them
    /// with one review.
    ///
    /// # Errors
    /// The review failed: nothing is known.
    pub(crate) async fn may_get(
        &self,
        client: &ClusterClient,
        account: &ServiceAccount,
        access: &ResourceAccess,
    ) -> Result<bool, ApiError> {
        let every = ResourceAccess { name: None, ..access.clone() };
        // That it may not get all of them is no answer, only a reason not to ask that again soon.
        if self.decide(client, account, every, self.ages.allowed).await? {
            return Ok(true);
        }
        self.decide(client, account, access.clone(), self.ages.denied).await
    }

    /// Whether an account may do something.
    ///
    /// # Errors
    /// The review failed: nothing is known.
    pub(crate) async fn may(
        &self,
        client: &ClusterClient,
        account: &ServiceAccount,
        access: &ResourceAccess,
    ) -> Result<bool, ApiError> {
        self.decide(client, account, access.clone(), self.ages.denied).await
    }

    async fn decide(
        &self,
        client: &ClusterClient,
        account: &ServiceAccount,
        access: ResourceAccess,
        denied: Duration,
    ) -> Result<bool, ApiError> {
        let entry = self.entry((account.clone(), access.clone()));
        let mut decision = entry.lock().await;
        let asked = Instant::now();
        if let Some(known) = &*decision {
            let age = if known.allowed { self.ages.allowed } else { denied };
            if asked.duration_since(known.asked) < age {
                return Ok(known.allowed);
            }
        }
        *decision = None;
        let allowed = client.review_access(account, &access).await?;
        *decision = Some(Decision { allowed, asked });
        Ok(allowed)
    }

    fn entry(&self, question: (ServiceAccount, ResourceAccess)) -> Arc<Entry> {
        let mut decisions = self.decisions.lock();
        if decisions.len() >= MAX_DECISIONS && !decisions.contains_key(&question) {
            let (now, oldest) = (Instant::now(), self.ages.allowed);
            let is_fresh = |entry: &Arc<Entry>| match entry.try_lock() {
                Ok(decision) => decision.is_some_and(|known| now.duration_since(known.asked) < oldest),
                Err(_) => true,
            };
            decisions.retain(|_, entry| is_fresh(entry));
            if decisions.len() >= MAX_DECISIONS {
                decisions.clear();
            }
        }
        Arc::clone(decisions.entry(question).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_decisions_is_bounded() {
        let reviews = AccessReviews::new(ReviewAges::default());
        let account = ServiceAccount::new("shop", "deployer").unwrap();
        for at in 0..MAX_DECISIONS + 10 {
            let access = ResourceAccess {
                verb: "get",
                group: String::new(),
                resource: "secrets".to_owned(),
                namespace: Some("shop".to_owned()),
                name: Some(at.to_string()),
            };
            drop(reviews.entry((account.clone(), access)));
        }
        assert!(reviews.decisions.lock().len() <= MAX_DECISIONS);
    }
}
