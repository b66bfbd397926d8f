//! Exec commands: their input, their output, and how often they are run.

use std::fmt::Write as _;
use std::sync::Arc;

use super::*;
use crate::blocking::COMMANDS;

struct Plugin {
    directory: tempfile::TempDir,
}

impl Plugin {
    /// A command that records each run and then runs a script, in which `DIR` is its directory. The executable itself
    /// is never written by a test: a child of another test could still have it open for writing, and then it could not
    /// be run.
    fn new(script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let plugin = Self { directory };
        let plugin_script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/exec-plugin/plugin");
        std::os::unix::fs::symlink(plugin_script, plugin.path("plugin")).unwrap();
        let text = format!("echo run >> DIR/runs\n{script}\n");
        let text = text.replace("DIR", &plugin.directory.path().display().to_string());
        std::fs::write(plugin.path("plugin.script"), text).unwrap();
        plugin
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.path("runs")).unwrap_or_default().lines().count()
    }

    fn command(&self) -> ExecCommand {
        ExecCommand {
            namespace: "kro-system".into(),
            command: self.path("plugin").into(),
            arguments: vec!["get-token".to_owned().into(), "$(touch evil); two words".to_owned().into()],
            environment: vec![("PROFILE".to_owned(), "eu".to_owned().into())],
            inherited: vec!["CARGO_MANIFEST_DIR".to_owned(), "NOT_SET_ANYWHERE".to_owned()],
            version: VERSIONS[0].to_owned(),
            timeout: Duration::from_secs(20),
            cluster: Some(ClusterInfo {
                server: "https://10.0.0.1".to_owned(),
                server_name: None,
                authority: Some("Q0E=".to_owned()),
            }),
        }
    }

    /// Waits until the process in the file `child` has ended.
    async fn until_child_is_killed(&self) {
        let child = std::fs::read_to_string(self.path("child")).unwrap();
        let stat = format!("/proc/{}/stat", child.trim());
        let ended = async || match std::fs::read_to_string(&stat) {
            Ok(stat) if !stat.contains(" Z ") => Err(stat),
            _ => Ok(()),
        };
        kross_testing::wait::until("the child of the command to be killed", ended).await;
    }

    async fn start(&self) -> Result<Arc<ExecSource>, ExecError> {
        ExecSource::start(Arc::new(self.command())).await
    }
}

fn credential(status: &str) -> String {
    format!(
        r#"printf '%s' '{{"apiVersion":"{}","kind":"ExecCredential","status":{{{status}}}}}'"#,
        VERSIONS[0]
    )
}

