//! Turns parsed flags into the configuration of the controller, and rejects invalid ones before anything runs. The second of
//! two steps; the first is [`super::syntax`].

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use kross_api::ServiceAccount;
use kross_cluster::{Backoff, CacheOptions, ClusterOptions, LeaseOptions, LocalCluster};
use kross_controller::{RenewalSettings, Settings};
use kross_plan::Limits;
use kross_server::BindAddress;

use super::credentials::AuditFlags;
use super::dashboard::DashboardFlags;
use super::duration::GoDuration;
use super::flags::FLAGS;
use super::logging::{Encoder, Level};
use super::pages::PageFlags;
use super::syntax::{Value, boolean};
use super::traces::TraceFlags;

const LEASE: &str = "controller.kro.run";
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// The longest backoff, whatever the flags say.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// Everything that the flags configure.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    pub(super) cluster: LocalCluster,
    pub(super) pages: PageFlags,
    /// None if it is disabled.
    pub(super) dashboard: Option<DashboardFlags>,
    pub(super) encoder: Encoder,
    pub(super) level: Level,
    pub(super) color: bool,
    pub(super) audit: AuditFlags,
    pub(super) traces: TraceFlags,
    pub(super) controller: Settings,
}

/// kro's feature gates.
struct FeatureGates {
    /// `InstanceConditionEvents`
    events: bool,
    /// `InstanceConditionMetrics`
    metrics: bool,
    /// `CELOmitFunction`
    omit: bool,
}

