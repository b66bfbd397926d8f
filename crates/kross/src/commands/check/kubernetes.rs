//! Checks the hub itself: that it answers, and its Kubernetes version.

use kross_local::KubernetesVersion;
use serde_json::Value as Json;

use super::report::Report;
use crate::hub::{Hub, text};

const SECTION: &str = "kubernetes";

/// # Errors
/// The hub does not answer.
pub(super) async fn check(hub: &Hub, report: &mut Report) -> anyhow::Result<()> {
    let version: Json = serde_json::from_slice(&hub.client.fetch("/version").await?)?;
    report.ok(SECTION, "the API server answers");
    let running = text(&version, "/gitVersion").unwrap_or("unknown");
    let oldest = KubernetesVersion::all().filter_map(|version| minor(version.minor())).min();
    let check = format!("Kubernetes {running} is supported");
    match (minor(running), oldest) {
        (Some(minor), Some(oldest)) if minor < oldest => {
            let message = format!("it is older than 1.{oldest}: upgrade the cluster");
            report.fail(SECTION, &check, message, "versions.md");
        }
        (Some(_), _) => report.ok(SECTION, check),
        (None, _) => report.unknown(SECTION, &check, "the version cannot be read", "versions.md"),
    }
    Ok(())
}

/// The minor version in `v1.36.3` or `1.36`.
fn minor(version: &str) -> Option<u32> {
    let mut parts = version.trim_start_matches('v').split('.');
    let major: u32 = parts.next()?.parse().ok()?;
    let minor = parts.next()?;
    let digits = minor.find(|character: char| !character.is_ascii_digit()).unwrap_or(minor.len());
    (major == 1).then(|| minor.get(..digits)?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_distributions_have_a_minor_version_too() {
        assert_eq!(minor("v1.36.3"), Some(36));
        assert_eq!(minor("v1.29.8-gke.1096000"), Some(29));
        assert_eq!(minor("v1.31+"), Some(31));
        assert_eq!(minor("unknown"), None);
    }
}
