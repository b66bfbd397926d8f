//! The rules of the operator for `exec`: which command may run for the Secrets of which namespaces, with which
//! arguments, and for which servers its credential may be used.
//!
//! The credential of a command is the controller's, not that of the Secret: a cloud signs it for the identity of the pod.
//! Whoever may write Secrets outside of `kro-system` therefore chooses neither the arguments nor the server freely.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use http::Uri;
use kross_api::SYSTEM_NAMESPACE;
use zeroize::Zeroizing;

/// All namespaces, and any text in an argument.
const ANY: char = '*';

/// A command that kubeconfigs may run, and what they may use it for.
///
/// ```
/// use kross_cluster::ExecRule;
///
/// let rules = ExecRule::parse_list(
///     "/usr/bin/aws,args=eks get-token --cluster-name *,server=.eks.amazonaws.com,namespace=shop,namespace=bank",
/// ).unwrap();
/// assert_eq!(rules.len(), 1);
///
/// // A command alone is for the Secrets in `kro-system`.
/// let administrators: ExecRule = "/usr/bin/gke-gcloud-auth-plugin".parse().unwrap();
/// let error = "/usr/bin/aws,namespace=shop".parse::<ExecRule>().unwrap_err();
/// assert!(error.to_string().contains("needs `args=` and `server=`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecRule {
    command: PathBuf,
    /// Patterns of all arguments, in order; without them any arguments are allowed.
    arguments: Option<Vec<String>>,
    /// Without them any server is allowed.
    servers: Vec<ServerPattern>,
    /// The namespaces of the Secrets; without them `kro-system`.
    namespaces: Vec<String>,
    /// Environment variables that the kubeconfig may set.
    environment: Vec<String>,
}

/// A text that is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidExecRule {
    /// The command is not an absolute path.
    #[error("`{0}` is not an absolute path")]
    Relative(String),
    /// A part of a rule comes before the command.
    #[error("`{0}` has no command before it; write it as `/absolute/path,{0}`")]
    NoCommand(String),
    /// A part of a rule is not known.
    #[error("`{0}` is neither an absolute path nor one of `args=`, `server=`, `namespace=` and `env=`")]
    Unknown(String),
    /// A part has no value, or one that it cannot have.
    #[error("`{0}` is not valid: use {1}")]
    Value(String, &'static str),
    /// The arguments are given twice.
    #[error("`{0}` has `args=` twice; repeat the command in a rule of its own")]
    Arguments(String),
    /// A rule for other namespaces than `kro-system` does not pin what the command is used for.
    #[error(
        "`{0}` needs `args=` and `server=`, because others than the administrators of `kro-system` write Secrets in these namespaces and could have the credential sent to a server of their own"
    )]
    Unbound(String),
}

/// A host, or all hosts in a domain; with a port or with any.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ServerPattern {
    /// In lower case; begins with a dot if it is a domain.
    host: String,
    port: Option<u16>,
}

/// How far a kubeconfig meets a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RuleMatch {
    /// The rule is about another command.
    OtherCommand,
    /// It is not for the namespace of the Secret.
    OtherNamespace,
    /// The arguments differ.
    OtherArguments,
    /// The server differs.
    OtherServer,
    /// The kubeconfig meets the rule.
    Matches,
}

