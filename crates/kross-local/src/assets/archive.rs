//! Unpacks files from an archive whose checksum is verified. Takes only regular files with expected names, and
//! ignores their paths in the archive when it writes them.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

/// Larger than any real program. Protects against an archive that inflates without end.
const MAX_PROGRAM_SIZE: u64 = 1 << 30;

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It cannot be read completely.
    #[error("the archive is damaged")]
    Damaged(#[source] std::io::Error),
    /// A path in it is outside of the directory that it is unpacked to.
    #[error("the archive has a path outside of its directory: `{}`", .0.display())]
    Outside(PathBuf),
    /// A program in it is too large.
    #[error("`{0}` in the archive is larger than 1 GiB")]
    TooLarge(&'static str),
    /// A program is missing.
    #[error("the archive has no `{0}`")]
    Missing(&'static str),
    /// A program could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// Unpacks `wanted` from the archive at `archive` into `directory`.
pub(super) fn unpack(archive: &Path, wanted: &[&'static str], directory: &Path) -> Result<(), ArchiveError> {
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
        let Some(wanted) = wanted.iter().copied().find(|wanted| Some(*wanted) == name) else {
            continue;
        };
        if entry.header().entry_type() != EntryType::Regular {
            continue;
        }
        write_file(&mut entry, wanted, directory)?;
        found.push(wanted);
    }
    match wanted.iter().find(|wanted| !found.contains(wanted)) {
        Some(missing) => Err(ArchiveError::Missing(missing)),
        None => Ok(()),
    }
}

fn write_file(entry: &mut impl Read, name: &'static str, directory: &Path) -> Result<(), ArchiveError> {
    let path = directory.join(name);
    let write_error = |source| ArchiveError::Write { path: path.clone(), source };
    let mut file = File::create(&path).map_err(write_error)?;
    let mut limited = entry.take(MAX_PROGRAM_SIZE + 1);
    let written = std::io::copy(&mut limited, &mut file).map_err(ArchiveError::Damaged)?;
    if written > MAX_PROGRAM_SIZE {
        return Err(ArchiveError::TooLarge(name));
    }
    make_executable(&path).map_err(write_error)
}

/// Makes a file executable for all users.
pub(super) fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    /// An archive with the given paths, each with its path as content. Writes paths unchecked, as an attacker would.
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
        unpack(&path, &["etcd"], directory.path()).unwrap();
        let text = std::fs::read_to_string(directory.path().join("etcd")).unwrap();
        assert_eq!(text, "controller-tools/envtest/etcd");
        assert!(!directory.path().join("README").exists());
    }

    #[test]
    fn an_archive_with_a_path_outside_of_its_directory_is_rejected() {
        for hostile in ["../etcd", "/etc/etcd", "controller-tools/../../etcd"] {
            let directory = tempfile::tempdir().unwrap();
            let path = archive(directory.path(), &[hostile]);
            let error = unpack(&path, &["etcd"], directory.path()).unwrap_err();
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
        let error = unpack(&path, &["etcd"], directory.path()).unwrap_err();
        assert!(matches!(error, ArchiveError::Damaged(_)), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = archive(directory.path(), &["controller-tools/envtest/etcd"]);
        let error = unpack(&path, &["etcd", "kubectl"], directory.path()).unwrap_err();
        assert_eq!(error.to_string(), "the archive has no `kubectl`");
    }
}
