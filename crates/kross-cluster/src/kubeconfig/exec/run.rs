//! Runs an allowed command and returns its output: without a shell, with listed environment variables only, with a
//! timeout and a size limit. Its stderr is discarded, because it may have a part of a credential.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::{ExecCommand, ExecError};

/// The maximum output of a command. A credential with certificates takes a few thousand bytes.
const MAX_BYTES: u64 = 256 << 10;
/// How often to check whether a command that closed its output has exited.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs the command. Blocks until it has exited or the timeout has passed.
pub(super) fn run(exec: &ExecCommand, info: &str) -> Result<Zeroizing<Vec<u8>>, ExecError> {
    let deadline = Instant::now() + exec.timeout;
    let mut child = Running(start(exec, info)?);
    let output = output(&mut child, exec, deadline)?;
    loop {
        match child.0.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(output),
            Ok(Some(status)) => return Err(exec.error(ExecFailure::Status(status.code()))),
            Ok(None) if Instant::now() >= deadline => return Err(exec.error(ExecFailure::Timeout)),
            Ok(None) => std::thread::sleep(EXIT_POLL_INTERVAL),
            Err(error) => return Err(exec.error(ExecFailure::Start(error.kind()))),
        }
    }
}

/// Why a command failed.
#[derive(Clone, Copy)]
pub(super) enum ExecFailure {
    Start(std::io::ErrorKind),
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
    child: &mut Running,
    exec: &ExecCommand,
    deadline: Instant,
) -> Result<Zeroizing<Vec<u8>>, ExecError> {
    let Some(stdout) = child.0.stdout.take() else { return Ok(Zeroizing::default()) };
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

/// A running command. It is killed with its children when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = rustix::process::kill_process_group(
                rustix::process::Pid::from_child(&self.0),
                rustix::process::Signal::KILL,
            );
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
