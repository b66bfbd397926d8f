//! Runs local control planes with real etcd and kube-apiserver, for the demo, tests and benchmarks.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kross_local::ControlPlane;
//!
//! let plane = ControlPlane::named("hub").start().await?;
//! let client = plane.client().await?;
//! assert_eq!(client.apiserver_version().await?.major, "1");
//! plane.stop().await;
//! # Ok(())
//! # }
//! ```

mod access;
mod assets;
mod certificates;
mod kubeconfig;
mod mint;
mod plane;
mod program;
mod progress;
mod token;
mod version;

pub use access::{Access, rule};
pub use assets::{Assets, AssetsError, Axe, Binary, BuildError, DownloadError, Helm, Kro, Sources};
pub use certificates::{CertificateAuthority, CertificateError, Identity, Validity};
pub use kubeconfig::{ClientError, Credential, Kubeconfig};
pub use mint::MintError;
pub use plane::{ControlPlane, DirectoryError, Options, Snapshot, SpawnError, StartError};
pub use program::{Program, ProgramError};
pub use progress::Progress;
pub use token::TokenError;
pub use version::{KubernetesVersion, UnknownVersion, VERSION_VARIABLE};
