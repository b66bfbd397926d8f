//! The connection flags of kubectl, as one group of arguments that every command with a cluster shares.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use kross_cluster::{ClientOptions, ClusterClient, ConnectionOverrides, LocalCluster};

/// How a command connects to the hub. The flags and their meaning are those of kubectl.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionFlags {
    /// Kubeconfig file (default: `$KUBECONFIG`, `~/.kube/config`, in-cluster)
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig (default: the current context)
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Cluster of the kubeconfig (default: the context's)
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,

    /// User of the kubeconfig (default: the context's)
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// Namespace (default: the context's namespace)
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Address of the API server
    #[arg(short, long, value_name = "URL")]
    server: Option<String>,

    /// Bearer token, in place of the kubeconfig's credential
    #[arg(long, value_name = "TOKEN")]
    token: Option<Secret>,

    /// User to act as
    #[arg(long = "as", value_name = "USER")]
    act_as: Option<String>,

    /// Group to act as; repeat the flag for several
    #[arg(long = "as-group", value_name = "GROUP")]
    act_as_groups: Vec<String>,

    /// UID to act as
    #[arg(long = "as-uid", value_name = "UID")]
    act_as_uid: Option<String>,

    /// Further attribute of the user to act as; repeat the flag for several
    #[arg(long = "as-user-extra", value_name = "KEY=VALUE")]
    act_as_extra: Vec<String>,

    /// How long one request may take, such as `5s`; `0` for no limit
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    request_timeout: String,

    /// File with the certificate authority of the API server
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,

    /// File with a client certificate
    #[arg(long, value_name = "FILE")]
    client_certificate: Option<PathBuf>,

    /// File with the key of the client certificate
    #[arg(long, value_name = "FILE")]
    client_key: Option<PathBuf>,

    /// Accept any certificate of the API server; the connection can be read by others
    #[arg(long)]
    insecure_skip_tls_verify: bool,

    /// Name to check the API server's certificate against
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,

    /// User name, for API servers that check passwords
    #[arg(long, value_name = "NAME")]
    username: Option<String>,

    /// Password, for API servers that check passwords
    #[arg(long, value_name = "PASSWORD")]
    password: Option<Secret>,
}

/// A credential from the command line. Its `Debug` output does not show it.
#[derive(Clone)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl std::str::FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl ConnectionFlags {
    /// `--namespace`.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The names of the contexts of the kubeconfig; none if it cannot be read.
    pub(crate) fn contexts(&self) -> Vec<String> {
        self.source().map(|source| source.contexts()).unwrap_or_default()
    }

    /// The cluster of another context of the same kubeconfig. The other flags are about the hub.
    pub(crate) fn source_of(&self, context: &str) -> LocalCluster {
        LocalCluster {
            kubeconfig: self.kubeconfig.clone(),
            context: Some(context.to_owned()),
            overrides: ConnectionOverrides::default(),
        }
    }

    /// A client of the hub. Does not contact it.
    ///
    /// # Errors
    /// A flag is invalid, or there is no usable configuration.
    pub(crate) async fn connect(&self) -> anyhow::Result<ClusterClient> {
        Ok(ClusterClient::local(&self.source()?, self.options()?).await?)
    }

    /// Timeouts of requests.
    fn options(&self) -> anyhow::Result<ClientOptions> {
        let mut options = ClientOptions::default();
        let limit = request_timeout(&self.request_timeout)?;
        options.request_timeout = limit;
        options.list_timeout = limit.max(options.list_timeout);
        options.read_timeout = limit;
        if limit < Duration::from_secs(30) {
            options.list_timeout = limit;
            options.requests.connect_timeout = options.requests.connect_timeout.min(limit);
        }
        options.user_agent = format!("kross/{}", env!("CARGO_PKG_VERSION"));
        Ok(options)
    }

    fn source(&self) -> anyhow::Result<LocalCluster> {
        let Self {
            kubeconfig,
            context,
            cluster,
            user,
            namespace: _,
            server,
            token,
            act_as,
            act_as_groups,
            act_as_uid,
            act_as_extra,
            request_timeout: _,
            certificate_authority,
            client_certificate,
            client_key,
            insecure_skip_tls_verify,
            tls_server_name,
            username,
            password,
        } = self.clone();
        let mut extra = Vec::new();
        for pair in act_as_extra {
            let Some((key, value)) = pair.split_once('=') else {
                bail!("invalid value `{pair}` for `--as-user-extra`: use `KEY=VALUE`");
            };
            extra.push((key.to_owned(), value.to_owned()));
        }
        let overrides = ConnectionOverrides {
            cluster,
            user,
            server,
            certificate_authority,
            insecure_skip_tls_verify,
            tls_server_name,
            token: token.map(|Secret(token)| token.into()),
            client_certificate,
            client_key,
            username,
            password: password.map(|Secret(password)| password.into()),
            act_as,
            act_as_uid,
            act_as_groups,
            act_as_extra: extra,
        };
        Ok(LocalCluster { kubeconfig, context, overrides })
    }
}

/// A limit such as `5s`, `1m30s` or, as in kubectl, a number of seconds. `0` is no limit.
fn request_timeout(text: &str) -> anyhow::Result<Duration> {
    const NO_LIMIT: Duration = Duration::from_secs(24 * 3_600);
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(if seconds == 0 { NO_LIMIT } else { Duration::from_secs(seconds) });
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let invalid =
            || anyhow::anyhow!("invalid value `{text}` for `--request-timeout`: use for example `5s`");
        let end = rest.find(|character: char| !character.is_ascii_digit()).ok_or_else(invalid)?;
        let (digits, tail) = rest.split_at(end);
        let number: u64 = digits.parse().map_err(|_| invalid())?;
        let unit_end = tail.find(|character: char| character.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        total += match unit {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.saturating_mul(60)),
            "h" => Duration::from_secs(number.saturating_mul(3_600)),
            _ => return Err(invalid()),
        };
        rest = tail;
    }
    Ok(if total.is_zero() { NO_LIMIT } else { total })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_timeouts_are_those_of_kubectl() {
        for (text, seconds) in [("5s", 5), ("1m30s", 90), ("7", 7), ("0", 86_400), ("0s", 86_400)] {
            assert_eq!(request_timeout(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["5x", "s", "five"] {
            let error = request_timeout(text).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("invalid value `{text}` for `--request-timeout`: use for example `5s`")
            );
        }
    }

    #[test]
    fn debug_output_shows_no_credential() {
        let flags = ConnectionFlags {
            token: Some(Secret("s3cret".to_owned())),
            password: Some(Secret("s3cret".to_owned())),
            ..ConnectionFlags::default()
        };
        assert!(!format!("{flags:?}").contains("s3cret"));
    }
}