/// The values of all flags, given or default.
pub(super) struct FlagValues {
    effective: HashMap<&'static str, Value>,
    /// The flags that were given, in order, for those whose values add up.
    given: Vec<(&'static str, Value)>,
}

impl Configuration {
    /// Reads the configuration from parsed flags.
    pub(super) fn from_flags(flags: Vec<(&'static str, Value)>) -> anyhow::Result<Self> {
        let given = |name: &str| flags.iter().any(|(flag, _)| *flag == name);
        let json = !given("zap-encoder") && given("zap-devel");
        let values = FlagValues::new(flags);
        let encoder = match values.text("zap-encoder") {
            "" if json && !values.boolean("zap-devel") => Encoder::Json,
            "" | "console" | "text" => Encoder::Text,
            "json" => Encoder::Json,
            other => bail!("invalid value `{other}` for `--zap-encoder`: use `console` or `json`"),
        };
        let level = values.text("zap-log-level").parse().map_err(|error: String| anyhow!(error))?;
        let path = |name| Some(values.text(name)).filter(|text| !text.is_empty());
        Ok(Self {
            cluster: LocalCluster {
                overrides: Default::default(),
                kubeconfig: path("kubeconfig").map(PathBuf::from),
                context: path("context").map(str::to_owned),
            },
            pages: values.pages()?,
            dashboard: values.dashboard()?,
            encoder,
            level,
            color: values.boolean("zap-color"),
            audit: values.audit(),
            traces: values.traces()?,
            controller: values.controller()?,
        })
    }
}

impl FlagValues {
    pub(super) fn new(given: Vec<(&'static str, Value)>) -> Self {
        let mut effective: HashMap<_, _> =
            FLAGS.iter().map(|flag| (flag.name, flag.default.value())).collect();
        effective.extend(given.iter().cloned());
        Self { effective, given }
    }

    fn controller(&self) -> anyhow::Result<Settings> {
        let gates = FeatureGates::parse(self.text("feature-gates"))?;
        let defaults = Settings::default();
        let mut compile = defaults.compile.clone();
        compile.omit = gates.omit;
        compile.max_axes = self.count("rgd-max-collection-dimension-size").unwrap_or(usize::MAX);
        compile.placement.min_poll_interval = self.duration("min-poll-interval");
        Ok(Settings {
            kro_version: self.text("kro-version").to_owned(),
            definition_workers: self
                .count("resource-graph-definition-concurrent-reconciles")
                .unwrap_or(defaults.definition_workers),
            instance_workers: self
                .count("dynamic-controller-concurrent-reconciles")
                .unwrap_or(defaults.instance_workers),
            allow_crd_deletion: self.boolean("allow-crd-deletion"),
            max_revisions: self.count("rgd-max-graph-revisions"),
            max_collection_size: self.count("rgd-max-collection-size").unwrap_or(usize::MAX),
            limits: self.limits(),
            max_namespace_clusters: self.count("namespace-max-clusters").unwrap_or(usize::MAX),
            plan_timeout: self.plan_timeout()?,
            no_cross_namespace: self.boolean("no-cross-namespace"),
            default_service_account: self.default_service_account()?,
            access_reviews: defaults.access_reviews,
            compile,
            progress_delay: self.duration("rgd-progress-requeue-delay"),
            instance_interval: Some(self.duration("instance-requeue-interval"))
                .filter(|wait| !wait.is_zero()),
            instance_backoff: Backoff {
                base: self.duration("dynamic-controller-rate-limiter-min-delay"),
                cap: self.duration("dynamic-controller-rate-limiter-max-delay").min(MAX_BACKOFF),
            },
            caches: CacheOptions {
                budget: self.count("watch-budget").unwrap_or(0),
                max_cluster_bytes: self
                    .count("cluster-max-cache-size")
                    .map(|mebibytes| mebibytes.saturating_mul(1 << 20)),
                resync_period: self.seconds("dynamic-controller-default-resync-period"),
                ..defaults.caches
            },
            clusters: self.clusters()?,
            connections: defaults.connections,
            renewals: self.renewals()?,
            preflights: defaults.preflights,
            condition_events: gates.events,
            condition_metrics: gates.metrics,
            spans: None,
            shutdown_timeout: self.duration("graceful-shutdown-timeout"),
            leader_election: self.leader_election()?,
            webhook: self.webhook()?,
        })
    }

    /// What one instance may have; 0 for no limit.
    fn limits(&self) -> Limits {
        let bytes =
            |name, unit: usize| self.count(name).map_or(usize::MAX, |count| count.saturating_mul(unit));
        Limits {
            object_size: bytes("instance-max-object-size", 1 << 20),
            total_size: bytes("instance-max-total-size", 1 << 20),
            status_size: bytes("instance-max-status-size", 1 << 10),
            clusters: self.count("instance-max-clusters").unwrap_or(usize::MAX),
        }
    }

    fn traces(&self) -> anyhow::Result<TraceFlags> {
        let name = "otlp-sampling-ratio";
        let given = self.given.iter().rev().find(|(given, _)| *given == name);
        let sampling_ratio = match given {
            Some((_, Value::Float(ratio))) if !(0.0..=1.0).contains(ratio) => {
                bail!("invalid value `{ratio}` for `--{name}`: use a number from 0 to 1, such as `0.01`")
            }
            Some((_, Value::Float(ratio))) => Some(*ratio),
            _ => None,
        };
        Ok(TraceFlags { endpoint: self.text("otlp-endpoint").to_owned(), sampling_ratio })
    }

    fn plan_timeout(&self) -> anyhow::Result<Duration> {
        let timeout = self.duration("instance-plan-timeout");
        if timeout.is_zero() {
            bail!("`--instance-plan-timeout` must be greater than 0");
        }
        Ok(timeout)
    }

    /// The ServiceAccount of instances whose definition names none.
    fn default_service_account(&self) -> anyhow::Result<Option<String>> {
        match self.text("default-service-account") {
            "" if self.given_texts("default-service-account").next().is_some() => {
                bail!(
                    "`--default-service-account` is empty: leave it out, or set the name of a ServiceAccount"
                )
            }
            "" => Ok(None),
            name if ServiceAccount::new("default", name).is_none() => {
                bail!(
                    "invalid value `{name}` for `--default-service-account`: use the name of a ServiceAccount, without its namespace"
                )
            }
            name => Ok(Some(name.to_owned())),
        }
    }

    fn clusters(&self) -> anyhow::Result<ClusterOptions> {
        let mut options = ClusterOptions {
            kubeconfigs: self.kubeconfigs()?,
            secrets: self.secrets(),
            ..ClusterOptions::for_version(self.text("kro-version"))
        };
        for name in [
            "cluster-connect-timeout",
            "cluster-list-timeout",
            "cluster-probe-interval",
            "cluster-probe-timeout",
            "cluster-read-timeout",
            "cluster-request-timeout",
        ] {
            if self.duration(name).is_zero() {
                bail!(
                    "`--{name}` must be greater than 0: a cluster that never answers would hold up requests for ever"
                );
            }
        }
        let connect = self.duration("cluster-connect-timeout");
        let client = &mut options.client;
        for transport in [&mut client.requests, &mut client.watches] {
            transport.connect_timeout = connect;
            transport.tls_timeout = connect;
        }
        if let Some(most) = self.count("cluster-max-requests") {
            client.requests.max_streams = most;
        }
        if let Some(mebibytes) = self.count("cluster-max-response-size") {
            client.max_response = mebibytes.saturating_mul(1 << 20);
        }
        client.request_timeout = self.duration("cluster-request-timeout");
        client.list_timeout = self.duration("cluster-list-timeout");
        client.read_timeout = self.duration("cluster-read-timeout");
        options.probe_interval = self.duration("cluster-probe-interval");
        options.probe_timeout = self.duration("cluster-probe-timeout");
        options.idle_timeout = self.duration("cluster-idle-timeout");
        if let Some(threshold) = self.count("cluster-breaker-threshold") {
            options.breaker_threshold = u32::try_from(threshold).unwrap_or(u32::MAX);
        }
        Ok(options)
    }

    fn renewals(&self) -> anyhow::Result<RenewalSettings> {
        let interval = self.duration("token-renewal-interval");
        if interval.is_zero() {
            bail!("`--token-renewal-interval` must be greater than 0, such as `5m`");
        }
        let namespaces = self.texts("kubeconfig-namespace");
        Ok(RenewalSettings { interval, namespaces, ..RenewalSettings::default() })
    }

    fn leader_election(&self) -> anyhow::Result<Option<LeaseOptions>> {
        if !self.boolean("leader-elect") {
            return Ok(None);
        }
        let namespace = match self.text("leader-election-namespace") {
            "" => pod_namespace()
                .context("cannot determine the namespace of the Lease: set `--leader-election-namespace`")?,
            namespace => namespace.to_owned(),
        };
        let mut options = LeaseOptions::new(&namespace, LEASE, &lease_identity());
        options.lease_duration = self.duration("leader-election-lease-duration");
        options.renew_deadline = self.duration("leader-election-renew-deadline");
        options.retry_period = self.duration("leader-election-retry-period");
        if options.lease_duration <= options.renew_deadline {
            bail!(
                "`--leader-election-lease-duration` must be longer than `--leader-election-renew-deadline`"
            );
        }
        if options.renew_deadline <= options.retry_period || options.retry_period.is_zero() {
            bail!("`--leader-election-renew-deadline` must be longer than `--leader-election-retry-period`");
        }
        Ok(Some(options))
    }

    pub(super) fn text(&self, name: &str) -> &str {
        match self.effective.get(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// The values of a flag that may be repeated, each split at commas.
    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        let parts = self.given_texts(name).flat_map(|text| text.split(',')).map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// The values of a flag, each as it was given.
    pub(super) fn given_texts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let given = self.given.iter().filter(move |(flag, _)| *flag == name);
        given.filter_map(|(_, value)| if let Value::Text(text) = value { Some(text.as_str()) } else { None })
    }

    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|(flag, _)| *flag == name)
    }

