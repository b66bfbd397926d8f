//! The metrics of the credentials of other clusters: when they expire, and whether they are renewed. Registered clusters that nobody
//! uses have them too, since their credentials expire all the same.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use kross_cluster::{ClusterRegistry, ClusterView};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::cluster_series::{OTHERS, cluster_id, names_are_shown, with_own_series};
use super::collector::RESULT;
use super::register::Description;
use crate::token_renewal::TokenRenewals;

const RENEWALS: &str = "kross_credential_renewals";
const RENEWALS_HELP: &str = "Renewals of the tokens of registered clusters";
const RENEWAL_RESULTS: [&str; 2] = ["renewed", "failed"];

const EXPIRY: &str = "kross_cluster_credential_expiry_timestamp_seconds";
const EXPIRY_HELP: &str = "When the credential of a cluster expires, in seconds since 1970; for `others` the first of them. Credentials that do not expire, or do not tell, have none";
const LIFETIME: &str = "kross_cluster_credential_lifetime_seconds";
const LIFETIME_HELP: &str =
    "How long the credential of a cluster is valid in total; for `others` that of the one that expires first";
const FAILING: &str = "kross_cluster_credential_renewal_failures";
const FAILING_HELP: &str = "How often in a row the renewal of a cluster's token has failed; for `others` the largest number. Clusters whose token is not renewed have none";

/// The descriptions of all of them, for the reference.
pub(super) fn descriptions() -> impl Iterator<Item = Description> {
    let results = vec![(RESULT, RENEWAL_RESULTS.to_vec())];
    let renewals =
        Description { name: RENEWALS, kind: MetricType::Counter, help: RENEWALS_HELP, labels: results };
    let gauges = [(EXPIRY, EXPIRY_HELP), (LIFETIME, LIFETIME_HELP), (FAILING, FAILING_HELP)];
    let gauges = gauges.map(|(name, help)| Description {
        name,
        kind: MetricType::Gauge,
        help,
        labels: vec![("cluster", Vec::new())],
    });
    std::iter::once(renewals).chain(gauges)
}

/// How a gauge is read.
type Read = fn(&Credential) -> Option<i64>;

/// The credential of one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Credential {
    expires: Option<i64>,
    lifetime: Option<i64>,
    failures: Option<u32>,
}

pub(super) fn encode(
    encoder: &mut DescriptorEncoder,
    clusters: &ClusterRegistry,
    renewals: &TokenRenewals,
    hub_uid: &str,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(RENEWALS, RENEWALS_HELP, None, MetricType::Counter)?;
    for (result, number) in RENEWAL_RESULTS.iter().zip(renewals.counts()) {
        ConstCounter::new(number).encode(family.encode_family(&[(RESULT, *result)])?)?;
    }
    let mut views = clusters.states();
    let mut credentials = credentials(&views);
    for (secret, token) in renewals.tokens() {
        let secret = secret.to_string();
        if !credentials.contains_key(&secret) {
            views.push(ClusterView { secret: secret.clone(), ..ClusterView::default() });
        }
        let credential = credentials.entry(secret).or_default();
        if credential.expires.is_none() {
            credential.expires = token.lifetime.expires_at.map(Timestamp::as_second);
            credential.lifetime = token.lifetime.duration().map(|lived| lived.as_secs());
        }
        credential.failures = Some(token.failures);
    }
    gauges(encoder, &by_label(&views, &credentials, hub_uid))
}

/// The credentials of the clusters in use, by Secret: the one that expires first, where a Secret has several.
fn credentials(views: &[ClusterView]) -> BTreeMap<String, Credential> {
    let mut credentials: BTreeMap<String, Credential> = BTreeMap::new();
    let moment = |text: &Option<String>| text.as_ref()?.parse::<Timestamp>().ok().map(Timestamp::as_second);
    for view in views {
        let expires = moment(&view.credential_expires_at);
        let issued = moment(&view.credential_issued_at);
        let lifetime = expires.zip(issued).map(|(expires, issued)| expires.saturating_sub(issued));
        let credential = Credential { expires, lifetime, failures: None };
        credentials.entry(view.secret.clone()).or_default().add(credential);
    }
    credentials
}

/// The same by the label of the cluster: those without series of their own are one.
fn by_label(
    views: &[ClusterView],
    credentials: &BTreeMap<String, Credential>,
    hub_uid: &str,
) -> BTreeMap<String, Credential> {
    let own = with_own_series(views);
    let mut labelled: BTreeMap<String, Credential> = BTreeMap::new();
    for (secret, credential) in credentials {
        let label = match own.contains_key(secret.as_str()) {
            false => OTHERS.to_owned(),
            true if names_are_shown() => secret.clone(),
            true => cluster_id(hub_uid, secret),
        };
        labelled.entry(label).or_default().add(*credential);
    }
    labelled
}

fn gauges(encoder: &mut DescriptorEncoder, credentials: &BTreeMap<String, Credential>) -> fmt::Result {
    let gauges: [(&str, &str, Read); 3] = [
        (EXPIRY, EXPIRY_HELP, |credential| credential.expires),
        (LIFETIME, LIFETIME_HELP, |credential| credential.lifetime),
        (FAILING, FAILING_HELP, |credential| credential.failures.map(i64::from)),
    ];
    for (name, help, read) in gauges {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (cluster, credential) in credentials {
            if let Some(value) = read(credential) {
                family.encode_family(&[("cluster", cluster.as_str())])?.encode_gauge(&value)?;
            }
        }
    }
    Ok(())
}

impl Credential {
    fn add(&mut self, other: Self) {
        let is_first = match (self.expires, other.expires) {
            (Some(own), Some(other)) => other < own,
            (own, other) => own.is_none() && other.is_some(),
        };
        if is_first {
            (self.expires, self.lifetime) = (other.expires, other.lifetime);
        }
        self.failures = self.failures.max(other.failures);
    }
}

#[cfg(test)]
mod tests {
    use super::super::cluster_series::MAX_SERIES;
    use super::*;

    fn view(secret: &str, expires: Option<&str>) -> ClusterView {
        ClusterView {
            secret: secret.to_owned(),
            credential_issued_at: Some("2026-01-01T00:00:00Z".to_owned()),
            credential_expires_at: expires.map(str::to_owned),
            ..ClusterView::default()
        }
    }

    #[test]
    fn the_credential_that_expires_first_stands_for_those_that_share_a_series() {
        let days: Vec<String> = (0..=MAX_SERIES).map(|day| format!("team/c{day:03}")).collect();
        let mut views: Vec<_> =
            days.iter().map(|secret| view(secret, Some("2026-01-31T00:00:00Z"))).collect();
        views.push(view("team/zzz", Some("2026-01-02T00:00:00Z")));
        views.push(view("team/c000", Some("2026-01-11T00:00:00Z")));
        let labelled = by_label(&views, &credentials(&views), "uid");
        assert_eq!(labelled[OTHERS].lifetime, Some(86_400));
        assert_eq!(labelled[&cluster_id("uid", "team/c000")].lifetime, Some(864_000));
        assert_eq!(labelled.len(), MAX_SERIES + 1);
    }

    #[test]
    fn a_credential_that_does_not_expire_has_no_time() {
        let views = [view("team/eu", None)];
        assert_eq!(credentials(&views)["team/eu"], Credential::default());
    }
}
