//! Programs are found, downloaded or built in this order, and only used if their checksum is right. The servers are local.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flate2::{Compression, write::GzEncoder};
use kross_local::{Assets, AssetsError, Binary, Helm, Kro, KubernetesVersion, Progress, Sources};
use sha2::{Digest, Sha512};

/// The response for a path.
#[derive(Clone)]
enum Response {
    Whole(Vec<u8>),
    /// Sends the full `Content-Length` and half of the body.
    Half(Vec<u8>),
    Moved(String),
}

/// Serves `responses` on a free port until the test program exits. Returns the URL.
fn serve(responses: HashMap<String, Response>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let path = request.split(' ').nth(1).unwrap();
            let head =
                |status: &str, more: String| format!("HTTP/1.1 {status}\r\nConnection: close\r\n{more}\r\n");
            let (head, body) = match responses.get(path) {
                Some(Response::Whole(body)) => {
                    (head("200 OK", format!("Content-Length: {}\r\n", body.len())), &body[..])
                }
                Some(Response::Half(body)) => {
                    (head("200 OK", format!("Content-Length: {}\r\n", body.len())), &body[..body.len() / 2])
                }
                Some(Response::Moved(to)) => {
                    (head("302 Found", format!("Location: {to}\r\nContent-Length: 0\r\n")), &[][..])
                }
                None => (head("404 Not Found", "Content-Length: 0\r\n".to_owned()), &[][..]),
            };
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    address
}