    pub(super) fn boolean(&self, name: &str) -> bool {
        matches!(self.effective.get(name), Some(Value::Bool(true)))
    }

    /// A positive number; none where the flag is 0 or negative, which means no limit or the built-in default.
    pub(super) fn count(&self, name: &str) -> Option<usize> {
        match self.effective.get(name) {
            Some(Value::Integer(number)) => usize::try_from(*number).ok().filter(|number| *number > 0),
            _ => None,
        }
    }

    /// A time in seconds; none where the flag is 0 or negative.
    fn seconds(&self, name: &str) -> Option<Duration> {
        self.count(name).and_then(|count| u64::try_from(count).ok()).map(Duration::from_secs)
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        match self.effective.get(name) {
            Some(Value::Duration(duration)) => GoDuration::get(*duration),
            _ => Duration::ZERO,
        }
    }

    pub(super) fn address(&self, name: &'static str) -> anyhow::Result<BindAddress> {
        self.text(name).parse().with_context(|| format!("invalid value of `--{name}`"))
    }
}

impl FeatureGates {
    const KNOWN: [&str; 3] = ["InstanceConditionEvents", "InstanceConditionMetrics", "CELOmitFunction"];

    /// Parses `A=true,B=false`.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut gates = Self { events: true, metrics: false, omit: true };
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, value) = entry.split_once('=').with_context(|| {
                format!("`{entry}` in `--feature-gates` has no value: use `{entry}=true`")
            })?;
            let on = boolean(value.trim()).with_context(|| {
                format!("invalid value `{value}` for feature gate `{name}`: use `true` or `false`")
            })?;
            match name.trim() {
                "InstanceConditionEvents" => gates.events = on,
                "InstanceConditionMetrics" => gates.metrics = on,
                "CELOmitFunction" => gates.omit = on,
                "AllAlpha" => gates = Self { events: on, metrics: on, omit: on },
                "AllBeta" => {}
                other => {
                    let known = Self::KNOWN.join("`, `");
                    match kross_diagnostics::suggest(other, Self::KNOWN) {
                        Some(meant) => bail!("unknown feature gate `{other}`; did you mean `{meant}`?"),
                        None => bail!("unknown feature gate `{other}`; known gates: `{known}`"),
                    }
                }
            }
        }
        Ok(gates)
    }
}

