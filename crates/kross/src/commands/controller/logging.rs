//! Logs to standard error as the flags say. The level can be changed while the process runs.

use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use kross_cluster::AUDIT_TARGET;
use kross_server::LogControl;
use parking_lot::Mutex;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
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

/// Starts logging.
pub(super) fn start(encoder: Encoder, level: Level, color: bool) -> anyhow::Result<Arc<dyn LogControl>> {
    let (filter, handle) = reload::Layer::new(level.targets());
    let format = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(color);
    let format = match encoder {
        Encoder::Text => format.boxed(),
        Encoder::Json => format.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(format).try_init().context("cannot start logging")?;
    Ok(Arc::new(Control { handle, level: Mutex::new(level.name) }))
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
