//! Field managers. Changing one would leave fields of objects that exist already with nobody to remove them.

/// Writes children.
pub const APPLYSET: &str = "kro.run/applyset";
/// Writes finalizer and labels on instances.
pub const LABELLER: &str = "kro.run/labeller";
/// Writes state and message on instances whose type belongs to another controller.
pub const STATE: &str = "kro.run/state";
/// Writes definitions, revisions and CRDs: what the API server makes of kro's user agent.
pub const CONTROLLER: &str = "kro";
