//! The programs come from where they should, and only when their checksum is right. The sites are local ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flate2::{Compression, write::GzEncoder};
use kross_local::{Assets, AssetsError, Binary, Kro, KubernetesVersion, Progress, Sources};
use sha2::{Digest, Sha512};

/// What a path is answered with.
#[derive(Clone)]
enum Answer {
    Whole(Vec<u8>),
    /// Announces everything and sends half.
    Half(Vec<u8>),
    Moved(String),
}

/// Serves `answers` on a free port until the test program ends, and gives its address.
fn serve(answers: HashMap<String, Answer>) -> String {
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
            let (head, body) = match answers.get(path) {
                Some(Answer::Whole(body)) => {
                    (head("200 OK", format!("Content-Length: {}\r\n", body.len())), &body[..])
                }
                Some(Answer::Half(body)) => {
                    (head("200 OK", format!("Content-Length: {}\r\n", body.len())), &body[..body.len() / 2])
                }
                Some(Answer::Moved(to)) => {
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

/// A site that publishes `archive` under `hash`, answering for the archive itself with `answer`.
fn site(hash: &str, answer: Answer) -> HashMap<String, Answer> {
    let (system, machine) = platform();
    let manager = b"manager".to_vec();
    let binary = format!("/v1.36.0/bin/{system}/{machine}/kube-controller-manager");
    let index = format!(
        "releases:\n  v1.36.0:\n    envtest-v1.36.0-{system}-{machine}.tar.gz:\n      hash: {hash}\n      selfLink: SITE/archive\n"
    );
    HashMap::from([
        ("/index".to_owned(), Answer::Whole(index.into_bytes())),
        ("/archive".to_owned(), answer),
        (
            format!("{binary}.sha512"),
            Answer::Whole(format!("{}  kube-controller-manager\n", sha512(&manager)).into()),
        ),
        (binary, Answer::Whole(manager)),
    ])
}

/// Serves a site whose index needs to know its own address.
fn serve_site(mut answers: HashMap<String, Answer>) -> String {
    let archives = serve(answers.clone());
    if let Some(Answer::Whole(index)) = answers.get_mut("/index") {
        *index = String::from_utf8_lossy(index).replace("SITE", &archives).into_bytes();
    }
    serve(answers)
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

/// Where lines are collected, to look at afterwards.
fn listening() -> (Progress, Arc<Mutex<Vec<String>>>) {
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
fn a_good_archive_is_downloaded_once_and_found_at_once_afterwards() {
    let cache = tempfile::tempdir().unwrap();
    let packed = archive(&COMPLETE);
    let mut answers = site(&sha512(&packed), Answer::Moved("/moved".to_owned()));
    answers.insert("/moved".to_owned(), Answer::Whole(packed));
    let sources = sources(cache.path(), &serve_site(answers));
    let (progress, lines) = listening();

    let assets = Assets::resolve_from(&sources, KubernetesVersion::DEFAULT, &progress).unwrap();

    assert_eq!(content(&assets, Binary::ApiServer), "real");
    assert_eq!(content(&assets, Binary::ControllerManager), "manager");
    let lines = lines.lock().unwrap();
    assert!(lines[0].contains("takes about a minute"), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("fetching http://")), "{lines:?}");

    let (progress, lines) = listening();
    let again = Assets::resolve_from(&sources, KubernetesVersion::DEFAULT, &progress).unwrap();
    assert_eq!(again.directory(), assets.directory());
    assert!(lines.lock().unwrap().is_empty());
}

#[test]
fn what_is_wrong_with_a_download_is_said_and_nothing_is_kept() {
    let packed = archive(&COMPLETE);
    let hash = sha512(&packed);
    let outside = archive(&["../../../../etcd", "kube-apiserver", "kubectl"]);
    let lacking = archive(&["etcd", "kubectl"]);
    let half = packed[..packed.len() / 2].to_vec();
    for (case, hash, answer, expected) in [
        (
            "wrong checksum",
            "00".to_owned(),
            Answer::Whole(packed.clone()),
            "has the wrong checksum: expected sha512 00, got",
        ),
        ("broken off", hash, Answer::Half(packed), "broke off after"),
        ("truncated", sha512(&half), Answer::Whole(half), "the archive is damaged"),
        ("path traversal", sha512(&outside), Answer::Whole(outside), "has a path that leads outside"),
        (
            "lacking a program",
            sha512(&lacking),
            Answer::Whole(lacking),
            "the archive has no `kube-apiserver`",
        ),
    ] {
        let cache = tempfile::tempdir().unwrap();
        let address = serve_site(site(&hash, answer));
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
fn no_network_and_no_go_is_told_within_seconds_with_what_to_do() {
    let cache = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let started = Instant::now();
    let text = resolve(&sources(cache.path(), &format!("http://{closed}"))).unwrap_err().to_string();
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(text.contains("`/nowhere/go` was not found; install Go 1.21 or newer"), "{text}");
    assert!(text.contains("or set `KUBEBUILDER_ASSETS` to a directory with"), "{text}");
}

#[test]
fn a_directory_chosen_by_hand_wins_and_is_asked_for_what_it_lacks() {
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
        text.contains("has no `kube-controller-manager`; put one there, or unset `KUBEBUILDER_ASSETS`"),
        "{text}"
    );
}

#[test]
fn several_at_once_fill_the_cache_once() {
    let cache = tempfile::tempdir().unwrap();
    let packed = archive(&COMPLETE);
    let sources = sources(cache.path(), &serve_site(site(&sha512(&packed), Answer::Whole(packed))));
    let (progress, lines) = listening();
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

/// A stand-in for the Go command that runs `script` with the output directory in `$bin`. What is executed is never written
/// here: another test's child could still have it open for writing, and then it cannot be run.
fn go(directory: &Path, script: &str) -> PathBuf {
    let path = directory.join("go");
    std::os::unix::fs::symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand-in/go"), &path).unwrap();
    std::fs::write(directory.join("go.script"), script).unwrap();
    path
}

#[test]
fn without_a_download_the_pinned_module_is_built() {
    let cache = tempfile::tempdir().unwrap();
    let mut sources = sources(cache.path(), "http://127.0.0.1:1");
    sources.go = go(
        cache.path(),
        r#"grep -q 'k8s.io/kubernetes v1.36.3' go.mod || exit 3
        test -s go.sum || exit 4
        test "$CGO_ENABLED" = 0 || exit 5
        for name in server kube-apiserver kube-controller-manager kubectl; do echo built > "$bin/$name"; done"#,
    );
    let (progress, lines) = listening();
    let assets = Assets::resolve_from(&sources, KubernetesVersion::DEFAULT, &progress).unwrap();
    assert_eq!(content(&assets, Binary::Etcd), "built\n");
    let lines = lines.lock().unwrap();
    assert!(lines.iter().any(|line| line.contains("takes 5 to 15 minutes")), "{lines:?}");
}

#[test]
fn a_build_that_fails_is_quoted() {
    let cache = tempfile::tempdir().unwrap();
    let mut sources = sources(cache.path(), "http://127.0.0.1:1");
    sources.go = go(cache.path(), "echo 'go: no space left on device' >&2; exit 1");
    let text = resolve(&sources).unwrap_err().to_string();
    assert!(text.contains("`go build` failed with exit status: 1:\ngo: no space left on device"), "{text}");
}

#[test]
fn an_archive_without_a_published_controller_manager_has_it_built() {
    let cache = tempfile::tempdir().unwrap();
    let packed = archive(&COMPLETE);
    let mut answers = site(&sha512(&packed), Answer::Whole(packed));
    answers.retain(|path, _| !path.ends_with("kube-controller-manager"));
    let mut sources = sources(cache.path(), &serve_site(answers));
    sources.go = go(cache.path(), r#"echo built > "$bin/kube-controller-manager""#);
    let assets = resolve(&sources).unwrap();
    assert_eq!(content(&assets, Binary::ApiServer), "real");
    assert_eq!(content(&assets, Binary::ControllerManager), "built\n");
}

#[test]
fn kro_is_built_once_and_kept_with_its_crds() {
    let cache = tempfile::tempdir().unwrap();
    let crds = cache.path().join("sources/helm/crds");
    std::fs::create_dir_all(&crds).unwrap();
    for name in ["internal.kro.run_graphrevisions.yaml", "kro.run_resourcegraphdefinitions.yaml"] {
        std::fs::write(crds.join(name), name).unwrap();
    }
    let mut sources = sources(cache.path(), "http://127.0.0.1:1");
    sources.go = go(
        cache.path(),
        r#"grep -q 'github.com/kubernetes-sigs/kro v0.9.4' go.mod || exit 3
        test -s go.sum || exit 4
        echo built > "$bin/controller""#,
    );
    let (progress, lines) = listening();
    let kro = Kro::find_or_build_from(&sources, &progress).unwrap();
    assert_eq!(std::fs::read_to_string(kro.program()).unwrap(), "built\n");
    assert_eq!(kro.crds().unwrap()[1], "kro.run_resourcegraphdefinitions.yaml");
    assert!(lines.lock().unwrap().iter().any(|line| line.contains("building kro v0.9.4")));

    sources.go = PathBuf::from("/nowhere/go");
    let again = Kro::find_or_build_from(&sources, &progress).unwrap();
    assert_eq!(again.program(), kro.program());
}

#[test]
fn without_go_the_error_says_what_to_set_to_have_kro() {
    let cache = tempfile::tempdir().unwrap();
    let sources = sources(cache.path(), "http://127.0.0.1:1");
    let text = Kro::find_or_build_from(&sources, &Progress::silent()).unwrap_err().to_string();
    assert!(text.starts_with("cannot build kro v0.9.4: `/nowhere/go` was not found; install Go"), "{text}");
    assert!(text.contains("or set `KROSS_KRO`"), "{text}");
}
