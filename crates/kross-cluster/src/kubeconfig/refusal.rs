//! Why a kubeconfig is refused, in which field, and what to do about it. Quotes nothing from the kubeconfig except
//! addresses and commands without unusual characters, so that it may be shown to anyone.

use std::fmt;

/// A refused kubeconfig.
///
/// ```
/// use kross_cluster::{KubeconfigPolicy, RefusalReason, accept};
///
/// let refusal = accept(b"apiVersion: v2", "shop", &KubeconfigPolicy::default()).unwrap_err();
/// assert_eq!(refusal.reason(), RefusalReason::NotAConfig);
/// assert_eq!(
///     refusal.to_string(),
///     "the kubeconfig is refused: `apiVersion` (line 1) is not that of a kubeconfig; write `apiVersion: v1` and `kind: Config`"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    reason: RefusalReason,
    /// Consists of known field names and numbers.
    path: String,
    line: Option<usize>,
    detail: String,
    /// Whether it is about the fields of a connection Secret, not about a kubeconfig.
    fields: bool,
}

impl Refusal {
    pub(super) fn new(reason: RefusalReason, path: impl Into<String>, line: Option<usize>) -> Self {
        Self { reason, path: path.into(), line, detail: String::new(), fields: false }
    }

    /// The same refusal for a connection Secret without kubeconfig, whose fields have no lines.
    pub(super) fn of_connection_fields(self) -> Self {
        Self { line: None, fields: true, ..self }
    }

    /// Adds a detail that is certainly not a credential.
    pub(super) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The rule that it breaks.
    #[must_use]
    pub fn reason(&self) -> RefusalReason {
        self.reason
    }

    /// The field that breaks it, such as `users[0].user.tokenFile`; empty for the whole file.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = if self.fields { "connection Secret" } else { "kubeconfig" };
        write!(f, "the {subject} is refused: ")?;
        let (problem, advice) = self.reason.texts();
        let advice = self.reason.field_advice().filter(|_| self.fields).unwrap_or(advice);
        match (self.path.is_empty(), self.line) {
            (true, None) => f.write_str("it")?,
            (true, Some(line)) => write!(f, "line {line}")?,
            (false, None) => write!(f, "`{}`", self.path)?,
            (false, Some(line)) => write!(f, "`{}` (line {line})", self.path)?,
        }
        write!(f, " {problem}")?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        write!(f, "; {advice}")
    }
}

impl std::error::Error for Refusal {}

impl RefusalReason {
    /// The advice for a connection Secret, where the fields have other names than in a kubeconfig.
    fn field_advice(self) -> Option<&'static str> {
        match self {
            Self::NoCredential => {
                Some("add one of `token`, `clientCert` with `clientKey`, or `username` with `password`")
            }
            Self::SeveralMethods => Some("keep one of `token`, or `clientCert` with `clientKey`"),
            Self::Incomplete => {
                Some("set both `clientCert` and `clientKey`, or both `username` and `password`")
            }
            Self::NoAuthority => {
                Some("add `clusterCA`, or start the controller with `--kubeconfig-system-roots`")
            }
            Self::Server => {
                Some("write `endpoint` as `https://host` or `https://host:port`, and `port` as a number")
            }
            _ => None,
        }
    }
}

