//! A log file with a maximum size: a full file is renamed after the time of its rotation, and the oldest rotated files
//! are deleted.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::AuditFile;

/// A file that is rotated when it is full.
pub(super) struct RotatingFile {
    options: AuditFile,
    /// `None` after a failure: the next line opens it again.
    open: Option<(File, u64)>,
}

impl RotatingFile {
    pub(super) fn open(options: AuditFile) -> io::Result<Self> {
        let open = Some(append_to(&options.path)?);
        Ok(Self { options, open })
    }

    pub(super) fn path(&self) -> &Path {
        &self.options.path
    }

    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let (mut file, mut size) = match self.open.take() {
            Some(open) => open,
            None => append_to(&self.options.path)?,
        };
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let full =
            self.options.max_bytes > 0 && size > 0 && size.saturating_add(length) > self.options.max_bytes;
        if full {
            drop(file);
            self.rotate()?;
            (file, size) = append_to(&self.options.path)?;
        }
        file.write_all(line)?;
        self.open = Some((file, size + length));
        Ok(())
    }

    fn rotate(&self) -> io::Result<()> {
        let time = Timestamp::now().strftime("%Y-%m-%dT%H-%M-%S%.6f").to_string();
        let (stem, extension) = self.name();
        std::fs::rename(&self.options.path, self.directory().join(format!("{stem}-{time}{extension}")))?;
        // Writing the line is more important than deleting old files.
        let _ = self.remove_oldest();
        Ok(())
    }

    /// The name in two parts, such as `audit` and `.log`.
    fn name(&self) -> (String, String) {
        let part = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let extension = part(self.options.path.extension()).map(|extension| format!(".{extension}"));
        (part(self.options.path.file_stem()).unwrap_or_default(), extension.unwrap_or_default())
    }

    fn directory(&self) -> PathBuf {
        match self.options.path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() => directory.to_owned(),
            _ => PathBuf::from("."),
        }
    }

    fn remove_oldest(&self) -> io::Result<()> {
        if self.options.max_backups == 0 {
            return Ok(());
        }
        let mut backups = self.backups()?;
        // Their names have the time, so they sort by age.
        backups.sort();
        let many = backups.len().saturating_sub(self.options.max_backups);
        backups.into_iter().take(many).try_for_each(std::fs::remove_file)
    }

    fn backups(&self) -> io::Result<Vec<PathBuf>> {
        let (stem, extension) = self.name();
        let is_ours = |name: &str| {
            let time = name.strip_prefix(&stem)?.strip_prefix('-')?.strip_suffix(&extension)?;
            let date = time.bytes().all(|byte| byte.is_ascii_digit() || b"-T.".contains(&byte));
            (date && time.len() == "2006-01-02T15-04-05.000000".len()).then_some(())
        };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(self.directory())? {
            let entry = entry?;
            if entry.file_name().to_str().and_then(is_ours).is_some() {
                found.push(entry.path());
            }
        }
        Ok(found)
    }
}

/// Only the owner of the file may read it.
const MODE: u32 = 0o600;

fn append_to(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
    let metadata = file.metadata()?;
    // A file that existed before may be readable to others. What is no file, such as a pipe, is whoever's created it.
    let is_open_to_others = metadata.is_file() && metadata.permissions().mode() & 0o777 & !MODE != 0;
    if is_open_to_others && let Err(error) = file.set_permissions(Permissions::from_mode(MODE)) {
        tracing::warn!(%error, path = %path.display(), "cannot restrict the audit log to its owner");
    }
    Ok((file, metadata.len()))
}
