//! A process group that is killed when its owner drops it or dies.
//!
//! A small shell leads the process group and reads from a pipe whose other end only the owner holds. When the owner dies, for
//! whatever reason, the pipe closes, and the shell removes the directory and kills the group. If the shell was killed as well,
//! the next start kills the recorded processes (see [`super::directory`]).

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use super::directory;
use super::identity::ProcessIdentity;

const WATCHDOG: &str = r#"while read -r _; do :; done; rm -rf -- "$1"; kill -KILL 0"#;

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start `{}`", program.display())]
pub struct SpawnError {
    program: PathBuf,
    #[source]
    source: std::io::Error,
}

/// Processes that are killed together.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    directory: PathBuf,
    leader: Child,
    group: i32,
    members: Vec<Process>,
}

/// A program of a group, and how it was started.
#[derive(Debug)]
struct Process {
    child: Child,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
}

/// A member of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member(usize);

impl ProcessGroup {
    /// Starts a group without members, whose programs run in `directory`.
    pub(crate) fn new(directory: &Path) -> Result<Self, SpawnError> {
        let error = |source| SpawnError { program: PathBuf::from("sh"), source };
        let leader = Command::new("sh")
            .args(["-c", WATCHDOG, "kross-watchdog"])
            .arg(directory)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(error)?;
        let group = i32::try_from(leader.id()).map_err(std::io::Error::other).map_err(error)?;
        let processes = Self { directory: directory.to_owned(), leader, group, members: Vec::new() };
        processes.record(processes.leader.id()).map_err(error)?;
        Ok(processes)
    }

    /// Starts a program in the group. Its output goes to the file `log`.
    pub(crate) fn spawn(
        &mut self,
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> Result<Member, SpawnError> {
        let error = |source| SpawnError { program: program.to_owned(), source };
        let child = self.start(program, arguments, File::create(log)).map_err(error)?;
        let (arguments, log) = (arguments.to_vec(), log.to_owned());
        self.members.push(Process { child, program: program.to_owned(), arguments, log });
        Ok(Member(self.members.len() - 1))
    }

    /// Kills a member and waits for its end.
    pub(crate) fn stop(&mut self, member: Member) {
        if let Some(process) = self.members.get_mut(member.0) {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }

    /// Starts a member that was stopped, as it was started before.
    pub(crate) fn start_again(&mut self, member: Member) -> Result<(), SpawnError> {
        let Some(process) = self.members.get(member.0) else { return Ok(()) };
        let log = OpenOptions::new().append(true).open(&process.log);
        let child = self
            .start(&process.program, &process.arguments, log)
            .map_err(|source| SpawnError { program: process.program.clone(), source })?;
        if let Some(process) = self.members.get_mut(member.0) {
            process.child = child;
        }
        Ok(())
    }

    fn start(
        &self,
        program: &Path,
        arguments: &[String],
        log: std::io::Result<File>,
    ) -> std::io::Result<Child> {
        let output = log?;
        let child = Command::new(program)
            .args(arguments)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output)
            .process_group(self.group)
            .spawn()?;
        self.record(child.id())?;
        Ok(child)
    }

    /// The exit status of a member, if it has exited.
    pub(crate) fn exit_status(&mut self, member: Member) -> Option<ExitStatus> {
        self.members.get_mut(member.0)?.child.try_wait().ok().flatten()
    }

    /// The process IDs of all members.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.members.iter().map(|process| process.child.id()).collect()
    }

    fn record(&self, pid: u32) -> std::io::Result<()> {
        match ProcessIdentity::of(pid) {
            Some(identity) => directory::record(&self.directory, &identity),
            None => Ok(()),
        }
    }

    /// Kills every process and waits for their end.
    fn kill(&mut self) {
        if let Some(group) = Pid::from_raw(self.group) {
            // The data is discarded, so no orderly shutdown is needed.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let members = self.members.iter_mut().map(|process| &mut process.child);
        for child in members.chain([&mut self.leader]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
