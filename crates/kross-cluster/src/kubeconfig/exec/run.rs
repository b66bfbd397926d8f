//! Turns an allowed command into what it prints: without a shell, with an environment of listed variables only, within a
//! time and a size. What it prints on its error output is thrown away, since it may be half a credential.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::{ExecCommand, ExecError};

/// Bytes that a command may print. A credential with certificates has a few thousand.
const MAX_BYTES: u64 = 256 << 10;
/// How often a command that has closed its output is asked whether it has ended.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs the command. Blocks until it has ended or its time is up.
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

/// What can go wrong with a command.
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
            ExecFailure::Timeout => format!("did not end within {:.1}s", self.timeout.as_secs_f64()),
            ExecFailure::TooLarge => format!("printed more than {MAX_BYTES} bytes"),
            ExecFailure::Status(Some(code)) => format!("ended with status {code}"),
            ExecFailure::Status(None) => "was ended by a signal".to_owned(),
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
        // A group of its own, so that what it starts ends with it.
        .process_group(0)
        .spawn()
        .map_err(|error| exec.error(ExecFailure::Start(error.kind())))
}

/// Reads what the command prints, in a thread that ends with the command's output.
fn output(
    child: &mut Running,
    exec: &ExecCommand,
    deadline: Instant,
) -> Result<Zeroizing<Vec<u8>>, ExecError> {
    let Some(stdout) = child.0.stdout.take() else { return Ok(Zeroizing::default()) };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // Room from the beginning, so that no copy is left behind when it grows.
        let mut printed = Zeroizing::new(Vec::with_capacity(64 << 10));
        let read = stdout.take(MAX_BYTES + 1).read_to_end(&mut printed).map(|_| printed);
        // Nobody waits any more when the time is up.
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

/// A command that is ended, with everything it started, when nobody waits for it any more.
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
