//! Turns typed flags into what they mean: the second of two steps. Everything that can be wrong is found here, before
//! anything runs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use kross_cluster::{Backoff, CacheOptions, ClusterOptions, LeaseOptions, LocalCluster};
use kross_controller::Settings;
use kross_server::BindAddress;

use super::credentials::AuditFlags;
use super::duration::GoDuration;
use super::flags::FLAGS;
use super::logging::{Encoder, Level};
use super::syntax::{Value, boolean};

const LEASE: &str = "controller.kro.run";
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// No item waits longer than this between two tries.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// What the flags mean.
#[derive(Clone, Debug)]
pub(super) struct Meaning {
    pub(super) cluster: LocalCluster,
    pub(super) probes: BindAddress,
    pub(super) metrics: BindAddress,
    pub(super) admin: BindAddress,
    pub(super) encoder: Encoder,
    pub(super) level: Level,
    pub(super) color: bool,
    pub(super) audit: AuditFlags,
    pub(super) controller: Settings,
}

/// kro's gates, and whether ours are on when nothing is said.
struct Gates {
    /// `InstanceConditionEvents`
    events: bool,
    /// `InstanceConditionMetrics`
    metrics: bool,
    /// `CELOmitFunction`
    omit: bool,
}

/// The values of all flags: typed ones, and defaults.
pub(super) struct Values {
    last: HashMap<&'static str, Value>,
    /// Everything that was typed, for flags that add up.
    typed: Vec<(&'static str, Value)>,
}

impl Meaning {
    /// Lowers what was typed.
    pub(super) fn of(typed: Vec<(&'static str, Value)>) -> anyhow::Result<Self> {
        let given = |name: &str| typed.iter().any(|(typed, _)| *typed == name);
        let json = !given("zap-encoder") && given("zap-devel");
        let values = Values::new(typed);
        let encoder = match values.text("zap-encoder") {
            "" if json && !values.boolean("zap-devel") => Encoder::Json,
            "" | "console" | "text" => Encoder::Text,
            "json" => Encoder::Json,
            other => bail!("`{other}` is no value for `--zap-encoder`: write `console` or `json`"),
        };
        let level = values.text("zap-log-level").parse().map_err(|problem: String| anyhow!(problem))?;
        let path = |name| Some(values.text(name)).filter(|text| !text.is_empty());
        Ok(Self {
            cluster: LocalCluster {
                kubeconfig: path("kubeconfig").map(PathBuf::from),
                context: path("context").map(str::to_owned),
            },
            probes: values.address("health-probe-bind-address")?,
            metrics: values.address("metrics-bind-address")?,
            admin: values.address("admin-bind-address")?,
            encoder,
            level,
            color: values.boolean("zap-color"),
            audit: values.audit(),
            controller: values.controller()?,
        })
    }
}

impl Values {
    pub(super) fn new(typed: Vec<(&'static str, Value)>) -> Self {
        let mut last: HashMap<_, _> = FLAGS.iter().map(|flag| (flag.name, flag.takes.default())).collect();
        last.extend(typed.iter().cloned());
        Self { last, typed }
    }

    fn controller(&self) -> anyhow::Result<Settings> {
        let gates = Gates::read(self.text("feature-gates"))?;
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
            compile,
            progress_delay: self.duration("rgd-progress-requeue-delay"),
            instance_interval: Some(self.duration("instance-requeue-interval"))
                .filter(|wait| !wait.is_zero()),
            instance_backoff: Backoff {
                base: self.duration("dynamic-controller-rate-limiter-min-delay"),
                cap: self.duration("dynamic-controller-rate-limiter-max-delay").min(LONGEST_BACKOFF),
            },
            watches: CacheOptions { budget: self.count("watch-budget").unwrap_or(0), ..defaults.watches },
            clusters: self.clusters()?,
            preflights: defaults.preflights,
            condition_events: gates.events,
            condition_metrics: gates.metrics,
            shutdown_timeout: self.duration("graceful-shutdown-timeout"),
            leader_election: self.leader_election()?,
        })
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
                    "`--{name}` must be longer than nothing: a cluster that never answers would hold others up"
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