impl ExecRule {
    /// Parses rules that are separated by commas: each begins with a command.
    ///
    /// # Errors
    /// The first part that is not valid.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, InvalidExecRule> {
        let mut rules: Vec<Self> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match (rules.last_mut(), part.split_once('=')) {
                _ if part.starts_with('/') => rules.push(Self::of(part)),
                (Some(rule), Some((field, value))) => rule.add(part, field, value.trim())?,
                (None, Some((field, _))) if is_field(field) => {
                    return Err(InvalidExecRule::NoCommand(part.to_owned()));
                }
                (None, _) => return Err(InvalidExecRule::Relative(part.to_owned())),
                (Some(_), None) => return Err(InvalidExecRule::Unknown(part.to_owned())),
            }
        }
        match rules.iter().find(|rule| !rule.is_bound()) {
            Some(rule) => Err(InvalidExecRule::Unbound(rule.command.display().to_string())),
            None => Ok(rules),
        }
    }

    fn of(command: &str) -> Self {
        Self {
            command: PathBuf::from(command),
            arguments: None,
            servers: Vec::new(),
            namespaces: Vec::new(),
            environment: Vec::new(),
        }
    }

    fn add(&mut self, part: &str, field: &str, value: &str) -> Result<(), InvalidExecRule> {
        let invalid = |expected| InvalidExecRule::Value(part.to_owned(), expected);
        match field.trim() {
            "args" if self.arguments.is_some() => {
                return Err(InvalidExecRule::Arguments(self.command.display().to_string()));
            }
            "args" => self.arguments = Some(value.split_whitespace().map(str::to_owned).collect()),
            "server" => self.servers.push(value.parse().map_err(invalid)?),
            "namespace" if value.is_empty() => {
                return Err(invalid("the name of a namespace, or `*` for all"));
            }
            "namespace" => self.namespaces.push(value.to_owned()),
            "env" if value.is_empty() => return Err(invalid("the name of an environment variable")),
            "env" => self.environment.push(value.to_owned()),
            _ => return Err(InvalidExecRule::Unknown(part.to_owned())),
        }
        Ok(())
    }

    /// Whether only administrators can use it: those who may write Secrets in `kro-system`.
    fn is_for_administrators(&self) -> bool {
        self.namespaces.iter().all(|namespace| namespace == SYSTEM_NAMESPACE)
    }

    fn is_bound(&self) -> bool {
        self.is_for_administrators() || (self.arguments.is_some() && !self.servers.is_empty())
    }

    /// How far an `exec` meets this rule. The server of an entry that is not used is not known.
    pub(super) fn matches(
        &self,
        command: &Path,
        namespace: &str,
        arguments: &[Zeroizing<String>],
        server: Option<&Uri>,
    ) -> RuleMatch {
        // Not the components of the path, which treat `/a/./b` like `/a/b`.
        if self.command.as_os_str() != command.as_os_str() {
            return RuleMatch::OtherCommand;
        }
        let is_own = |name: &String| name == namespace || name.as_str() == "*";
        let namespace_is_allowed = match self.namespaces.as_slice() {
            [] => namespace == SYSTEM_NAMESPACE,
            namespaces => namespaces.iter().any(is_own),
        };
        if !namespace_is_allowed {
            return RuleMatch::OtherNamespace;
        }
        if !self.allows_arguments(arguments) {
            return RuleMatch::OtherArguments;
        }
        let is_allowed = |server: &Uri| self.servers.iter().any(|pattern| pattern.matches(server));
        match server {
            Some(server) if !self.servers.is_empty() && !is_allowed(server) => RuleMatch::OtherServer,
            _ => RuleMatch::Matches,
        }
    }

    fn allows_arguments(&self, arguments: &[Zeroizing<String>]) -> bool {
        let Some(patterns) = &self.arguments else { return true };
        patterns.len() == arguments.len()
            && patterns.iter().zip(arguments).all(|(pattern, argument)| {
                // A value must not become an option, such as one that names another endpoint.
                let is_option = pattern.starts_with(ANY) && argument.starts_with('-');
                !is_option && matches_pattern(pattern, argument)
            })
    }

    /// Whether a kubeconfig that meets this rule may set an environment variable. Those in `shared`, which the command inherits, only
    /// administrators may change.
    pub(super) fn allows_variable(&self, name: &str, shared: &[String]) -> bool {
        let inherited = self.is_for_administrators() && shared.iter().any(|shared| shared == name);
        inherited || self.environment.iter().any(|allowed| allowed == name)
    }
}

impl FromStr for ExecRule {
    type Err = InvalidExecRule;

    fn from_str(text: &str) -> Result<Self, InvalidExecRule> {
        let mut rules = Self::parse_list(text)?.into_iter();
        match (rules.next(), rules.next()) {
            (Some(rule), None) => Ok(rule),
            _ => Err(InvalidExecRule::Value(text.to_owned(), "one command")),
        }
    }
}

