//! What a managed resource says about itself: its claim, its binding phase, whether it is ready, and its connection Secret.
//! A managed resource is any cluster-scoped object of a custom kind, so every field may be absent.

use std::fmt;

use kross_api::{BindingPhase, Reason, annotations};
use kross_value::Value;

/// Why nothing is copied: a reason of the closed set, and a message for the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropagationRefusal {
    /// The reason of the condition.
    pub reason: Reason,
    /// What is wrong, and what to do.
    pub message: String,
}

impl PropagationRefusal {
    /// A refusal.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The namespace and the name of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The claim that a managed resource names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimReference {
    /// Namespace of the claim.
    pub namespace: String,
    /// Name of the claim.
    pub name: String,
    /// UID of the claim. An offer may leave it out.
    pub uid: Option<String>,
}

impl ClaimReference {
    /// Parses the value of the annotation `kro.run/claim`: `namespace/name` or `namespace/name/uid`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next());
        if namespace.is_empty() || name.is_empty() || parts.next().is_some() {
            return None;
        }
        let uid = uid.filter(|uid| !uid.is_empty()).map(str::to_owned);
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned(), uid })
    }

    /// Whether it names this claim. Without a UID it names every claim of this namespace and name.
    #[must_use]
    pub fn names(&self, namespace: &str, name: &str, uid: &str) -> bool {
        self.namespace == namespace
            && self.name == name
            && self.uid.as_deref().is_none_or(|known| known == uid)
    }
}

/// As in the annotation.
impl fmt::Display for ClaimReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, uid } = self;
        write!(f, "{namespace}/{name}")?;
        uid.as_deref().map_or(Ok(()), |uid| write!(f, "/{uid}"))
    }
}

/// The claim that a managed resource is bound to or offered to: `spec.claimRef`, else the annotation `kro.run/claim`.
#[must_use]
pub fn claim_of(managed: &Value) -> Option<ClaimReference> {
    let Some(reference) = managed.at(&["spec", "claimRef"]).filter(|reference| !reference.is_null()) else {
        return ClaimReference::parse(annotation(managed, annotations::CLAIM)?);
    };
    let field = |name| reference.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    Some(ClaimReference {
        namespace: field("namespace")?.to_owned(),
        name: field("name")?.to_owned(),
        uid: field("uid").map(str::to_owned),
    })
}

/// The binding phase of a managed resource: `status.bindingPhase`; where its kind has no such field the annotation
/// `kro.run/binding-phase`, or `Bound` if the annotation `kro.run/claim` has the UID of a claim. None if nothing says so.
#[must_use]
pub fn binding_phase(managed: &Value) -> Option<BindingPhase> {
    let status = managed.at(&["status", "bindingPhase"]).and_then(Value::as_str);
    if let Some(phase) = status.or_else(|| annotation(managed, annotations::BINDING_PHASE)) {
        return BindingPhase::parse(phase);
    }
    let claim = ClaimReference::parse(annotation(managed, annotations::CLAIM)?)?;
    claim.uid.map(|_| BindingPhase::Bound)
}

/// Whether a managed resource is bound to a claim.
#[must_use]
pub fn is_bound(managed: &Value) -> bool {
    binding_phase(managed) == Some(BindingPhase::Bound)
}

/// Checks that a managed resource is bound. `described` is its kind and name.
///
/// # Errors
/// It is not bound to a claim, or was released by it.
pub fn check_bound(managed: &Value, described: &str) -> Result<(), PropagationRefusal> {
    match binding_phase(managed) {
        Some(BindingPhase::Bound) => Ok(()),
        Some(BindingPhase::Released) => Err(PropagationRefusal::new(
            Reason::Released,
            format!(
                "the claim of managed resource {described} was deleted; its connection Secret is not copied any more; bind it to another claim"
            ),
        )),
        Some(BindingPhase::Unbound | BindingPhase::Unbindable) | None => Err(PropagationRefusal::new(
            Reason::ManagedResourceNotBound,
            format!("managed resource {described} is not bound; bind it to a KubernetesCluster claim first"),
        )),
    }
}

/// Whether the condition `Ready` of a managed resource is true.
#[must_use]
pub fn is_ready(managed: &Value) -> bool {
    let conditions = managed.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let text = |condition: &Value, field| condition.get(field).and_then(Value::as_str).map(str::to_owned);
    conditions.iter().any(|condition| {
        text(condition, "type").as_deref() == Some("Ready")
            && text(condition, "status").as_deref() == Some("True")
    })
}