#[tokio::test]
async fn a_command_gets_its_arguments_and_the_listed_environment_variables_only() {
    let script = "/usr/bin/env > DIR/env; printf '%s\\n' \"$@\" > DIR/args; pwd > DIR/pwd; cat > DIR/stdin";
    let plugin = Plugin::new(&format!("{script}\n{}", credential(r#""token":"s3cret""#)));
    let source = plugin.start().await.unwrap();
    let header = source.header().await.unwrap().unwrap();
    assert_eq!(header.to_str().unwrap(), "Bearer s3cret");
    assert!(!format!("{header:?} {source:?}").contains("s3cret"));

    let read = |name: &str| std::fs::read_to_string(plugin.path(name)).unwrap();
    assert_eq!(read("args"), "get-token\n$(touch evil); two words\n");
    assert_eq!(read("pwd"), "/\n");
    assert_eq!(read("stdin"), "");
    let environment = read("env");
    let mut names: Vec<&str> = environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    // The shell adds these.
    names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["CARGO_MANIFEST_DIR", "KUBERNETES_EXEC_INFO", "PROFILE"]);
    assert!(environment.contains(
        r#"KUBERNETES_EXEC_INFO={"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"cluster":{"server":"https://10.0.0.1","certificate-authority-data":"Q0E="},"interactive":false}}"#
    ));
}

#[tokio::test]
async fn a_credential_is_kept_until_it_expires_or_is_rejected() {
    let kept = Plugin::new(&credential(r#""token":"a","expirationTimestamp":"2999-01-01T00:00:00Z""#));
    let source = kept.start().await.unwrap();
    for _ in 0..3 {
        source.header().await.unwrap();
    }
    assert_eq!(kept.runs(), 1);
    // Rejected right after a run: another run would return the same, so it is not run at once.
    source.mark_rejected();
    source.header().await.unwrap();
    assert_eq!(kept.runs(), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    source.header().await.unwrap();
    source.header().await.unwrap();
    assert_eq!(kept.runs(), 2, "rejected, so run again, once");

    let short = Plugin::new(
        r#"end=$(/bin/date -u -d '+1 second' +%Y-%m-%dT%H:%M:%SZ); echo "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"a\",\"expirationTimestamp\":\"$end\"}}""#,
    );
    // The credential may expire before it is first used; then this run fails.
    if let Ok(source) = short.start().await {
        kross_testing::wait::until("the credential to expire and the command to run again", async || {
            let _ = source.header().await;
            if short.runs() >= 2 { Ok(()) } else { Err("it has run once".to_owned()) }
        })
        .await;
    }
}

#[tokio::test]
async fn invalid_output_is_an_error_that_quotes_nothing() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap().self_signed(&key).unwrap();
    let escaped = |pem: String| pem.replace('\n', "\\n");
    let pair = format!(
        r#""clientCertificateData":"{}","clientKeyData":"{}""#,
        escaped(certificate.pem()),
        escaped(key.serialize_pem())
    );
    let cases = [
        ("printed no `ExecCredential`", "echo s3cret".to_owned()),
        ("printed no credential", credential("")),
        ("printed no credential", credential(r#""token":"""#)),
        (
            "printed a token with characters that a token must not have",
            credential(r#""token":"s3cret and more""#),
        ),
        (
            "printed a token and a certificate, but only one of them is allowed",
            credential(&format!(r#""token":"s3cret",{pair}"#)),
        ),
        (
            "printed a certificate without its key, or a key without its certificate",
            credential(r#""clientKeyData":"s3cret""#),
        ),
        (
            "printed a certificate that cannot be used",
            credential(r#""clientCertificateData":"s3cret","clientKeyData":"s3cret""#),
        ),
        (
            "printed a credential that has already expired",
            credential(r#""token":"s3cret","expirationTimestamp":"2001-01-01T00:00:00Z""#),
        ),
        (
            "printed an invalid `expirationTimestamp`",
            credential(r#""token":"s3cret","expirationTimestamp":"s3cret""#),
        ),
        ("exited with status 3", "echo s3cret >&2; exit 3".to_owned()),
        ("was killed by a signal", "kill -9 $$".to_owned()),
        (
            "printed more than 262144 bytes",
            "while :; do echo s3crets3crets3crets3crets3crets3crets3cret; done".to_owned(),
        ),
        (
            "printed something other than an `ExecCredential` of `client.authentication.k8s.io/v1`",
            credential(r#""token":"s3cret""#).replace("k8s.io/v1", "k8s.io/v1beta1"),
        ),
    ];
    let mut failures = String::new();
    for (expected, script) in cases {
        let plugin = Plugin::new(&script);
        let error = plugin.start().await.map(|_| ()).unwrap_err().to_string();
        let wanted = format!("the command `{}` of the kubeconfig {expected}", plugin.path("plugin"));
        if error != wanted {
            writeln!(failures, "{error}\n  instead of {expected}").unwrap();
        }
    }
    assert_eq!(failures, "");
    let certified = Plugin::new(&credential(&pair)).start().await.unwrap();
    assert!(certified.header().await.unwrap().is_none(), "a certificate needs no header");
    assert!(rustls::client::ResolvesClientCert::has_certs(&*certified));
}

#[tokio::test]
async fn a_command_that_does_not_exit_is_killed_with_its_children() {
    let plugin = Plugin::new("/bin/sleep 300 & echo $! > DIR/child; wait");
    let command = ExecCommand { timeout: Duration::from_secs(3), ..plugin.command() };
    let error = ExecSource::start(Arc::new(command)).await.map(|_| ()).unwrap_err().to_string();
    assert!(error.ends_with("did not exit within 3.0s"), "{error}");
    plugin.until_child_is_killed().await;
}

#[tokio::test]
async fn children_that_outlive_the_command_are_killed() {
    let child = "/bin/sleep 300 > /dev/null 2>&1 & echo $! > DIR/child";
    let plugin = Plugin::new(&format!("{child}\n{}", credential(r#""token":"s3cret""#)));
    assert!(plugin.start().await.unwrap().header().await.unwrap().is_some());
    plugin.until_child_is_killed().await;

    let failing = Plugin::new(&format!("{child}\nexit 3"));
    let error = failing.start().await.map(|_| ()).unwrap_err().to_string();
    assert!(error.ends_with("exited with status 3"), "{error}");
    failing.until_child_is_killed().await;

    // The child keeps the output open after the command has exited.
    let holding = Plugin::new("/bin/sleep 300 & echo $! > DIR/child");
    let command = ExecCommand { timeout: Duration::from_secs(3), ..holding.command() };
    let error = ExecSource::start(Arc::new(command)).await.map(|_| ()).unwrap_err().to_string();
    assert!(error.ends_with("did not exit within 3.0s"), "{error}");
    holding.until_child_is_killed().await;
}

#[tokio::test]
async fn the_error_names_a_command_that_does_not_exist() {
    let command = ExecCommand { command: "/nowhere/plugin".into(), ..Plugin::new("").command() };
    let error = ExecSource::start(Arc::new(command)).await.map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the command `/nowhere/plugin` of the kubeconfig cannot be run: entity not found"
    );
}

#[tokio::test]
async fn commands_of_a_namespace_that_do_not_end_delay_only_those_of_their_own_namespace() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = Arc::new(parking_lot::Mutex::new(ended));
    for _ in 0..100 {
        let ended = Arc::clone(&ended);
        let command = COMMANDS.call("tenant".into(), move || {
            let _ = ended.lock().recv();
        });
        let _ = tokio::time::timeout(Duration::from_millis(1), command).await;
    }
    let plugin = Plugin::new(&credential(r#""token":"s3cret""#));
    let command = Arc::new(ExecCommand { namespace: "tenant".into(), ..plugin.command() });
    let waiting = ExecSource::start(command);
    tokio::pin!(waiting);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut waiting).await.is_err());
    plugin.start().await.unwrap();
    drop(end);
    waiting.await.unwrap();
}