fn sha512(bytes: &[u8]) -> String {
    Sha512::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn archive(names: &[&str]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for name in names {
        let mut header = tar::Header::new_ustar();
        let path = format!("controller-tools/envtest/{name}");
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(4);
        header.set_mode(0o755);
        header.set_cksum();
        builder.append(&header, &b"real"[..]).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn platform() -> (&'static str, &'static str) {
    let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    (system, if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" })
}

/// The responses of a site that publishes an archive under `hash`, with `response` for the archive itself.
fn site(hash: &str, response: Response) -> HashMap<String, Response> {
    let (system, machine) = platform();
    let manager = b"manager".to_vec();
    let binary = format!("/v1.36.0/bin/{system}/{machine}/kube-controller-manager");
    let index = format!(
        "releases:\n  v1.36.0:\n    envtest-v1.36.0-{system}-{machine}.tar.gz:\n      hash: {hash}\n      selfLink: SITE/archive\n"
    );
    HashMap::from([
        ("/index".to_owned(), Response::Whole(index.into_bytes())),
        ("/archive".to_owned(), response),
        (
            format!("{binary}.sha512"),
            Response::Whole(format!("{}  kube-controller-manager\n", sha512(&manager)).into()),
        ),
        (binary, Response::Whole(manager)),
    ])
}

/// Serves a site whose index contains its own URL.
fn serve_site(mut responses: HashMap<String, Response>) -> String {
    let archives = serve(responses.clone());
    if let Some(Response::Whole(index)) = responses.get_mut("/index") {
        *index = String::from_utf8_lossy(index).replace("SITE", &archives).into_bytes();
    }
    serve(responses)
}

fn sources(cache: &Path, address: &str) -> Sources {
    Sources {
        directory: None,
        cache: cache.to_owned(),
        releases: format!("{address}/index"),
        binaries: address.to_owned(),
        connect_timeout: Duration::from_secs(2),
        go: PathBuf::from("/nowhere/go"),
    }
}

/// A progress that collects its lines.
fn collecting() -> (Progress, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    (Progress::new(move |line| sink.lock().unwrap().push(line.to_owned())), lines)
}

fn resolve(sources: &Sources) -> Result<Assets, AssetsError> {
    Assets::resolve_from(sources, KubernetesVersion::DEFAULT, &Progress::silent())
}

fn content(assets: &Assets, binary: Binary) -> String {
    let mut text = String::new();
    std::fs::File::open(assets.path(binary).unwrap()).unwrap().read_to_string(&mut text).unwrap();
    text
}

const COMPLETE: [&str; 3] = ["etcd", "kube-apiserver", "kubectl"];

#[test]
fn a_valid_archive_is_downloaded_once_and_then_found_in_the_cache() {
    let cache = tempfile::tempdir().unwrap();
    let packed = archive(&COMPLETE);
    let mut responses = site(&sha512(&packed), Response::Moved("/moved".to_owned()));
    responses.insert("/moved".to_owned(), Response::Whole(packed));
    let sources = sources(cache.path(), &serve_site(responses));
    let (progress, lines) = collecting();

    let assets = Assets::resolve_from(&sources, KubernetesVersion::DEFAULT, &progress).unwrap();

    assert_eq!(content(&assets, Binary::ApiServer), "real");
    assert_eq!(content(&assets, Binary::ControllerManager), "manager");
    let lines = lines.lock().unwrap();
    assert!(lines[0].contains("takes about a minute"), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("fetching http://")), "{lines:?}");

    let (progress, lines) = collecting();
    let again = Assets::resolve_from(&sources, KubernetesVersion::DEFAULT, &progress).unwrap();
    assert_eq!(again.directory(), assets.directory());
    assert!(lines.lock().unwrap().is_empty());
}

#[test]
fn a_failed_download_is_reported_and_nothing_is_kept() {
    let packed = archive(&COMPLETE);
    let hash = sha512(&packed);
    let outside = archive(&["../../../../etcd", "kube-apiserver", "kubectl"]);
    let lacking = archive(&["etcd", "kubectl"]);
    let half = packed[..packed.len() / 2].to_vec();
    for (case, hash, response, expected) in [
        (
            "wrong checksum",
            "00".to_owned(),
            Response::Whole(packed.clone()),
            "has the wrong checksum: expected sha512 00, got",
        ),
        ("interrupted", hash, Response::Half(packed), "ended after"),
        ("truncated", sha512(&half), Response::Whole(half), "the archive is damaged"),
        ("path traversal", sha512(&outside), Response::Whole(outside), "has a path outside of its directory"),
        (
            "lacking a program",
            sha512(&lacking),
            Response::Whole(lacking),
            "the archive has no `kube-apiserver`",
        ),
    ] {
        let cache = tempfile::tempdir().unwrap();
        let address = serve_site(site(&hash, response));
        let text = resolve(&sources(cache.path(), &address)).unwrap_err().to_string();
        assert!(text.contains(expected), "{case}: {text}");
        assert!(text.contains("install Go"), "{case}: {text}");
        let kept: Vec<_> = std::fs::read_dir(cache.path().join("control-plane"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.ends_with(".lock"))
            .collect();
        assert_eq!(kept, Vec::<String>::new(), "{case}");
    }
}

#[test]
fn without_network_and_go_the_error_comes_within_seconds_and_says_what_to_do() {
    let cache = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let started = Instant::now();
    let text = resolve(&sources(cache.path(), &format!("http://{closed}"))).unwrap_err().to_string();
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(text.contains("`/nowhere/go` was not found; install Go 1.21 or newer"), "{text}");
    assert!(text.contains("or set `KUBEBUILDER_ASSETS` to a directory with"), "{text}");
}

#[test]
fn the_configured_directory_takes_precedence_and_a_missing_program_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let mut sources = sources(directory.path(), "http://127.0.0.1:1");
    sources.directory = Some(directory.path().to_owned());
    let text = resolve(&sources).unwrap_err().to_string();
    assert!(text.contains("has no `etcd`"), "{text}");
    for name in COMPLETE {
        std::fs::write(directory.path().join(name), "mine").unwrap();
    }
    let assets = resolve(&sources).unwrap();
    assert_eq!(content(&assets, Binary::Etcd), "mine");
    let text = assets.path(Binary::ControllerManager).unwrap_err().to_string();
    assert!(
        text.contains("has no `kube-controller-manager`: add it, or unset `KUBEBUILDER_ASSETS`"),
        "{text}"
    );
}

#[test]
fn concurrent_callers_fill_the_cache_once() {
    let cache = tempfile::tempdir().unwrap();
    let packed = archive(&COMPLETE);
    let sources = sources(cache.path(), &serve_site(site(&sha512(&packed), Response::Whole(packed))));
    let (progress, lines) = collecting();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let assets = Assets::resolve_from(&sources, KubernetesVersion::DEFAULT, &progress).unwrap();
                assert_eq!(content(&assets, Binary::Etcd), "real");
            });
        }
    });
    let downloads = lines.lock().unwrap().iter().filter(|line| line.ends_with("/archive")).count();
    assert_eq!(downloads, 1);
}

/// A fake Go command that runs `script` with the output directory in `$bin`. The executable is a link to a file in the
/// repository: a file that is written here could still be open for writing in a child of another test, and then it cannot be
/// executed.
fn fake_go(directory: &Path, script: &str) -> PathBuf {
    let path = directory.join("go");
    std::os::unix::fs::symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake-go/go"), &path).unwrap();
    std::fs::write(directory.join("go.script"), script).unwrap();
    path
}

#[test]
fn without_a_download_the_pinned_module_is_built() {
    let cache = tempfile::tempdir().unwrap();
    let mut sources = sources(cache.path(), "http://127.0.0.1:1");
    sources.go = fake_go(
        cache.path(),
        r#"grep -q 'k8s.io/kubernetes v1.36.3' go.mod || exit 3
        test -s go.sum || exit 4
        test "$CGO_ENABLED" = 0 || exit 5
        for name in server kube-apiserver kube-controller-manager kubectl; do echo built > "$bin/$name"; done"#,
    );
    let (progress, lines) = collecting();
    let assets = Assets::resolve_from(&sources, KubernetesVersion::DEFAULT, &progress).unwrap();
    assert_eq!(content(&assets, Binary::Etcd), "built\n");
    let lines = lines.lock().unwrap();
    assert!(lines.iter().any(|line| line.contains("takes 5 to 15 minutes")), "{lines:?}");
}

