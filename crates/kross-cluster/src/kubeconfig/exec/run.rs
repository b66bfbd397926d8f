//! Runs an allowed command and returns its output: without a shell, with listed environment variables only, with a
//! timeout and a size limit. Its stderr is discarded, because it may have a part of a credential.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use zeroize::Zeroizing;

use super::{ExecCommand, ExecError};

/// The maximum output of a command. A credential with certificates takes a few thousand bytes.
const MAX_BYTES: u64 = 256 << 10;
/// How often to check whether a command that closed its output has exited.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs the command. Blocks until it has exited or the timeout has passed. No process of its group is left.
pub(super) fn run(exec: &ExecCommand, info: &str) -> Result<Zeroizing<Vec<u8>>, ExecError> {
    let deadline = Instant::now() + exec.timeout;
    let mut running = Running { child: start(exec, info)?, reaped: false };
    let output = output(&mut running, exec, deadline)?;
    loop {
        match running.has_exited() {
            Ok(true) => break,
            Ok(false) if Instant::now() >= deadline => return Err(exec.error(ExecFailure::Timeout)),
            Ok(false) => std::thread::sleep(EXIT_POLL_INTERVAL),
            Err(error) => return Err(exec.error(ExecFailure::Start(error.kind()))),
        }
    }
    match running.end() {
        Ok(status) if status.success() => Ok(output),
        Ok(status) => Err(exec.error(ExecFailure::Status(status.code()))),
        Err(error) => Err(exec.error(ExecFailure::Start(error.kind()))),
    }
}

/// Why a command failed.
#[derive(Clone, Copy)]
pub(super) enum ExecFailure {
    Start(io::ErrorKind),
    Timeout,
    TooLarge,
    Status(Option<i32>),
}

impl ExecCommand {
    fn error(&self, failure: ExecFailure) -> ExecError {
        let problem = match failure {
            ExecFailure::Start(kind) => format!("cannot be run: {kind}"),
            ExecFailure::Timeout => format!("did not exit within {:.1}s", self.timeout.as_secs_f64()),
            ExecFailure::TooLarge => format!("printed more than {MAX_BYTES} bytes"),
            ExecFailure::Status(Some(code)) => format!("exited with status {code}"),
            ExecFailure::Status(None) => "was killed by a signal".to_owned(),
        };
        self.problem(problem)
    }
}

fn start(exec: &ExecCommand, info: &str) -> Result<Child, ExecError> {
    let inherited = exec.inherited.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    Command::new(&exec.command)
        .args(exec.arguments.iter().map(|argument| argument.as_str()))
        .env_clear()
        .envs(inherited)
        .envs(exec.environment.iter().map(|(name, value)| (name, value.as_str())))
        .env("KUBERNETES_EXEC_INFO", info)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // A process group of its own, so that its children are killed with it.
        .process_group(0)
        .spawn()
        .map_err(|error| exec.error(ExecFailure::Start(error.kind())))
}

/// Reads the output in a thread that ends when the command closes it.
fn output(
    running: &mut Running,
    exec: &ExecCommand,
    deadline: Instant,
) -> Result<Zeroizing<Vec<u8>>, ExecError> {
    let Some(stdout) = running.child.stdout.take() else { return Ok(Zeroizing::default()) };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // With capacity from the start, so that growing leaves no copies in memory.
        let mut printed = Zeroizing::new(Vec::with_capacity(64 << 10));
        let read = stdout.take(MAX_BYTES + 1).read_to_end(&mut printed).map(|_| printed);
        // After the timeout there is no receiver.
        let _ = sender.send(read);
    });
    match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(Ok(printed)) if u64::try_from(printed.len()).is_ok_and(|length| length > MAX_BYTES) => {
            Err(exec.error(ExecFailure::TooLarge))
        }
        Ok(Ok(printed)) => Ok(printed),
        Ok(Err(error)) => Err(exec.error(ExecFailure::Start(error.kind()))),
        Err(_) => Err(exec.error(ExecFailure::Timeout)),
    }
}

/// A running command. It is killed with its process group when dropped.
struct Running {
    child: Child,
    /// Whether it was ended: its id may be that of another process.
    reaped: bool,
}

impl Running {
    /// Whether the command has exited. It is not reaped: its process group has its id, which must not be used again
    /// before the group is killed.
    fn has_exited(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(Pid::from_child(&self.child)), options)?.is_some())
    }

    /// Kills what is left of the process group, also after the command itself has exited, and reaps the command.
    fn end(&mut self) -> io::Result<ExitStatus> {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        self.reaped = true;
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.end();
        }
    }
}