impl FromStr for ServerPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const EXPECTED: &str =
            "a host such as `api.example.com` or `10.0.0.1:6443`, or a domain such as `.eks.amazonaws.com`";
        let text = text.to_ascii_lowercase();
        let (host, port) = match text.rsplit_once(':') {
            // A colon inside of brackets belongs to an IPv6 address.
            Some((host, port)) if !port.contains(']') => {
                (host, Some(port.parse::<u16>().map_err(|_| EXPECTED)?))
            }
            _ => (text.as_str(), None),
        };
        let host = plain_host(host);
        let plain = |character: char| character.is_ascii_alphanumeric() || "-.".contains(character);
        let is_valid = host.parse::<IpAddr>().is_ok() || host.chars().all(plain);
        if !is_valid || host.trim_start_matches('.').is_empty() || host.starts_with("..") {
            return Err(EXPECTED);
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl ServerPattern {
    fn matches(&self, server: &Uri) -> bool {
        let Some(host) = server.host().map(str::to_ascii_lowercase) else { return false };
        let host = plain_host(&host);
        let is_in_domain = || {
            // Addresses are in no domain, although `10.0.0.1` ends in `.0.1`.
            self.host.starts_with('.') && host.parse::<IpAddr>().is_err() && host.ends_with(&self.host)
        };
        let host_matches = match (host.parse::<IpAddr>(), self.host.parse::<IpAddr>()) {
            (Ok(one), Ok(other)) => one == other,
            _ => host == self.host || is_in_domain(),
        };
        host_matches && self.port.is_none_or(|port| server.port_u16().unwrap_or(443) == port)
    }
}

/// A host without the brackets of IPv6 addresses and the dot at the end of complete names.
fn plain_host(host: &str) -> &str {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host)
}

fn is_field(name: &str) -> bool {
    ["args", "server", "namespace", "env"].contains(&name.trim())
}

