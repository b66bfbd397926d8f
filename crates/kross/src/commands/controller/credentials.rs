//! Turns flags into the policies for kubeconfigs and Secrets of remote clusters, and into the audit log.

use std::path::PathBuf;

use anyhow::{Context, bail};
use kross_cluster::{Audit, AuditFile, Cidr, ExecRule, KubeconfigPolicy, SecretPolicy};

use super::configuration::FlagValues;

/// Where audit records are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuditFlags {
    log: bool,
    file: Option<AuditFile>,
}

impl AuditFlags {
    /// Starts the audit log. Logging must have been started before.
    pub(super) fn start(self) -> anyhow::Result<Audit> {
        let path = self.file.as_ref().map(|file| file.path.display().to_string()).unwrap_or_default();
        Audit::start(self.log, self.file).with_context(|| format!("cannot write the audit log `{path}`"))
    }
}

impl FlagValues {
    pub(super) fn kubeconfigs(&self) -> anyhow::Result<KubeconfigPolicy> {
        let mut denied = Cidr::denied_by_default();
        for text in self.texts("kubeconfig-deny-cidr") {
            let range =
                text.parse::<Cidr>().with_context(|| format!("`{text}` in `--kubeconfig-deny-cidr`"))?;
            denied.push(range);
        }
        let mut exec_allow = Vec::new();
        for text in self.given_texts("kubeconfig-exec-allow") {
            let rules = ExecRule::parse_list(text);
            exec_allow.extend(
                rules.with_context(|| format!("invalid value `{text}` for `--kubeconfig-exec-allow`"))?,
            );
        }
        let exec_timeout = self.duration("kubeconfig-exec-timeout");
        if exec_timeout.is_zero() {
            bail!("`--kubeconfig-exec-timeout` must be greater than 0, such as `30s`");
        }
        Ok(KubeconfigPolicy {
            system_roots: self.boolean("kubeconfig-system-roots"),
            exec_allow,
            exec_env: self.texts("kubeconfig-exec-env"),
            exec_timeout,
            denied,
        })
    }

    pub(super) fn secrets(&self) -> SecretPolicy {
        SecretPolicy { require_allowed_namespaces: self.boolean("require-allowed-namespaces") }
    }

    pub(super) fn audit(&self) -> AuditFlags {
        let number = |name| self.count(name).and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
        let file = Some(self.text("audit-log-path")).filter(|path| !path.is_empty()).map(|path| AuditFile {
            path: PathBuf::from(path),
            max_bytes: number("audit-log-maxsize").saturating_mul(1 << 20),
            max_backups: self.count("audit-log-maxbackup").unwrap_or(0),
        });
        AuditFlags { log: self.boolean("audit-log"), file }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flags::FLAGS;
    use super::super::syntax::{Parsed, parse};
    use super::*;

    fn values(line: &str) -> FlagValues {
        match parse(&FLAGS, line.split_whitespace().map(str::to_owned)).unwrap() {
            Parsed::Flags(flags) => FlagValues::new(flags),
            Parsed::Help => panic!("help"),
        }
    }

    #[test]
    fn defaults_allow_nothing() {
        let values = values("");
        assert_eq!(values.kubeconfigs().unwrap(), KubeconfigPolicy::default());
        assert_eq!(values.secrets(), SecretPolicy::default());
        assert_eq!(values.audit(), AuditFlags { log: true, file: None });
    }

    #[test]
    fn values_of_repeated_flags_add_up() {
        let values = values(
            "--kubeconfig-exec-allow=/bin/a --kubeconfig-exec-allow /bin/b,args=x,/bin/c --kubeconfig-exec-env=PATH,HOME \
             --kubeconfig-deny-cidr=127.0.0.0/8 --kubeconfig-deny-cidr=::1 --kubeconfig-system-roots \
             --kubeconfig-exec-timeout=5s --require-allowed-namespaces --audit-log=false \
             --audit-log-path=/var/log/kross/audit.log --audit-log-maxsize=2 --audit-log-maxbackup=0",
        );
        let policy = values.kubeconfigs().unwrap();
        let rules = ["/bin/a", "/bin/b,args=x", "/bin/c"].map(|text| text.parse::<ExecRule>().unwrap());
        assert_eq!(policy.exec_allow, rules);
        assert_eq!(policy.exec_env, ["PATH", "HOME"]);
        assert_eq!(policy.exec_timeout.as_secs(), 5);
        assert!(policy.system_roots && policy.denied.contains(&"127.0.0.0/8".parse().unwrap()));
        assert_eq!(policy.denied.len(), Cidr::denied_by_default().len() + 2);
        assert!(values.secrets().require_allowed_namespaces);
        let file = AuditFile { path: "/var/log/kross/audit.log".into(), max_bytes: 2 << 20, max_backups: 0 };
        assert_eq!(values.audit(), AuditFlags { log: false, file: Some(file) });
    }

    #[test]
    fn errors_say_what_to_use() {
        for (line, error) in [
            (
                "--kubeconfig-exec-allow=aws",
                "invalid value `aws` for `--kubeconfig-exec-allow`: `aws` is not an absolute path",
            ),
            (
                "--kubeconfig-exec-allow=/bin/a --kubeconfig-exec-allow=args=x",
                "invalid value `args=x` for `--kubeconfig-exec-allow`: `args=x` has no command before it; write it as `/absolute/path,args=x`",
            ),
            (
                "--kubeconfig-exec-timeout=0",
                "`--kubeconfig-exec-timeout` must be greater than 0, such as `30s`",
            ),
            (
                "--kubeconfig-deny-cidr=10.0.0.0/99",
                "`10.0.0.0/99` in `--kubeconfig-deny-cidr`: not a CIDR range; write it like `10.0.0.0/8` or `fe80::/10`",
            ),
        ] {
            assert_eq!(format!("{:#}", values(line).kubeconfigs().unwrap_err()), error);
        }
    }
}
