//! The client of the local cluster, from the environment or from a kubeconfig that the operator names. Unlike the
//! kubeconfigs of remote clusters this one is trusted: it may refer to files and run plugins.

use std::path::PathBuf;

use http::{HeaderMap, Request, Response};
use kube::client::{Body, ConfigExt};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tower::{BoxError, ServiceBuilder};

use super::credential::HeaderService;
use super::{ClientOptions, ClusterClient, Credential};
use crate::ClusterId;
use crate::transport::{Endpoint, TransportError};

mod overrides;
mod server;

pub use overrides::ConnectionOverrides;
pub use server::ServerDetails;

/// Where the configuration of the local cluster is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalCluster {
    /// A kubeconfig file. Default: `$KUBECONFIG`, `~/.kube/config`, in-cluster.
    pub kubeconfig: Option<PathBuf>,
    /// The context to use. Default: the current one.
    pub context: Option<String>,
    /// What replaces parts of the kubeconfig.
    pub overrides: ConnectionOverrides,
}

/// The local cluster cannot be connected to.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig `{}`", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// The kubeconfig is not valid. Says where, and quotes nothing: the line may have a credential.
    #[error("cannot read the kubeconfig `{}`: {place} is not as expected; check it with `kubectl config view`", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// `line 7 column 3`.
        place: String,
    },
    /// There is neither a kubeconfig nor a ServiceAccount.
    #[error("no cluster is configured: pass `--kubeconfig`, set `KUBECONFIG`, or run in a pod")]
    Nowhere(#[source] Box<kube::config::InferConfigError>),
    /// The address on the command line is not one.
    #[error("invalid server `{server}`: use an address such as `https://10.0.0.1:6443`")]
    Server {
        /// The address.
        server: String,
    },
    /// The file with the certificate authority cannot be read.
    #[error("cannot read the certificate authority `{}`", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// There are groups or attributes of a user to act as, and no user.
    #[error("`--as-group`, `--as-uid` and `--as-user-extra` need `--as`")]
    NobodyToActAs,
    /// The certificates or credentials cannot be used.
    #[error("cannot use the credentials of the local cluster")]
    Credentials(#[source] Box<kube::Error>),
    /// The address cannot be used.
    #[error("cannot use the address of the local cluster")]
    Transport(#[from] TransportError),
    /// The task that loads the configuration was cancelled.
    #[error("cancelled loading the configuration of the local cluster")]
    Cancelled,
}

impl LocalCluster {
    /// The names of the contexts of the kubeconfig; none if it cannot be read.
    #[must_use]
    pub fn contexts(&self) -> Vec<String> {
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let contexts = kubeconfig.map(|kubeconfig| kubeconfig.contexts).unwrap_or_default();
        contexts.into_iter().map(|context| context.name).collect()
    }

    /// Where the cluster is and which authorities its certificate is verified with, without any credential: for clients that have
    /// one of their own. Does not contact it.
    ///
    /// # Errors
    /// There is no configuration, or it cannot be used.
    pub async fn endpoint(&self) -> Result<Endpoint, LocalError> {
        let mut config = load(self).await?;
        config.auth_info = AuthInfo::default();
        // This reads files, which blocks.
        tokio::task::spawn_blocking(move || endpoint(&config)).await.map_err(|_| LocalError::Cancelled)?
    }
}

impl ClusterClient {
    /// A client of the local cluster.
    ///
    /// # Errors
    /// There is no configuration, or it cannot be used. The cluster is not contacted.
    pub async fn local(source: &LocalCluster, options: ClientOptions) -> Result<Self, LocalError> {
        let config = load(source).await?;
        Self::trusted(ClusterId::local(), config, options).await
    }

    /// A client from a configuration that the operator trusts.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub async fn trusted(
        cluster: ClusterId,
        config: kube::Config,
        options: ClientOptions,
    ) -> Result<Self, LocalError> {
        if config.proxy_url.is_some() {
            tracing::warn!(%cluster, "ignored the proxy of the kubeconfig; the cluster is connected to directly");
        }
        let default_namespace = config.default_namespace.clone();
        // This runs plugins, which block.
        let (endpoint, service) = tokio::task::spawn_blocking(move || prepare(&config))
            .await
            .map_err(|_| LocalError::Cancelled)??;
        let mut client = Self::new(cluster, &endpoint, Credential::trusted(service), options)?;
        if let Some(shared) = std::sync::Arc::get_mut(&mut client.shared) {
            shared.default_namespace = default_namespace;
        }
        Ok(client)
    }
}

async fn load(source: &LocalCluster) -> Result<kube::Config, LocalError> {
    let mut config = load_kubeconfig(source).await?;
    source.overrides.apply(&mut config)?;
    Ok(config)
}

async fn load_kubeconfig(source: &LocalCluster) -> Result<kube::Config, LocalError> {
    let LocalCluster { kubeconfig, context, overrides } = source;
    let options = KubeConfigOptions {
        context: context.clone(),
        cluster: overrides.cluster.clone(),
        user: overrides.user.clone(),
    };
    if let Some(path) = kubeconfig {
        let error = |source| unusable(path.clone(), source);
        let kubeconfig = Kubeconfig::read_from(path).map_err(error)?;
        return kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(error);
    }
    let is_selected = options.context.is_some() || options.cluster.is_some() || options.user.is_some();
    if is_selected {
        return kube::Config::from_kubeconfig(&options).await.map_err(default_kubeconfig);
    }
    match (kube::Config::infer().await, overrides.server()) {
        (Ok(config), _) => Ok(config),
        (Err(_), Some(server)) => Ok(kube::Config::new(server?)),
        // One that is set or exists, and cannot be used.
        (Err(source), None) => match (default_path(), Kubeconfig::read()) {
            (Some(_), Err(error)) => Err(default_kubeconfig(error)),
            (Some(_), Ok(_)) => Err(match kube::Config::from_kubeconfig(&options).await {
                Err(error) => default_kubeconfig(error),
                Ok(_) => LocalError::Nowhere(Box::new(source)),
            }),
            (None, _) => Err(LocalError::Nowhere(Box::new(source))),
        },
    }
}

/// The kubeconfig of the environment, if it is set or exists.
fn default_path() -> Option<PathBuf> {
    if let Some(set) = std::env::var_os("KUBECONFIG").filter(|set| !set.is_empty()) {
        return Some(set.into());
    }
    let file = PathBuf::from(std::env::var_os("HOME")?).join(".kube/config");
    file.exists().then_some(file)
}

fn default_kubeconfig(source: KubeconfigError) -> LocalError {
    unusable(default_path().unwrap_or_else(|| PathBuf::from("~/.kube/config")), source)
}

fn unusable(path: PathBuf, source: KubeconfigError) -> LocalError {
    match source {
        KubeconfigError::Parse(error) => {
            let place = error.location().map_or_else(
                || "its text".to_owned(),
                |at| format!("line {} column {}", at.line(), at.column()),
            );
            LocalError::Malformed { path, place }
        }
        source => LocalError::Kubeconfig { path, source: Box::new(source) },
    }
}

fn endpoint(config: &kube::Config) -> Result<Endpoint, LocalError> {
    // Only the first call in a process has an effect, and all install the same provider.
    let _ = crate::crypto_provider().install_default();
    let tls = config.rustls_client_config().map_err(|source| LocalError::Credentials(Box::new(source)))?;
    Ok(Endpoint::new(&config.cluster_url, tls, config.tls_server_name.as_deref())?)
}

fn prepare(config: &kube::Config) -> Result<(Endpoint, HeaderService), LocalError> {
    let endpoint = endpoint(config)?;
    let credentials = |source| LocalError::Credentials(Box::new(source));
    let echo = tower::service_fn(async |request: Request<Body>| {
        let headers: HeaderMap = request.headers().clone();
        Ok::<_, BoxError>(Response::new(headers))
    });
    let service = ServiceBuilder::new()
        .layer(config.extra_headers_layer().map_err(credentials)?)
        .option_layer(config.auth_layer().map_err(credentials)?)
        .map_err(BoxError::from)
        .service(echo);
    Ok((endpoint, HeaderService::new(service)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_parsed_is_not_quoted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in ["users:\n- user: {token: c4nary", "users: c4nary", "c4nary"] {
            std::fs::write(file.path(), text).unwrap();
            let source = LocalCluster { kubeconfig: Some(file.path().to_owned()), ..LocalCluster::default() };
            let error = ClusterClient::local(&source, ClientOptions::default()).await.unwrap_err();
            let said = format!("{error} {error:?}");
            assert!(matches!(error, LocalError::Malformed { .. }) && !said.contains("c4nary"), "{said}");
        }
    }
}
