//! The cache of programs: `<cache>/<name>/<version>-<os>-<arch>/`. An entry is a complete directory that is renamed into
//! place under a file lock, so that several processes can fill and read the cache at the same time.

use std::fs::File;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{AssetsError, platform};
use crate::Progress;

/// The user's cache directory for kross.
pub(super) fn default_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| {
        let inside = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
        variable("HOME").map(|home| home.join(inside))
    })?;
    Some(base.join("kross"))
}

/// One version of some programs in the cache.
#[derive(Debug)]
pub(super) struct CacheEntry {
    parent: PathBuf,
    name: String,
    files: Vec<&'static str>,
}

impl CacheEntry {
    /// The entry of `name` in a version. It is ready once it has all of `files`.
    pub(super) fn new(cache: &Path, name: &str, version: &str, files: Vec<&'static str>) -> Self {
        Self {
            parent: cache.join(name),
            name: format!("{version}-{}-{}", platform::operating_system(), platform::architecture()),
            files,
        }
    }

    fn directory(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// The directory, if it has every file.
    pub(super) fn ready(&self) -> Option<PathBuf> {
        self.missing().is_none().then(|| self.directory())
    }

    fn missing(&self) -> Option<&'static str> {
        let directory = self.directory();
        self.files.iter().copied().find(|file| !directory.join(file).is_file())
    }

    /// The directory. If it is not ready, calls `fill` to create the files in `bin` of a workspace and moves them there.
    pub(super) fn get_or_fill(
        &self,
        progress: &Progress,
        fill: impl FnOnce(&Path) -> Result<(), AssetsError>,
    ) -> Result<PathBuf, AssetsError> {
        if let Some(directory) = self.ready() {
            return Ok(directory);
        }
        let _lock = self.lock(progress)?;
        // Another process may have filled the entry while this one waited for the lock.
        if let Some(directory) = self.ready() {
            return Ok(directory);
        }
        let workspace = self.workspace()?;
        fill(workspace.path())?;
        self.install(&workspace)
    }

    /// Waits until no other process fills this entry. Dropping the file releases the lock, and so does the end of the
    /// process.
    fn lock(&self, progress: &Progress) -> Result<File, AssetsError> {
        std::fs::create_dir_all(&self.parent).map_err(file_error("create", &self.parent))?;
        let path = self.parent.join(format!("{}.lock", self.name));
        let file = File::create(&path).map_err(file_error("create", &path))?;
        if file.try_lock().is_err() {
            progress.say("waiting for another process that downloads or builds the same programs");
            file.lock().map_err(file_error("lock", &path))?;
        }
        Ok(file)
    }

    /// A temporary directory to download and build in, on the same file system as the entry. Removes the directories of
    /// killed processes first, which is safe under the lock.
    fn workspace(&self) -> Result<TempDir, AssetsError> {
        let prefix = format!(".{}-", self.name);
        let entries = std::fs::read_dir(&self.parent).map_err(file_error("list", &self.parent))?;
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                // A directory that cannot be removed only costs disk space.
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
