//! The open connections of a listener. At the limit a new connection takes the place of one of the client that has the most,
//! so that a flood closes its own connections and not those of the kubelet or of Prometheus.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The open connections of a listener. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    table: Arc<Mutex<Table>>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    client: IpAddr,
    busy: Arc<AtomicBool>,
    /// Dropped to close the connection.
    _close: oneshot::Sender<()>,
}

/// A connection that counts as open until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    id: u64,
    table: Arc<Mutex<Table>>,
    /// Whether a request is being handled.
    pub(crate) busy: Arc<AtomicBool>,
    /// Completes when another connection takes its place.
    pub(crate) displaced: oneshot::Receiver<()>,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Self {
        Self { table: Arc::default(), limit: limit.max(1) }
    }

    /// Counts a new connection, and closes another one if there are too many.
    pub(crate) fn admit(&self, peer: IpAddr) -> OpenConnection {
        let (close, displaced) = oneshot::channel();
        let busy = Arc::new(AtomicBool::new(false));
        let mut table = self.table.lock();
        while table.open.len() >= self.limit {
            let Some(id) = table.most_dispensable() else { break };
            table.open.remove(&id);
        }
        let id = table.next;
        table.next += 1;
        table.open.insert(id, Open { client: client(peer), busy: Arc::clone(&busy), _close: close });
        OpenConnection { id, table: Arc::clone(&self.table), busy, displaced }
    }
}

impl Table {
    /// The connection to close: of the client with the most, the oldest one without a request.
    fn most_dispensable(&self) -> Option<u64> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for open in self.open.values() {
            *counts.entry(open.client).or_default() += 1;
        }
        let rank = |id: u64, open: &Open| {
            let idle = !open.busy.load(Ordering::Relaxed);
            (counts.get(&open.client).copied(), idle, Reverse(id))
        };
        self.open.iter().max_by_key(|(id, open)| rank(**id, open)).map(|(id, _)| *id)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.table.lock().open.remove(&self.id);
    }
}

/// Whose connection it is: an address, or a network of IPv6 in which one machine may have all addresses.
fn client(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn displaced(connection: &mut OpenConnection) -> bool {
        connection.displaced.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn a_flood_displaces_its_own_connections_and_idle_ones_first() {
        let connections = Connections::new(4);
        let [kubelet, flood]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        let mut probe = connections.admit(kubelet);
        let mut handled = connections.admit(flood);
        handled.busy.store(true, Ordering::Relaxed);
        let mut idle: Vec<_> = (0..100).map(|_| connections.admit(flood)).collect();
        assert!(!displaced(&mut probe) && !displaced(&mut handled));
        let open = idle.iter_mut().filter_map(|connection| (!displaced(connection)).then_some(()));
        assert_eq!(open.count(), 2);
        assert!(!displaced(&mut connections.admit(kubelet)));
    }

    #[test]
    fn closed_connections_do_not_count() {
        let connections = Connections::new(1);
        for _ in 0..3 {
            assert!(!displaced(&mut connections.admit(Ipv6Addr::LOCALHOST.into())));
        }
        assert!(connections.table.lock().open.is_empty());
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let parse = |text: &str| client(text.parse().unwrap());
        assert_eq!(parse("2001:db8::1"), parse("2001:db8::2"));
        assert_ne!(parse("2001:db8::1"), parse("2001:db8:0:1::1"));
        assert_eq!(parse("::ffff:10.0.0.1"), parse("10.0.0.1"));
        assert_ne!(parse("10.0.0.1"), parse("10.0.0.2"));
    }
}
