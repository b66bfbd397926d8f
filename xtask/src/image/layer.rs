//! The one layer of the image: the binary, the user that it runs as, and where volumes are mounted. The same input gives the same
//! bytes.

use std::io::Write;

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest::{SHA256, digest as hash};

/// The user of the image, which owns nothing in it.
pub(super) const USER: u32 = 65532;

/// Lookups of users need no other files; a host name is looked up in `/etc/hosts`, which the kubelet writes, and by DNS.
const FILES: [(&str, &str); 3] = [
    ("etc/passwd", "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"),
    ("etc/group", "root:x:0:\nnonroot:x:65532:\n"),
    ("etc/nsswitch.conf", "hosts: files dns\n"),
];
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
const LICENSE: &str = include_str!("../../../LICENSE");

/// A layer: its bytes in the archive, and the digest of its files.
pub(super) struct Layer {
    pub(super) bytes: Vec<u8>,
    pub(super) media_type: &'static str,
    pub(super) files_digest: String,
}

/// The layer with a binary and, if given, root certificates.
pub(super) fn layer(binary: &[u8], certificates: Option<&[u8]>, compress: bool) -> anyhow::Result<Layer> {
    let mut builder = tar::Builder::new(Vec::new());
    for (folder, mode) in [
        ("etc/", 0o755),
        ("etc/ssl/", 0o755),
        ("etc/ssl/certs/", 0o755),
        ("licenses/", 0o755),
        ("tmp/", 0o1777),
    ] {
        let mut header = header(tar::EntryType::Directory, mode, 0);
        builder.append_data(&mut header, folder, std::io::empty())?;
    }
    let mut files: Vec<(&str, u32, &[u8])> =
        FILES.iter().map(|(path, text)| (*path, 0o644, text.as_bytes())).collect();
    files.extend(certificates.map(|pem| (CERTIFICATES, 0o644, pem)));
    files.push(("licenses/LICENSE", 0o644, LICENSE.as_bytes()));
    files.push(("kross", 0o755, binary));
    for (path, mode, contents) in files {
        let mut header = header(tar::EntryType::Regular, mode, contents.len());
        builder.append_data(&mut header, path, contents)?;
    }
    let tar = builder.into_inner().context("cannot write the layer")?;
    let files_digest = digest(&tar);
    if !compress {
        return Ok(Layer { bytes: tar, media_type: "application/vnd.oci.image.layer.v1.tar", files_digest });
    }
    // The header of gzip gets neither a time nor a name.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&tar)?;
    let media_type = "application/vnd.oci.image.layer.v1.tar+gzip";
    Ok(Layer { bytes: encoder.finish()?, media_type, files_digest })
}

/// A header with the owner root and the first second of 1970.
fn header(kind: tar::EntryType, mode: u32, size: usize) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size as u64);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

pub(super) fn digest(bytes: &[u8]) -> String {
    format!(
        "sha256:{}",
        hash(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    )
}

/// The program that loads the shared libraries of a 64-bit ELF binary; none if it needs none.
pub(super) fn interpreter(elf: &[u8]) -> Option<String> {
    const PROGRAM_INTERPRETER: u64 = 3;
    let number = |at: usize, length: usize| -> Option<u64> {
        let bytes = elf.get(at..at.checked_add(length)?)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let index = |at, length| number(at, length).and_then(|number| usize::try_from(number).ok());
    let (table, entry, count) = (index(32, 8)?, index(54, 2)?, index(56, 2)?);
    let position = (0..count).find_map(|nth| {
        let at = table.checked_add(nth.checked_mul(entry)?)?;
        (number(at, 4)? == PROGRAM_INTERPRETER).then_some(at)
    })?;
    let (start, length) = (index(position.checked_add(8)?, 8)?, index(position.checked_add(32)?, 8)?);
    let name = elf.get(start..start.checked_add(length)?)?;
    Some(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_input_gives_the_same_bytes() {
        for compress in [true, false] {
            let [first, second] = [(); 2].map(|()| layer(b"binary", Some(b"pem"), compress).unwrap());
            assert_eq!(first.bytes, second.bytes);
            assert_ne!(first.files_digest, layer(b"other", Some(b"pem"), compress).unwrap().files_digest);
        }
    }

    #[test]
    fn a_binary_with_shared_libraries_names_its_loader() {
        // The test itself is one, unless it was linked statically.
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let loader = interpreter(&own).unwrap_or_default();
        assert_eq!(loader.contains("ld-"), cfg!(not(target_feature = "crt-static")), "{loader}");
        assert_eq!(interpreter(b"no ELF"), None);
    }
}
