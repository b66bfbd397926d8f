//! The format of records, the rotation of files, and a writer that is too slow.

use std::sync::Mutex;

use kross_api::{ClusterId, FailureReason, ObjectKey};

use super::*;
use crate::kubeconfig::AuthMethod;

fn record() -> AuditRecord {
    let instance = ObjectKey {
        cluster: ClusterId::local(),
        group: "kro.run".into(),
        kind: "WebApp".into(),
        namespace: Some("shop".into()),
        name: "web".into(),
    };
    let object = AuditObject {
        group: "apps".into(),
        kind: "Deployment".into(),
        namespace: Some("shop".into()),
        name: "web".into(),
    };
    let cluster = AuditCluster { name: "eu (shop/eu-kubeconfig)".into(), uid: "7d9f".into() };
    let mut record = AuditRecord::new(cluster, AuditVerb::Patch)
        .with("shop/eu-kubeconfig", Some(AuthMethod::Token))
        .on_behalf_of(Some(&instance))
        .on(object)
        .failed(FailureReason::Forbidden);
    record.time = "2026-01-02T03:04:05Z".parse().unwrap();
    record.duration = Duration::from_micros(12_900);
    record
}

#[test]
fn a_record_is_one_line_of_json() {
    assert_eq!(
        String::from_utf8(record().line()).unwrap(),
        concat!(
            r#"{"version":1,"time":"2026-01-02T03:04:05Z","cluster":{"name":"eu (shop/eu-kubeconfig)","uid":"7d9f"},"#,
            r#""secret":"shop/eu-kubeconfig","authMethod":"token","#,
            r#""instance":{"group":"kro.run","kind":"WebApp","namespace":"shop","name":"web"},"verb":"patch","#,
            r#""object":{"group":"apps","kind":"Deployment","namespace":"shop","name":"web"},"#,
            r#""outcome":"failure","reason":"Forbidden","durationMs":12}"#,
            "\n"
        )
    );
    let mut short = AuditRecord::new(AuditCluster::named("eu"), AuditVerb::Connect);
    short.time = "2026-01-02T03:04:05Z".parse().unwrap();
    assert_eq!(
        String::from_utf8(short.line()).unwrap(),
        "{\"version\":1,\"time\":\"2026-01-02T03:04:05Z\",\"cluster\":{\"name\":\"eu\"},\"verb\":\"connect\",\"outcome\":\"success\",\"durationMs\":0}\n"
    );
}

#[test]
fn a_full_file_is_rotated_and_the_oldest_files_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    // Not an audit file, in spite of its name.
    std::fs::write(folder.path().join("audit-notes.log"), "mine").unwrap();
    let length = u64::try_from(record().line().len()).unwrap();
    let audit =
        Audit::to_file(AuditFile { path: path.clone(), max_bytes: 2 * length, max_backups: 2 }).unwrap();
    for _ in 0..9 {
        audit.record(record());
    }
    audit.flush(Duration::from_secs(10));
    assert_eq!(audit.stats(), AuditStats { written: 9, dropped: 0, failed: 0 });
    let mut files: Vec<(String, usize)> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let lines = std::fs::read_to_string(entry.path()).unwrap().lines().count();
            (entry.file_name().into_string().unwrap(), lines)
        })
        .collect();
    files.sort();
    let lines: Vec<usize> = files.iter().map(|(_, lines)| *lines).collect();
    assert_eq!((files.len(), lines), (4, vec![2, 2, 1, 1]), "{files:?}");
    assert_eq!(files.last().unwrap().0, "audit.log");
    use std::os::unix::fs::PermissionsExt;
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    // A new process appends to the file, and takes it from others who could read it.
    drop(audit);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o664)).unwrap();
    let audit = Audit::to_file(AuditFile { path: path.clone(), max_bytes: 0, max_backups: 0 }).unwrap();
    audit.record(record());
    audit.flush(Duration::from_secs(10));
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    assert_eq!(mode(), 0o600);
}