    fn leader_election(&self) -> anyhow::Result<Option<LeaseOptions>> {
        if !self.boolean("leader-elect") {
            return Ok(None);
        }
        let namespace = match self.text("leader-election-namespace") {
            "" => std::fs::read_to_string(POD_NAMESPACE).context(
                "cannot find the namespace of the Lease: name it with `--leader-election-namespace`",
            )?,
            namespace => namespace.to_owned(),
        };
        let mut options = LeaseOptions::new(namespace.trim(), LEASE, &identity());
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
        match self.last.get(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// The values of a flag that adds up: each time it was typed, and each part between commas.
    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        let typed = self.typed.iter().filter(|(typed, _)| *typed == name);
        let texts =
            typed.filter_map(|(_, value)| if let Value::Text(text) = value { Some(text) } else { None });
        let parts = texts.flat_map(|text| text.split(',')).map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    pub(super) fn boolean(&self, name: &str) -> bool {
        matches!(self.last.get(name), Some(Value::Bool(true)))
    }

    /// A number that counts; none where it says that there is no limit.
    pub(super) fn count(&self, name: &str) -> Option<usize> {
        match self.last.get(name) {
            Some(Value::Integer(number)) => usize::try_from(*number).ok().filter(|number| *number > 0),
            _ => None,
        }
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        match self.last.get(name) {
            Some(Value::Duration(duration)) => GoDuration::get(*duration),
            _ => Duration::ZERO,
        }
    }

    fn address(&self, name: &'static str) -> anyhow::Result<BindAddress> {
        self.text(name).parse().with_context(|| format!("cannot use `--{name}`"))
    }
}

impl Gates {
    const KNOWN: [&str; 3] = ["InstanceConditionEvents", "InstanceConditionMetrics", "CELOmitFunction"];

    /// Reads `A=true,B=false`.
    fn read(text: &str) -> anyhow::Result<Self> {
        let mut gates = Self { events: true, metrics: false, omit: true };
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, value) = entry.split_once('=').with_context(|| {
                format!("`{entry}` in `--feature-gates` has no value: write `{entry}=true`")
            })?;
            let on = boolean(value.trim()).with_context(|| {
                format!("`{value}` is no value for gate `{name}`: write `true` or `false`")
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
                        None => bail!("unknown feature gate `{other}`; there are `{known}`"),
                    }
                }
            }
        }
        Ok(gates)
    }
}

/// Who we are among those who ask for the Lease: the host, and something that no other process on it has.
fn identity() -> String {
    use std::hash::{BuildHasher, Hasher};
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let random = std::hash::RandomState::new().build_hasher().finish();
    format!("{}_{random:016x}", if host.is_empty() { "kross" } else { host })
}

#[cfg(test)]
mod tests {
    use super::super::syntax::{Typed, parse};
    use super::*;

    fn meaning(line: &str) -> anyhow::Result<Meaning> {
        match parse(&FLAGS, line.split_whitespace().map(str::to_owned))? {
            Typed::Flags(flags) => Meaning::of(flags),
            Typed::Help => bail!("help"),
        }
    }

    #[test]
    fn defaults_are_those_of_kro_where_they_do_not_throttle() {
        let meaning = meaning("").unwrap();
        assert_eq!(meaning.probes, BindAddress::AllInterfaces { port: 8079 });
        assert_eq!(meaning.metrics, BindAddress::AllInterfaces { port: 8078 });
        assert_eq!(meaning.encoder, Encoder::Text);
        let settings = meaning.controller;
        assert_eq!(settings.max_revisions, Some(5));
        assert_eq!(settings.max_collection_size, 1000);
        assert_eq!(settings.kro_version, "devel");
        assert_eq!(settings.shutdown_timeout, Duration::from_secs(60));
        assert!(settings.definition_workers > 1 && settings.instance_workers > 1);
        assert!(settings.leader_election.is_none() && !settings.allow_crd_deletion);
    }

    #[test]
    fn flags_have_their_effect() {
        let line = "--leader-elect --leader-election-namespace=kro-system -leader-election-lease-duration 20s \
             --rgd-max-graph-revisions=0 --feature-gates=CELOmitFunction=false,InstanceConditionMetrics=true \
             --zap-devel=false --allow-crd-deletion --dynamic-controller-concurrent-reconciles=3 \
             --instance-requeue-interval=0";
        let meaning = meaning(line).unwrap();
        assert_eq!(meaning.encoder, Encoder::Json);
        let settings = meaning.controller;
        let lease = settings.leader_election.unwrap();
        assert_eq!((lease.namespace.as_str(), lease.name.as_str()), ("kro-system", "controller.kro.run"));
        assert_eq!(lease.lease_duration, Duration::from_secs(20));
        assert_eq!((settings.max_revisions, settings.instance_workers), (None, 3));
        assert_eq!(settings.instance_interval, None);
        assert!(!settings.compile.omit && settings.condition_metrics && settings.allow_crd_deletion);
    }