#[test]
fn the_output_of_a_failed_build_is_quoted() {
    let cache = tempfile::tempdir().unwrap();
    let mut sources = sources(cache.path(), "http://127.0.0.1:1");
    sources.go = fake_go(cache.path(), "echo 'go: no space left on device' >&2; exit 1");
    let text = resolve(&sources).unwrap_err().to_string();
    assert!(text.contains("`go build` failed with exit status: 1:\ngo: no space left on device"), "{text}");
}

#[test]
fn a_controller_manager_that_is_not_published_is_built() {
    let cache = tempfile::tempdir().unwrap();
    let packed = archive(&COMPLETE);
    let mut responses = site(&sha512(&packed), Response::Whole(packed));
    responses.retain(|path, _| !path.ends_with("kube-controller-manager"));
    let mut sources = sources(cache.path(), &serve_site(responses));
    sources.go = fake_go(cache.path(), r#"echo built > "$bin/kube-controller-manager""#);
    let assets = resolve(&sources).unwrap();
    assert_eq!(content(&assets, Binary::ApiServer), "real");
    assert_eq!(content(&assets, Binary::ControllerManager), "built\n");
}

#[test]
fn kro_is_built_once_and_cached_with_its_crds() {
    let cache = tempfile::tempdir().unwrap();
    let crds = cache.path().join("sources/helm/crds");
    std::fs::create_dir_all(&crds).unwrap();
    for name in ["internal.kro.run_graphrevisions.yaml", "kro.run_resourcegraphdefinitions.yaml"] {
        std::fs::write(crds.join(name), name).unwrap();
    }
    let mut sources = sources(cache.path(), "http://127.0.0.1:1");
    sources.go = fake_go(
        cache.path(),
        r#"grep -q 'github.com/kubernetes-sigs/kro v0.9.4' go.mod || exit 3
        test -s go.sum || exit 4
        echo built > "$bin/controller""#,
    );
    let (progress, lines) = collecting();
    let kro = Kro::find_or_build_from(&sources, &progress).unwrap();
    assert_eq!(std::fs::read_to_string(kro.program()).unwrap(), "built\n");
    assert_eq!(kro.crds().unwrap()[1], "kro.run_resourcegraphdefinitions.yaml");
    assert!(lines.lock().unwrap().iter().any(|line| line.contains("building kro v0.9.4")));

    sources.go = PathBuf::from("/nowhere/go");
    let again = Kro::find_or_build_from(&sources, &progress).unwrap();
    assert_eq!(again.program(), kro.program());
}

#[test]
fn without_go_the_error_says_how_to_provide_kro() {
    let cache = tempfile::tempdir().unwrap();
    let sources = sources(cache.path(), "http://127.0.0.1:1");
    let text = Kro::find_or_build_from(&sources, &Progress::silent()).unwrap_err().to_string();
    assert!(text.starts_with("cannot build kro v0.9.4: `/nowhere/go` was not found; install Go"), "{text}");
    assert!(text.contains("or set `KROSS_KRO`"), "{text}");
}

#[test]
fn helm_is_found_in_path_or_built_once() {
    let cache = tempfile::tempdir().unwrap();
    let mut sources = sources(cache.path(), "http://127.0.0.1:1");
    sources.go = fake_go(
        cache.path(),
        r#"grep -q 'helm.sh/helm/v4 v4.2.4' go.mod || exit 3
        test -s go.sum || exit 4
        echo built > "$bin/helm""#,
    );
    let installed = |name: &str, version: &str| {
        let folder = cache.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("helm");
        std::fs::write(&program, format!("#!/bin/sh\nprintf {version}")).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        folder
    };
    let (other, same) = (installed("other", "v3.1.0"), installed("same", "v4.2.4"));
    let (progress, lines) = collecting();
    let found = Helm::find_or_build_from(&sources, &[other.clone(), same.clone()], &progress).unwrap();
    assert_eq!(found.program(), same.join("helm"));
    assert!(lines.lock().unwrap().is_empty(), "nothing is built");

    let built = Helm::find_or_build_from(&sources, &[other], &progress).unwrap();
    assert_eq!(std::fs::read_to_string(built.program()).unwrap(), "built\n");
    sources.go = PathBuf::from("/nowhere/go");
    let again = Helm::find_or_build_from(&sources, &[same], &progress).unwrap();
    assert_eq!(again.program(), built.program());
}