#[test]
fn failed_writes_are_counted_and_the_file_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let path = inner.join("audit.log");
    let audit = Audit::to_file(AuditFile { path, max_bytes: 1, max_backups: 1 }).unwrap();
    audit.record(record());
    audit.flush(Duration::from_secs(10));
    std::fs::remove_dir_all(&inner).unwrap();
    audit.record(record());
    audit.flush(Duration::from_secs(10));
    assert_eq!(audit.stats(), AuditStats { written: 1, dropped: 0, failed: 1 });
    std::fs::create_dir(&inner).unwrap();
    audit.record(record());
    audit.flush(Duration::from_secs(10));
    assert_eq!(audit.stats().written, 2);
    assert!(Audit::to_file(AuditFile { path: folder.path().into(), max_bytes: 0, max_backups: 0 }).is_err());
}

/// A log that blocks at its first event until it is released.
struct Stuck {
    gate: Mutex<Receiver<()>>,
    seen: Mutex<Vec<String>>,
}

impl tracing::Subscriber for Stuck {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let _ = self.gate.lock().unwrap().recv();
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{field}={value:?} "));
            }
        }
        let mut text = Text(format!("{} ", event.metadata().target()));
        event.record(&mut text);
        self.seen.lock().unwrap().push(text.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_slow_log_delays_nobody_and_dropped_records_are_counted() {
    let (open, gate) = sync_channel(1);
    let log = Arc::new(Stuck { gate: Mutex::new(gate), seen: Mutex::default() });
    // With a single dispatcher `tracing` caches the interest of the thread that logs first, which may be another test's.
    let _second = Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let audit = tracing::subscriber::with_default(Arc::clone(&log), || Audit::start(true, None).unwrap());
    // The writer may already have taken one.
    let is_either = |dropped: u64| dropped == 99 || dropped == 100;
    let mut many = share::MAX_WAITING + 100;
    for _ in 0..many {
        audit.record(record());
    }
    let flooded = audit.stats().dropped;
    assert!(is_either(flooded), "{flooded}");
    // The flood of one cluster leaves room for the others.
    let others = QUEUE_CAPACITY - share::MAX_WAITING + 100;
    for at in 0..others {
        audit.record(record().with(format!("shop/{at}"), None));
    }
    many += others;
    let dropped = audit.stats().dropped;
    assert!(is_either(dropped - flooded), "{dropped} after {flooded}");
    drop(open);
    audit.flush(Duration::from_secs(60));
    assert_eq!(audit.stats().written + dropped, u64::try_from(many).unwrap());
    let seen = log.seen.lock().unwrap();
    assert_eq!(
        seen.first().unwrap().trim_end(),
        "kross::audit message=audit time=2026-01-02T03:04:05Z cluster=eu (shop/eu-kubeconfig) cluster_uid=7d9f \
         secret=\"shop/eu-kubeconfig\" auth_method=\"token\" instance=\"WebApp.kro.run shop/web\" verb=\"patch\" \
         object=\"Deployment.apps shop/web\" outcome=\"failure\" reason=\"Forbidden\" duration_ms=12"
    );
}

/// A log that panics at its first event.
struct Panicking(std::sync::atomic::AtomicBool);

impl tracing::Subscriber for Panicking {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        assert!(self.0.swap(true, Ordering::Relaxed), "injected");
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_panic_of_the_writer_loses_one_record_and_not_those_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let file = AuditFile { path: path.clone(), max_bytes: 1 << 20, max_backups: 1 };
    // With a single dispatcher `tracing` caches the interest of the thread that logs first, which may be another test's.
    let _second = Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let log = Panicking(false.into());
    let audit = tracing::subscriber::with_default(log, || Audit::start(true, Some(file)).unwrap());
    for _ in 0..3 {
        audit.record(record());
    }
    audit.flush(Duration::from_secs(60));
    assert_eq!(audit.stats(), AuditStats { written: 2, dropped: 0, failed: 0 });
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 2);
}