/// Whether a text matches a pattern, in which `*` stands for any text, also none.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once(ANY) else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = rest.split(ANY).collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match text.split_once(piece) {
            Some((_, after)) => text = after,
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWS: &str = "/usr/bin/aws,args=eks get-token --cluster-name * --output=json,server=.eks.amazonaws.com,server=10.0.0.1:6443,namespace=shop,env=AWS_PROFILE";

    fn matches(rule: &str, namespace: &str, arguments: &str, server: &str) -> RuleMatch {
        let rule: ExecRule = rule.parse().unwrap();
        let arguments: Vec<_> = arguments.split(' ').map(|text| Zeroizing::new(text.to_owned())).collect();
        rule.matches(Path::new("/usr/bin/aws"), namespace, &arguments, Some(&server.parse().unwrap()))
    }

    #[test]
    fn a_rule_binds_namespace_arguments_and_server() {
        use RuleMatch::*;
        let good = "eks get-token --cluster-name eu --output=json";
        let eks = "https://A.gr7.eu-west-1.EKS.amazonaws.com";
        for (expected, namespace, arguments, server) in [
            (Matches, "shop", good, eks),
            (Matches, "shop", good, "https://a.eks.amazonaws.com.:8443/"),
            (Matches, "shop", good, "https://10.0.0.1:6443"),
            (OtherServer, "shop", good, "https://10.0.0.1"),
            (OtherServer, "shop", good, "https://evil.example"),
            (OtherServer, "shop", good, "https://eks.amazonaws.com"),
            (OtherServer, "shop", good, "https://evileks.amazonaws.com"),
            (OtherServer, "shop", good, "https://a.eks.amazonaws.com.evil.example"),
            (OtherNamespace, "bank", good, eks),
            (OtherNamespace, "kro-system", good, eks),
            (OtherArguments, "shop", "eks get-token --cluster-name eu", eks),
            (OtherArguments, "shop", "s3 get-token --cluster-name eu --output=json", eks),
            (OtherArguments, "shop", "eks get-token --cluster-name eu --output=json --region=x", eks),
            (OtherArguments, "shop", "eks get-token --cluster-name --endpoint-url=x --output=json", eks),
        ] {
            assert_eq!(
                matches(AWS, namespace, arguments, server),
                expected,
                "{namespace} {arguments} {server}"
            );
        }
        let everywhere = AWS.replace("namespace=shop", "namespace=*");
        assert_eq!(matches(&everywhere, "bank", good, eks), Matches);
    }

    #[test]
    fn a_command_alone_is_for_the_secrets_of_administrators() {
        let any = |namespace| matches("/usr/bin/aws", namespace, "--any thing", "https://any.example");
        assert_eq!(any("kro-system"), RuleMatch::Matches);
        assert_eq!(any("shop"), RuleMatch::OtherNamespace);
        let rule: ExecRule = "/usr/bin/aws".parse().unwrap();
        assert_eq!(
            rule.matches(Path::new("/usr/bin/../bin/aws"), "kro-system", &[], None),
            RuleMatch::OtherCommand
        );
        assert_eq!(
            rule.matches(Path::new("/usr/bin/./aws"), "kro-system", &[], None),
            RuleMatch::OtherCommand
        );
    }

    #[test]
    fn only_administrators_change_inherited_variables() {
        let shared = ["PATH".to_owned()];
        let rule = |text: &str| text.parse::<ExecRule>().unwrap();
        assert!(rule("/usr/bin/aws").allows_variable("PATH", &shared));
        assert!(!rule("/usr/bin/aws").allows_variable("LD_PRELOAD", &shared));
        assert!(!rule(AWS).allows_variable("PATH", &shared));
        assert!(rule(AWS).allows_variable("AWS_PROFILE", &shared));
    }

    #[test]
    fn an_address_is_in_no_domain() {
        let rule = "/usr/bin/aws,args=a,server=.0.1,server=[::1]:6443,namespace=shop";
        assert_eq!(matches(rule, "shop", "a", "https://10.0.0.1"), RuleMatch::OtherServer);
        assert_eq!(matches(rule, "shop", "a", "https://[0:0::1]:6443"), RuleMatch::Matches);
        assert_eq!(matches(rule, "shop", "a", "https://[::1]"), RuleMatch::OtherServer);
    }

    #[test]
    fn stars_stand_for_any_text_in_one_argument() {
        for (pattern, text, expected) in [
            ("--cluster=*", "--cluster=eu", true),
            ("--cluster=*", "--region=eu", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("exact", "exact", true),
            ("exact", "exactly", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn invalid_rules_say_what_to_use() {
        for (text, expected) in [
            ("aws", "`aws` is not an absolute path"),
            ("server=x", "`server=x` has no command before it; write it as `/absolute/path,server=x`"),
            (
                "/bin/a,b",
                "`b` is neither an absolute path nor one of `args=`, `server=`, `namespace=` and `env=`",
            ),
            (
                "/bin/a,argz=b",
                "`argz=b` is neither an absolute path nor one of `args=`, `server=`, `namespace=` and `env=`",
            ),
            ("/bin/a,args=b,args=c", "`/bin/a` has `args=` twice; repeat the command in a rule of its own"),
            ("/bin/a,namespace=", "`namespace=` is not valid: use the name of a namespace, or `*` for all"),
            (
                "/bin/a,server=*",
                "`server=*` is not valid: use a host such as `api.example.com` or `10.0.0.1:6443`, or a domain such as `.eks.amazonaws.com`",
            ),
        ] {
            assert_eq!(ExecRule::parse_list(text).unwrap_err().to_string(), expected);
        }
        for text in ["/bin/a,server=.", "/bin/a,server=https://x", "/bin/a,server=x:y", "/bin/a,env="] {
            assert!(matches!(ExecRule::parse_list(text), Err(InvalidExecRule::Value(..))), "{text}");
        }
        for unbound in
            ["namespace=shop", "args=a,namespace=shop", "server=a,namespace=kro-system,namespace=shop"]
        {
            let error = ExecRule::parse_list(&format!("/bin/b,/bin/a,{unbound}")).unwrap_err();
            assert_eq!(error, InvalidExecRule::Unbound("/bin/a".to_owned()), "{unbound}");
        }
        assert_eq!(ExecRule::parse_list(" /bin/a, /bin/b ,args=, ").unwrap().len(), 2);
    }
}
