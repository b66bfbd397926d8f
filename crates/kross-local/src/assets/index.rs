//! Finds the archive for this platform in the published index of envtest archives: the newest patch release of the requested
//! minor version, with its URL and SHA-512.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::KubernetesVersion;

/// The URL of the published index.
pub(super) const PUBLISHED: &str =
    "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml";

#[derive(Debug, Deserialize)]
struct Index {
    releases: BTreeMap<String, BTreeMap<String, Entry>>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    hash: String,
    #[serde(rename = "selfLink")]
    self_link: String,
}

/// One published archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Archive {
    /// Its exact version, such as `1.36.0`. Not every patch release is published.
    pub(super) version: String,
    pub(super) address: String,
    pub(super) sha512: String,
}

/// Finds the archive for a version.
pub(super) fn choose(
    text: &str,
    version: KubernetesVersion,
    operating_system: &str,
    architecture: &str,
) -> Result<Option<Archive>, serde_saphyr::Error> {
    let index: Index = serde_saphyr::from_str(text)?;
    let prefix = format!("v{}.", version.minor());
    let best = index
        .releases
        .into_iter()
        .filter_map(|(name, files)| {
            // Skip pre-releases such as `v1.36.0-rc.1`: their names do not parse as a number.
            let patch: u32 = name.strip_prefix(&prefix)?.parse().ok()?;
            let entry = files.into_iter().find_map(|(file, entry)| {
                file.ends_with(&format!("-{operating_system}-{architecture}.tar.gz")).then_some(entry)
            })?;
            Some((patch, entry))
        })
        .max_by_key(|(patch, _)| *patch);
    Ok(best.map(|(patch, entry)| Archive {
        version: format!("{}.{patch}", version.minor()),
        address: entry.self_link,
        sha512: entry.hash.to_ascii_lowercase(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "\
releases:
  v1.36.2:
    envtest-v1.36.2-linux-amd64.tar.gz: {hash: AA, selfLink: 'https://example.com/2'}
  v1.36.10:
    envtest-v1.36.10-linux-amd64.tar.gz: {hash: bb, selfLink: 'https://example.com/10'}
    envtest-v1.36.10-linux-arm64.tar.gz: {hash: cc, selfLink: 'https://example.com/arm'}
  v1.36.11-rc.0:
    envtest-v1.36.11-rc.0-linux-amd64.tar.gz: {hash: dd, selfLink: 'https://example.com/rc'}
  v1.35.0:
    envtest-v1.35.0-linux-amd64.tar.gz: {hash: ee, selfLink: 'https://example.com/35'}
";

    #[test]
    fn the_newest_patch_release_of_the_minor_version_wins() {
        let archive = choose(INDEX, KubernetesVersion::DEFAULT, "linux", "amd64").unwrap().unwrap();
        assert_eq!(archive.version, "1.36.10");
        assert_eq!(archive.address, "https://example.com/10");
        assert_eq!(archive.sha512, "bb");
    }

    #[test]
    fn a_platform_without_an_archive_has_none() {
        assert_eq!(choose(INDEX, KubernetesVersion::DEFAULT, "plan9", "amd64").unwrap(), None);
    }

    #[test]
    fn an_invalid_index_is_an_error() {
        assert!(choose("<html>", KubernetesVersion::DEFAULT, "linux", "amd64").is_err());
    }
}
