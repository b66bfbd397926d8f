//! The image is reproducible and complete, and its root file system runs the controller as a user without privileges. Takes the
//! binary of the workspace with its libraries, or the archive in `KROSS_IMAGE`, which `cargo xtask image` has written.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    missing_docs
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use flate2::read::GzDecoder;
use kross_local::{Binary, ControlPlane};
use kross_testing::wait;
use ring::digest::{SHA256, digest};
use serde_json::{Value as Json, json};

/// Makes the root file system read-only, mounts a volume on `/tmp` and runs the rest of the arguments there, as the user of the
/// image. The user namespace around it may mount.
const ENTER: &str = "root=$1; volume=$2; shift 2
mount --bind \"$root\" \"$root\"
mount --bind \"$volume\" \"$root/tmp\"
mount -o remount,bind,ro \"$root\"
exec unshare --user --map-user=65532 --map-group=65532 --root=\"$root\" --wd=/ -- \"$@\"";

struct Image {
    folder: tempfile::TempDir,
    config: Json,
}

impl Image {
    /// Unpacks an archive, checking each digest on the way.
    fn unpack(archive: &Path) -> Self {
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(fs::File::open(archive).unwrap()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.insert(entry.path().unwrap().display().to_string(), bytes);
        }
        let blob = |descriptor: &Json| {
            let digest = descriptor["digest"].as_str().unwrap();
            let bytes = &files[&format!("blobs/{}", digest.replace(':', "/"))];
            assert_eq!(
                (sha256(bytes).as_str(), bytes.len() as u64),
                (digest, descriptor["size"].as_u64().unwrap())
            );
            bytes
        };
        let json = |bytes: &[u8]| serde_json::from_slice::<Json>(bytes).unwrap();
        assert_eq!(json(&files["oci-layout"])["imageLayoutVersion"], "1.0.0");
        let manifest = json(blob(&json(&files["index.json"])["manifests"][0]));
        let config = json(blob(&manifest["config"]));
        let described = &manifest["layers"][0];
        let mut layer = blob(described).clone();
        if described["mediaType"].as_str().unwrap().ends_with("+gzip") {
            let compressed = std::mem::take(&mut layer);
            GzDecoder::new(compressed.as_slice()).read_to_end(&mut layer).unwrap();
        }
        assert_eq!(config["rootfs"]["diff_ids"], json!([sha256(&layer)]));
        let folder = tempfile::tempdir().unwrap();
        tar::Archive::new(layer.as_slice()).unpack(folder.path().join("root")).unwrap();
        fs::create_dir(folder.path().join("volume")).unwrap();
        Self { folder, config }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn volume(&self) -> PathBuf {
        self.folder.path().join("volume")
    }

    /// What a container runtime and the workspace add: names of hosts, and the libraries of a binary that is not static.
    fn complete(&self) {
        fs::write(self.root().join("etc/hosts"), "127.0.0.1 localhost\n").unwrap();
        let printed = Command::new("ldd").arg(self.root().join("kross")).output().unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        for library in printed.split_whitespace().filter(|word| word.starts_with("/lib")) {
            let copy = self.root().join(library.trim_start_matches('/'));
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(library, copy).unwrap();
        }
    }

    /// A command in the root file system: the entry point of the image with these arguments.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--", "sh", "-euc", ENTER, "sh"]);
        command.arg(self.root()).arg(self.volume());
        command.arg(self.config["config"]["Entrypoint"][0].as_str().unwrap()).args(arguments);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

fn sha256(bytes: &[u8]) -> String {
    format!(
        "sha256:{}",
        digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    )
}

/// The binary of the workspace, which `cargo test --workspace` has built.
fn binary() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("kross");
    assert!(binary.is_file(), "{} is missing: run `cargo build --package kross`", binary.display());
    binary
}

/// Writes the archive of a binary.
fn write_archive(binary: &Path, output: &Path, more: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["image", "--binary"]).arg(binary).arg("--output").arg(output).args(more);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_same_binary_gives_the_same_archive() {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("binary");
    fs::write(&binary, "binary").unwrap();
    let [first, second] = ["first", "second"].map(|name| {
        let archive = folder.path().join(name);
        write_archive(&binary, &archive, &[]);
        fs::read(archive).unwrap()
    });
    assert_eq!(first, second);
    let image = Image::unpack(&folder.path().join("first"));
    assert_eq!(fs::read_to_string(image.root().join("kross")).unwrap(), "binary");
    let names = |folder: &Path| {
        let entries =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        entries.collect::<std::collections::BTreeSet<String>>()
    };
    assert_eq!(names(&image.root()), ["etc", "kross", "licenses", "tmp"].map(str::to_owned).into());
    assert_eq!(
        names(&image.root().join("etc/ssl/certs")),
        [].into(),
        "no root certificates unless they are given"
    );
    assert_eq!(image.config["config"]["User"], "65532:65532");
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_root_file_system_of_the_image_runs_the_controller() {
    let written = tempfile::tempdir().unwrap();
    let given = std::env::var_os("KROSS_IMAGE").map(PathBuf::from);
    let archive = given.clone().unwrap_or_else(|| {
        let archive = written.path().join("image.oci.tar");
        write_archive(&binary(), &archive, &["--uncompressed"]);
        archive
    });
    let image = Image::unpack(&archive);
    if !Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "true"])
        .status()
        .unwrap()
        .success()
    {
        eprintln!("this machine allows no user namespaces: the image is not run");
        return;
    }
    if given.is_none() {
        image.complete();
    } else {
        fs::write(image.root().join("etc/hosts"), "127.0.0.1 localhost\n").unwrap();
    }
    let version = image.run(&["--version"]);
    let printed = String::from_utf8_lossy(&version.stdout);
    assert_eq!(printed.trim(), concat!("kross ", env!("CARGO_PKG_VERSION")), "{version:?}");

