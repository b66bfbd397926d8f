//! Archives with the same bytes for the same files: no times, no users, entries in order.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A gzipped tar archive that is being written.
pub(super) struct Tarball(tar::Builder<GzEncoder<Vec<u8>>>);

impl Tarball {
    pub(super) fn new() -> Self {
        // The header of gzip gets neither a time nor a name.
        Self(tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best())))
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, contents: &[u8]) -> anyhow::Result<()> {
        let mut header = header(tar::EntryType::Regular, mode);
        header.set_size(contents.len() as u64);
        self.0.append_data(&mut header, path, contents).with_context(|| format!("cannot archive {path}"))
    }

    fn link(&mut self, path: &str, target: &str) -> anyhow::Result<()> {
        let mut header = header(tar::EntryType::Symlink, 0o777);
        header.set_size(0);
        self.0.append_link(&mut header, path, target).with_context(|| format!("cannot archive {path}"))
    }

    pub(super) fn finish(self) -> anyhow::Result<Vec<u8>> {
        let mut encoder = self.0.into_inner()?;
        encoder.flush()?;
        Ok(encoder.finish()?)
    }
}

/// The archive for people who install the command line: the binary, also as a plugin of kubectl.
pub(super) fn of_binary(root: &Path, binary: &Path) -> anyhow::Result<Vec<u8>> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let mut archive = Tarball::new();
    archive.file("kross", 0o755, &read(binary)?)?;
    archive.link("kubectl-kross", "kross")?;
    archive.file("LICENSE", 0o644, &read(&root.join("LICENSE"))?)?;
    archive.finish()
}

/// A header with the owner root and the first second of 1970.
fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}
