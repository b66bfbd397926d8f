//! Which command helps, by the class of a failure. The sentences are those of the status; only the commands are from here.

use kross_api::{ClusterStatus, ConnectStep, FailureReason, ManagedResource, Reason};

use super::super::{InstanceView, kubectl_in};

/// The beginning of a kubectl command in the cluster of an object: the hub, or the cluster of a Secret.
pub(super) fn kubectl(cluster: Option<&ClusterStatus>) -> String {
    match cluster.and_then(|cluster| cluster.secret.as_deref()) {
        Some(secret) => kubectl_in(secret),
        None => "kubectl".to_owned(),
    }
}

/// An object for a command line: `deployment/web -n team`.
pub(super) fn argument(entry: &ManagedResource) -> String {
    let kind = entry.kind.as_deref().unwrap_or_default().to_lowercase();
    let group =
        entry.api_version.as_deref().and_then(|version| version.split_once('/')).map(|(group, _)| group);
    let group =
        group.filter(|group| group.contains('.')).map(|group| format!(".{group}")).unwrap_or_default();
    let namespace =
        entry.namespace.as_deref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    format!("{kind}{group}/{}{namespace}", entry.name.as_deref().unwrap_or_default())
}

/// The command that a sentence names itself.
pub(super) fn command_in(message: &str) -> Option<String> {
    let quoted = message.split('`').skip(1).step_by(2);
    // Not one with a placeholder: the advice here knows what stands for it.
    let is_command =
        |text: &&str| (text.starts_with("kubectl ") || text.starts_with("kross ")) && !text.contains(" FILE");
    quoted.into_iter().find(is_command).map(str::to_owned)
}

/// The Secret of a cluster, by the name that messages use: `namespace/name`, or `name (namespace/name)`.
pub(super) fn secret_in(message: &str) -> Option<String> {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let inner =
        |text: &str| text.rsplit_once('(').and_then(|(_, end)| end.strip_suffix(')')).map(str::to_owned);
    let is_address = |text: &str| text.split('/').count() == 2 && !text.contains([' ', ':', '.']);
    quoted.iter().find_map(|text| inner(text).or_else(|| is_address(text).then(|| (*text).to_owned())))
}

/// Who may not do something, as `kross rbac` takes it.
fn subject_in(message: &str) -> Option<String> {
    let between = |start: &str, end: char| {
        let (_, rest) = message.split_once(start)?;
        rest.split_once(end).map(|(user, _)| user)
    };
    // As an API server says it, and as the check of permissions does.
    let user = between("User \"", '"').or_else(|| between("user `", '`'))?;
    Some(match user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':')) {
        Some((namespace, name)) => format!("ServiceAccount:{namespace}/{name}"),
        None => format!("User:{user}"),
    })
}

/// The commands for a cluster that is not connected.
pub(super) fn of_connection(
    reason: Option<Reason>,
    failure: Option<FailureReason>,
    secret: &str,
) -> Vec<String> {
    let (namespace, rest) = secret.split_once('/').unwrap_or(("default", secret));
    let (name, key) = rest.split_once('/').unwrap_or((rest, kross_api::KUBECONFIG_KEY));
    let create = format!("kubectl create secret generic {name} -n {namespace} --from-file={key}=FILE");
    let replace = format!("{create} --dry-run=client -o yaml | kubectl apply -f -");
    let is = |step: ConnectStep| reason == Some(step.condition_reason());
    if is(ConnectStep::Secret) {
        vec![format!("kubectl get secret {name} -n {namespace} --show-labels"), create]
    } else if is(ConnectStep::Key) {
        // `describe` shows the keys and not the values.
        vec![format!("kubectl describe secret {name} -n {namespace}"), replace]
    } else if is(ConnectStep::Reach) || failure == Some(FailureReason::Unreachable) {
        vec![format!("{} get --raw /readyz", kubectl_in(secret))]
    } else {
        vec![replace]
    }
}

