//! Explains each failure reason: what it means, when it is retried, and what to do about it. `docs/errors.md` is
//! generated from it, and the retry policy is based on it.

use crate::vocabulary::FailureReason;

/// When a failed operation is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryClass {
    /// Automatically, with exponential backoff of at most one minute, because the failure may be temporary.
    Transient,
    /// It fails until somebody changes something. A change to a watched object triggers an immediate retry.
    NeedsChange,
}

impl FailureReason {
    /// When a failure with this reason is retried.
    #[must_use]
    pub const fn retry(self) -> RetryClass {
        match self {
            Self::Unreachable | Self::Conflict | Self::Throttled | Self::Timeout | Self::ServerError => {
                RetryClass::Transient
            }
            Self::Credentials
            | Self::Unauthorized
            | Self::Forbidden
            | Self::NotFound
            | Self::Invalid
            | Self::Expression => RetryClass::NeedsChange,
        }
    }

    /// What it means.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Unreachable => {
                "kross is not connected to the cluster: its host name does not resolve, the connection is refused or \
                 breaks, or the first connection attempt has not finished yet."
            }
            Self::Credentials => {
                "The Secret of the cluster reference cannot be used: the Secret or its key is missing, its kubeconfig \
                 is rejected, or the server's certificate is not signed by the certificate authority in it."
            }
            Self::Unauthorized => {
                "The cluster responds with 401: the credentials are invalid or have expired."
            }
            Self::Forbidden => {
                "The cluster responds with 403: the credentials do not permit the operation, a quota is exceeded, or \
                 the namespace is being deleted."
            }
            Self::NotFound => {
                "The namespace or the kind of the object does not exist, or something in front of the API server \
                 answered."
            }
            Self::Invalid => {
                "The cluster rejects the object: it violates the schema, changes an immutable field, or is denied by an \
                 admission policy or webhook."
            }
            Self::Conflict => {
                "The object belongs to another instance, or it changed while it was being written."
            }
            Self::Throttled => "The cluster responds with 429: too many requests.",
            Self::Timeout => "The cluster is connected, but did not respond in time.",
            Self::ServerError => {
                "The cluster responds with a server error (5xx), or its response cannot be parsed."
            }
            Self::Expression => {
                "An expression failed, or its result cannot be used: an invalid name, an empty namespace, too many \
                 items, or two resources with the same identity."
            }
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Unreachable => {
                "Check that the cluster is running and that its address is correct. `status.clusters` shows its Secret \
                 and since when it has been unreachable. kross resumes once the cluster is reachable; other clusters \
                 are not affected."
            }
            Self::Credentials => {
                "Correct the Secret that the message names. It needs the label `kro.run/cluster-credentials: \"true\"` or \
                 a name that ends with `-kubeconfig`. A change to the Secret takes effect immediately."
            }
            Self::Unauthorized => "Put valid credentials into the Secret; kross uses them immediately.",
            Self::Forbidden => {
                "Grant the permission that the message names in the cluster that it names, or raise the quota."
            }
            Self::NotFound => {
                "Create the namespace, or install the CRD of the kind, in the cluster that the message names. If the \
                 message mentions a load balancer or proxy, something else answered in place of the API \
                 server: check it."
            }
            Self::Invalid => {
                "The message quotes the API server. Correct the template or the spec of the instance. If an immutable \
                 field must change, delete the object and it will be recreated."
            }
            Self::Conflict => {
                "If the failure persists, two instances manage the same object: rename one of the objects. If \
                 `lifecycle.adopt` is `Never`, the object existed before: delete it, or allow its adoption."
            }
            Self::Throttled => {
                "Nothing: kross waits as long as the cluster requests. If the failure persists, check the load of the \
                 cluster."
            }
            Self::Timeout => {
                "Nothing at first. If the failure persists, check the load of the cluster and the network path to it."
            }
            Self::ServerError => {
                "Nothing at first. If the failure persists, check the logs of the cluster's API server, or of the \
                 webhook that the message names."
            }
            Self::Expression => {
                "The message contains the expression and its path in the definition. Correct it, or the value that it \
                 reads."
            }
        }
    }

    /// What causes it, for the generated page.
    const fn sources(self) -> &'static str {
        match self {
            Self::Unreachable => "DNS, TCP or TLS failed; the connection broke",
            Self::Credentials => "Secret, key, kubeconfig, or certificate of the server",
            Self::Unauthorized => "401",
            Self::Forbidden => "403",
            Self::NotFound => "404",
            Self::Invalid => "400, 405, 413, 415, 422; 403 from an admission webhook",
            Self::Conflict => "409; two resources or two instances manage one object",
            Self::Throttled => "429",
            Self::Timeout => "408, 504; no response within the timeout",
            Self::ServerError => "500, 502, 503 and others; a malformed or endless response",
            Self::Expression => "evaluation of templates, conditions, `forEach` and references",
        }
    }
}

/// The generated page about failures: one row per reason.
#[must_use]
pub fn failures_markdown() -> String {
    let mut page = String::from(
        "# Errors at run time\n\n\
         When an object cannot be read or written, `status.managedResources` of the instance contains one of the reasons below,\n\
         the message of the cluster, and the time of the failure. Expressions can read the reason too: `resources.<id>.reason`,\n\
         or `<id>.status.reason` inside `lifecycle`. For errors in a definition, see [Diagnostics](diagnostics.md).\n\n\
         kross retries every failure and never gives up. *Transient* failures are retried automatically, with exponential\n\
         backoff of at most one minute, or after the time that the server requests. All other failures need a *change*: they\n\
         are retried with the same backoff, and immediately when an object that they depend on changes and is watched (the\n\
         instance, the definition, the Secret, the objects of the graph).\n\n\
         | reason | cause | retried | what it means | what to do |\n\
         |---|---|---|---|---|\n",
    );
    for reason in FailureReason::ALL {
        let retry = match reason.retry() {
            RetryClass::Transient => "automatically",
            RetryClass::NeedsChange => "after a change",
        };
        let (sources, meaning, advice) = (reason.sources(), reason.meaning(), reason.advice());
        page.push_str(&format!("| `{reason}` | {sources} | {retry} | {meaning} | {advice} |\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_well_formed_table_row() {
        let page = failures_markdown();
        for reason in FailureReason::ALL {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{reason}` |"))).unwrap();
            assert_eq!(row.matches(" | ").count(), 4, "{row}");
        }
    }
}