    #[test]
    fn feature_gates_are_read_as_on_kro() {
        let gates = |text: &str| {
            let settings = meaning(&format!("--feature-gates={text}")).unwrap().controller;
            (settings.condition_events, settings.condition_metrics, settings.compile.omit)
        };
        // What is a risk on kro and off there is on here, but for series that grow with the instances.
        assert_eq!(gates(""), (true, false, true));
        assert_eq!(gates("InstanceConditionEvents=false"), (false, false, true));
        assert_eq!(gates("InstanceConditionMetrics=True,CELOmitFunction=0"), (true, true, false));
        assert_eq!(gates("AllAlpha=false"), (false, false, false));
        assert_eq!(gates("AllAlpha=false,CELOmitFunction=true"), (false, false, true));
        assert_eq!(gates("AllBeta=true"), gates(""));
    }

    #[test]
    fn booleans_durations_and_limits_have_the_effect_that_they_have_on_kro() {
        let line = "--allow-crd-deletion=false -leader-elect=F --graceful-shutdown-timeout 1m30s \
             --instance-requeue-interval=250ms --rgd-progress-requeue-delay=1.5s \
             --dynamic-controller-rate-limiter-min-delay=1s --dynamic-controller-rate-limiter-max-delay=1000s \
             --rgd-max-collection-size=7 --rgd-max-collection-dimension-size=2 \
             --resource-graph-definition-concurrent-reconciles 4 --kro-version=v0.9.4 \
             --client-qps=0.5 --client-burst=1 --pprof-bind-address=:1 --enable-controller-warmup=false";
        let settings = meaning(line).unwrap().controller;
        assert!(!settings.allow_crd_deletion && settings.leader_election.is_none());
        assert_eq!(settings.shutdown_timeout, Duration::from_secs(90));
        assert_eq!(settings.instance_interval, Some(Duration::from_millis(250)));
        assert_eq!(settings.progress_delay, Duration::from_millis(1500));
        let Backoff { base, cap } = settings.instance_backoff;
        // Nothing waits for longer than a minute, whatever is asked for.
        assert_eq!((base, cap), (Duration::from_secs(1), Duration::from_secs(60)));
        assert_eq!((settings.max_collection_size, settings.compile.max_axes), (7, 2));
        assert_eq!((settings.definition_workers, settings.kro_version.as_str()), (4, "v0.9.4"));
    }

    #[test]
    fn other_clusters_are_looked_after_as_the_flags_say() {
        let defaults = ClusterOptions::for_version("devel");
        let options = meaning("").unwrap().controller.clusters;
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
        let options = meaning(line).unwrap().controller.clusters;
        assert_eq!(times(&options), [1, 2, 3, 4, 4, 5, 6, 7].map(Duration::from_secs));
        assert_eq!((options.client.requests.max_streams, options.breaker_threshold), (8, 9));
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (line, problem) in [
            (
                "--cluster-request-timeout=0",
                "`--cluster-request-timeout` must be longer than nothing: a cluster that never answers would hold others up",
            ),
            ("--zap-encoder=xml", "`xml` is no value for `--zap-encoder`: write `console` or `json`"),
            (
                "--feature-gates=CELOmitFunktion=true",
                "unknown feature gate `CELOmitFunktion`; did you mean `CELOmitFunction`?",
            ),
            (
                "--feature-gates=CELOmitFunction",
                "`CELOmitFunction` in `--feature-gates` has no value: write `CELOmitFunction=true`",
            ),
            ("--metrics-bind-address=8078", "cannot use `--metrics-bind-address`"),
            (
                "--leader-elect --leader-election-namespace=x --leader-election-lease-duration=5s",
                "`--leader-election-lease-duration` must be longer than `--leader-election-renew-deadline`",
            ),
        ] {
            assert_eq!(meaning(line).unwrap_err().to_string(), problem);
        }
    }
}
