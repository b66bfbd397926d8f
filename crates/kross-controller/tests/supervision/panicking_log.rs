//! A log that panics: a task that logs a message panics there. The controller needs no code for it.

use std::fmt::Debug;

use kross_testing::wait;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The messages that panic, once, and a text that must be in one of the fields.
static ARMED: Mutex<Vec<Fault>> = Mutex::new(Vec::new());
/// One test at a time, since they count panics.
static EXCLUSIVE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A panic where a task logs a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    message: &'static str,
    field: String,
}

struct PanickingLog;

impl Subscriber for PanickingLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("kross")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let mut armed = ARMED.lock();
        let is_hit = |fault: &Fault| fault.message == text.message && text.fields.contains(&fault.field);
        if let Some(at) = armed.iter().position(is_hit) {
            let fault = armed.remove(at);
            drop(armed);
            panic!("injected {fault:?}");
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.fields.push_str(&format!("{value:?}\n"));
        }
    }
}

/// Waits until no other test injects panics.
pub async fn exclusive() -> tokio::sync::MutexGuard<'static, ()> {
    // Only the first call installs it.
    let _ = tracing::subscriber::set_global_default(PanickingLog);
    EXCLUSIVE.lock().await
}

/// The next task that logs this message, with this text in one of its fields, panics.
pub fn panic_at(message: &'static str, field: &str) -> Fault {
    let fault = Fault { message, field: field.to_owned() };
    ARMED.lock().push(fault.clone());
    fault
}

/// Waits until a task has panicked.
pub async fn until_panicked(fault: &Fault) {
    wait::until_true("a task to panic", || !ARMED.lock().contains(fault)).await;
}
