//! Turns a version into a slot of the cache: `<cache>/control-plane/<version>-<os>-<arch>/`. A slot appears by one rename of a
//! complete directory under a file lock, so that several processes can fill and read it at the same time.

use std::fs::File;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{AssetsError, Binary, platform};
use crate::{KubernetesVersion, Progress};

/// The user's cache directory for this project, as the platform has it.
pub(super) fn default_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| {
        let inside = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
        variable("HOME").map(|home| home.join(inside))
    })?;
    Some(base.join("kross"))
}

/// The place of one version in the cache.
#[derive(Debug)]
pub(super) struct Slot {
    parent: PathBuf,
    name: String,
}

impl Slot {
    pub(super) fn new(cache: &Path, version: KubernetesVersion) -> Self {
        Self {
            parent: cache.join("control-plane"),
            name: format!(
                "{}-{}-{}",
                version.exact(),
                platform::operating_system(),
                platform::architecture()
            ),
        }
    }

    fn directory(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// The slot's directory, if every program is in it.
    pub(super) fn ready(&self) -> Option<PathBuf> {
        let directory = self.directory();
        Binary::ALL.iter().all(|binary| directory.join(binary.file_name()).is_file()).then_some(directory)
    }

    /// Waits until no other process fills this slot. The lock is released when the file is dropped, and by the system when
    /// the process dies.
    pub(super) fn lock(&self, progress: &Progress) -> Result<File, AssetsError> {
        std::fs::create_dir_all(&self.parent).map_err(file_error("create", &self.parent))?;
        let path = self.parent.join(format!("{}.lock", self.name));
        let file = File::create(&path).map_err(file_error("create", &path))?;
        if file.try_lock().is_err() {
            progress.say("waiting for another process that is getting the same control plane");
            file.lock().map_err(file_error("lock", &path))?;
        }
        Ok(file)
    }

    /// A directory on the same file system as the slot to download and build in. It goes away when dropped; what a killed
    /// process left is removed here, which the lock makes safe.
    pub(super) fn workspace(&self) -> Result<TempDir, AssetsError> {
        let prefix = format!(".{}-", self.name);
        let entries = std::fs::read_dir(&self.parent).map_err(file_error("list", &self.parent))?;
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                // A left-over that cannot be removed costs disk space only.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&self.parent)
            .map_err(file_error("create a directory in", &self.parent))
    }

    /// Moves `<workspace>/bin` into place.
    pub(super) fn install(&self, workspace: &TempDir) -> Result<PathBuf, AssetsError> {
        let directory = self.directory();
        if directory.exists() {
            std::fs::remove_dir_all(&directory).map_err(file_error("replace", &directory))?;
        }
        let from = workspace.path().join("bin");
        std::fs::rename(&from, &directory).map_err(file_error("move the binaries to", &directory))?;
        self.ready().ok_or_else(|| {
            let missing =
                Binary::ALL.into_iter().find(|binary| !directory.join(binary.file_name()).is_file());
            AssetsError::Incomplete { directory, binary: missing.unwrap_or(Binary::Etcd) }
        })
    }
}

pub(super) fn file_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> AssetsError {
    let path = path.to_owned();
    move |source| AssetsError::File { action, path, source }
}
