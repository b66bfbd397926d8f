//! Follows a definition: to the mistake in its graph, to a breaking change, to the cluster that it names, or to nobody who
//! reconciles it.

use kross_api::{ConnectStep, Reason};

use super::super::Tone;
use super::super::{Definition, failed_condition};
use super::advice;
use super::investigation::Investigation;

/// Reasons of conditions that are about the connection to a cluster.
const CONNECTION: &[ConnectStep] = &[
    ConnectStep::Secret,
    ConnectStep::Key,
    ConnectStep::Parse,
    ConnectStep::Reach,
    ConnectStep::Authenticate,
    ConnectStep::Identify,
];

impl Investigation<'_> {
    /// Follows a definition.
    pub(super) async fn definition(&mut self, definition: &Definition) {
        let name = definition.name();
        let title = format!("ResourceGraphDefinition {name}");
        let state = match definition.state() {
            "" => "not reconciled yet",
            "Active" if !definition.is_ready() => "Active, not ready",
            state => state,
        };
        let tone = match state {
            "Active" => Tone::Good,
            "Inactive" => Tone::Bad,
            _ => Tone::Busy,
        };
        self.link(title, state, tone);
        if self.deletion_of(&definition.0) {
            return;
        }
        if definition.is_ready() {
            self.answer.ready = true;
            self.answer.why = format!("ready: it serves kind `{}`", definition.served_kind().1);
            return;
        }
        let Some(failed) = failed_condition(&definition.0) else {
            self.answer.why = "no controller has reconciled it yet".to_owned();
            self.answer.next.push(
                "kubectl get pods --all-namespaces -l 'app.kubernetes.io/name in (kross, kro)'".to_owned(),
            );
            return;
        };
        let message = failed["message"].as_str().unwrap_or_default();
        self.answer.why = message.to_owned();
        self.answer.next.extend(advice::command_in(message));
        let reason = failed["reason"].as_str().and_then(Reason::parse);
        let is_connection = CONNECTION.iter().any(|step| reason == Some(step.condition_reason()));
        match reason {
            Some(Reason::InvalidResourceGraph | Reason::InvalidGraph) => {
                self.answer.next.push(format!("kubectl get rgd/{name} -o yaml | kross validate -"));
                self.answer.next.push(format!("kubectl edit rgd/{name}"));
            }
            Some(Reason::SchemaMismatch) => self.answer.next.push(format!("kubectl edit rgd/{name}")),
            Some(Reason::PermissionsMissing) => {
                self.answer.next.push(format!("kubectl get rgd/{name} -o yaml | kross rbac --remote -"));
            }
            _ if message.contains("breaking change") => self.answer.next.push(format!(
                "kubectl annotate rgd/{name} {}=true",
                kross_api::annotations::ALLOW_BREAKING_CHANGES
            )),
            _ if is_connection => {
                if let Some(secret) = advice::secret_in(message) {
                    self.link(format!("cluster {secret}"), "not connected", Tone::Bad);
                    self.answer.next.extend(advice::of_connection(reason, None, &secret));
                }
            }
            _ => self.answer.next.push(format!("kubectl describe rgd/{name}")),
        }
    }
}