/// The namespace of the Pod that this process runs in.
pub(super) fn pod_namespace() -> std::io::Result<String> {
    Ok(std::fs::read_to_string(POD_NAMESPACE)?.trim().to_owned())
}

/// The identity of this process as a candidate for the Lease: its host, and a random part against other processes on it.
fn lease_identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    format!("{}_{:016x}", if host.is_empty() { "kross" } else { host }, fastrand::u64(..))
}

#[cfg(test)]
mod tests {
    use super::super::syntax::{Parsed, parse};
    use super::*;

    fn configuration(line: &str) -> anyhow::Result<Configuration> {
        match parse(&FLAGS, line.split_whitespace().map(str::to_owned))? {
            Parsed::Flags(flags) => Configuration::from_flags(flags),
            Parsed::Help => bail!("help"),
        }
    }

    #[test]
    fn defaults_are_those_of_kro_unless_they_would_throttle() {
        let configuration = configuration("").unwrap();
        assert_eq!(configuration.encoder, Encoder::Text);
        let settings = configuration.controller;
        assert_eq!(settings.max_revisions, Some(5));
        assert_eq!(settings.max_collection_size, 1000);
        assert_eq!(settings.kro_version, "devel");
        assert_eq!(settings.shutdown_timeout, Duration::from_secs(60));
        assert_eq!(settings.caches.resync_period, Some(Duration::from_secs(36_000)));
        assert!(settings.definition_workers > 1 && settings.instance_workers > 1);
        assert!(settings.leader_election.is_none() && !settings.allow_crd_deletion);
    }

    #[test]
    fn flags_take_effect() {
        let line = "--leader-elect --leader-election-namespace=kro-system -leader-election-lease-duration 20s \
             --rgd-max-graph-revisions=0 --feature-gates=CELOmitFunction=false,InstanceConditionMetrics=true \
             --zap-devel=false --allow-crd-deletion --dynamic-controller-concurrent-reconciles=3 \
             --instance-requeue-interval=0 --dynamic-controller-default-resync-period=0";
        let configuration = configuration(line).unwrap();
        assert_eq!(configuration.encoder, Encoder::Json);
        let settings = configuration.controller;
        let lease = settings.leader_election.unwrap();
        assert_eq!((lease.namespace.as_str(), lease.name.as_str()), ("kro-system", "controller.kro.run"));
        assert_eq!(lease.lease_duration, Duration::from_secs(20));
        assert_eq!((settings.max_revisions, settings.instance_workers), (None, 3));
        assert_eq!((settings.instance_interval, settings.caches.resync_period), (None, None));
        assert!(!settings.compile.omit && settings.condition_metrics && settings.allow_crd_deletion);
    }

    #[test]
    fn feature_gates_are_parsed_as_in_kro() {
        let gates = |text: &str| {
            let settings = configuration(&format!("--feature-gates={text}")).unwrap().controller;
            (settings.condition_events, settings.condition_metrics, settings.compile.omit)
        };
        // kro disables its alpha gates by default. kross enables them, except for metrics whose series grow with the instances.
        assert_eq!(gates(""), (true, false, true));
        assert_eq!(gates("InstanceConditionEvents=false"), (false, false, true));
        assert_eq!(gates("InstanceConditionMetrics=True,CELOmitFunction=0"), (true, true, false));
        assert_eq!(gates("AllAlpha=false"), (false, false, false));
        assert_eq!(gates("AllAlpha=false,CELOmitFunction=true"), (false, false, true));
        assert_eq!(gates("AllBeta=true"), gates(""));
    }

