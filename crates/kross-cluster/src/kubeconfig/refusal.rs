//! Why a kubeconfig is refused, with the place and what to do about it. Nothing of what stands in the kubeconfig is repeated
//! except addresses and commands of harmless letters, so a refusal can be shown to anybody.

use std::fmt;

/// A kubeconfig that is not used.
///
/// ```
/// use kross_cluster::{KubeconfigPolicy, RefusalReason, accept};
///
/// let refusal = accept(b"apiVersion: v2", &KubeconfigPolicy::default()).unwrap_err();
/// assert_eq!(refusal.reason(), RefusalReason::NotAConfig);
/// assert_eq!(
///     refusal.to_string(),
///     "the kubeconfig is refused: `apiVersion` (line 1) is not that of a kubeconfig; write `apiVersion: v1` and `kind: Config`"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    reason: RefusalReason,
    /// Made of known names and numbers only.
    path: String,
    line: Option<usize>,
    detail: String,
}

impl Refusal {
    pub(super) fn new(reason: RefusalReason, path: impl Into<String>, line: Option<usize>) -> Self {
        Self { reason, path: path.into(), line, detail: String::new() }
    }

    /// Adds something that is known to be no credential.
    pub(super) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Which rule it breaks.
    #[must_use]
    pub fn reason(&self) -> RefusalReason {
        self.reason
    }

    /// Which field breaks it, such as `users[0].user.tokenFile`; empty for the whole file.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kubeconfig is refused: ")?;
        let (problem, advice) = self.reason.texts();
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

macro_rules! reasons {
    ($($(#[$meta:meta])* $name:ident: $problem:literal, $advice:literal;)*) => {
        /// The rules a kubeconfig can break. The names are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum RefusalReason {
            $($(#[$meta])* $name,)*
        }

        impl RefusalReason {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name, as logs and audit records show it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// What is wrong, after the name of the field, and what to do about it.
            fn texts(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$name => ($problem, $advice),)*
                }
            }
        }
    };
}

reasons! {
    /// Nothing in it.
    Empty: "is empty", "store a kubeconfig under this key of the Secret";
    /// More bytes than any kubeconfig needs.
    TooLarge: "is larger than a kubeconfig can be", "keep one cluster, one user and one context in it (`kubectl config view --minify --flatten`)";
    /// Not UTF-8.
    Encoding: "is not UTF-8", "store the kubeconfig as UTF-8 text without byte order mark";
    /// Not YAML.
    Syntax: "is not YAML", "check it with `kubectl config view --kubeconfig FILE`";
    /// Values inside of values without end.
    TooDeep: "is nested too deep", "write the kubeconfig without nested values that it does not need";
    /// More values than any kubeconfig needs.
    TooMany: "has more values than a kubeconfig can have", "keep one cluster, one user and one context in it (`kubectl config view --minify --flatten`)";
    /// An anchor, an alias, a tag or a merge key.
    Anchors: "uses an anchor, an alias, a merge or a tag", "write every value out where it belongs";
    /// More than one document.
    Documents: "begins another document", "keep one document in it";
    /// A key or a name twice.
    Duplicate: "is there twice", "keep one of them";
    /// A value of another type than the field has.
    Type: "has a value of the wrong type", "check it with `kubectl config view --kubeconfig FILE`, and put text that looks like a number or `true` in quotes";
    /// A field that is not known.
    UnknownField: "has a field that is not known", "remove it";
    /// Another `apiVersion` or `kind`.
    NotAConfig: "is not that of a kubeconfig", "write `apiVersion: v1` and `kind: Config`";
    /// No `current-context`, or one that is not there.
    Context: "does not name one of the contexts", "set it with `kubectl config use-context`";
    /// The context's cluster is not there.
    Cluster: "does not name one of the clusters", "let the context name a cluster of this kubeconfig";
    /// The context's user is not there.
    User: "does not name one of the users", "let the context name a user of this kubeconfig; a cluster is never used anonymously";
    /// The user has no credential.
    NoCredential: "has no credential", "give it one of `token`, `client-certificate-data` with `client-key-data`, or `username` with `password`";
    /// More than one way to say who we are.
    SeveralMethods: "has several credentials, and revoking one would not revoke the other", "keep one of `token`, `client-certificate-data` with `client-key-data`, `username` with `password`, or `exec`";
    /// Half of a credential.
    Incomplete: "is only half of a credential", "give both `client-certificate-data` and `client-key-data`, or both `username` and `password`";
    /// A token that is no header.
    Token: "has characters that no token has", "remove line breaks and blanks from it";
    /// A file of the controller.
    FilePath: "names a file, and the controller's files are not the kubeconfig's to read", "embed it with `kubectl config view --minify --flatten --raw`";
    /// `auth-provider`.
    AuthProvider: "is not supported", "use a `token`, a client certificate or an allowed `exec`";
    /// Acting as somebody else.
    Impersonation: "acts as somebody else", "use a credential of the user that is meant";
    /// `insecure-skip-tls-verify`.
    Insecure: "turns the check of the server's certificate off", "remove it and give `certificate-authority-data`";
    /// `proxy-url`.
    Proxy: "is not supported: it would let a kubeconfig choose whom the controller talks to", "remove it";
    /// No authority to check the server's certificate with.
    NoAuthority: "is missing", "add `certificate-authority-data`, or start the controller with `--kubeconfig-system-roots`";
    /// An authority that is no certificate.
    Authority: "holds no usable certificate", "give certificates in PEM, encoded in base64";
    /// A client certificate or key that cannot be used.
    Certificate: "cannot be used", "give certificate and key in PEM, encoded in base64";
    /// A key with a passphrase.
    EncryptedKey: "is encrypted, and there is nobody to ask for its passphrase", "give the key without passphrase";
    /// The key of another certificate.
    KeyMismatch: "is not the key of the client certificate", "give the key that belongs to it";
    /// An address that is none.
    Server: "is not an address", "write it as `https://host:port`";
    /// Not HTTPS.
    NotHttps: "is not `https`, so the credential would travel in the clear", "write it as `https://host:port`";
    /// A name and password in the address.
    UserInfo: "has a user in the address", "write it as `https://host:port`";
    /// A query or fragment in the address.
    Query: "has a query or a fragment", "write it as `https://host:port`";
    /// A name that no certificate can be for.
    ServerName: "is not a host name", "write the name that the server's certificate is for";
    /// An address that is denied.
    Denied: "is an address that may not be connected to", "use another address, or ask for a change of `--kubeconfig-deny-cidr`";
    /// A command that is not allowed.
    ExecNotAllowed: "runs a command that is not allowed", "start the controller with `--kubeconfig-exec-allow=/absolute/path` of the command";
    /// A command without its whole path.
    ExecRelative: "is not an absolute path", "write the whole path of the command, as the controller allows it";
    /// A command that asks somebody.
    ExecInteractive: "needs somebody to answer, and nobody is there", "write `interactiveMode: Never`";
    /// Another version of the plugins' protocol.
    ExecVersion: "is not supported", "use `client.authentication.k8s.io/v1` or `client.authentication.k8s.io/v1beta1`";
    /// A variable of the environment that only the operator may set.
    ExecEnv: "sets a variable that is not allowed", "start the controller with `--kubeconfig-exec-env=NAME`";
}
