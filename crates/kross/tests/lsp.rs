//! `kross lsp` with real clients: a session over standard input and output, and the built-in client of Neovim.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    missing_docs
)]

#[path = "lsp/client.rs"]
mod client;
#[path = "lsp/script.rs"]
mod script;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/lsp").canonicalize().unwrap()
}

/// A copy of the workspace of the fixtures, for a client that writes into it.
fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixtures().join("workspace")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

#[test]
fn a_session_opens_types_completes_renames_and_fixes() {
    let folder = workspace();
    script::run(&fixtures().join("session.txt"), folder.path());
}

#[test]
fn an_unreadable_schema_ends_the_server_with_a_reason() {
    let output = Command::new(env!("CARGO_BIN_EXE_kross"))
        .args(["lsp", "--crds", "/nowhere/crds"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no CustomResourceDefinition can be read from /nowhere/crds"), "{said}");
}

/// Neovim, if it is installed. In CI it must be; elsewhere a missing one is said loudly.
fn neovim() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join("nvim")).find(|path| path.is_file());
    if found.is_none() {
        let must = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!must, "nvim is not installed: `apt-get install neovim`");
        eprintln!("SKIPPED: nvim is not installed, so the language server is not tested with it");
    }
    found
}

#[test]
fn neovim_shows_diagnostics_completes_renames_and_fixes() {
    let Some(neovim) = neovim() else { return };
    let folder = workspace();
    let report = folder.path().join("report.txt");
    let mut child = Command::new(neovim)
        .args(["--headless", "--clean", "-i", "NONE", "-c"])
        .arg(format!("luafile {}", fixtures().join("neovim.lua").display()))
        .env("KROSS", env!("CARGO_BIN_EXE_kross"))
        .env("REPORT", &report)
        .env("XDG_STATE_HOME", folder.path())
        .env("XDG_CACHE_HOME", folder.path())
        .env("XDG_DATA_HOME", folder.path())
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The script gives up by itself.
    let status = child.wait().unwrap();
    let said = std::fs::read_to_string(&report).unwrap_or_else(|error| format!("no report: {error}"));
    assert!(status.success() && said.ends_with("done\n"), "{said}");
    let written = std::fs::read_to_string(folder.path().join("shop.yaml")).unwrap();
    assert!(written.contains("- id: frontend") && written.contains("${frontend.status"), "{written}");
    assert!(!written.contains("replcas"), "{written}");
}

/// The text of a file of the workspace.
fn text(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap()
}
