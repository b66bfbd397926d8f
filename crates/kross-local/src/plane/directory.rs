//! Turns a name into a directory of its own that is held by a lock, and clears away what dead owners left. A directory whose
//! lock nobody holds belongs to a process that is gone: its recorded processes are ended and it is removed.
//!
//! A parent-death signal would not do: it follows the thread that spawned the child, and thread pools end threads early.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::identity::ProcessIdentity;

const LOCK: &str = "lock";
const PROCESSES: &str = "processes";

/// Why a directory could not be had.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The system said no.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The directory under which control planes live is somebody else's.
    #[error("`{}` belongs to another user; choose another directory", .0.display())]
    Foreign(PathBuf),
}

/// The directory under which control planes live unless another one is asked for.
pub(crate) fn default_root() -> PathBuf {
    std::env::temp_dir().join(format!("kross-{}", rustix::process::getuid().as_raw()))
}

/// A control plane's directory. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
    // Held until the process ends or this is dropped, whichever comes first.
    _lock: File,
}

impl RunDirectory {
    /// Makes a directory for `name` under `root`, after clearing what dead owners left there.
    pub(crate) fn claim(root: &Path, name: &str) -> Result<Self, DirectoryError> {
        prepare_root(root)?;
        // Nobody may clear away a directory between its creation and its lock.
        let _root_lock = lock_root(root)?;
        clear(root);
        let path = tempfile::Builder::new()
            .prefix(&format!("{}-", file_name(name)))
            .rand_bytes(8)
            .tempdir_in(root)
            .map_err(file_error("create a directory in", root))?
            .keep();
        let lock_path = path.join(LOCK);
        let lock = File::create(&lock_path).map_err(file_error("create", &lock_path))?;
        lock.lock().map_err(file_error("lock", &lock_path))?;
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next start.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Writes down a process so that a later run can end it.
pub(super) fn record(directory: &Path, process: &ProcessIdentity) -> std::io::Result<()> {
    let mut file = File::options().create(true).append(true).open(directory.join(PROCESSES))?;
    writeln!(file, "{process}")
}

fn prepare_root(root: &Path) -> Result<(), DirectoryError> {
    DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(file_error("create", root))?;
    let metadata = std::fs::symlink_metadata(root).map_err(file_error("look at", root))?;
    if metadata.uid() == rustix::process::getuid().as_raw() {
        Ok(())
    } else {
        Err(DirectoryError::Foreign(root.to_owned()))
    }
}

fn lock_root(root: &Path) -> Result<File, DirectoryError> {
    let path = root.join(".lock");
    let file = File::create(&path).map_err(file_error("create", &path))?;
    file.lock().map_err(file_error("lock", &path))?;
    Ok(file)
}

/// Ends the processes and removes the directories of owners that are gone.
fn clear(root: &Path) {
    let Ok(entries) = std::fs::read_dir(root) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        // A directory without a lock file is one that its owner was removing when it died.
        let held = File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_err());
        if !held {
            end_recorded(&path);
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

fn end_recorded(directory: &Path) {
    let Ok(text) = std::fs::read_to_string(directory.join(PROCESSES)) else { return };
    for process in text.lines().filter_map(|line| line.parse::<ProcessIdentity>().ok()) {
        process.end();
    }
}

/// The part of a name that is safe and short enough to be in the path of a socket.
fn file_name(name: &str) -> String {
    name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').take(20).collect()
}

fn file_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> DirectoryError {
    let path = path.to_owned();
    move |source| DirectoryError::File { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_directory_goes_away_with_its_owner() {
        let root = tempfile::tempdir().unwrap();
        let directory = RunDirectory::claim(root.path(), "hub").unwrap();
        let path = directory.path().to_owned();
        assert!(path.is_dir());
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn a_held_directory_is_left_alone_and_an_abandoned_one_is_cleared() {
        let root = tempfile::tempdir().unwrap();
        let held = RunDirectory::claim(root.path(), "hub").unwrap();
        let abandoned = root.path().join("hub-abandoned");
        std::fs::create_dir(&abandoned).unwrap();
        std::fs::write(abandoned.join(LOCK), "").unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        record(&abandoned, &ProcessIdentity::of(child.id()).unwrap()).unwrap();

        let other = RunDirectory::claim(root.path(), "hub").unwrap();

        assert!(held.path().is_dir());
        assert!(!abandoned.exists());
        assert_ne!(held.path(), other.path());
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_recorded_number_that_now_belongs_to_another_process_is_not_ended() {
        let root = tempfile::tempdir().unwrap();
        let abandoned = root.path().join("hub-abandoned");
        std::fs::create_dir(&abandoned).unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        std::fs::write(abandoned.join(PROCESSES), format!("{} not-its-start\n", child.id())).unwrap();

        let _directory = RunDirectory::claim(root.path(), "hub").unwrap();

        assert!(!abandoned.exists());
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
