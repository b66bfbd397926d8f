//! Runs a program that is killed when its owner drops it or dies.

use std::path::Path;
use std::process::ExitStatus;

use crate::plane::directory::{self, RunDirectory};
use crate::plane::processes::{Member, ProcessGroup};
use crate::plane::ready::last_lines;
use crate::{DirectoryError, SpawnError};

const LOG: &str = "log";

/// Why a program did not start.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Its directory could not be created.
    #[error("cannot create a directory for `{name}`")]
    Directory {
        /// The program.
        name: String,
        /// The cause.
        #[source]
        source: DirectoryError,
    },
    /// It could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// A running program. It is killed when this is dropped, and when the process that started it dies.
#[derive(Debug)]
pub struct Program {
    // Fields are dropped in this order: no process may write into the directory when it is removed.
    processes: ProcessGroup,
    member: Member,
    directory: RunDirectory,
}

impl Program {
    /// Starts a program whose output goes to a log file.
    ///
    /// # Errors
    /// The program does not start.
    pub fn start(name: &str, program: &Path, arguments: &[String]) -> Result<Self, ProgramError> {
        let directory = RunDirectory::create(&directory::default_root(), name)
            .map_err(|source| ProgramError::Directory { name: name.to_owned(), source })?;
        let mut processes = ProcessGroup::new(directory.path())?;
        let member = processes.spawn(program, arguments, &directory.path().join(LOG))?;
        Ok(Self { processes, member, directory })
    }

    /// The process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.processes.pids().first().copied().unwrap_or_default()
    }

    /// The exit status, if the program has exited.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.processes.exit_status(self.member)
    }

    /// The end of its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        last_lines(&self.directory.path().join(LOG))
    }

    /// Kills the program and waits for its end.
    pub fn stop(self) {
        drop(self);
    }
}
