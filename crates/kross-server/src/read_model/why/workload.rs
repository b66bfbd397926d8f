//! Follows applications, claims and targets: to the target, to the managed resource, to the connection Secret.

use kross_api::Reason;
use serde_json::Value as Json;

use super::super::Tone;
use super::super::{InstanceView, condition, failed_condition, text};
use super::advice;
use super::investigation::{Investigation, WhyError};

impl Investigation<'_> {
    /// Follows an application, a claim or a target.
    pub(super) async fn workload(&mut self, object: &Json) -> Result<(), WhyError> {
        let view = InstanceView(object);
        let ready = condition(object, "Ready").is_some_and(|ready| ready["status"] == "True");
        let ready = ready && !view.is_deleting();
        let state = match view.state() {
            _ if view.kind() == "KubernetesTarget" && !view.is_deleting() => {
                if ready {
                    "Ready"
                } else {
                    "NotReady"
                }
            }
            state => state,
        };
        self.link(view.title(), state, if ready { Tone::Good } else { Tone::Bad });
        if ready {
            self.answer.ready = true;
            self.answer.why = "ready".to_owned();
            return Ok(());
        }
        let Some(failed) = failed_condition(object) else {
            self.answer.why = "no controller has reconciled it yet".to_owned();
            self.answer.next.push(
                "kubectl get pods --all-namespaces -l 'app.kubernetes.io/name in (kross, kro)'".to_owned(),
            );
            return Ok(());
        };
        let reason = failed["reason"].as_str().and_then(Reason::parse);
        let message =
            failed["message"].as_str().filter(|message| !message.is_empty()).or_else(|| view.message());
        self.answer.why = message.unwrap_or_default().to_owned();
        if self.deletion_of(object) {
            return Ok(());
        }
        self.answer.next.extend(advice::command_in(&self.answer.why));
        let is_followed = match view.kind() {
            "KubernetesApplication" => self.application(object).await?,
            "KubernetesCluster" => {
                self.managed(object, "/spec/resourceRef").await || self.target_of(&own_name(object)).await?
            }
            _ => {
                let is_managed = self.managed(object, "/spec/clusterRef").await;
                if let (false, Some(secret)) = (is_managed, connection_secret(object)) {
                    let reason = reason.filter(|reason| *reason != Reason::SecretNotAvailable);
                    self.answer.next.extend(advice::of_connection(reason, None, &secret));
                }
                true
            }
        };
        if !is_followed && self.answer.next.is_empty() {
            self.answer.next.push(self.list_command(object));
        }
        Ok(())
    }

    /// The command that shows what could be chosen.
    fn list_command(&self, object: &Json) -> String {
        let namespace = text(object, "/metadata/namespace").unwrap_or_default();
        match text(object, "/kind") {
            Some("KubernetesApplication") => {
                format!("kubectl get kubernetestargets -n {namespace} --show-labels")
            }
            Some("KubernetesCluster") => "kubectl get kubernetesclusterclasses".to_owned(),
            _ => format!("kubectl describe {}", InstanceView(object).argument()),
        }
    }

    /// Follows an application to its target, or to a resource of it that failed.
    async fn application(&mut self, application: &Json) -> Result<bool, WhyError> {
        let namespace = text(application, "/metadata/namespace").unwrap_or_default();
        if let Some(target) = text(application, "/spec/targetRef/name")
            && self.target_of(&format!("{namespace}/{target}")).await?
        {
            return Ok(true);
        }
        let Ok(kind) = self.hub.kind("kubernetesapplicationresources.workload.crossplane.io") else {
            return Ok(false);
        };
        let uid = text(application, "/metadata/uid").unwrap_or_default();
        let listed = self.hub.list(&kind, Some(namespace), None).await.unwrap_or_default();
        let is_owned = |resource: &Json| {
            let owners = resource.pointer("/metadata/ownerReferences").and_then(Json::as_array);
            owners.into_iter().flatten().any(|owner| owner["uid"] == uid)
        };
        let mut open = listed.into_iter().filter(|it| is_owned(it) && !InstanceView(it).is_ready());
        let Some(resource) = open.next() else { return Ok(false) };
        self.answer.why.clear();
        self.follow(resource).await?;
        Ok(true)
    }

    /// Follows a target, given as `namespace/name`, if it is the cause. Returns whether it is.
    pub(super) async fn target_of(&mut self, target: &str) -> Result<bool, WhyError> {
        let Some((namespace, name)) = target.split_once('/') else { return Ok(false) };
        let Ok(kind) = self.hub.kind("kubernetestargets.workload.crossplane.io") else { return Ok(false) };
        match self.hub.get(&kind, Some(namespace), name).await {
            Ok(found) if !InstanceView(&found).is_ready() => {
                let before = std::mem::take(&mut self.answer.why);
                self.follow(found).await?;
                if self.answer.why.is_empty() {
                    self.answer.why = before;
                }
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(error) if error.is_object_not_found() => {
                self.link(format!("KubernetesTarget {target}"), "does not exist", Tone::Bad);
                self.answer.next.push(format!("kubectl get kubernetestargets -n {namespace}"));
                Ok(true)
            }
            Err(error) => {
                self.note(error.to_string());
                Ok(false)
            }
        }
    }

    /// Follows a managed resource, if it is the cause. Returns whether it is.
    async fn managed(&mut self, object: &Json, path: &str) -> bool {
        let field = |name: &str| text(object, &format!("{path}/{name}"));
        let (Some(version), Some(kind), Some(name)) = (field("apiVersion"), field("kind"), field("name"))
        else {
            return false;
        };
        let Some(served) = self.hub.kind_of(version, kind) else { return false };
        let described = format!("kubectl describe {}.{}/{name}", served.plural, served.group);
        match self.hub.get(&served, None, name).await {
            Ok(found) => {
                let Some(failed) = failed_condition(&found) else { return false };
                self.link(format!("{kind} {name}"), "not ready", Tone::Bad);
                if let Some(message) = failed["message"].as_str().filter(|message| !message.is_empty()) {
                    self.answer.why = message.to_owned();
                }
                self.answer.next.push(described);
                true
            }
            Err(error) if error.is_object_not_found() => {
                self.link(format!("{kind} {name}"), "does not exist", Tone::Bad);
                self.answer.next.push(format!("kubectl get {}.{}", served.plural, served.group));
                true
            }
            Err(error) => {
                self.note(error.to_string());
                false
            }
        }
    }
}

/// The target of a claim has its name.
fn own_name(claim: &Json) -> String {
    let field = |path: &str| text(claim, path).unwrap_or_default();
    format!("{}/{}", field("/metadata/namespace"), field("/metadata/name"))
}

/// The connection Secret of a target.
fn connection_secret(target: &Json) -> Option<String> {
    let name = text(target, "/spec/connectionSecretRef/name")?;
    Some(format!("{}/{name}", text(target, "/metadata/namespace")?))
}