/// The commands for an object that could not be read or written.
pub(super) fn of_failure(
    reason: FailureReason,
    entry: &ManagedResource,
    cluster: Option<&ClusterStatus>,
    instance: InstanceView<'_>,
    definition: Option<&str>,
) -> Vec<String> {
    let (kubectl, object) = (kubectl(cluster), argument(entry));
    let message = entry.message.as_deref().unwrap_or_default();
    let namespace = entry.namespace.as_deref().unwrap_or_default();
    let edit_instance = format!("kubectl edit {}", instance.argument());
    let edit_definition = definition.map(|name| format!("kubectl edit rgd/{name}"));
    match reason {
        FailureReason::Forbidden if message.contains("quota") => {
            vec![format!("{kubectl} describe quota -n {namespace}")]
        }
        FailureReason::Forbidden => {
            let (remote, administrator) = match cluster {
                // The credential itself may grant nothing.
                Some(cluster) => (
                    " --remote",
                    format!(
                        "kubectl --context CONTEXT apply -f -  # as an administrator of cluster {}",
                        cluster.name
                    ),
                ),
                None => ("", "kubectl apply -f -".to_owned()),
            };
            let name = definition.unwrap_or("NAME");
            let subject =
                subject_in(message).map(|subject| format!(" --subject {subject}")).unwrap_or_default();
            vec![format!("kubectl get rgd/{name} -o yaml | kross rbac{remote}{subject} - | {administrator}")]
        }
        FailureReason::Invalid if message.contains("immutable") => {
            vec![format!("{kubectl} delete {object}"), edit_instance]
        }
        FailureReason::Conflict => vec![format!("{kubectl} get {object} -o yaml --show-managed-fields")],
        FailureReason::Invalid | FailureReason::Expression => {
            std::iter::once(edit_instance).chain(edit_definition).collect()
        }
        FailureReason::Throttled | FailureReason::Timeout | FailureReason::ServerError => {
            vec![format!("{kubectl} get --raw '/readyz?verbose'")]
        }
        FailureReason::NotFound => {
            let group = entry.api_version.as_deref().and_then(|version| version.split_once('/'));
            let group = group.map(|(group, _)| format!(" --api-group={group}")).unwrap_or_default();
            vec![format!("{kubectl} api-resources{group}")]
        }
        FailureReason::Unreachable | FailureReason::Credentials | FailureReason::Unauthorized => {
            let secret = cluster.and_then(|cluster| cluster.secret.as_deref());
            secret.map(|secret| of_connection(None, Some(reason), secret)).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_that_names_a_command_or_a_secret_is_understood() {
        let message = "cluster `eu (team/eu-kubeconfig)` is not connected; give up with `kubectl annotate shop web a=b`";
        assert_eq!(command_in(message).as_deref(), Some("kubectl annotate shop web a=b"));
        assert_eq!(secret_in(message).as_deref(), Some("team/eu-kubeconfig"));
        assert_eq!(secret_in("Secret `team/eu` has no key `k`").as_deref(), Some("team/eu"));
        assert_eq!(secret_in("the label `kro.run/cluster-credentials: \"true\"`"), None);
    }

    #[test]
    fn who_may_not_do_something_is_in_the_sentence() {
        let forbidden = |user: &str| format!("configmaps is forbidden: User \"{user}\" cannot patch");
        assert_eq!(subject_in(&forbidden("eve")).as_deref(), Some("User:eve"));
        let checked =
            "user `system:serviceaccount:team:weak` may not create `configmaps` in namespace `team`";
        assert_eq!(subject_in(checked).as_deref(), Some("ServiceAccount:team/weak"));
        let account = subject_in(&forbidden("system:serviceaccount:kro:kross"));
        assert_eq!(account.as_deref(), Some("ServiceAccount:kro/kross"));
    }

    #[test]
    fn no_command_prints_a_credential() {
        for step in [
            ConnectStep::Secret,
            ConnectStep::Key,
            ConnectStep::Parse,
            ConnectStep::Reach,
            ConnectStep::Authenticate,
        ] {
            for command in of_connection(Some(step.condition_reason()), None, "team/eu") {
                let is_piped = command.contains("| kubectl apply") || command.contains("<(");
                assert!(is_piped || !command.contains("-o "), "{command}");
            }
        }
    }
}
