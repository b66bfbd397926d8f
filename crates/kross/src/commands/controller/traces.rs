//! Turns the flags and the standard environment variables of OpenTelemetry into a tracer, which sends the spans of reconciles
//! to a collector: OTLP over HTTP, off by default.

use std::env;
use std::time::Duration;

use anyhow::{Context, bail};
use http::Uri;
use kross_controller::SpanCounts;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, SpanExporter as _};

mod client;
mod queue;

use client::Client;
use queue::SpanQueue;

/// Where a collector expects traces, below the address of the collector.
const TRACES_PATH: &str = "/v1/traces";
const PROTOCOL: &str = "http/protobuf";
/// Attributes of the process that do not come from the environment.
const SERVICE: &str = "kross";
/// How long a batch may take, in milliseconds.
const DEFAULT_TIMEOUT: u64 = 10_000;

/// What the flags say about traces.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TraceFlags {
    /// The address of the collector; empty to take it from the environment.
    pub(super) endpoint: String,
    /// The share of reconciles that are traced; none to take it from the environment.
    pub(super) sampling_ratio: Option<f64>,
}

/// The traces of a process. Dropping it exports nothing more.
pub(super) struct Traces {
    provider: SdkTracerProvider,
    counts: SpanCounts,
    destination: Uri,
}

/// A variable of the environment; none if it is empty, as the specification of OpenTelemetry has it.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl TraceFlags {
    /// Starts the export of traces; none if they are off.
    pub(super) fn start(&self) -> anyhow::Result<Option<Traces>> {
        self.start_with(&|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn start_with(&self, variables: Variables<'_>) -> anyhow::Result<Option<Traces>> {
        let Some(destination) = self.destination(variables)? else { return Ok(None) };
        let client = Client::new(&destination, timeout(variables), certificate(variables).as_deref())?;
        let failure = client.failure();
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(destination.to_string())
            .build()
            .context("cannot export traces")?;
        let resource = resource(variables);
        exporter.set_resource(&resource);
        let counts = SpanCounts::default();
        let queue = SpanQueue::start(exporter, counts.clone(), failure).context("cannot export traces")?;
        let mut provider = SdkTracerProvider::builder().with_resource(resource).with_span_processor(queue);
        if let Some(ratio) = self.sampling_ratio {
            let sampler = Sampler::TraceIdRatioBased(ratio);
            provider = provider.with_sampler(Sampler::ParentBased(Box::new(sampler)));
        }
        Ok(Some(Traces { provider: provider.build(), counts, destination }))
    }

    /// Where traces are sent; none if they are off. The flag wins over the environment.
    fn destination(&self, variables: Variables<'_>) -> anyhow::Result<Option<Uri>> {
        let (source, address) = match self.endpoint.as_str() {
            "" if is_disabled(variables)? => return Ok(None),
            "" => match given(variables, ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]) {
                Some((name, address)) => (name, address),
                None => match given(variables, ["OTEL_EXPORTER_OTLP_ENDPOINT"]) {
                    Some((name, address)) => (name, below(&address)),
                    None => return Ok(None),
                },
            },
            address => ("--otlp-endpoint", below(address)),
        };
        let names = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
        if let Some((name, protocol)) = given(variables, names)
            && protocol != PROTOCOL
        {
            bail!(
                "unsupported protocol `{protocol}` in `{name}`: use `{PROTOCOL}`, which collectors accept on port 4318"
            );
        }
        let uri: Option<Uri> = address.parse().ok();
        let is_valid = |uri: &Uri| {
            let authority = uri.authority().map(http::uri::Authority::as_str);
            // A password would be in every message that names the address.
            matches!(uri.scheme_str(), Some("http" | "https")) && authority.is_some_and(|a| !a.contains('@'))
        };
        match uri.filter(is_valid) {
            Some(uri) => Ok(Some(uri)),
            // The address is not quoted: it may have a password.
            None => bail!(
                "invalid value of `{source}`: use an address such as `http://collector.observability:4318`, without a user"
            ),
        }
    }
}

impl Traces {
    pub(super) fn tracer(&self) -> SdkTracer {
        self.provider.tracer(SERVICE)
    }

    pub(super) fn counts(&self) -> SpanCounts {
        self.counts.clone()
    }

    /// Logs where traces are sent. Logging is started after traces.
    pub(super) fn log(&self) {
        tracing::info!(endpoint = %self.destination, "exporting traces");
    }

