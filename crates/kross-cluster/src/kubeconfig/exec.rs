//! Checks the `exec` command of a kubeconfig, and refuses every command that is not allowed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use kross_value::Text;
use zeroize::Zeroizing;

mod protocol;
mod rule;
mod run;
mod source;
#[cfg(test)]
mod tests;

pub use rule::{ExecRule, InvalidExecRule};
pub(crate) use source::ExecSource;

use super::KubeconfigPolicy;
use super::config::Exec;
use super::fields::LocatedText;
use super::refusal::{Refusal, RefusalReason};
use rule::RuleMatch;

/// A command that the operator allows, with the arguments and environment variables of the kubeconfig.
pub(crate) struct ExecCommand {
    /// That of the Secret, whose share of running commands is used.
    pub(crate) namespace: Text,
    pub(crate) command: PathBuf,
    pub(crate) arguments: Vec<Zeroizing<String>>,
    /// Environment variables that the kubeconfig sets; the operator allows their names.
    pub(crate) environment: Vec<(String, Zeroizing<String>)>,
    /// Environment variables that are inherited from the controller.
    pub(crate) inherited: Vec<String>,
    /// The version of the exec protocol.
    pub(crate) version: String,
    pub(crate) timeout: Duration,
    /// What the command is told about the cluster, if the kubeconfig wants that (`provideClusterInfo`).
    pub(crate) cluster: Option<ClusterInfo>,
}

/// The cluster that a credential is needed for.
pub(crate) struct ClusterInfo {
    pub(crate) server: String,
    pub(crate) server_name: Option<String>,
    /// In base64, as in the kubeconfig.
    pub(crate) authority: Option<String>,
}

/// A command issued no credential. Its output is not quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the command `{command}` of the kubeconfig {problem}")]
pub struct ExecError {
    command: String,
    problem: String,
}

impl ExecCommand {
    fn problem(&self, problem: impl Into<String>) -> ExecError {
        ExecError { command: self.command.display().to_string(), problem: problem.into() }
    }
}

const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/// Refuses a command that is not allowed for the Secrets of a namespace, whatever its server.
pub(super) fn check(exec: &Exec, policy: &KubeconfigPolicy, namespace: &str) -> Result<(), Refusal> {
    let at = |field: &str, reason| Refusal::new(reason, format!("{}.{field}", exec.path), Some(exec.line));
    let Some(command) = &exec.command else { return Err(at("command", RefusalReason::ExecNotAllowed)) };
    let refuse = |reason| Err(command.refuse(reason).detail(quoted(&command.text)));
    let is_relative = !Path::new(command.text.as_str()).is_absolute();
    match best_match(exec, policy, namespace, None) {
        // If no command is allowed, the form of the path does not matter.
        RuleMatch::OtherCommand if is_relative && !policy.exec_allow.is_empty() => {
            return refuse(RefusalReason::ExecRelative);
        }
        RuleMatch::OtherCommand => return refuse(RefusalReason::ExecNotAllowed),
        RuleMatch::OtherNamespace => return refuse(RefusalReason::ExecNamespace),
        RuleMatch::OtherArguments => return Err(at("args", RefusalReason::ExecArguments)),
        RuleMatch::OtherServer | RuleMatch::Matches => {}
    }
    match &exec.version {
        Some(version) if VERSIONS.contains(&version.text.as_str()) => {}
        Some(version) => return Err(version.refuse(RefusalReason::ExecVersion)),
        None => return Err(at("apiVersion", RefusalReason::ExecVersion)),
    }
    match &exec.interactive {
        Some(mode) if !["Never", "IfAvailable"].contains(&mode.text.as_str()) => {
            return Err(mode.refuse(RefusalReason::ExecInteractive));
        }
        _ => {}
    }
    if exec.arguments.iter().any(|argument| argument.contains('\0')) {
        return Err(at("args", RefusalReason::Type));
    }
    if let Some((name, _)) = exec.environment.iter().find(|(_, value)| value.contains('\0')) {
        return Err(name.refuse(RefusalReason::Type));
    }
    check_environment(exec, policy, namespace, None)
}

/// Refuses a server that the credential of the command may not be sent to. One and the same rule must allow everything.
pub(super) fn check_server(
    exec: &Exec,
    policy: &KubeconfigPolicy,
    namespace: &str,
    server: &LocatedText,
    uri: &Uri,
) -> Result<(), Refusal> {
    match best_match(exec, policy, namespace, Some(uri)) {
        RuleMatch::Matches => check_environment(exec, policy, namespace, Some(uri)),
        _ => Err(server.refuse(RefusalReason::ExecServer)),
    }
}

/// Refuses a variable that no rule allows which the rest of the `exec` meets.
fn check_environment(
    exec: &Exec,
    policy: &KubeconfigPolicy,
    namespace: &str,
    server: Option<&Uri>,
) -> Result<(), Refusal> {
    let mut refused = None;
    for rule in &policy.exec_allow {
        if match_rule(rule, exec, namespace, server) != RuleMatch::Matches {
            continue;
        }
        let mut names = exec.environment.iter().map(|(name, _)| name);
        match names.find(|name| !rule.allows_variable(&name.text, &policy.exec_env)) {
            Some(name) => refused = Some(name),
            None => return Ok(()),
        }
    }
    refused.map_or(Ok(()), |name| Err(name.refuse(RefusalReason::ExecEnv)))
}

/// How far an `exec` meets the rule that it meets best.
fn best_match(exec: &Exec, policy: &KubeconfigPolicy, namespace: &str, server: Option<&Uri>) -> RuleMatch {
    let matches = policy.exec_allow.iter().map(|rule| match_rule(rule, exec, namespace, server));
    matches.max().unwrap_or(RuleMatch::OtherCommand)
}

fn match_rule(rule: &ExecRule, exec: &Exec, namespace: &str, server: Option<&Uri>) -> RuleMatch {
    let command = exec.command.as_ref().map(|command| command.text.as_str()).unwrap_or_default();
    rule.matches(Path::new(command), namespace, &exec.arguments, server)
}

/// The command of an `exec` that was checked.
pub(super) fn command(
    exec: Exec,
    policy: &KubeconfigPolicy,
    namespace: &str,
    cluster: ClusterInfo,
) -> ExecCommand {
    ExecCommand {
        namespace: namespace.into(),
        command: exec.command.map(|command| PathBuf::from(command.text.as_str())).unwrap_or_default(),
        arguments: exec.arguments,
        environment: exec
            .environment
            .into_iter()
            .map(|(name, value)| (name.text.to_string(), value))
            .collect(),
        inherited: policy.exec_env.clone(),
        version: exec.version.map(|version| version.text.to_string()).unwrap_or_default(),
        timeout: policy.exec_timeout,
        cluster: exec.cluster_info.then_some(cluster),
    }
}

/// The command for a message, unless it is long or has unusual characters.
fn quoted(command: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._+-".contains(character);
    if command.len() <= 128 && command.chars().all(plain) {
        format!("`{command}`")
    } else {
        "a command with unusual characters".to_owned()
    }
}
