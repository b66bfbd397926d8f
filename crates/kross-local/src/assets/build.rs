//! Turns a pinned Go module into program files, with everything from the Go module proxy. The module's `go.sum` makes the
//! sources exact.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::{Binary, elapsed};
use crate::{KubernetesVersion, Progress};

/// How many of the compiler's last lines an error quotes.
const QUOTED_LINES: usize = 15;
/// How often progress is said.
const INTERVAL: Duration = Duration::from_secs(5);

/// Why a build did not happen.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no Go.
    #[error("`{}` was not found; install Go 1.21 or newer from https://go.dev/dl (it fetches the exact version it needs)", .0.display())]
    NoGo(PathBuf),
    /// Go could not be run.
    #[error("cannot run `{}`", go.display())]
    Run {
        /// The command.
        go: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Go said no.
    #[error("`{command}` failed with {status}:\n{output}")]
    Failed {
        /// What was run.
        command: &'static str,
        /// How it ended.
        status: std::process::ExitStatus,
        /// Its last lines.
        output: String,
    },
    /// A file could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// A pinned module and what to build of it.
pub(super) struct Recipe<'a> {
    pub(super) go_mod: &'a str,
    pub(super) go_sum: &'a str,
    pub(super) packages: Vec<&'static str>,
    /// What the linker is told beside leaving out symbols.
    pub(super) linker: String,
    /// The name Go gives to a program, which is that of its folder, and the one it is to have.
    pub(super) rename: (&'static str, &'static str),
}

impl Recipe<'_> {
    /// Builds the programs of a control plane.
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

/// Where the sources of a module are that [`build`] has fetched.
pub(super) fn sources_of(go: &Path, name: &str, workspace: &Path) -> Result<PathBuf, BuildError> {
    let mut command = Command::new(go);
    command.current_dir(workspace.join("module")).args(["list", "-m", "-f", "{{.Dir}}", name]);
    let output = alone(&mut command).output().map_err(run_error(go))?;
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
    alone(&mut command).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Lets nothing of the caller's surroundings change what Go does.
fn alone(command: &mut Command) -> &mut Command {
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
    let mut counter = Counter::new(progress);
    if let Some(stderr) = child.stderr.take() {
        counter.follow(stderr);
    }
    let status = child.wait().map_err(run_error(go))?;
    if status.success() {
        Ok(())
    } else {
        Err(BuildError::Failed { command: "go build", status, output: counter.last_lines() })
    }
}

/// Counts what `go build -v` says, and says so every few seconds.
struct Counter<'a> {
    progress: &'a Progress,
    started: Instant,
    modules: u32,
    packages: u32,
    last: VecDeque<String>,
}

impl<'a> Counter<'a> {
    fn new(progress: &'a Progress) -> Self {
        Self { progress, started: Instant::now(), modules: 0, packages: 0, last: VecDeque::new() }
    }

    /// Reads to the end. A thread does the reading, so that progress is said also while the linker is silent.
    fn follow(&mut self, output: ChildStderr) {
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut said = Instant::now();
        loop {
            match lines.recv_timeout(INTERVAL) {
                Ok(line) => self.line(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if said.elapsed() >= INTERVAL {
                said = Instant::now();
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
