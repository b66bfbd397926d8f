//! Logs to standard error as the flags say, and gives spans to the tracer if there is one. The level of the log can be changed while
//! the process runs; traces do not depend on it.

use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use kross_cluster::AUDIT_TARGET;
use kross_server::LogControl;
use opentelemetry_sdk::trace::SdkTracer;
use parking_lot::Mutex;
use tracing::{Level as EventLevel, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterFn, LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

/// The encoding of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoder {
    Text,
    Json,
}

/// A log level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Level {
    name: String,
    filter: LevelFilter,
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.to_ascii_lowercase();
        let filter = match name.as_str() {
            // Zap's levels above error also end the process; kross never logs at them.
            "error" | "panic" | "fatal" | "dpanic" => LevelFilter::ERROR,
            "warn" | "warning" => LevelFilter::WARN,
            "info" | "0" => LevelFilter::INFO,
            "debug" | "1" => LevelFilter::DEBUG,
            "trace" => LevelFilter::TRACE,
            number if number.parse::<u32>().is_ok() => LevelFilter::TRACE,
            _ => {
                return Err(format!(
                    "invalid log level `{text}`: use `error`, `warn`, `info`, `debug`, `trace` or a number"
                ));
            }
        };
        Ok(Self { name: filter.to_string(), filter })
    }
}

impl Level {
    /// Events of kross at this level. Events of libraries only from warnings on: they log every HTTP/2 frame. Audit records
    /// at any level: they have a flag of their own.
    fn targets(&self) -> Targets {
        let libraries = self.filter.min(LevelFilter::WARN);
        Targets::new()
            .with_default(libraries)
            .with_target("kross", self.filter)
            .with_target(AUDIT_TARGET, LevelFilter::INFO)
    }
}

struct Control {
    handle: reload::Handle<Targets, Registry>,
    level: Mutex<String>,
}

impl LogControl for Control {
    fn level(&self) -> String {
        self.level.lock().clone()
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        let level: Level = level.parse()?;
        self.handle.reload(level.targets()).map_err(|error| error.to_string())?;
        *self.level.lock() = level.name;
        Ok(())
    }
}

/// Starts logging, and tracing if there is a tracer.
pub(super) fn start(
    encoder: Encoder,
    level: Level,
    color: bool,
    tracer: Option<SdkTracer>,
) -> anyhow::Result<Arc<dyn LogControl>> {
    let (filter, handle) = reload::Layer::new(level.targets());
    let registry = tracing_subscriber::registry();
    let started = match tracer {
        // One filter for everything: spans that nobody reads cost nothing.
        None => registry.with(filter).with(format(encoder, color)).try_init(),
        Some(tracer) => {
            let log = format(encoder, color).with_filter(filter);
            registry.with(log).with(traces(tracer).with_filter(FilterFn::new(is_traced))).try_init()
        }
    };
    started.context("cannot start logging")?;
    Ok(Arc::new(Control { handle, level: Mutex::new(level.name) }))
}

fn format<S>(encoder: Encoder, color: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let format = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(color);
    match encoder {
        Encoder::Text => format.boxed(),
        Encoder::Json => format.json().flatten_event(true).boxed(),
    }
}

/// Spans with their fields and nothing else: neither source positions nor threads, and no stack of exceptions.
fn traces<S>(tracer: SdkTracer) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false)
        .with_error_fields_to_exceptions(false)
        .with_error_events_to_exceptions(false)
        .with_error_records_to_exceptions(false)
}

/// Whether traces have a span or an event: the spans of kross, and what it logs at `info` and above while it is in them. Audit
/// records have places of their own.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    let level = if metadata.is_span() { EventLevel::DEBUG } else { EventLevel::INFO };
    metadata.target().starts_with("kross") && metadata.target() != AUDIT_TARGET && *metadata.level() <= level
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_zap() {
        for (text, name) in
            [("info", "info"), ("DEBUG", "debug"), ("1", "debug"), ("5", "trace"), ("panic", "error")]
        {
            assert_eq!(text.parse::<Level>().unwrap().name, name, "{text}");
        }
        assert!("loud".parse::<Level>().unwrap_err().contains("`loud`"));
    }
}
