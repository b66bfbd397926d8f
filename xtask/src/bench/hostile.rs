//! Measures instances with objects in a healthy cluster: alone, and beside a hostile server of each kind, one after the other. What a
//! server sends, or does not, must delay nobody but those who chose it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::ValueEnum;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kross_local::{ControlPlane, Kubeconfig, Program, Progress};
use kross_testing::FaultProxy;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value as Json, json};

use super::instances;
use super::usage::Usage;

mod attack;
mod table;

use attack::Attack;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of instances of the healthy cluster
    #[arg(long, default_value_t = 200)]
    instances: usize,
    /// Number of instances of each hostile server
    #[arg(long, default_value_t = 10)]
    hostile_instances: usize,
    /// Number of times that drift is created and repaired in the healthy cluster
    #[arg(long, default_value_t = 20)]
    repairs: usize,
    /// Attack to measure; repeatable (default: all)
    #[arg(long, value_enum)]
    only: Vec<Attack>,
    /// A kross binary to measure instead of a release build of this tree
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// The namespace of the instances of the healthy cluster.
const HEALTHY: &str = "healthy";
const KIND: &str = "Placed";
/// How long a hostile server may be without a request that it attacks with.
const ATTACK_TIMEOUT: Duration = Duration::from_secs(120);

/// How the healthy cluster's instances did.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    /// Until all were ready.
    ready: Duration,
    /// Until drift was repaired; the median.
    repair: Duration,
    /// Until all were deleted.
    deletion: Duration,
    /// The most memory that the controller had so far, in bytes.
    peak: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let binary = match &arguments.binary {
        Some(path) => {
            path.canonicalize().with_context(|| format!("cannot find the binary `{}`", path.display()))?
        }
        None => instances::release_build()?,
    };
    let attacks = if arguments.only.is_empty() { Attack::value_variants() } else { &arguments.only };
    let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
    let results = runtime.block_on(async {
        let bench = Bench::start(arguments, binary).await?;
        let results = bench.measure_all(attacks).await;
        bench.stop().await;
        results
    })?;
    eprint!("{}", table::render(arguments.instances, &results));
    Ok(())
}

/// The hub with its controller, and the control plane behind all servers.
struct Bench<'a> {
    arguments: &'a Arguments,
    hub: ControlPlane,
    remote: ControlPlane,
    client: Client,
    remote_client: Client,
    controller: Program,
}

impl<'a> Bench<'a> {
    async fn start(arguments: &'a Arguments, binary: PathBuf) -> anyhow::Result<Self> {
        eprintln!("starting two control planes");
        let start = |name| ControlPlane::named(name).progress(Progress::stderr()).start();
        let (hub, remote) = (start("bench-hub").await?, start("bench-remote").await?);
        let (client, remote_client) = (hub.client().await?, remote.client().await?);
        instances::install(&client).await?;
        let mut flags: Vec<String> = ["controller", "--kubeconfig"].map(str::to_owned).into();
        flags.push(hub.admin_path().display().to_string());
        for page in ["metrics", "health-probe", "admin"] {
            flags.push(format!("--{page}-bind-address=0"));
        }
        let controller = Program::start("kross", &binary, &flags)?;
        let bench = Self { arguments, hub, remote, client, remote_client, controller };
        instances::define(&bench.client, definition()).await?;
        Ok(bench)
    }

    async fn stop(self) {
        drop(self.controller);
        self.hub.stop().await;
        self.remote.stop().await;
    }

    /// Measures without an attack before and after all others: the machine may have become slower or faster.
    async fn measure_all(&self, attacks: &[Attack]) -> anyhow::Result<Vec<(Option<Attack>, Measured)>> {
        self.publish(HEALTHY, self.remote.admin()).await?;
        eprintln!("no attack: twice, since the first instances find cold caches");
        self.measure().await?;
        let mut results = vec![(None, self.measure().await?)];
        for attack in attacks {
            eprintln!("{attack}");
            results.push((Some(*attack), self.measure_beside(*attack).await?));
        }
        results.push((None, self.measure().await?));
        Ok(results)
    }

    /// Creates the namespace of a server's instances, and the Secret with its kubeconfig.
    async fn publish(&self, namespace: &str, kubeconfig: &Kubeconfig) -> anyhow::Result<()> {
        for client in [&self.client, &self.remote_client] {
            let namespace = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
            Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
        }
        let secret = json!({"metadata": {"name": "server-kubeconfig"},
            "stringData": {"kubeconfig": kubeconfig.to_string()}});
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        Ok(())
    }

    async fn measure_beside(&self, attack: Attack) -> anyhow::Result<Measured> {
        let namespace = attack.to_string();
        let proxy = FaultProxy::start_under_own_authority(self.remote.admin())?;
        self.publish(&namespace, &proxy.virtual_cluster(self.remote.admin(), &namespace)?).await?;
        let attacked = attack.begin(&proxy, &namespace)?;
        let api = instances::api(&self.client, KIND, Some(&namespace));
        let names = names(&namespace, self.arguments.hostile_instances);
        instances::create(&api, names.iter().map(|name| instance(name)).collect()).await?;
        let started = Instant::now();
        while proxy.count(&attacked) == 0 {
            if started.elapsed() > ATTACK_TIMEOUT {
                bail!(
                    "the server was not asked for what it attacks with; the log of the controller:\n{}",
                    self.controller.log()
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let measured = self.measure().await?;
        eprintln!("{attack}: it answered {} requests with its attack", proxy.count(&attacked));
        // Until here the server does not change. Now its instances can be deleted.
        proxy.clear();
        instances::delete_all(&api, &names).await?;
        Ok(measured)
    }

    /// Creates, edits and deletes the instances of the healthy cluster.
    async fn measure(&self) -> anyhow::Result<Measured> {
        let Arguments { instances: count, repairs, .. } = self.arguments;
        let api = instances::api(&self.client, KIND, Some(HEALTHY));
        let names = names(HEALTHY, *count);
        let ready = instances::create_all(&api, names.iter().map(|name| instance(name)).collect()).await?;
        let config_maps: Api<ConfigMap> = Api::namespaced(self.remote_client.clone(), HEALTHY);
        let children: Vec<_> = names.iter().map(|name| (format!("{name}-remote"), name.clone())).collect();
        let repair = instances::repair(&config_maps, &children, *repairs).await?;
        let deletion = instances::delete_all(&api, &names).await?;
        Ok(Measured { ready, repair, deletion, peak: Usage::of(&self.controller)?.peak })
    }
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

fn instance(name: &str) -> Json {
    json!({"apiVersion": "kro.run/v1alpha1", "kind": KIND, "metadata": {"name": name}, "spec": {"text": name}})
}

/// An object in the server's cluster, and one in the hub that reads it.
fn definition() -> Json {
    let config_map = |id: &str, text: &str| {
        json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("${{schema.metadata.name}}-{id}")}, "data": {"x": text}}})
    };
    let mut remote = config_map("remote", "${schema.spec.text}");
    if let Some(remote) = remote.as_object_mut() {
        remote.insert("cluster".to_owned(), json!({"name": "server-kubeconfig"}));
    }
    json!({"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "placed"}, "spec": {
        "schema": {"apiVersion": "v1alpha1", "kind": KIND, "spec": {"text": "string"}},
        "resources": [remote, config_map("local", "${remote.data.x}")]}})
}