    /// Exports what is left, up to a limit. Blocks: call it at the end of a process, not on async threads.
    pub(super) fn flush(&self, limit: Duration) {
        // The process ends in either case.
        let _ = self.provider.shutdown_with_timeout(limit);
    }
}

/// Whether the environment turns traces off.
fn is_disabled(variables: Variables<'_>) -> anyhow::Result<bool> {
    let is_true = |value: &String| value.eq_ignore_ascii_case("true");
    if variables("OTEL_SDK_DISABLED").as_ref().is_some_and(is_true) {
        return Ok(true);
    }
    match variables("OTEL_TRACES_EXPORTER").as_deref() {
        None | Some("otlp") => Ok(false),
        Some("none") => Ok(true),
        Some(other) => {
            bail!("unsupported exporter `{other}` in `OTEL_TRACES_EXPORTER`: use `otlp` or `none`")
        }
    }
}

/// The first of these variables that is set.
fn given<const N: usize>(
    variables: Variables<'_>,
    names: [&'static str; N],
) -> Option<(&'static str, String)> {
    names.into_iter().find_map(|name| Some((name, variables(name)?)))
}

fn below(address: &str) -> String {
    format!("{}{TRACES_PATH}", address.trim_end_matches('/'))
}

fn timeout(variables: Variables<'_>) -> Duration {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
    let milliseconds = given(variables, names).and_then(|(_, value)| value.parse().ok());
    Duration::from_millis(milliseconds.unwrap_or(DEFAULT_TIMEOUT))
}

/// The file with the certificate authorities of the collector; none for those of the system.
fn certificate(variables: Variables<'_>) -> Option<String> {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];
    given(variables, names).map(|(_, path)| path)
}

/// What all spans have in common. `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` win.
fn resource(variables: Variables<'_>) -> Resource {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let own = [
        ("service.name", SERVICE),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", host.trim()),
    ];
    let attributes = variables("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let is_given = |name: &str| {
        let mut names = attributes.split(',').filter_map(|pair| pair.split_once('='));
        (name == "service.name" && variables("OTEL_SERVICE_NAME").is_some())
            || names.any(|(given, _)| given.trim() == name)
    };
    let own = own.into_iter().filter(|(name, value)| !value.is_empty() && !is_given(name));
    let own = own.map(|(name, value)| opentelemetry::KeyValue::new(name, value.to_owned()));
    Resource::builder().with_attributes(own).build()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kross_testing::TraceCollector;
    use opentelemetry::trace::Tracer;

    use super::*;

    /// Where traces are sent with this flag and these variables.
    fn destination(endpoint: &str, environment: &[(&str, &str)]) -> Result<Option<String>, String> {
        let flags = TraceFlags { endpoint: endpoint.to_owned(), sampling_ratio: None };
        let variables = |name: &str| {
            let found = environment.iter().find(|(given, value)| *given == name && !value.is_empty());
            found.map(|(_, value)| (*value).to_owned())
        };
        let found = flags.destination(&variables).map_err(|error| error.to_string())?;
        Ok(found.map(|uri| uri.to_string()))
    }

    #[test]
    fn traces_are_off_unless_a_collector_is_given() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        assert_eq!(destination("", &[]), Ok(None));
        assert_eq!(destination("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), Ok(None));
        assert_eq!(destination("", &[endpoint, ("OTEL_SDK_DISABLED", "TRUE")]), Ok(None));
        assert_eq!(destination("", &[endpoint, ("OTEL_TRACES_EXPORTER", "none")]), Ok(None));
    }

    #[test]
    fn the_flag_wins_over_the_environment_and_the_variable_of_traces_over_that_of_all_signals() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces/path");
        let sent_to = |endpoint, environment: &[_]| destination(endpoint, environment).unwrap().unwrap();
        assert_eq!(sent_to("", &[all]), "http://all:4318/v1/traces");
        assert_eq!(sent_to("", &[all, traces]), "https://traces/path");
        assert_eq!(sent_to("http://flag:1", &[all, traces]), "http://flag:1/v1/traces");
        let disabled = ("OTEL_SDK_DISABLED", "true");
        assert_eq!(sent_to("http://flag:1/below/", &[disabled]), "http://flag:1/below/v1/traces");
    }

    #[test]
    fn what_is_not_supported_is_refused_without_quoting_a_password() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
        for (flag, environment, message) in [
            (
                "",
                vec![endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
                "unsupported protocol `grpc` in `OTEL_EXPORTER_OTLP_PROTOCOL`: use `http/protobuf`, which collectors accept on port 4318",
            ),
            (
                "",
                vec![endpoint, ("OTEL_TRACES_EXPORTER", "zipkin")],
                "unsupported exporter `zipkin` in `OTEL_TRACES_EXPORTER`: use `otlp` or `none`",
            ),
            (
                "collector:4318",
                vec![],
                "invalid value of `--otlp-endpoint`: use an address such as `http://collector.observability:4318`, without a user",
            ),
            (
                "http://user:password@collector:4318",
                vec![],
                "invalid value of `--otlp-endpoint`: use an address such as `http://collector.observability:4318`, without a user",
            ),
        ] {
            assert_eq!(destination(flag, &environment), Err(message.to_owned()));
        }
    }

    #[test]
    fn the_environment_names_the_service() {
        let name = |environment: &'static [(&str, &str)]| {
            let variables = move |name: &str| {
                environment.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).to_owned())
            };
            // Only the process environment is read by the SDK, so an attribute that is left out here comes from there.
            let resource = resource(&variables);
            resource.get(&"service.version".into()).map(|value| value.to_string())
        };
        assert_eq!(name(&[]).as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(name(&[("OTEL_RESOURCE_ATTRIBUTES", "a=b,service.version=7")]), None);
    }

    /// Traces that are sent to this address. A collector is verified with the certificates in this file.
    fn traces(endpoint: String, certificate: Option<&str>) -> Traces {
        let flags = TraceFlags { endpoint, sampling_ratio: None };
        let variables = |name: &str| {
            (name == "OTEL_EXPORTER_OTLP_CERTIFICATE").then(|| certificate.map(str::to_owned)).flatten()
        };
        flags.start_with(&variables).unwrap().unwrap()
    }

    /// Exports a span. Returns the numbers of exported and failed ones.
    async fn export(traces: &Arc<Traces>) -> (u64, u64) {
        drop(traces.tracer().start("span"));
        let flushed = Arc::clone(traces);
        tokio::task::spawn_blocking(move || flushed.provider.force_flush().unwrap()).await.unwrap();
        let [exported, dropped, failed] = traces.counts().read();
        assert_eq!(dropped, 0);
        (exported, failed)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn spans_that_the_collector_refuses_are_counted_and_later_ones_exported() {
        let collector = TraceCollector::start().await.unwrap();
        let traces = Arc::new(traces(format!("http://{}", collector.address()), None));
        collector.refuse(400);
        assert_eq!(export(&traces).await, (0, 1));
        collector.refuse(0);
        assert_eq!(export(&traces).await, (1, 1));
        assert_eq!(collector.spans().len(), 2);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_collector_with_tls_is_verified() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        let collector = TraceCollector::start_with_tls(Arc::new(config)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| folder.path().join(name).display().to_string());
        std::fs::write(&own, made.cert.pem()).unwrap();
        let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&other, stranger.cert.pem()).unwrap();

        let endpoint = format!("https://localhost:{}", collector.address().port());
        assert_eq!(export(&Arc::new(traces(endpoint.clone(), Some(&own)))).await, (1, 0));
        assert_eq!(collector.spans()[0].name, "span");
        let flags = |certificate: &str| {
            let variables = |name: &str| name.ends_with("CERTIFICATE").then(|| certificate.to_owned());
            let flags = TraceFlags { endpoint: endpoint.clone(), sampling_ratio: None };
            flags.start_with(&variables).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(flags("/missing").contains("cannot read the certificates of the collector in /missing"));
        // The exporter tries again for some time, so only the client is asked.
        let uri: Uri = format!("{endpoint}/v1/traces").parse().unwrap();
        let client = Client::new(&uri, Duration::from_secs(30), Some(&other)).unwrap();
        let failure = client.failure();
        let request = http::Request::post(uri).body(opentelemetry_http::Bytes::new()).unwrap();
        opentelemetry_http::HttpClient::send_bytes(&client, request).await.unwrap_err();
        let cause = failure.lock().clone().unwrap();
        assert!(cause.contains("certificate"), "{cause}");
        assert_eq!(collector.requests().len(), 1);
    }
}
