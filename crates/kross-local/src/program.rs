//! Turns a program and its arguments into a process that ends with its owner, in whatever way the owner goes.

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
    /// Its directory could not be made.
    #[error("cannot make a directory for `{name}`")]
    Directory {
        /// The program.
        name: String,
        /// What went wrong.
        #[source]
        source: DirectoryError,
    },
    /// It could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// A running program. Dropping it ends the process, and so does the death of the process that started it.
#[derive(Debug)]
pub struct Program {
    // Dropped in this order: nothing may write into the directory when it is removed.
    processes: ProcessGroup,
    member: Member,
    directory: RunDirectory,
}

impl Program {
    /// Starts a program, with what it says going to a file of its own.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(name: &str, program: &Path, arguments: &[String]) -> Result<Self, ProgramError> {
        let directory = RunDirectory::claim(&directory::default_root(), name)
            .map_err(|source| ProgramError::Directory { name: name.to_owned(), source })?;
        let mut processes = ProcessGroup::new(directory.path())?;
        let member = processes.spawn(program, arguments, &directory.path().join(LOG))?;
        Ok(Self { processes, member, directory })
    }

    /// The number of its process.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.processes.numbers().first().copied().unwrap_or_default()
    }

    /// How it ended, if it did by itself.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.processes.exit_status(self.member)
    }

    /// The end of what it has said so far.
    #[must_use]
    pub fn log(&self) -> String {
        last_lines(&self.directory.path().join(LOG))
    }

    /// Ends it at once and returns when it is gone.
    pub fn stop(self) {
        drop(self);
    }
}
