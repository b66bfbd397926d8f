//! The directory of a control plane, held by a file lock. A directory without a lock belongs to a process that died: the next
//! start kills its recorded processes and removes it.
//!
//! A parent-death signal would not work: it is sent when the thread that spawned the child ends, and thread pools end threads
//! early.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::identity::ProcessIdentity;

const LOCK: &str = "lock";
const PROCESSES: &str = "processes";

/// Why a directory could not be created.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// A file system operation failed.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The parent directory belongs to another user.
    #[error("`{}` belongs to another user: use another directory", .0.display())]
    Foreign(PathBuf),
}

/// The default parent of the directories of control planes.
pub(crate) fn default_root() -> PathBuf {
    std::env::temp_dir().join(format!("kross-{}", rustix::process::getuid().as_raw()))
}

/// The directory of a control plane. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
    // Held until this is dropped or the process ends.
    _lock: File,
}

impl RunDirectory {
    /// Creates a directory for `name` in `root`, after removing those of dead owners.
    pub(crate) fn create(root: &Path, name: &str) -> Result<Self, DirectoryError> {
        prepare_root(root)?;
        // No other process may remove the directory between its creation and its lock.
        let _root_lock = lock_root(root)?;
        remove_abandoned(root);
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
        // The next start removes what cannot be removed now.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Records a process, so that a later start can kill it.
pub(super) fn record(directory: &Path, process: &ProcessIdentity) -> std::io::Result<()> {
    let mut file = File::options().create(true).append(true).open(directory.join(PROCESSES))?;
    writeln!(file, "{process}")
}

fn prepare_root(root: &Path) -> Result<(), DirectoryError> {
    DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(file_error("create", root))?;
    let metadata = std::fs::symlink_metadata(root).map_err(file_error("read the metadata of", root))?;
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

/// Kills the processes and removes the directories of owners that died.
fn remove_abandoned(root: &Path) {
    let Ok(entries) = std::fs::read_dir(root) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        // A directory without a lock file was being removed when its owner died.
        let held = File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_err());
        if !held {
            kill_recorded(&path);
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

fn kill_recorded(directory: &Path) {
    let Ok(text) = std::fs::read_to_string(directory.join(PROCESSES)) else { return };
    for process in text.lines().filter_map(|line| line.parse::<ProcessIdentity>().ok()) {
        process.kill();
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
    fn a_directory_is_removed_when_its_owner_is_dropped() {
        let root = tempfile::tempdir().unwrap();
        let directory = RunDirectory::create(root.path(), "hub").unwrap();
        let path = directory.path().to_owned();
        assert!(path.is_dir());
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn a_locked_directory_is_kept_and_an_abandoned_one_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let held = RunDirectory::create(root.path(), "hub").unwrap();
        let abandoned = root.path().join("hub-abandoned");
        std::fs::create_dir(&abandoned).unwrap();
        std::fs::write(abandoned.join(LOCK), "").unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        record(&abandoned, &ProcessIdentity::of(child.id()).unwrap()).unwrap();

        let other = RunDirectory::create(root.path(), "hub").unwrap();

        assert!(held.path().is_dir());
        assert!(!abandoned.exists());
        assert_ne!(held.path(), other.path());
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_recorded_pid_that_belongs_to_another_process_is_not_killed() {
        let root = tempfile::tempdir().unwrap();
        let abandoned = root.path().join("hub-abandoned");
        std::fs::create_dir(&abandoned).unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        std::fs::write(abandoned.join(PROCESSES), format!("{} not-its-start\n", child.id())).unwrap();

        let _directory = RunDirectory::create(root.path(), "hub").unwrap();

        assert!(!abandoned.exists());
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
