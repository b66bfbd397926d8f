//! Turns each class of failure into what it means, whether it is tried again, and what to do about it: for the page of
//! errors and for whoever decides when to try again.

use crate::vocabulary::FailureReason;

/// When something that failed is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryClass {
    /// By itself, since it may pass: soon, then ever more slowly, at most a minute apart.
    Transient,
    /// It fails again until somebody changes something. What is watched is tried again at once when it changes.
    NeedsChange,
}

impl FailureReason {
    /// When trying again makes sense.
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
                "No connection to the cluster: its name does not resolve, the connection is refused or breaks, or \
                 nobody has dialled it yet."
            }
            Self::Credentials => {
                "The Secret of the reference cannot be used: it or its key is missing, its kubeconfig is refused, or \
                 the server's certificate is not signed by the authority in it."
            }
            Self::Unauthorized => "The cluster answers 401: it does not know the credentials, or no longer.",
            Self::Forbidden => {
                "The cluster answers 403: the credentials do not permit the operation, a quota is used up, or the \
                 namespace is being deleted."
            }
            Self::NotFound => "The namespace of the object, or the kind itself, is not there.",
            Self::Invalid => {
                "The cluster refuses the object: it does not fit the schema, changes what cannot change, or is denied by \
                 an admission policy or webhook."
            }
            Self::Conflict => {
                "The object belongs to another instance, or changed while it was being written."
            }
            Self::Throttled => "The cluster answers 429: it asks for fewer requests.",
            Self::Timeout => "The cluster is connected, but no answer came in time.",
            Self::ServerError => "The cluster failed on its side (5xx), or its answer cannot be read.",
            Self::Expression => {
                "An expression failed, or what came out of it cannot be used: no name, an empty namespace, too many \
                 items, two resources that are one object."
            }
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Unreachable => {
                "Look whether the cluster is up and its address right: `status.clusters` has the Secret, and since \
                 when. Work goes on as soon as it answers; until then everything in other clusters is not affected."
            }
            Self::Credentials => {
                "Correct the Secret that the message names. It needs the label `kro.run/cluster-credentials: \"true\"` or a \
                 name that ends in `-kubeconfig`, and it is read again at once when it changes."
            }
            Self::Unauthorized => "Put fresh credentials into the Secret; they are taken up at once.",
            Self::Forbidden => {
                "Grant the permission that the message names, in the cluster that it names; or raise the quota."
            }
            Self::NotFound => {
                "Create the namespace, or install what defines the kind, in the cluster that the message names."
            }
            Self::Invalid => {
                "The message keeps the cluster's own words. Correct the template or the instance's spec; for a field that \
                 cannot change, delete the object, and it is made anew."
            }
            Self::Conflict => {
                "If it stays, two instances want one object: give one of them another name. If `lifecycle.adopt` is \
                 `Never`, the object was there before: delete it, or allow its adoption."
            }
            Self::Throttled => {
                "Nothing; the wait that the cluster asks for is kept. If it stays, look at its load."
            }
            Self::Timeout => {
                "Nothing at first. If it stays, look at the load of the cluster and at the way to it."
            }
            Self::ServerError => {
                "Nothing at first. If it stays, look at the logs of the cluster's API server, or of a webhook that \
                 the message names."
            }
            Self::Expression => {
                "The message has the expression and where it is in the definition. Correct it, or the value it reads."
            }
        }
    }

    /// Where it comes from, as the page says it.
    const fn sources(self) -> &'static str {
        match self {
            Self::Unreachable => "DNS, TCP or TLS failed; the connection broke",
            Self::Credentials => "Secret, key, kubeconfig, certificate of the server",
            Self::Unauthorized => "401",
            Self::Forbidden => "403",
            Self::NotFound => "404",
            Self::Invalid => "400, 405, 413, 415, 422; 403 of an admission webhook",
            Self::Conflict => "409; two resources or two instances want one object",
            Self::Throttled => "429",
            Self::Timeout => "408, 504; no answer within the limit",
            Self::ServerError => "500, 502, 503 and others; an unreadable or endless answer",
            Self::Expression => "evaluating templates, conditions, `forEach`, references",
        }
    }
}

/// The page about failures: one row for each class.
#[must_use]
pub fn failures_markdown() -> String {
    let mut page = String::from(
        "# Errors at run time\n\n\
         When an object cannot be read or written, `status.managedResources` of the instance says so with one of the reasons\n\
         below, in the cluster's own words, and since when. Expressions see the same: `resources.<id>.reason`, or\n\
         `<id>.status.reason` inside `lifecycle`. Mistakes in a definition are on [another page](diagnostics.md).\n\n\
         Everything is tried again, and nothing is ever given up. *Passing* failures are tried again by themselves: soon, then\n\
         ever more slowly, at most a minute apart, or when the server asks for it. The others need somebody to *change* something:\n\
         they are tried at the same slow pace, and at once when what they depend on changes and is watched (the instance,\n\
         the definition, the Secret, the objects of the graph).\n\n\
         | reason | comes from | tried again | what it means | what to do |\n\
         |---|---|---|---|---|\n",
    );
    for reason in FailureReason::ALL {
        let retry = match reason.retry() {
            RetryClass::Transient => "by itself",
            RetryClass::NeedsChange => "when something changes",
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
    fn every_class_of_failure_has_its_row_and_no_row_breaks_the_table() {
        let page = failures_markdown();
        for reason in FailureReason::ALL {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{reason}` |"))).unwrap();
            assert_eq!(row.matches(" | ").count(), 4, "{row}");
        }
    }
}
