//! Turns a verified envtest archive into program files. Only regular files with the expected names are taken, and their names
//! in the archive never decide where they are written.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

use super::Binary;

/// No program comes near this; an archive that inflates beyond it is not what it says.
const LARGEST_PROGRAM: u64 = 1 << 30;

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It cannot be read to its end.
    #[error("the archive is damaged")]
    Damaged(#[source] std::io::Error),
    /// A path in it leads out of the directory it is unpacked to.
    #[error("the archive has a path that leads outside: `{}`", .0.display())]
    Outside(PathBuf),
    /// A program in it is too large to be real.
    #[error("`{0}` in the archive is larger than 1 GiB")]
    TooLarge(&'static str),
    /// A program is not in it.
    #[error("the archive has no `{0}`")]
    Missing(&'static str),
    /// A program could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Unpacks `wanted` from the archive at `archive` into `directory`.
pub(super) fn unpack(archive: &Path, wanted: &[Binary], directory: &Path) -> Result<(), ArchiveError> {
    let file = File::open(archive).map_err(ArchiveError::Damaged)?;
    let mut found = Vec::new();
    let mut archive = Archive::new(GzDecoder::new(file));
    for entry in archive.entries().map_err(ArchiveError::Damaged)? {
        let mut entry = entry.map_err(ArchiveError::Damaged)?;
        let path = entry.path().map_err(ArchiveError::Damaged)?.into_owned();
        if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(ArchiveError::Outside(path));
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(binary) = wanted.iter().copied().find(|binary| Some(binary.file_name()) == name) else {
            continue;
        };
        if entry.header().entry_type() != EntryType::Regular {
            continue;
        }
        write_program(&mut entry, binary, directory)?;
        found.push(binary);
    }
    match wanted.iter().find(|binary| !found.contains(binary)) {
        Some(binary) => Err(ArchiveError::Missing(binary.file_name())),
        None => Ok(()),
    }
}

fn write_program(entry: &mut impl Read, binary: Binary, directory: &Path) -> Result<(), ArchiveError> {
    let path = directory.join(binary.file_name());
    let write_error = |source| ArchiveError::Write { path: path.clone(), source };
    let mut file = File::create(&path).map_err(write_error)?;
    let mut limited = entry.take(LARGEST_PROGRAM + 1);
    let written = std::io::copy(&mut limited, &mut file).map_err(ArchiveError::Damaged)?;
    if written > LARGEST_PROGRAM {
        return Err(ArchiveError::TooLarge(binary.file_name()));
    }
    make_executable(&path).map_err(write_error)
}

/// Lets everybody run the file at `path`.
pub(super) fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    /// An archive with the given paths, each holding its own path as content. Paths are written raw, as an attacker would.
    fn archive(directory: &Path, paths: &[&str]) -> PathBuf {
        let path = directory.join("archive.tar.gz");
        let mut builder =
            tar::Builder::new(GzEncoder::new(File::create(&path).unwrap(), Compression::fast()));
        for name in paths {
            let mut header = tar::Header::new_ustar();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(name.len() as u64);
            header.set_mode(0o755);
            header.set_entry_type(EntryType::Regular);
            header.set_cksum();
            builder.append(&header, name.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap();
        path
    }

    #[test]
    fn programs_are_written_under_their_own_names() {
        let directory = tempfile::tempdir().unwrap();
        let path =
            archive(directory.path(), &["controller-tools/envtest/etcd", "controller-tools/envtest/README"]);
        unpack(&path, &[Binary::Etcd], directory.path()).unwrap();
        let text = std::fs::read_to_string(directory.path().join("etcd")).unwrap();
        assert_eq!(text, "controller-tools/envtest/etcd");
        assert!(!directory.path().join("README").exists());
    }

    #[test]
    fn a_path_that_leads_outside_refuses_the_archive() {
        for hostile in ["../etcd", "/etc/etcd", "controller-tools/../../etcd"] {
            let directory = tempfile::tempdir().unwrap();
            let path = archive(directory.path(), &[hostile]);
            let error = unpack(&path, &[Binary::Etcd], directory.path()).unwrap_err();
            assert!(matches!(error, ArchiveError::Outside(_)), "{hostile}: {error}");
            assert!(!directory.path().join("etcd").exists());
        }
    }

    #[test]
    fn a_truncated_archive_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let path = archive(directory.path(), &["controller-tools/envtest/etcd"]);
        let length = std::fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
        let error = unpack(&path, &[Binary::Etcd], directory.path()).unwrap_err();
        assert!(matches!(error, ArchiveError::Damaged(_)), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = archive(directory.path(), &["controller-tools/envtest/etcd"]);
        let error = unpack(&path, &[Binary::Etcd, Binary::Kubectl], directory.path()).unwrap_err();
        assert_eq!(error.to_string(), "the archive has no `kubectl`");
    }
}
