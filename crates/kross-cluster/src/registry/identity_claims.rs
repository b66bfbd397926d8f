//! Notices when servers under different trust anchors claim the same UID. They are different clusters: this only decides who is
//! warned, and when.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kross_api::SecretAddress;
use kross_value::Text;
use tokio::time::Instant;

use super::connection_state::{ClusterChange, ClusterIdentity};
use super::secret_content::SecretUse;
use super::{ClusterRegistry, Inner};
use crate::object::ClusterId;

/// The warning about a cluster whose UID another server claims as well. It names no Secret, as tenants read it too.
pub(super) const WARNING: &str = "a server under another certificate authority claims the same UID of namespace `kube-system`; kross treats the two as different clusters and shares nothing between them; check which one is genuine, and update Secrets that have a former certificate authority";

type SecretKey = (SecretAddress, SecretUse);

/// Which Secrets lead to servers that claim which UID.
#[derive(Default)]
pub(super) struct IdentityClaims {
    by_uid: HashMap<Text, UidClaims>,
    /// The UID that the server of each Secret claims.
    uids: HashMap<SecretKey, Text>,
}

/// The claims to one UID.
#[derive(Default)]
struct UidClaims {
    secrets: HashMap<SecretKey, Claim>,
    /// Whether users are warned. A warning stays for a while after its cause has ended, so that nobody can make the users of other
    /// clusters busy by changing a Secret again and again.
    warned: bool,
    /// Whether the claims are compared again later.
    review_pending: bool,
}

/// The claim of a Secret's server.
struct Claim {
    id: ClusterId,
    /// The id that it had under the certificate authority before, and when that was replaced. Copies of one Secret are not
    /// replaced at the same moment.
    rotated: Option<(ClusterId, Instant)>,
}

impl Claim {
    /// Whether two Secrets led to the same cluster until the certificate authority in one of them was replaced, a moment ago.
    fn is_rotating(&self, other: &Self, grace: Duration) -> bool {
        let led_to = |claim: &Self, id: &ClusterId| {
            claim.rotated.as_ref().is_some_and(|(before, at)| before == id && at.elapsed() < grace)
        };
        led_to(self, &other.id) || led_to(other, &self.id)
    }
}

impl UidClaims {
    /// Whether servers under different trust anchors claim the UID.
    fn is_contested(&self, grace: Duration) -> bool {
        if self.is_unanimous() {
            return false;
        }
        let has_rotated = |claim: &&Claim| claim.rotated.as_ref().is_some_and(|(_, at)| at.elapsed() < grace);
        let (rotated, settled): (Vec<&Claim>, Vec<&Claim>) = self.secrets.values().partition(has_rotated);
        let is_disputed = settled.windows(2).any(|pair| matches!(pair, [a, b] if a.id != b.id));
        let disagree = |a: &Claim, b: &Claim| a.id != b.id && !a.is_rotating(b, grace);
        is_disputed || rotated.iter().any(|a| self.secrets.values().any(|b| disagree(a, b)))
    }

    fn is_unanimous(&self) -> bool {
        let mut ids = self.secrets.values().map(|claim| &claim.id);
        ids.next().is_none_or(|first| ids.all(|id| id == first))
    }

    /// What has changed for the users of the Secrets, and whether to compare the claims again later.
    fn review(&mut self, is_later: bool, grace: Duration) -> Review {
        let is_contested = self.is_contested(grace);
        let changed = if is_contested { !self.warned } else { self.warned && is_later };
        if changed {
            self.warned = is_contested;
        }
        // A warning waits for its end, or a rotation for the other copies.
        let is_open = !is_contested && (self.warned || !self.is_unanimous());
        let schedule = is_open && !std::mem::replace(&mut self.review_pending, is_open);
        Review { changed, schedule }
    }
}

struct Review {
    changed: bool,
    schedule: bool,
}

impl Inner {
    /// A Secret leads to a server with this identity from now on.
    pub(super) fn claim_identity(self: &Arc<Self>, secret: &SecretKey, identity: &ClusterIdentity) {
        if !identity.verified {
            return self.withdraw_claim(secret);
        }
        let former = {
            let claims = &mut *self.claims.lock();
            let by_uid = claims.by_uid.entry(identity.uid.clone()).or_default();
            let known = by_uid.secrets.get(secret);
            if known.is_some_and(|known| known.id == identity.id) {
                return;
            }
            let rotated = known.map(|known| (known.id.clone(), Instant::now()));
            by_uid.secrets.insert(secret.clone(), Claim { id: identity.id.clone(), rotated });
            let former = claims.uids.insert(secret.clone(), identity.uid.clone());
            let former = former.filter(|former| *former != identity.uid);
            if let Some(claimed) = former.as_ref().and_then(|former| claims.by_uid.get_mut(former)) {
                claimed.secrets.remove(secret);
            }
            former
        };
        for uid in former.iter().chain([&identity.uid]) {
            self.review_claims(uid, false);
        }
    }

    /// A Secret is not used any more, or its server does not tell a UID.
    pub(super) fn withdraw_claim(self: &Arc<Self>, secret: &SecretKey) {
        let claimed = {
            let claims = &mut *self.claims.lock();
            let Some(uid) = claims.uids.remove(secret) else { return };
            if let Some(claimed) = claims.by_uid.get_mut(&uid) {
                claimed.secrets.remove(secret);
            }
            uid
        };
        self.review_claims(&claimed, false);
    }

    /// Whether another server claims the UID of this cluster under another trust anchor.
    pub(super) fn has_identity_conflict(&self, identity: &ClusterIdentity) -> bool {
        identity.verified && self.claims.lock().by_uid.get(&identity.uid).is_some_and(|claims| claims.warned)
    }

    /// Compares the claims to a UID, and notifies the users of its Secrets if they are warned from now on, or no longer.
    fn review_claims(self: &Arc<Self>, uid: &Text, is_later: bool) {
        let grace = self.options.identity_grace;
        let (review, warned, secrets) = {
            let mut claims = self.claims.lock();
            let Some(by_uid) = claims.by_uid.get_mut(uid) else { return };
            if is_later {
                by_uid.review_pending = false;
            }
            let review = by_uid.review(is_later, grace);
            let (warned, secrets) = (by_uid.warned, by_uid.secrets.keys().cloned().collect::<Vec<_>>());
            if by_uid.secrets.is_empty() && !warned && !by_uid.review_pending {
                claims.by_uid.remove(uid);
            }
            (review, warned, secrets)
        };
        if review.changed {
            if warned {
                let names: Vec<String> = secrets.iter().map(|(address, _)| address.to_string()).collect();
                let secrets = names.join(", ");
                tracing::warn!(%uid, secrets, "servers under different certificate authorities claim the same UID");
            }
            for (address, _) in &secrets {
                self.notify(address, ClusterChange::IdentityConflict);
            }
        }
        if review.schedule {
            let (inner, uid) = (Arc::downgrade(self), uid.clone());
            self.runtime.spawn(async move {
                tokio::time::sleep(grace).await;
                if let Some(inner) = inner.upgrade() {
                    inner.review_claims(&uid, true);
                }
            });
        }
    }
}

impl ClusterRegistry {
    /// How many UIDs are claimed by servers under different trust anchors.
    #[must_use]
    pub fn identity_conflicts(&self) -> usize {
        self.inner.claims.lock().by_uid.values().filter(|claims| claims.warned).count()
    }
}
