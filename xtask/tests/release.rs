//! A release is complete, has one version and no path of this machine, and the same sources give the same bytes. Takes the binary of
//! the workspace, which `cargo xtask release` builds otherwise.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::read::GzDecoder;
use kross_local::{Helm, Progress};
use serde_json::Value as Json;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).arg("release").args(arguments).output().unwrap()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A program that says it is this version of kross: the real one has a hundred megabytes of debug information.
fn program(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("program");
    fs::write(&path, format!("#!/bin/sh\necho kross {VERSION}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The files of a release, by name.
fn release(program: &Path, output: &Path) -> BTreeMap<String, Vec<u8>> {
    let made = xtask(&[
        "--allow-dirty",
        "--binary",
        program.to_str().unwrap(),
        "--output",
        output.to_str().unwrap(),
        "--tag",
        &format!("v{VERSION}"),
    ]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let entries = fs::read_dir(output).unwrap().map(|entry| entry.unwrap());
    let named =
        |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    entries.map(named).collect()
}

/// The files of a gzipped archive, by name.
fn unpacked(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut contents = Vec::new();
        entry.read_to_end(&mut contents).unwrap();
        files.insert(entry.path().unwrap().display().to_string(), contents);
    }
    files
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_release_is_complete_and_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let first = release(&program, &folder.path().join("first"));
    let second = release(&program, &folder.path().join("second"));
    assert_eq!(first, second);

    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let names: BTreeSet<String> = [
        format!("kross-{VERSION}-linux-{architecture}.tar.gz"),
        format!("kross-{VERSION}-linux-{architecture}.oci.tar"),
        format!("kross-{VERSION}.tgz"),
        format!("kross-{VERSION}.yaml"),
        format!("kross-{VERSION}.cdx.json"),
        format!("kross-{VERSION}-notes.md"),
        "SHA256SUMS".to_owned(),
    ]
    .into();
    assert_eq!(first.keys().cloned().collect::<BTreeSet<_>>(), names);

    // As users verify it.
    let checked = Command::new("sha256sum")
        .current_dir(folder.path().join("first"))
        .args(["--check", "--strict", "SHA256SUMS"])
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert_eq!(text(&checked.stdout).lines().count(), names.len() - 1);

    let archive = unpacked(&first[&format!("kross-{VERSION}-linux-{architecture}.tar.gz")]);
    assert_eq!(archive.keys().collect::<Vec<_>>(), ["LICENSE", "kross", "kubectl-kross"]);
    assert_eq!(archive["kross"], fs::read(&program).unwrap());

    let manifest = text(&first[&format!("kross-{VERSION}.yaml")]);
    assert!(manifest.contains(&format!("image: \"ghcr.io/kross-run/kross:{VERSION}\"")));
    let notes = text(&first[&format!("kross-{VERSION}-notes.md")]);
    assert!(notes.starts_with(&format!("# kross {VERSION}\n\n")) && notes.lines().count() > 5, "{notes}");
    assert!(!notes.contains("](docs/"), "{notes}");

    let package = &first[&format!("kross-{VERSION}.tgz")];
    for (name, contents) in unpacked(package).into_iter().filter(|(name, _)| name != "kross/Chart.yaml") {
        let source = repository().join("charts").join(&name);
        assert_eq!(fs::read(&source).ok(), Some(contents), "{name}");
    }
    renders_like_the_sources(&folder.path().join("first").join(format!("kross-{VERSION}.tgz")));
    bill_of_materials(&text(&first[&format!("kross-{VERSION}.cdx.json")]));
}

fn renders_like_the_sources(package: &Path) {
    let helm = Helm::find_or_build(&Progress::stderr()).unwrap();
    let [packaged, source] = [package, &repository().join("charts/kross")].map(|chart| {
        let arguments = ["template", "kross", chart.to_str().unwrap(), "--namespace", "kro-system"];
        let output = helm.command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    });
    assert!(packaged == source, "the package renders something else");
}

/// It has what `cargo tree` says, nothing of tests, and no path.
fn bill_of_materials(text: &str) {
    assert!(!text.contains("file:") && !text.contains(repository().to_str().unwrap()), "{text}");
    let document: Json = serde_json::from_str(text).unwrap();
    assert_eq!((&document["bomFormat"], &document["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
    assert_eq!(document["metadata"]["component"]["purl"], format!("pkg:cargo/kross@{VERSION}"));
    let components = document["components"].as_array().unwrap();
    let names: BTreeSet<&str> = components.iter().map(|one| one["name"].as_str().unwrap()).collect();
    for name in ["kross-controller", "rustls", "serde", "tokio"] {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
    for name in ["kross", "kross-testing", "xtask", "insta", "proptest"] {
        assert!(!names.contains(name), "{name} is in {names:?}");
    }
    for component in components.iter().filter(|one| !one["name"].as_str().unwrap().starts_with("kross-")) {
        assert_eq!(component["hashes"][0]["content"].as_str().map(str::len), Some(64), "{component}");
        assert!(component["licenses"][0]["expression"].is_string(), "{component}");
    }
    let mut known: BTreeSet<&str> = components.iter().map(|one| one["bom-ref"].as_str().unwrap()).collect();
    known.insert(document["metadata"]["component"]["bom-ref"].as_str().unwrap());
    for dependency in document["dependencies"].as_array().unwrap() {
        for on in dependency["dependsOn"].as_array().unwrap().iter().chain([&dependency["ref"]]) {
            assert!(known.contains(on.as_str().unwrap()), "{on}");
        }
    }
    let tree = Command::new("cargo")
        .current_dir(repository())
        .args([
            "tree",
            "--locked",
            "--package",
            "kross",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .output()
        .unwrap();
    let missing: Vec<String> = String::from_utf8(tree.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some(format!("pkg:cargo/{}@{}", words.next()?, words.next()?.strip_prefix('v')?))
        })
        .filter(|purl| !known.contains(purl.as_str()))
        .collect();
    assert!(missing.is_empty() && tree.status.success(), "{missing:?}");
}

#[test]
fn a_release_that_would_be_wrong_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (program, output) = (program(folder.path()), folder.path().join("output"));
    let refused = |arguments: &[&str], error: &str| {
        let fixed = ["--allow-dirty", "--output", output.to_str().unwrap()];
        let refused = xtask(&[&fixed[..], arguments].concat());
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && errors.contains(error), "{errors}");
    };
    refused(&["--tag", "v9.9.9"], "the tag `v9.9.9` is not that of version");
    refused(&["--target", "aarch64-apple-darwin"], "releases are for");
    fs::write(&program, "#!/bin/sh\necho kross 0.0.1\n").unwrap();
    fs::remove_dir_all(&output).ok();
    refused(&["--binary", program.to_str().unwrap()], "is `kross 0.0.1`, and not version");
    // Files of another release would get into the checksums.
    fs::remove_dir_all(&output).ok();
    fs::create_dir(&output).unwrap();
    fs::write(output.join("old"), "").unwrap();
    refused(&["--binary", program.to_str().unwrap()], "is not empty");
}

/// The workflows run the gate and the tasks with flags that exist.
#[test]
fn workflows_use_tasks_that_exist() {
    let workflow = |name: &str| {
        let path = repository().join(".github/workflows").join(name);
        fs::read_to_string(path).unwrap().replace("\n          --", " --")
    };
    let (ci, release) = (workflow("ci.yml"), workflow("release.yml"));
    for workflow in [&ci, &release] {
        assert!(workflow.contains("- run: .ci/run\n"), "{workflow}");
    }
    assert!(release.contains("cargo xtask release --tag "), "{release}");
    let mut checked = 0;
    for line in ci.lines().chain(release.lines()) {
        let Some((_, task)) = line.split_once("cargo xtask ") else { continue };
        if line.trim_start().starts_with('#') {
            continue;
        }
        let mut words = task.split_whitespace();
        let help = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args([words.next().unwrap(), "--help"])
            .output()
            .unwrap();
        let help = text(&help.stdout);
        for flag in words.filter(|word| word.starts_with("--")) {
            assert!(
                help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}\n")),
                "{flag} in `{line}`"
            );
            checked += 1;
        }
    }
    assert!(checked >= 6, "{checked} flags");
}
