//! Runs a command, prints its output live, and returns it.

use std::io::{Read, Write};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

/// How often to check whether the process has exited while it prints nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long to read output after the process has exited. A process that it left behind may keep the pipe open for ever.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs a command with standard output and standard error in one stream, so that they stay in order.
pub(super) fn tee(mut command: Command, terminal: &mut impl Write) -> anyhow::Result<(ExitStatus, String)> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (reader, writer) = std::io::pipe().context("cannot create a pipe")?;
    command.stdout(writer.try_clone().context("cannot share a pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
    // The command holds the write end of the pipe: without this the reader never reaches the end.
    drop(command);
    let (sender, chunks) = channel();
    thread::spawn(move || send_chunks(reader, &sender));
    let mut printed = Vec::new();
    let mut exited: Option<(ExitStatus, Instant)> = None;
    loop {
        match chunks.recv_timeout(POLL_INTERVAL) {
            Ok(chunk) => {
                // A terminal that is closed is no reason to stop the tests.
                let _ = terminal.write_all(&chunk).and_then(|()| terminal.flush());
                printed.extend(chunk);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if exited.is_none() {
            exited = child
                .try_wait()
                .with_context(|| format!("cannot wait for `{name}`"))?
                .map(|status| (status, Instant::now()));
        }
        if exited.is_some_and(|(_, at)| at.elapsed() > DRAIN_TIMEOUT) {
            break;
        }
    }
    let status = match exited {
        Some((status, _)) => status,
        None => child.wait().with_context(|| format!("cannot wait for `{name}`"))?,
    };
    Ok((status, String::from_utf8_lossy(&printed).into_owned()))
}

fn send_chunks(mut reader: impl Read, sender: &Sender<Vec<u8>>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = reader.read(&mut buffer) {
        let Some(chunk) = buffer.get(..count) else { return };
        if sender.send(chunk.to_vec()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (ExitStatus, String, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut shown = Vec::new();
        let (status, printed) = tee(command, &mut shown).unwrap();
        (status, printed, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn both_streams_are_printed_and_returned_in_order() {
        let (status, printed, shown) = shell("echo one; echo two >&2; echo three; exit 3");
        assert_eq!((status.code(), printed.as_str()), (Some(3), "one\ntwo\nthree\n"));
        assert_eq!(shown, printed);
    }

    #[test]
    fn a_process_that_is_left_behind_does_not_block_the_run() {
        let started = Instant::now();
        let (status, printed, _) = shell("sleep 30 & echo done");
        assert!(status.success());
        assert_eq!(printed, "done\n");
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}
