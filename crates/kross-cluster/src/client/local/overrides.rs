//! What the command line says about the connection to the local cluster, over what the kubeconfig says: the server, the
//! credential, and the user to act as. The same rules as kubectl's.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use http::Uri;
use kube::config::AuthInfo;
use serde_json::json;
use zeroize::Zeroizing;

use super::LocalError;

/// Replaces parts of a kubeconfig. What is not set stays as it is. Its `Debug` output shows no credential.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConnectionOverrides {
    /// The cluster of the kubeconfig to use, in place of the context's.
    pub cluster: Option<String>,
    /// The user of the kubeconfig to use, in place of the context's.
    pub user: Option<String>,
    /// The address of the API server.
    pub server: Option<String>,
    /// A file with the certificate authority of the server.
    pub certificate_authority: Option<PathBuf>,
    /// Whether any certificate of the server is accepted.
    pub insecure_skip_tls_verify: bool,
    /// The name to check the server's certificate against.
    pub tls_server_name: Option<String>,
    /// A bearer token, in place of every other credential.
    pub token: Option<Zeroizing<String>>,
    /// A file with a client certificate.
    pub client_certificate: Option<PathBuf>,
    /// A file with the key of the client certificate.
    pub client_key: Option<PathBuf>,
    /// A user name, for servers that check passwords.
    pub username: Option<String>,
    /// The password of the user.
    pub password: Option<Zeroizing<String>>,
    /// The user to act as.
    pub act_as: Option<String>,
    /// The UID to act as.
    pub act_as_uid: Option<String>,
    /// The groups to act as.
    pub act_as_groups: Vec<String>,
    /// Further attributes of the user to act as: key and value.
    pub act_as_extra: Vec<(String, String)>,
}

impl fmt::Debug for ConnectionOverrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionOverrides")
            .field("cluster", &self.cluster)
            .field("user", &self.user)
            .field("server", &self.server)
            .field("act_as", &self.act_as)
            .finish_non_exhaustive()
    }
}

impl ConnectionOverrides {
    /// Applies them to a configuration.
    pub(super) fn apply(&self, config: &mut kube::Config) -> Result<(), LocalError> {
        if let Some(server) = &self.server {
            config.cluster_url = self.parsed_server(server)?;
        }
        if let Some(path) = &self.certificate_authority {
            config.root_cert = None;
            config.root_cert_file = Some(path.clone());
        }
        config.accept_invalid_certs |= self.insecure_skip_tls_verify;
        if let Some(name) = &self.tls_server_name {
            config.tls_server_name = Some(name.clone());
        }
        self.replace_credential(&mut config.auth_info);
        self.impersonate(&mut config.auth_info)
    }

    /// The address of the server, if there is nothing but the command line.
    pub(super) fn server(&self) -> Option<Result<Uri, LocalError>> {
        self.server.as_deref().map(|server| self.parsed_server(server))
    }

    fn parsed_server(&self, server: &str) -> Result<Uri, LocalError> {
        let with_scheme =
            if server.contains("://") { server.to_owned() } else { format!("https://{server}") };
        with_scheme.parse().map_err(|_| LocalError::Server { server: server.to_owned() })
    }

    /// A credential on the command line replaces those of the kubeconfig, so that one of them is not sent with another.
    fn replace_credential(&self, info: &mut AuthInfo) {
        let text = |path: &PathBuf| path.display().to_string();
        let secrets = json!({
            "token": self.token.as_deref(),
            "password": self.password.as_deref(),
        });
        let AuthInfo { token, password, .. } = serde_json::from_value(secrets).unwrap_or_default();
        let given = AuthInfo {
            token,
            password,
            username: self.username.clone(),
            client_certificate: self.client_certificate.as_ref().map(text),
            client_key: self.client_key.as_ref().map(text),
            ..AuthInfo::default()
        };
        let is_given = given.token.is_some()
            || given.username.is_some()
            || given.client_certificate.is_some()
            || given.client_key.is_some();
        if is_given {
            *info = AuthInfo {
                impersonate: info.impersonate.take(),
                impersonate_uid: info.impersonate_uid.take(),
                impersonate_groups: info.impersonate_groups.take(),
                impersonate_user_extra: info.impersonate_user_extra.take(),
                ..given
            };
        }
    }