    #[test]
    fn booleans_durations_and_limits_take_effect_as_in_kro() {
        let line = "--allow-crd-deletion=false -leader-elect=F --graceful-shutdown-timeout 1m30s \
             --instance-requeue-interval=250ms --rgd-progress-requeue-delay=1.5s \
             --dynamic-controller-rate-limiter-min-delay=1s --dynamic-controller-rate-limiter-max-delay=1000s \
             --rgd-max-collection-size=7 --no-cross-namespace --default-service-account=tenant --rgd-max-collection-dimension-size=2 \
             --resource-graph-definition-concurrent-reconciles 4 --kro-version=v0.9.4 \
             --client-qps=0.5 --client-burst=1 --pprof-bind-address=:1 --enable-controller-warmup=false";
        let settings = configuration(line).unwrap().controller;
        assert_eq!(settings.default_service_account.as_deref(), Some("tenant"));
        assert!(settings.no_cross_namespace && !configuration("").unwrap().controller.no_cross_namespace);
        assert!(!settings.allow_crd_deletion && settings.leader_election.is_none());
        assert_eq!(settings.shutdown_timeout, Duration::from_secs(90));
        assert_eq!(settings.instance_interval, Some(Duration::from_millis(250)));
        assert_eq!(settings.progress_delay, Duration::from_millis(1500));
        let Backoff { base, cap } = settings.instance_backoff;
        // The backoff never exceeds a minute, whatever the flag says.
        assert_eq!((base, cap), (Duration::from_secs(1), Duration::from_secs(60)));
        assert_eq!((settings.max_collection_size, settings.compile.max_axes), (7, 2));
        assert_eq!((settings.definition_workers, settings.kro_version.as_str()), (4, "v0.9.4"));
    }

    #[test]
    fn flags_configure_connections_to_remote_clusters() {
        let defaults = ClusterOptions::for_version("devel");
        let options = configuration("").unwrap().controller.clusters;
        let times = |options: &ClusterOptions| {
            let ClusterOptions { client, probe_interval, probe_timeout, idle_timeout, .. } = options.clone();
            [client.request_timeout, client.list_timeout, client.read_timeout]
                .into_iter()
                .chain([client.requests.connect_timeout, client.watches.tls_timeout])
                .chain([probe_interval, probe_timeout, idle_timeout])
                .collect::<Vec<_>>()
        };
        assert_eq!(times(&options), times(&defaults), "flags and defaults agree");
        assert_eq!(options.breaker_threshold, defaults.breaker_threshold);
        assert_eq!(options.client.requests.max_streams, defaults.client.requests.max_streams);

        let line = "--cluster-request-timeout=1s --cluster-list-timeout=2s --cluster-read-timeout=3s \
            --cluster-connect-timeout=4s --cluster-probe-interval=5s --cluster-probe-timeout=6s \
            --cluster-idle-timeout=7s --cluster-max-requests=8 --cluster-breaker-threshold=9";
        let options = configuration(line).unwrap().controller.clusters;
        assert_eq!(times(&options), [1, 2, 3, 4, 4, 5, 6, 7].map(Duration::from_secs));
        assert_eq!((options.client.requests.max_streams, options.breaker_threshold), (8, 9));
    }

    #[test]
    fn the_environment_decides_about_sampling_unless_the_flag_is_given() {
        let ratio = |line| configuration(line).unwrap().traces.sampling_ratio;
        assert_eq!(ratio(""), None);
        assert_eq!(ratio("--otlp-sampling-ratio=0.25"), Some(0.25));
        assert_eq!(ratio("--otlp-sampling-ratio=0.25 --otlp-sampling-ratio=1"), Some(1.0));
    }

    #[test]
    fn errors_say_what_to_use() {
        for (line, error) in [
            (
                "--cluster-request-timeout=0",
                "`--cluster-request-timeout` must be greater than 0: a cluster that never answers would hold up requests for ever",
            ),
            ("--zap-encoder=xml", "invalid value `xml` for `--zap-encoder`: use `console` or `json`"),
            (
                "--feature-gates=CELOmitFunktion=true",
                "unknown feature gate `CELOmitFunktion`; did you mean `CELOmitFunction`?",
            ),
            (
                "--feature-gates=CELOmitFunction",
                "`CELOmitFunction` in `--feature-gates` has no value: use `CELOmitFunction=true`",
            ),
            (
                "--default-service-account=",
                "`--default-service-account` is empty: leave it out, or set the name of a ServiceAccount",
            ),
            (
                "--default-service-account=shop:deployer",
                "invalid value `shop:deployer` for `--default-service-account`: use the name of a ServiceAccount, without its namespace",
            ),
            (
                "--otlp-sampling-ratio=2",
                "invalid value `2` for `--otlp-sampling-ratio`: use a number from 0 to 1, such as `0.01`",
            ),
            ("--metrics-bind-address=8078", "invalid value of `--metrics-bind-address`"),
            (
                "--leader-elect --leader-election-namespace=x --leader-election-lease-duration=5s",
                "`--leader-election-lease-duration` must be longer than `--leader-election-renew-deadline`",
            ),
        ] {
            assert_eq!(configuration(line).unwrap_err().to_string(), error);
        }
    }
}