    // Nothing can be written outside of the volume.
    let refused = image.run(&["controller", "--audit-log-path=/audit.log", "--kubeconfig=/tmp/none"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && errors.contains("Read-only file system"), "{errors}");

    controls_a_cluster(&image).await;
}

/// Runs the controller until it has accepted a definition.
async fn controls_a_cluster(image: &Image) {
    let plane = ControlPlane::named("image").start().await.unwrap();
    let kubectl = |arguments: &[&str]| {
        let output = Command::new(plane.assets().path(Binary::Kubectl).unwrap())
            .arg("--kubeconfig")
            .arg(plane.admin_path())
            .args(arguments)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    };
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    kubectl(&["apply", "--server-side", "-f", repository.join("crds").to_str().unwrap()]).unwrap();
    // A host name has to be looked up, which a static binary does by itself.
    let kubeconfig = plane.admin().to_string().replace("127.0.0.1", "localhost");
    fs::write(image.volume().join("kubeconfig"), kubeconfig).unwrap();
    let mut command =
        image.command(&["controller", "--kubeconfig=/tmp/kubeconfig", "--audit-log-path=/tmp/audit.log"]);
    command.args(["--health-probe-bind-address=0", "--metrics-bind-address=0", "--admin-bind-address=0"]);
    let log = image.folder.path().join("log");
    let _controller = Running(command.stderr(Stdio::from(fs::File::create(&log).unwrap())).spawn().unwrap());
    let definition = json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "page"}, "spec": {
            "schema": {"apiVersion": "v1alpha1", "kind": "Page", "spec": {"text": "string"}},
            "resources": [{"id": "page", "template": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "${schema.metadata.name}"}, "data": {"text": "${schema.spec.text}"}}}]}});
    let file = image.folder.path().join("definition.json");
    fs::write(&file, definition.to_string()).unwrap();
    wait::until("the definition to be created", || async {
        kubectl(&["apply", "--server-side", "-f", file.to_str().unwrap()])
    })
    .await;
    wait::until("the definition to be active", || async {
        match kubectl(&["get", "resourcegraphdefinition", "page", "--output=jsonpath={.status.state}"])?
            .as_str()
        {
            "Active" => Ok(()),
            state => Err(format!("`{state}`: {}", fs::read_to_string(&log).unwrap())),
        }
    })
    .await;
    plane.stop().await;
}
