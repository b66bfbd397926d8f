//! Turns programs and arguments into processes that end together: with their owner's word, with their owner's drop, and with
//! their owner's death.
//!
//! A small shell leads the process group and reads from a pipe whose other end only the owner holds. When the owner goes, in
//! whatever way, the pipe closes, and the shell removes the directory and ends the group. Should the shell be gone as well,
//! the next start ends what was recorded (see [`super::directory`]).

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use super::directory;
use super::identity::ProcessIdentity;

const WATCH: &str = r#"while read -r _; do :; done; rm -rf -- "$1"; kill -KILL 0"#;

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start `{}`", program.display())]
pub struct SpawnError {
    program: PathBuf,
    #[source]
    source: std::io::Error,
}

/// Processes that end together.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    directory: PathBuf,
    leader: Child,
    number: i32,
    members: Vec<Child>,
}

/// A member of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member(usize);

impl ProcessGroup {
    /// Starts an empty group for the control plane in `directory`.
    pub(crate) fn new(directory: &Path) -> Result<Self, SpawnError> {
        let error = |source| SpawnError { program: PathBuf::from("sh"), source };
        let leader = Command::new("sh")
            .args(["-c", WATCH, "kross-watch"])
            .arg(directory)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(error)?;
        let number = i32::try_from(leader.id()).map_err(std::io::Error::other).map_err(error)?;
        let group = Self { directory: directory.to_owned(), leader, number, members: Vec::new() };
        group.record(group.leader.id()).map_err(error)?;
        Ok(group)
    }

    /// Starts a program in the group, with all it says going to the file `log`.
    pub(crate) fn spawn(
        &mut self,
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> Result<Member, SpawnError> {
        let error = |source| SpawnError { program: program.to_owned(), source };
        let output = File::create(log).map_err(error)?;
        let errors = output.try_clone().map_err(error)?;
        let child = Command::new(program)
            .args(arguments)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(self.number)
            .spawn()
            .map_err(error)?;
        let number = child.id();
        self.members.push(child);
        self.record(number).map_err(error)?;
        Ok(Member(self.members.len() - 1))
    }

    /// How a member ended, if it did.
    pub(crate) fn exit_status(&mut self, member: Member) -> Option<ExitStatus> {
        self.members.get_mut(member.0)?.try_wait().ok().flatten()
    }

    /// The process numbers of all members that were started.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.members.iter().map(Child::id).collect()
    }

    fn record(&self, number: u32) -> std::io::Result<()> {
        match ProcessIdentity::of(number) {
            Some(identity) => directory::record(&self.directory, &identity),
            None => Ok(()),
        }
    }

    /// Ends every process and waits until they are gone.
    fn end(&mut self) {
        if let Some(number) = Pid::from_raw(self.number) {
            // The data is thrown away, so nothing needs the time that an orderly end takes.
            let _ = kill_process_group(number, Signal::KILL);
        }
        for child in self.members.iter_mut().chain([&mut self.leader]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.end();
    }
}
