//! Audit records of everything that is done in remote clusters: JSON in the log under a target of their own, and
//! optionally in a file. Callers never wait for a record to be written; records that do not fit into the queue are
//! counted.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing::dispatcher::{self, Dispatch};

mod file;
mod record;
mod share;
#[cfg(test)]
mod tests;

pub use record::{AuditCluster, AuditObject, AuditOutcome, AuditRecord, AuditVerb};

use crate::supervisor::{Task, catch};
use file::RotatingFile;
use share::Shares;

/// The log target of audit records.
pub const AUDIT_TARGET: &str = "kross::audit";
/// The maximum number of records that wait to be written. At a thousand per second this is eight seconds.
const QUEUE_CAPACITY: usize = 8192;

/// A file of audit records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFile {
    /// Its path.
    pub path: PathBuf,
    /// The size at which it is rotated; 0 for never.
    pub max_bytes: u64,
    /// How many rotated files are kept; 0 for all.
    pub max_backups: usize,
}

/// Statistics of audit records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditStats {
    /// Records written.
    pub written: u64,
    /// Records dropped, because writing was too slow or their cluster had used up its share.
    pub dropped: u64,
    /// Records that could not be written to the file.
    pub failed: u64,
}

/// Writes audit records. Clones share it.
///
/// ```
/// use kross_cluster::{Audit, AuditCluster, AuditRecord, AuditVerb};
///
/// let audit = Audit::off();
/// audit.record(AuditRecord::new(AuditCluster::named("eu"), AuditVerb::Connect));
/// assert_eq!(audit.stats().written, 0);
/// ```
#[derive(Clone, Default)]
pub struct Audit {
    shared: Option<Arc<Shared>>,
}

struct Shared {
    sender: SyncSender<Line>,
    counters: Arc<Counters>,
    shares: Arc<Shares>,
}

#[derive(Default)]
struct Counters {
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

enum Line {
    Record(Box<AuditRecord>),
    /// Acknowledged when everything before it is written.
    Flush(SyncSender<()>),
}

impl Audit {
    /// Writes nothing.
    #[must_use]
    pub fn off() -> Self {
        Self::default()
    }

    /// Writes to the log, and to a file that only its owner can read.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started.
    pub fn to_file(file: AuditFile) -> io::Result<Self> {
        Self::start(true, Some(file))
    }

    /// Writes to the log, under [`AUDIT_TARGET`], if `log` is set, and to a file if there is one.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started.
    pub fn start(log: bool, file: Option<AuditFile>) -> io::Result<Self> {
        if !log && file.is_none() {
            return Ok(Self::off());
        }
        let file = file.map(RotatingFile::open).transpose()?;
        let (sender, receiver) = sync_channel(QUEUE_CAPACITY);
        let (counters, shares) = (Arc::new(Counters::default()), Arc::new(Shares::default()));
        let mut writer = Writer {
            file,
            counters: Arc::clone(&counters),
            shares: Arc::clone(&shares),
            // The dispatcher of the caller, which may be that of a test.
            log: if log { dispatcher::get_default(Clone::clone) } else { Dispatch::none() },
        };
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || {
            // After a panic, one record is lost.
            while catch(Task::Audit, || writer.run(&receiver)).is_err() {}
        })?;
        Ok(Self { shared: Some(Arc::new(Shared { sender, counters, shares })) })
    }

    /// Whether records are written.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.shared.is_some()
    }

    /// Queues a record. Never waits: if the queue is full, or the cluster has used up its share of the log, the record is dropped
    /// and counted.
    pub fn record(&self, record: AuditRecord) {
        let Some(shared) = &self.shared else { return };
        let queued = shared.shares.take(&record) && {
            match shared.sender.try_send(Line::Record(Box::new(record))) {
                Ok(()) => true,
                Err(TrySendError::Full(line) | TrySendError::Disconnected(line)) => {
                    shared.release(&line);
                    false
                }
            }
        };
        if !queued {
            shared.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Statistics of the records so far.
    #[must_use]
    pub fn stats(&self) -> AuditStats {
        let Some(shared) = &self.shared else { return AuditStats::default() };
        AuditStats {
            written: shared.counters.written.load(Ordering::Relaxed),
            dropped: shared.counters.dropped.load(Ordering::Relaxed),
            failed: shared.counters.failed.load(Ordering::Relaxed),
        }
    }

    /// Waits until everything so far is written, up to a limit. Blocks: call it at the end of a process, not on async
    /// threads.
    pub fn flush(&self, limit: Duration) {
        let Some(shared) = &self.shared else { return };
        let (done, written) = sync_channel(1);
        if shared.sender.send(Line::Flush(done)).is_ok() {
            // The process ends in either case.
            let _ = written.recv_timeout(limit);
        }
    }
}

impl Shared {
    /// Gives back the room of a record that is not queued.
    fn release(&self, line: &Line) {
        if let Line::Record(record) = line {
            self.shares.release(share::owner(record));
        }
    }
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").field("on", &self.is_on()).field("stats", &self.stats()).finish()
    }
}

/// The thread that writes.
struct Writer {
    file: Option<RotatingFile>,
    counters: Arc<Counters>,
    shares: Arc<Shares>,
    log: Dispatch,
}

impl Writer {
    /// Runs until all senders are dropped.
    fn run(&mut self, receiver: &Receiver<Line>) {
        let log = self.log.clone();
        dispatcher::with_default(&log, || {
            while let Ok(line) = receiver.recv() {
                match line {
                    Line::Record(record) => {
                        // Before it is written: a log that panics must not keep its room.
                        self.shares.release(share::owner(&record));
                        self.write(&record);
                    }
                    // The caller of `flush` may have stopped waiting.
                    Line::Flush(done) => drop(done.try_send(())),
                }
            }
        });
    }

    fn write(&mut self, record: &AuditRecord) {
        record.log();
        let Some(file) = &mut self.file else {
            self.counters.written.fetch_add(1, Ordering::Relaxed);
            return;
        };
        match file.write(&record.line()) {
            Ok(()) => self.counters.written.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                let before = self.counters.failed.fetch_add(1, Ordering::Relaxed);
                // Once per thousand, because the next record will most likely fail as well.
                if before.is_multiple_of(1000) {
                    let path = file.path().display();
                    tracing::error!(%error, %path, failed = before + 1, "cannot write audit record");
                }
                before
            }
        };
    }
}