    fn impersonate(&self, info: &mut AuthInfo) -> Result<(), LocalError> {
        if self.act_as.is_some() {
            info.impersonate.clone_from(&self.act_as);
            info.impersonate_uid = None;
            info.impersonate_groups = None;
            info.impersonate_user_extra = None;
        }
        let has_attributes =
            self.act_as_uid.is_some() || !self.act_as_groups.is_empty() || !self.act_as_extra.is_empty();
        if has_attributes && info.impersonate.is_none() {
            return Err(LocalError::NobodyToActAs);
        }
        if self.act_as_uid.is_some() {
            info.impersonate_uid.clone_from(&self.act_as_uid);
        }
        if !self.act_as_groups.is_empty() {
            info.impersonate_groups = Some(self.act_as_groups.clone());
        }
        let mut extra: HashMap<String, Vec<String>> = HashMap::new();
        for (key, value) in &self.act_as_extra {
            extra.entry(key.clone()).or_default().push(value.clone());
        }
        if !extra.is_empty() {
            info.impersonate_user_extra = Some(extra);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> kube::Config {
        let mut config = kube::Config::new("https://one:6443".parse().unwrap());
        config.auth_info = serde_json::from_value(json!({
            "token": "of-the-file", "as": "somebody", "as-groups": ["some"],
        }))
        .unwrap();
        config
    }

    #[test]
    fn nothing_changes_what_is_not_given() {
        let mut config = config();
        ConnectionOverrides::default().apply(&mut config).unwrap();
        assert_eq!(config.cluster_url, "https://one:6443");
        assert!(config.auth_info.token.is_some());
        assert_eq!(config.auth_info.impersonate.as_deref(), Some("somebody"));
    }

    #[test]
    fn a_credential_replaces_every_other_one() {
        let mut config = config();
        let overrides = ConnectionOverrides {
            client_certificate: Some("cert".into()),
            client_key: Some("key".into()),
            server: Some("two:6443".to_owned()),
            ..ConnectionOverrides::default()
        };
        overrides.apply(&mut config).unwrap();
        assert_eq!(config.cluster_url, "https://two:6443");
        assert!(config.auth_info.token.is_none());
        assert_eq!(config.auth_info.client_certificate.as_deref(), Some("cert"));
    }

    #[test]
    fn another_user_to_act_as_does_not_keep_the_groups_of_the_first() {
        let mut config = config();
        let overrides =
            ConnectionOverrides { act_as: Some("other".to_owned()), ..ConnectionOverrides::default() };
        overrides.apply(&mut config).unwrap();
        assert_eq!(config.auth_info.impersonate.as_deref(), Some("other"));
        assert_eq!(config.auth_info.impersonate_groups, None);
    }

    #[test]
    fn groups_need_a_user_to_act_as() {
        let mut config = kube::Config::new("https://one:6443".parse().unwrap());
        let overrides = ConnectionOverrides {
            act_as_groups: vec!["admins".to_owned()],
            ..ConnectionOverrides::default()
        };
        let error = overrides.apply(&mut config).unwrap_err();
        assert_eq!(error.to_string(), "`--as-group`, `--as-uid` and `--as-user-extra` need `--as`");
    }

    #[test]
    fn debug_output_shows_no_credential() {
        let overrides = ConnectionOverrides {
            token: Some(Zeroizing::new("s3cret".to_owned())),
            password: Some(Zeroizing::new("s3cret".to_owned())),
            ..ConnectionOverrides::default()
        };
        assert!(!format!("{overrides:?}").contains("s3cret"));
    }
}
