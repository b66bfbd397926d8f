//! What one cluster may take of the audit log. Its server can have it listed, watched and connected again and again, and its tenants
//! can have it written to; neither may displace the records of other clusters, in the queue or in the rotated files.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kross_value::Text;
use parking_lot::Mutex;

use super::record::{AuditRecord, AuditVerb};

/// Records of one cluster that may wait to be written: a quarter of the queue.
pub(super) const MAX_WAITING: usize = super::QUEUE_CAPACITY / 4;
/// The time that a record of a connection or a read takes of a cluster's share. That of a write takes none: every write is in the log.
const READ_COST: Duration = Duration::from_millis(50);
/// How much of its share a cluster may use at once: 5,000 records, as after a restart.
const BURST: Duration = Duration::from_secs(250);
/// Shares are looked through for unused ones when there are more than this.
const MANY: usize = 1024;

/// The shares of all clusters.
///
/// # Lock order
///
/// The lock is a leaf.
#[derive(Default)]
pub(super) struct Shares(Mutex<HashMap<Text, Share>>);

struct Share {
    waiting: usize,
    /// When what was used so far is over.
    used_until: Instant,
}

impl Share {
    fn is_unused(&self, now: Instant) -> bool {
        self.waiting == 0 && self.used_until <= now
    }
}

impl Shares {
    /// Takes room for a record that will wait to be written. False if its cluster has used up its share.
    pub(super) fn take(&self, record: &AuditRecord) -> bool {
        self.take_at(record, Instant::now())
    }

    fn take_at(&self, record: &AuditRecord, now: Instant) -> bool {
        let mut shares = self.0.lock();
        if shares.len() > MANY && !shares.contains_key(owner(record)) {
            shares.retain(|_, share| !share.is_unused(now));
        }
        let share =
            shares.entry(owner(record).clone()).or_insert_with(|| Share { waiting: 0, used_until: now });
        if share.waiting >= MAX_WAITING {
            return false;
        }
        if is_read(record.verb) {
            let until = share.used_until.max(now) + READ_COST;
            if until.duration_since(now) > BURST {
                return false;
            }
            share.used_until = until;
        }
        share.waiting += 1;
        true
    }

    /// A record does not wait any more.
    pub(super) fn release(&self, owner: &Text) {
        if let Some(share) = self.0.lock().get_mut(owner) {
            share.waiting = share.waiting.saturating_sub(1);
        }
    }
}

/// Whose share a record takes: that of its Secret, whatever its cluster is called.
pub(super) fn owner(record: &AuditRecord) -> &Text {
    record.secret.as_ref().unwrap_or(&record.cluster.name)
}

fn is_read(verb: AuditVerb) -> bool {
    use AuditVerb::{Abandon, Connect, Create, Delete, Get, Leave, List, Patch, Renew, Update, Watch};
    match verb {
        Connect | Get | List | Watch => true,
        Create | Patch | Update | Delete | Leave | Abandon | Renew => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::AuditCluster;
    use super::*;

    fn record(secret: &str, verb: AuditVerb) -> AuditRecord {
        AuditRecord::new(AuditCluster::named("eu"), verb).with(secret, None)
    }

    /// How many of these records are taken and written at once.
    fn taken(shares: &Shares, record: &AuditRecord, count: usize, now: Instant) -> usize {
        let take = |_: &usize| {
            let taken = shares.take_at(record, now);
            if taken {
                shares.release(owner(record));
            }
            taken
        };
        (0..count).filter(take).count()
    }

    #[test]
    fn reads_of_a_cluster_are_limited_and_its_writes_and_other_clusters_are_not() {
        let (shares, now) = (Shares::default(), Instant::now());
        let [list, write] = [AuditVerb::List, AuditVerb::Patch].map(|verb| record("tenant/flood", verb));
        assert_eq!(taken(&shares, &list, 20_000, now), 5_000);
        assert_eq!(taken(&shares, &write, 20_000, now), 20_000);
        assert_eq!(taken(&shares, &record("shop/eu", AuditVerb::List), 10, now), 10);
        assert_eq!(taken(&shares, &list, 1_000, now + Duration::from_secs(10)), 200);
        assert_eq!(
            taken(&shares, &list, 20_000, now + 2 * BURST),
            5_000,
            "a quiet cluster gets its share back"
        );
    }

    #[test]
    fn shares_that_are_not_used_are_forgotten() {
        let (shares, now) = (Shares::default(), Instant::now());
        for at in 0..10 * MANY {
            let now = now + Duration::from_secs(u64::try_from(at).unwrap());
            assert_eq!(taken(&shares, &record(&format!("tenant/{at}"), AuditVerb::Connect), 1, now), 1);
        }
        assert!(shares.0.lock().len() <= MANY + 1);
    }
}