/// The connection Secret of a managed resource: `spec.writeConnectionSecretToRef`, else `status.connectionSecretRef`.
#[must_use]
pub fn source_secret(managed: &Value) -> Option<SecretReference> {
    let reference = |path: &[&str]| {
        let reference = managed.at(path)?;
        let field = |name| reference.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some(SecretReference { namespace: field("namespace")?.to_owned(), name: field("name")?.to_owned() })
    };
    reference(&["spec", "writeConnectionSecretToRef"])
        .or_else(|| reference(&["status", "connectionSecretRef"]))
}

/// Whether an object with this annotation `kro.run/allowed-namespaces` may be published into a namespace.
#[must_use]
pub fn allows_namespace(annotation: Option<&str>, namespace: &str) -> bool {
    annotation.is_none_or(|allowed| {
        allowed.split(',').map(str::trim).any(|entry| entry == "*" || entry == namespace)
    })
}

pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.at(&["metadata", "annotations"])?.get(name)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(json: serde_json::Value) -> Value {
        Value::from(json)
    }

    #[test]
    fn the_claim_is_that_of_the_claim_ref_or_of_the_annotation() {
        let reference =
            value(json!({"spec": {"claimRef": {"namespace": "infra", "name": "dev", "uid": "7"}},
            "metadata": {"annotations": {"kro.run/claim": "other/other"}}}));
        assert_eq!(claim_of(&reference).unwrap().to_string(), "infra/dev/7");
        let annotated = value(json!({"metadata": {"annotations": {"kro.run/claim": "infra/dev"}}}));
        let claim = claim_of(&annotated).unwrap();
        assert!(claim.names("infra", "dev", "7") && !claim.names("infra", "prod", "7"));
        assert!(!claim_of(&reference).unwrap().names("infra", "dev", "8"));
        for wrong in ["infra", "", "/dev", "infra/", "a/b/c/d"] {
            assert_eq!(ClaimReference::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_managed_resource_is_bound_by_its_phase_or_by_an_annotation_with_the_uid_of_a_claim() {
        let bound = |json| is_bound(&value(json));
        assert!(bound(json!({"status": {"bindingPhase": "Bound"}})));
        assert!(!bound(json!({"status": {"bindingPhase": "Unbound"}})));
        assert!(!bound(json!({})));
        let annotated = |claim: &str| json!({"metadata": {"annotations": {"kro.run/claim": claim}}});
        assert!(bound(annotated("infra/dev/7")));
        assert!(!bound(annotated("infra/dev")), "an offer is not a binding");
        assert!(!bound(json!({"metadata": {"annotations": {"kro.run/claim": "infra/dev/7",
            "kro.run/binding-phase": "Released"}}})));
        // The phase in the status wins: the kind has the field.
        assert!(!bound(json!({"metadata": {"annotations": {"kro.run/claim": "infra/dev/7"}},
            "status": {"bindingPhase": "Released"}})));
        // An offer in a claimRef may have a UID before it is bound.
        assert!(!bound(json!({"spec": {"claimRef": {"namespace": "infra", "name": "dev", "uid": "7"}}})));
    }

    #[test]
    fn the_connection_secret_is_that_of_the_spec_or_of_the_status() {
        let spec = json!({"writeConnectionSecretToRef": {"namespace": "infra", "name": "a"}});
        let status = json!({"connectionSecretRef": {"namespace": "infra", "name": "b"}});
        let both = value(json!({"spec": spec, "status": status}));
        assert_eq!(source_secret(&both).unwrap().to_string(), "infra/a");
        assert_eq!(source_secret(&value(json!({"status": status}))).unwrap().to_string(), "infra/b");
        let incomplete = json!({"spec": {"writeConnectionSecretToRef": {"name": "a"}}});
        assert_eq!(source_secret(&value(incomplete)), None);
    }

    #[test]
    fn an_annotation_limits_the_namespaces() {
        assert!(allows_namespace(None, "shop"));
        assert!(allows_namespace(Some("a, shop"), "shop"));
        assert!(allows_namespace(Some("*"), "shop"));
        assert!(!allows_namespace(Some("a,b"), "shop"));
        assert!(!allows_namespace(Some(""), "shop"));
    }
}