macro_rules! reasons {
    ($($(#[$meta:meta])* $name:ident: $problem:literal, $advice:literal;)*) => {
        /// The rules that a kubeconfig can break. The names are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum RefusalReason {
            $($(#[$meta])* $name,)*
        }

        impl RefusalReason {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name, as in logs and audit records.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The problem, to follow the name of the field, and the advice.
            fn texts(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$name => ($problem, $advice),)*
                }
            }
        }
    };
}

reasons! {
    /// It is empty.
    Empty: "is empty", "store a kubeconfig under this key of the Secret";
    /// It has more bytes than a kubeconfig needs.
    TooLarge: "is larger than a kubeconfig can be", "keep one cluster, one user and one context in it (`kubectl config view --minify --flatten`)";
    /// It is not UTF-8.
    Encoding: "is not UTF-8", "store the kubeconfig as UTF-8 text without byte order mark";
    /// It is not YAML.
    Syntax: "is not YAML", "check it with `kubectl config view --kubeconfig FILE`";
    /// It is nested too deeply.
    TooDeep: "is nested too deeply", "remove nested values that a kubeconfig does not need";
    /// It has more values than a kubeconfig needs.
    TooMany: "has more values than a kubeconfig can have", "keep one cluster, one user and one context in it (`kubectl config view --minify --flatten`)";
    /// It has an anchor, an alias, a tag or a merge key.
    Anchors: "uses an anchor, an alias, a merge key or a tag", "write every value out in its place";
    /// It has more than one document.
    Documents: "begins another document", "keep one document in it";
    /// A key or a name occurs twice.
    Duplicate: "occurs twice", "keep one of them";
    /// A value has the wrong type.
    Type: "has a value of the wrong type", "check it with `kubectl config view --kubeconfig FILE`, and put text that looks like a number or `true` in quotes";
    /// A field is not known.
    UnknownField: "has an unknown field", "remove it";
    /// `apiVersion` or `kind` is wrong.
    NotAConfig: "is not that of a kubeconfig", "write `apiVersion: v1` and `kind: Config`";
    /// `current-context` is missing or does not exist.
    Context: "does not name one of the contexts", "set it with `kubectl config use-context`";
    /// The cluster of the context does not exist.
    Cluster: "does not name one of the clusters", "set the context's cluster to one of this kubeconfig";
    /// The user of the context does not exist.
    User: "does not name one of the users", "set the context's user to one of this kubeconfig; anonymous access is not supported";
    /// The user has no credential.
    NoCredential: "has no credential", "add one of `token`, `client-certificate-data` with `client-key-data`, or `username` with `password`";
    /// The user has several credentials.
    SeveralMethods: "has several credentials, and revoking one would not revoke the other", "keep one of `token`, `client-certificate-data` with `client-key-data`, `username` with `password`, or `exec`";
    /// A part of the credential is missing.
    Incomplete: "is only a part of a credential", "set both `client-certificate-data` and `client-key-data`, or both `username` and `password`";
    /// The token has characters that are not allowed in a header.
    Token: "has characters that a token must not have", "remove line breaks and spaces from it";
    /// It refers to a file.
    FilePath: "refers to a local file, which is not allowed", "embed it with `kubectl config view --minify --flatten --raw`";
    /// `auth-provider`.
    AuthProvider: "is not supported", "use a `token`, a client certificate or an allowed `exec`";
    /// Impersonation.
    Impersonation: "impersonates another user, which is not allowed", "use the credential of that user";
    /// `insecure-skip-tls-verify`.
    Insecure: "disables the verification of the server's certificate", "remove it and set `certificate-authority-data`";
    /// `proxy-url`.
    Proxy: "is not supported, because it would let a kubeconfig choose what the controller connects to", "remove it";
    /// There is no certificate authority to verify the server with.
    NoAuthority: "is missing", "add `certificate-authority-data`, or start the controller with `--kubeconfig-system-roots`";
    /// The certificate authority cannot be parsed.
    Authority: "has no valid certificate", "set it to PEM certificates, encoded in base64";
    /// The client certificate or its key cannot be used.
    Certificate: "cannot be used", "set certificate and key to PEM, encoded in base64";
    /// The key is encrypted.
    EncryptedKey: "is encrypted, and the controller has no passphrase", "use a key without passphrase";
    /// The key belongs to another certificate.
    KeyMismatch: "is not the key of the client certificate", "use the key that belongs to it";
    /// The address is invalid.
    Server: "is not a valid address", "write it as `https://host:port`";
    /// There is neither a kubeconfig nor an address.
    NoEndpoint: "is missing", "store a kubeconfig under the key `kubeconfig`, or the keys `endpoint` and `clusterCA` with a credential";
    /// The address is not `https`.
    NotHttps: "is not `https`, so the credential would be sent unencrypted", "write it as `https://host:port`";
    /// The address has a user name.
    UserInfo: "has a user name in the address", "write it as `https://host:port`";
    /// The address has a query or a fragment.
    Query: "has a query or a fragment", "write it as `https://host:port`";
    /// The server name is invalid.
    ServerName: "is not a valid host name", "set it to a name in the server's certificate";
    /// The address is denied.
    Denied: "is a denied address", "use another address, or change `--kubeconfig-deny-cidr`";
    /// The command is not allowed.
    ExecNotAllowed: "runs a command that is not allowed", "start the controller with `--kubeconfig-exec-allow=/absolute/path/of/the/command`";
    /// The command is not allowed for the namespace of the Secret.
    ExecNamespace: "runs a command that is not allowed for Secrets of this namespace", "store the Secret in `kro-system`, or add the namespace to `--kubeconfig-exec-allow` with `args=` and `server=`";
    /// The arguments are not those that are allowed.
    ExecArguments: "are not the arguments that are allowed for the command", "write them as `args=` in `--kubeconfig-exec-allow` says";
    /// The credential of the command may not be sent to the server.
    ExecServer: "is not a server that the command of the kubeconfig may be used for", "add it to `--kubeconfig-exec-allow` as `server=`";
    /// The command is not an absolute path.
    ExecRelative: "is not an absolute path", "write the absolute path of the command, as in `--kubeconfig-exec-allow`";
    /// The command is interactive.
    ExecInteractive: "is interactive, and there is no terminal", "write `interactiveMode: Never`";
    /// The version of the exec protocol is not supported.
    ExecVersion: "is not supported", "use `client.authentication.k8s.io/v1` or `client.authentication.k8s.io/v1beta1`";
    /// The environment variable is not allowed.
    ExecEnv: "sets a variable that is not allowed", "add `env=NAME` to the command in `--kubeconfig-exec-allow`";
}
