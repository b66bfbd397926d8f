//! Finds or downloads axe-core, the script that tests use to check that the pages of the dashboard are accessible. Looks at
//! `KROSS_AXE`, then in the cache, then asks the npm registry for the pinned version, with or without `npm`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{AssetsError, Sources, archive, cache, download};
use crate::Progress;

const NAME: &str = "axe-core";
const SCRIPT: &str = "axe.min.js";
/// SHA-512 of the archive in the registry.
const CHECKSUM: &str = "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b734f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5";

/// The script of axe-core.
#[derive(Clone, Debug)]
pub struct Axe {
    script: PathBuf,
}

impl Axe {
    /// The version.
    pub const VERSION: &'static str = "4.14.1";
    /// The environment variable with the path of another `axe.min.js` to use.
    pub const VARIABLE: &'static str = "KROSS_AXE";

    /// Finds or downloads the script. Blocks.
    ///
    /// # Errors
    /// `KROSS_AXE` is not a file, or the download failed. The error says what to install or set.
    pub fn find_or_download(progress: &Progress) -> Result<Self, AssetsError> {
        if let Some(script) = std::env::var_os(Self::VARIABLE).filter(|value| !value.is_empty()) {
            let script = PathBuf::from(script);
            return if script.is_file() { Ok(Self { script }) } else { Err(AssetsError::NoAxe(script)) };
        }
        let sources = Sources::from_environment()?;
        let entry = cache::CacheEntry::new(&sources.cache, NAME, Self::VERSION, vec![SCRIPT]);
        let directory = entry.get_or_fill(progress, |workspace| obtain(&sources, workspace, progress))?;
        Ok(Self { script: directory.join(SCRIPT) })
    }

    /// The path of the script.
    #[must_use]
    pub fn script(&self) -> &Path {
        &self.script
    }
}

/// Writes `<workspace>/bin/axe.min.js`.
fn obtain(sources: &Sources, workspace: &Path, progress: &Progress) -> Result<(), AssetsError> {
    let file = format!("{NAME}-{}.tgz", Axe::VERSION);
    let packed = workspace.join(&file);
    let address = format!("https://registry.npmjs.org/{NAME}/-/{file}");
    if let Err(error) = download::verified(sources, &address, CHECKSUM, &packed, progress) {
        // npm knows the registry and the proxy of a company.
        progress.say(format!("download failed: {}; trying `npm pack`", super::describe(&error)));
        let packed_by_npm = Command::new("npm")
            .args(["pack", &format!("{NAME}@{}", Axe::VERSION), "--silent", "--pack-destination"])
            .arg(workspace)
            .output();
        if !packed_by_npm.is_ok_and(|output| output.status.success())
            || download::has_checksum(&packed, CHECKSUM) != Some(true)
        {
            return Err(AssetsError::Axe(Box::new(error)));
        }
    }
    let bin = workspace.join("bin");
    std::fs::create_dir_all(&bin).map_err(cache::file_error("create", &bin))?;
    archive::unpack(&packed, &[SCRIPT], &bin)
        .map_err(|source| AssetsError::Axe(Box::new(download::DownloadError::Archive { address, source })))
}
