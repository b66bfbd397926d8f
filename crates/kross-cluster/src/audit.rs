//! Turns what is done in other clusters into audit records: JSON lines in the log under a target of their own and, where one
//! is named, in a file. Whoever does something never waits for it to be written; what does not fit is counted.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing::dispatcher::{self, Dispatch};

mod file;
mod record;
#[cfg(test)]
mod tests;

pub use record::{AuditCluster, AuditObject, AuditOutcome, AuditRecord, AuditVerb};

use file::RotatingFile;

/// The target of audit records in the log.
pub const AUDIT_TARGET: &str = "kross::audit";
/// Records that may wait to be written. At a thousand a second that is eight seconds.
const QUEUE_CAPACITY: usize = 8192;

/// A file of audit records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFile {
    /// Where it is.
    pub path: PathBuf,
    /// How large it may become before it is put aside and a new one is begun; 0 for any size.
    pub max_bytes: u64,
    /// How many files that were put aside are kept; 0 for all.
    pub max_backups: usize,
}

/// What became of the records so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditStats {
    /// Records that were written.
    pub written: u64,
    /// Records that did not fit, because writing was too slow.
    pub dropped: u64,
    /// Records that could not be written to the file.
    pub failed: u64,
}

/// Where audit records go. Clones share it.
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
}

#[derive(Default)]
struct Counters {
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

enum Line {
    Record(Box<AuditRecord>),
    /// Answers when everything before it is written.
    Flush(SyncSender<()>),
}

impl Audit {
    /// Nowhere.
    #[must_use]
    pub fn off() -> Self {
        Self::default()
    }

    /// To the log, under [`AUDIT_TARGET`].
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn to_log() -> io::Result<Self> {
        Self::start(true, None)
    }

    /// To the log, and to a file that only its owner can read.
    ///
    /// # Errors
    /// The file cannot be written, or the system has no thread left.
    pub fn to_file(file: AuditFile) -> io::Result<Self> {
        Self::start(true, Some(file))
    }

    /// To the log or not, and to a file or not.
    ///
    /// # Errors
    /// The file cannot be written, or the system has no thread left.
    pub fn start(log: bool, file: Option<AuditFile>) -> io::Result<Self> {
        if !log && file.is_none() {
            return Ok(Self::off());
        }
        let file = file.map(RotatingFile::open).transpose()?;
        let (sender, receiver) = sync_channel(QUEUE_CAPACITY);
        let counters = Arc::new(Counters::default());
        let mut writer = Writer {
            file,
            counters: Arc::clone(&counters),
            // The log of whoever starts it, also where that is only a test's.
            log: if log { dispatcher::get_default(Clone::clone) } else { Dispatch::none() },
        };
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(&receiver))?;
        Ok(Self { shared: Some(Arc::new(Shared { sender, counters })) })
    }

    /// Whether records go anywhere.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.shared.is_some()
    }

    /// Takes a record. Never waits: when too many wait to be written already, it is counted and forgotten.
    pub fn record(&self, record: AuditRecord) {
        let Some(shared) = &self.shared else { return };
        match shared.sender.try_send(Line::Record(Box::new(record))) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                shared.counters.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// What became of the records so far.
    #[must_use]
    pub fn stats(&self) -> AuditStats {
        let Some(shared) = &self.shared else { return AuditStats::default() };
        AuditStats {
            written: shared.counters.written.load(Ordering::Relaxed),
            dropped: shared.counters.dropped.load(Ordering::Relaxed),
            failed: shared.counters.failed.load(Ordering::Relaxed),
        }
    }

    /// Waits until everything so far is written, but not for ever: for the end of a process, off the async threads.
    pub fn flush(&self, limit: Duration) {
        let Some(shared) = &self.shared else { return };
        let (done, written) = sync_channel(1);
        if shared.sender.send(Line::Flush(done)).is_ok() {
            // Whether it was in time makes no difference to whoever ends.
            let _ = written.recv_timeout(limit);
        }
    }
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").field("on", &self.is_on()).field("stats", &self.stats()).finish()
    }
}

/// The one that writes.
struct Writer {
    file: Option<RotatingFile>,
    counters: Arc<Counters>,
    log: Dispatch,
}

impl Writer {
    /// Ends when nobody can send any more.
    fn run(&mut self, receiver: &Receiver<Line>) {
        let log = self.log.clone();
        dispatcher::with_default(&log, || {
            while let Ok(line) = receiver.recv() {
                match line {
                    Line::Record(record) => self.write(&record),
                    // Whoever asked may have gone.
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
                // Once for each thousand, since the next one will most likely fail as well.
                if before.is_multiple_of(1000) {
                    let path = file.path().display();
                    tracing::error!(%error, %path, failed = before + 1, "cannot write the audit log");
                }
                before
            }
        };
    }
}
