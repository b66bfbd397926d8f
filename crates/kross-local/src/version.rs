//! Turns a Kubernetes version such as `1.36` into a supported release: its exact version and the pinned Go module that builds
//! it.

use std::fmt;
use std::str::FromStr;

/// One Kubernetes minor version with everything needed to build its control plane.
#[derive(Debug, PartialEq, Eq)]
struct Release {
    minor: &'static str,
    exact: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
}

/// Every supported release, the default one first.
static RELEASES: &[Release] = &[
    DEFAULT_RELEASE,
    Release {
        minor: "1.30",
        exact: "1.30.14",
        go_mod: include_str!("../control-plane/1.30/go.mod"),
        go_sum: include_str!("../control-plane/1.30/go.sum"),
    },
];

const DEFAULT_RELEASE: Release = Release {
    minor: "1.36",
    exact: "1.36.3",
    go_mod: include_str!("../control-plane/1.36/go.mod"),
    go_sum: include_str!("../control-plane/1.36/go.sum"),
};

/// The environment variable with the version that tests run against.
pub const VERSION_VARIABLE: &str = "KROSS_KUBERNETES";

/// A Kubernetes version that control planes can run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KubernetesVersion(&'static Release);

impl KubernetesVersion {
    /// The default version.
    pub const DEFAULT: Self = Self(&DEFAULT_RELEASE);

    /// Every supported version.
    pub fn all() -> impl Iterator<Item = Self> {
        RELEASES.iter().map(Self)
    }

    /// The version named by `KROSS_KUBERNETES`, or the default.
    ///
    /// # Errors
    /// The variable has an unsupported version.
    pub fn from_environment() -> Result<Self, UnknownVersion> {
        match std::env::var(VERSION_VARIABLE) {
            Ok(text) if !text.is_empty() => text.parse(),
            _ => Ok(Self::DEFAULT),
        }
    }

    /// The minor version, such as `1.36`.
    #[must_use]
    pub fn minor(self) -> &'static str {
        self.0.minor
    }

    /// The exact version that is built, such as `1.36.3`.
    #[must_use]
    pub fn exact(self) -> &'static str {
        self.0.exact
    }

    pub(crate) fn go_mod(self) -> &'static str {
        self.0.go_mod
    }

    pub(crate) fn go_sum(self) -> &'static str {
        self.0.go_sum
    }
}

impl Default for KubernetesVersion {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.exact())
    }
}

impl fmt::Debug for KubernetesVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KubernetesVersion({})", self.exact())
    }
}

impl FromStr for KubernetesVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_prefix('v').unwrap_or(text);
        Self::all()
            .find(|version| version.minor() == number || version.exact() == number)
            .ok_or_else(|| UnknownVersion { version: text.to_owned() })
    }
}

/// A version that is not supported: there is no pinned module for it.
#[derive(Debug, thiserror::Error)]
#[error("unsupported Kubernetes version `{version}`; use one of {}", supported())]
pub struct UnknownVersion {
    version: String,
}

fn supported() -> String {
    let names: Vec<String> =
        KubernetesVersion::all().map(|version| format!("`{}`", version.minor())).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_by_its_minor_and_by_its_exact_number() {
        for text in ["1.36", "v1.36", "1.36.3", "v1.36.3"] {
            assert_eq!(text.parse::<KubernetesVersion>().unwrap(), KubernetesVersion::DEFAULT, "{text}");
        }
    }

    #[test]
    fn an_unsupported_version_lists_the_supported_ones() {
        let error = "1.2".parse::<KubernetesVersion>().unwrap_err();
        assert_eq!(error.to_string(), "unsupported Kubernetes version `1.2`; use one of `1.36`, `1.30`");
    }

    #[test]
    fn every_release_pins_its_own_version() {
        for version in KubernetesVersion::all() {
            assert!(
                version.go_mod().contains(&format!("k8s.io/kubernetes v{}", version.exact())),
                "{version}"
            );
        }
    }
}
