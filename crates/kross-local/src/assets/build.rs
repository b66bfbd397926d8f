//! Builds programs from a pinned Go module. All sources come from the Go module proxy, verified by the module's `go.sum`.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::{Binary, elapsed};
use crate::{KubernetesVersion, Progress};

/// The number of lines of the compiler's output that an error quotes.
const QUOTED_LINES: usize = 15;
/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Why a build failed.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Go is not installed.
    #[error("`{}` was not found; install Go 1.21 or newer from https://go.dev/dl (it fetches the exact version it needs)", .0.display())]
    NoGo(PathBuf),
    /// Go could not be started.
    #[error("cannot run `{}`", go.display())]
    Run {
        /// The command.
        go: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Go failed.
    #[error("`{command}` failed with {status}:\n{output}")]
    Failed {
        /// The command.
        command: &'static str,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The end of its output.
        output: String,
    },
    /// A file could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// A pinned module and the programs to build from it.
pub(super) struct Recipe<'a> {
    pub(super) go_mod: &'a str,
    pub(super) go_sum: &'a str,
    pub(super) packages: Vec<&'static str>,
    /// Linker flags, in addition to those that strip symbols.
    pub(super) linker: String,
    /// A program to rename: Go names it after its folder.
    pub(super) rename: (&'static str, &'static str),
}

impl Recipe<'_> {
    /// The recipe for programs of a control plane.
    pub(super) fn control_plane(version: KubernetesVersion, binaries: &[Binary]) -> Self {
        let mut minor = version.minor().split('.');
        let (major, minor) = (minor.next().unwrap_or_default(), minor.next().unwrap_or_default());
        let package = "k8s.io/component-base/version";
        Self {
            go_mod: version.go_mod(),
            go_sum: version.go_sum(),
            packages: binaries.iter().map(|binary| package_of(*binary)).collect(),
            linker: format!(
                "-X {package}.gitVersion=v{} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}",
                version.exact()
            ),
            rename: ("server", Binary::Etcd.file_name()),
        }
    }
}

/// Builds into `<workspace>/bin`.
pub(super) fn build(
    go: &Path,
    recipe: &Recipe<'_>,
    workspace: &Path,
    progress: &Progress,
) -> Result<(), BuildError> {
    let module = workspace.join("module");
    let bin = workspace.join("bin");
    for directory in [&module, &bin] {
        std::fs::create_dir_all(directory).map_err(write_error(directory))?;
    }
    for (name, text) in [("go.mod", recipe.go_mod), ("go.sum", recipe.go_sum)] {
        let path = module.join(name);
        std::fs::write(&path, text).map_err(write_error(&path))?;
    }
    let started = Instant::now();
    run(compile(go, recipe, &module, &bin), go, progress)?;
    let (built, wanted) = recipe.rename;
    let built = bin.join(built);
    if built.exists() {
        let wanted = bin.join(wanted);
        std::fs::rename(&built, &wanted).map_err(write_error(&wanted))?;
    }
    progress.say(format!("built in {}", elapsed(started)));
    Ok(())
}

/// The folder with the sources of a module that [`build`] has downloaded.
pub(super) fn sources_of(go: &Path, name: &str, workspace: &Path) -> Result<PathBuf, BuildError> {
    let mut command = Command::new(go);
    command.current_dir(workspace.join("module")).args(["list", "-m", "-f", "{{.Dir}}", name]);
    let output = with_clean_environment(&mut command).output().map_err(run_error(go))?;
    if output.status.success() {
        Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
    } else {
        let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(BuildError::Failed { command: "go list", status: output.status, output: output_text })
    }
}

fn compile(go: &Path, recipe: &Recipe<'_>, module: &Path, bin: &Path) -> Command {
    let mut command = Command::new(go);
    let linker = format!("-s -w {}", recipe.linker);
    command
        .current_dir(module)
        .args(["build", "-v", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", &linker, "-o"])
        .arg(bin)
        .args(&recipe.packages);
    with_clean_environment(&mut command).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Removes the caller's Go settings from the environment.
fn with_clean_environment(command: &mut Command) -> &mut Command {
    command
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env("GOFLAGS", "")
        .env_remove("GOOS")
        .env_remove("GOARCH")
        .stdin(Stdio::null())
}

fn package_of(binary: Binary) -> &'static str {
    match binary {
        Binary::Etcd => "go.etcd.io/etcd/server/v3",
        Binary::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
        Binary::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
        Binary::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
    }
}

fn run(mut command: Command, go: &Path, progress: &Progress) -> Result<(), BuildError> {
    let mut child = command.spawn().map_err(run_error(go))?;
    let mut build = BuildProgress::new(progress);
    if let Some(stderr) = child.stderr.take() {
        build.read(stderr);
    }
    let status = child.wait().map_err(run_error(go))?;
    if status.success() {
        Ok(())
    } else {
        Err(BuildError::Failed { command: "go build", status, output: build.last_lines() })
    }
}

/// Counts the modules and packages that `go build -v` prints, and reports progress.
struct BuildProgress<'a> {
    progress: &'a Progress,
    started: Instant,
    modules: u32,
    packages: u32,
    last: VecDeque<String>,
}

impl<'a> BuildProgress<'a> {
    fn new(progress: &'a Progress) -> Self {
        Self { progress, started: Instant::now(), modules: 0, packages: 0, last: VecDeque::new() }
    }

    /// Reads all output, in a thread of its own: progress is reported also while the linker prints nothing.
    fn read(&mut self, output: ChildStderr) {
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut reported = Instant::now();
        loop {
            match lines.recv_timeout(PROGRESS_INTERVAL) {
                Ok(line) => self.line(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if reported.elapsed() >= PROGRESS_INTERVAL {
                reported = Instant::now();
                let (modules, packages) = (self.modules, self.packages);
                let elapsed = elapsed(self.started);
                self.progress
                    .say(format!("{elapsed}: {modules} modules downloaded, {packages} packages compiled"));
            }
        }
    }

    fn line(&mut self, line: String) {
        if line.starts_with("go: downloading ") {
            self.modules += 1;
        } else if !line.contains(' ') {
            self.packages += 1;
        }
        if self.last.len() == QUOTED_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    fn last_lines(&self) -> String {
        self.last.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

fn run_error(go: &Path) -> impl FnOnce(std::io::Error) -> BuildError {
    let go = go.to_owned();
    move |source| match source.kind() {
        std::io::ErrorKind::NotFound => BuildError::NoGo(go),
        _ => BuildError::Run { go, source },
    }
}

fn write_error(path: &Path) -> impl FnOnce(std::io::Error) -> BuildError {
    let path = path.to_owned();
    move |source| BuildError::Write { path, source }
}
