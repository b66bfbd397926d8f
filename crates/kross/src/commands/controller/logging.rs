//! Turns the logging flags into a subscriber on standard error whose level can be changed while the process runs.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use kross_cluster::AUDIT_TARGET;
use kross_server::LogControl;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoder {
    Text,
    Json,
}

/// How much is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Level {
    word: String,
    filter: LevelFilter,
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let word = text.to_ascii_lowercase();
        let filter = match word.as_str() {
            // Zap's levels beyond error end the process; here they are errors.
            "error" | "panic" | "fatal" | "dpanic" => LevelFilter::ERROR,
            "warn" | "warning" => LevelFilter::WARN,
            "info" | "0" => LevelFilter::INFO,
            "debug" | "1" => LevelFilter::DEBUG,
            "trace" => LevelFilter::TRACE,
            number if number.parse::<u32>().is_ok() => LevelFilter::TRACE,
            _ => {
                return Err(format!(
                    "`{text}` is no log level: write `error`, `warn`, `info`, `debug`, `trace` or a number"
                ));
            }
        };
        Ok(Self { word: filter.to_string(), filter })
    }
}

impl Level {
    /// Our own words at this level; those of libraries only when something is wrong, since they log every frame. Audit
    /// records are no matter of taste: a flag of their own turns them off.
    fn targets(&self) -> Targets {
        let others = self.filter.min(LevelFilter::WARN);
        Targets::new()
            .with_default(others)
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
        self.level.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        let level: Level = level.parse()?;
        self.handle.reload(level.targets()).map_err(|error| error.to_string())?;
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = level.word;
        Ok(())
    }
}

/// Begins to log.
pub(super) fn start(encoder: Encoder, level: Level, color: bool) -> anyhow::Result<Arc<dyn LogControl>> {
    let (filter, handle) = reload::Layer::new(level.targets());
    let format = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(color);
    let format = match encoder {
        Encoder::Text => format.boxed(),
        Encoder::Json => format.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(filter).with(format).try_init().context("cannot begin to log")?;
    Ok(Arc::new(Control { handle, level: Mutex::new(level.word) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_zaps_words_and_numbers() {
        for (text, word) in
            [("info", "info"), ("DEBUG", "debug"), ("1", "debug"), ("5", "trace"), ("panic", "error")]
        {
            assert_eq!(text.parse::<Level>().unwrap().word, word, "{text}");
        }
        assert!("loud".parse::<Level>().unwrap_err().contains("`loud`"));
    }
}
