//! Turns a version into a slot of the cache: `<cache>/<what>/<version>-<os>-<arch>/`. A slot appears by one rename of a
//! complete directory under a file lock, so that several processes can fill and read it at the same time.

use std::fs::File;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{AssetsError, platform};
use crate::Progress;

/// The user's cache directory for this project, as the platform has it.
pub(super) fn default_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| {
        let inside = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
        variable("HOME").map(|home| home.join(inside))
    })?;
    Some(base.join("kross"))
}

/// The place of one version of something in the cache.
#[derive(Debug)]
pub(super) struct Slot {
    parent: PathBuf,
    name: String,
    files: Vec<&'static str>,
}

impl Slot {
    /// The slot of `what` in a version, which is filled once all of `files` are in it.
    pub(super) fn new(cache: &Path, what: &str, version: &str, files: Vec<&'static str>) -> Self {
        Self {
            parent: cache.join(what),
            name: format!("{version}-{}-{}", platform::operating_system(), platform::architecture()),
            files,
        }
    }

    fn directory(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// The slot's directory, if every file is in it.
    pub(super) fn ready(&self) -> Option<PathBuf> {
        self.missing().is_none().then(|| self.directory())
    }

    fn missing(&self) -> Option<&'static str> {
        let directory = self.directory();
        self.files.iter().copied().find(|file| !directory.join(file).is_file())
    }

    /// The slot's directory, filled by `fill` with what is to be in it under `bin` of a workspace, unless it is filled already.
    pub(super) fn filled(
        &self,
        progress: &Progress,
        fill: impl FnOnce(&Path) -> Result<(), AssetsError>,
    ) -> Result<PathBuf, AssetsError> {
        if let Some(directory) = self.ready() {
            return Ok(directory);
        }
        let _lock = self.lock(progress)?;
        // Another process may have filled the slot while this one waited for the lock.
        if let Some(directory) = self.ready() {
            return Ok(directory);
        }
        let workspace = self.workspace()?;
        fill(workspace.path())?;
        self.install(&workspace)
    }

    /// Waits until no other process fills this slot. The lock is released when the file is dropped, and by the system when
    /// the process dies.
    fn lock(&self, progress: &Progress) -> Result<File, AssetsError> {
        std::fs::create_dir_all(&self.parent).map_err(file_error("create", &self.parent))?;
        let path = self.parent.join(format!("{}.lock", self.name));
        let file = File::create(&path).map_err(file_error("create", &path))?;
        if file.try_lock().is_err() {
            progress.say("waiting for another process that is getting the same programs");
            file.lock().map_err(file_error("lock", &path))?;
        }
        Ok(file)
    }

    /// A directory on the same file system as the slot to download and build in. It goes away when dropped; what a killed
    /// process left is removed here, which the lock makes safe.
    fn workspace(&self) -> Result<TempDir, AssetsError> {
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
    fn install(&self, workspace: &TempDir) -> Result<PathBuf, AssetsError> {
        let directory = self.directory();
        if directory.exists() {
            std::fs::remove_dir_all(&directory).map_err(file_error("replace", &directory))?;
        }
        let from = workspace.path().join("bin");
        std::fs::rename(&from, &directory).map_err(file_error("move the binaries to", &directory))?;
        match self.missing() {
            None => Ok(directory),
            Some(file) => Err(AssetsError::Incomplete { directory, file }),
        }
    }
}

pub(super) fn file_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> AssetsError {
    let path = path.to_owned();
    move |source| AssetsError::File { action, path, source }
}
