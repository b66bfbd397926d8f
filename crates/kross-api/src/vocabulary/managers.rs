//! Field managers. If one changed, nobody would remove the fields that it owns on existing objects.

/// Writes children.
pub const APPLYSET: &str = "kro.run/applyset";

/// Writes finalizer and labels on instances.
pub const LABELLER: &str = "kro.run/labeller";
/// Writes state and message on instances whose type belongs to another controller.
pub const STATE: &str = "kro.run/state";
/// Writes definitions, revisions and CRDs. The API server derives this name from kro's user agent.
pub const CONTROLLER: &str = "kro";
/// Writes ClusterConnections.
pub const CONNECTIONS: &str = "kro.run/connections";
/// Writes the tokens of registered clusters into their Secrets.
pub const REGISTRATION: &str = "kro.run/registration";
/// Writes targets, applications, claims and managed resources: references in their specs, finalizers, copies of Secrets.
pub const WORKLOAD: &str = "kro.run/workload";
/// Writes the certificate of the admission webhook, and its authorities into the configuration.
pub const WEBHOOK: &str = "kro.run/webhook";
/// Writes the key of the sessions of the dashboard.
pub const DASHBOARD: &str = "kro.run/dashboard";
