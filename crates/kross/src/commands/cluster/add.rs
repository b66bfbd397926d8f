//! Registers the cluster of a kubeconfig context: a ServiceAccount there with the rules that the definitions need, and a Secret with
//! its token on the hub. Running it again updates both.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use kross_api::{SYSTEM_NAMESPACE, SecretAddress, managers};
use kross_cluster::{ServiceAccountName, check_address, token_duration};
use serde_json::{Value as Json, json};

use super::controller_access;
use super::credential::{self, SecretFields};
use super::grants::{self, Rules};
use super::registration::Registration;
use super::remote::{self, RemoteContext};
use crate::hub::{ConnectionFlags, Hub, text};
use crate::input::SchemaArguments;
use crate::output::{Outcome, Output};

/// The shortest lifetime of a token that API servers accept.
const MIN_DURATION: Duration = Duration::from_secs(600);
/// The longest name of a ServiceAccount that fits into a label.
const MAX_ACCOUNT_NAME: usize = 63;

const EXAMPLES: &str = "\
Examples:
  # Register the cluster of the context `eu`, with what the graphs of a folder need there
  kross cluster add eu -n team --from-definitions definitions/

  # The same, for the instances of two namespaces only, and under another name
  kross cluster add admin@eu.example.com --name eu -n kro-system --allowed-namespaces team,shop --from-definitions definitions/

  # The cluster's address from inside the hub is not that of the context
  kross cluster add kind-eu -n team --api-server-address https://eu-control-plane:6443 --from-definitions definitions/

  # See what would be created in the cluster
  kross cluster add eu --export=manifests --from-definitions definitions/

  # Print the Secret, for a hub that cannot be reached from here; it contains a token
  kross cluster add eu -n team --from-definitions definitions/ --export | ssh hub kubectl apply -f -";

/// Arguments of `kross cluster add`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Context of the kubeconfig whose cluster to register; its user must be an administrator there
    #[arg(value_name = "CONTEXT")]
    remote: String,

    /// Name of the Secret (default: that of the context)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Namespaces whose instances may use the cluster, separated by commas; `*` for all (default: the Secret's; definitions may name
    /// it)
    #[arg(long, value_name = "NAMESPACES")]
    allowed_namespaces: Option<String>,

    /// Grant the rules of the ClusterRoles and Roles in this file, as `kross rbac --remote` prints them
    #[arg(long, value_name = "FILE", conflicts_with = "from_definitions")]
    rules: Option<PathBuf>,

    /// Grant what the graphs of the definitions in this file or folder need; repeat the flag for several
    #[arg(long, value_name = "DIR")]
    from_definitions: Vec<PathBuf>,

    /// ServiceAccount in the cluster, as `NAMESPACE/NAME` (default: `kro-system/kross-` and the name of the Secret)
    #[arg(long, value_name = "NAMESPACE/NAME")]
    service_account: Option<String>,

    /// Address under which the controller reaches the cluster (default: that of the context)
    #[arg(long, value_name = "URL")]
    api_server_address: Option<String>,

    /// How long each token lives, such as `720h`; the cluster may give less
    #[arg(long, value_name = "DURATION", default_value = "720h")]
    token_duration: String,

    /// Print instead of writing to the hub: `secret` prints the Secret, with the token; `manifests` prints what would be created in
    /// the cluster, and changes nothing
    #[arg(long, value_name = "WHAT", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "secret")]
    export: Option<Export>,

    #[command(flatten)]
    schemas: SchemaArguments,

    #[command(flatten)]
    connection: ConnectionFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Export {
    /// The Secret
    Secret,
    /// The ServiceAccount and its roles
    Manifests,
}

/// The arguments, checked.
struct Registering {
    name: String,
    account: ServiceAccountName,
    duration: Duration,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> anyhow::Result<Outcome> {
    let registering = check(arguments)?;
    crate::hub::block_on(async {
        let hub = match arguments.export {
            None => Some(arguments.connection.hub().await?),
            Some(_) => None,
        };
        let namespace = match (&hub, arguments.connection.namespace()) {
            (Some(hub), _) => hub.namespace.clone(),
            (None, Some(given)) => given.to_owned(),
            (None, None) => SYSTEM_NAMESPACE.to_owned(),
        };
        let address = SecretAddress {
            namespace: namespace.clone(),
            name: registering.name.clone(),
            key: kross_api::KUBECONFIG_KEY.to_owned(),
        };
        check_address(&address).map_err(|_| {
            anyhow::anyhow!(
                "`{}` is not a name that a Secret can have; choose one with `--name`",
                registering.name
            )
        })?;
        let rules = rules(arguments, (&namespace, &registering), output)?;
        if arguments.export == Some(Export::Manifests) {
            return print_manifests(&registering, &namespace, rules, output);
        }
        add(arguments, &registering, (hub.as_ref(), &namespace), rules, output).await
    })
}

fn check(arguments: &Arguments) -> anyhow::Result<Registering> {
    let name = arguments.name.as_ref().unwrap_or(&arguments.remote).clone();
    let account = match &arguments.service_account {
        Some(typed) => ServiceAccountName::parse(typed).with_context(|| {
            format!("invalid value `{typed}` for `--service-account`: use `NAMESPACE/NAME`")
        })?,
        None => {
            ServiceAccountName::parse(&format!("{SYSTEM_NAMESPACE}/kross-{name}")).with_context(|| {
                format!("`{name}` is not a name that a Secret can have; choose one with `--name`")
            })?
        }
    };
    if account.name.len() > MAX_ACCOUNT_NAME {
        bail!(
            "the name of ServiceAccount `{account}` is longer than {MAX_ACCOUNT_NAME} characters; choose another one with `--service-account`"
        );
    }
    let typed = &arguments.token_duration;
    let duration = token_duration(typed).filter(|duration| *duration >= MIN_DURATION).with_context(|| {
        format!("invalid value `{typed}` for `--token-duration`: use at least ten minutes, such as `720h`")
    })?;
    Ok(Registering { name, account, duration })
}

/// The rules to grant. None if none are given: then those of an earlier registration stay.
fn rules(
    arguments: &Arguments,
    (namespace, registering): (&str, &Registering),
    output: &mut Output,
) -> anyhow::Result<Option<Rules>> {
    let given = match &arguments.rules {
        Some(file) => grants::from_file(file)?,
        None if arguments.from_definitions.is_empty() => return Ok(None),
        None => {
            let secret = (namespace, registering.name.as_str());
            grants::from_definitions(&arguments.from_definitions, &arguments.schemas, secret, output)?
        }
    };
    let mut rules = grants::base(&registering.account);
    grants::merge(&mut rules, given);
    Ok(Some(rules))
}

fn print_manifests(
    registering: &Registering,
    namespace: &str,
    rules: Option<Rules>,
    output: &mut Output,
) -> anyhow::Result<Outcome> {
    let account = &registering.account;
    let registered_for = format!("-/{namespace}/{}", registering.name);
    let rules = rules.unwrap_or_else(|| grants::base(account));
    let mut objects = vec![grants::service_account(account, &registered_for)];
    objects.extend(grants::roles(account, &rules));
    let texts: Vec<String> = objects.iter().map(kross_api::to_yaml).collect();
    output.data(texts.join("---\n").trim_end())?;
    Ok(Outcome::Success)
}

async fn add(
    arguments: &Arguments,
    registering: &Registering,
    (hub, namespace): (Option<&Hub>, &str),
    rules: Option<Rules>,
    output: &mut Output,
) -> anyhow::Result<Outcome> {
    let Registering { name, account, duration } = registering;
    let existing = match hub {
        Some(hub) => {
            has_namespace(hub, namespace).await?;
            Registration::find(hub, namespace, name).await?
        }
        None => None,
    };
    if existing.as_ref().is_some_and(|existing| existing.service_account().is_none()) {
        bail!(
            "Secret `{namespace}/{name}` exists and was not created by `kross cluster add`; choose another name with `--name`, or delete it first"
        );
    }
    let mut context = RemoteContext::connect(arguments.connection.source_of(&arguments.remote)).await?;
    if context.server.insecure {
        bail!(
            "context `{}` does not verify the certificate of the server, which the controller always does",
            context.name
        );
    }
    let uid = context.uid().await?;
    if let Some(known) = existing.as_ref().and_then(Registration::cluster_uid).filter(|known| *known != uid) {
        bail!(
            "Secret `{namespace}/{name}` is the registration of another cluster (UID {known}); choose another name with `--name`, or remove that one first with `kross cluster remove {name} -n {namespace}`"
        );
    }
    if let Some(former) =
        existing.as_ref().and_then(Registration::service_account).filter(|former| former != account)
    {
        output.note(format_args!(
            "warning: the registration used ServiceAccount `{former}` before, which stays in the cluster"
        ));
    }
    if rules.is_none() {
        output.note(match &existing {
            Some(_) => "the rules of the ServiceAccount stay as they are; `--from-definitions` or `--rules` changes them",
            None => "the ServiceAccount may do nothing but identify the cluster; grant what graphs need with `--from-definitions` or `--rules`",
        });
    }
    let rules = match (rules, &existing) {
        (None, None) => Some(grants::base(account)),
        (rules, _) => rules,
    };
    let registered_for = remote::registered_for(hub, namespace, name).await;
    let registered = context.register(account, &registered_for, rules.as_ref()).await?;
    remote::report(&context.name, &registered.objects, output);
    let token = context.token(account, *duration).await?;
    // The address that the controller uses may not be reachable from here.
    let tried = credential::kubeconfig(name, &context.server, &token);
    let client = credential::client(name, namespace, tried.as_bytes()).await;
    if let Some(address) = &arguments.api_server_address {
        context.server.address = address.trim_end_matches('/').to_owned();
    } else {
        remote::until_accepted(&client?, &uid).await?;
    }
    warn_about_server(&context, output);
    let kubeconfig = credential::kubeconfig(name, &context.server, &token);
    kross_cluster::accept(kubeconfig.as_bytes(), namespace, &credential::policy())
        .context("the controller would refuse the kubeconfig")?;
    let allowed = arguments.allowed_namespaces.as_deref();
    let fields = SecretFields {
        name,
        namespace,
        account,
        uid: &uid,
        duration: *duration,
        allowed_namespaces: allowed,
    };
    let secret = fields.secret(&kubeconfig, &token);
    let until = token.lifetime.expires_at.map(|at| at.to_string()).unwrap_or_default();
    match hub {
        None => {
            output.data(kross_api::to_yaml(&secret).trim_end())?;
            output.note("warning: the Secret contains a token of the cluster; do not store it where others can read it");
        }
        Some(hub) => {
            output.data(write(hub, &secret, existing.as_ref()).await?)?;
            controller_access::warn(hub, namespace, output).await;
        }
    }
    output.note(format_args!("the token expires at {until}; the controller renews it before"));
    Ok(Outcome::Success)
}

/// Checks that the Secret can be created, before anything is created in the cluster. One that may not be read may exist.
async fn has_namespace(hub: &Hub, namespace: &str) -> anyhow::Result<()> {
    let Ok(kind) = hub.kind("namespaces") else { return Ok(()) };
    match hub.get(&kind, None, namespace).await {
        Err(error) if error.is_object_not_found() => bail!(
            "namespace `{namespace}` does not exist on the hub: create it with `kubectl create namespace {namespace}`, or choose another one with `--namespace`"
        ),
        _ => Ok(()),
    }
}

/// What the controller may not be able to do with the address.
fn warn_about_server(context: &RemoteContext, output: &mut Output) {
    let server = &context.server;
    let host = server.address.split("://").last().unwrap_or_default();
    if ["localhost", "127.", "[::1]"].iter().any(|local| host.starts_with(local)) {
        output.note(format_args!(
            "warning: `{}` is this machine: in a Pod, the controller does not reach the cluster there; pass the address with `--api-server-address`",
            server.address
        ));
    }
    if server.authority.is_none() {
        output.note(
            "warning: the context has no certificate authority: the controller needs `--kubeconfig-system-roots` to verify the cluster",
        );
    }
    if server.proxied {
        output.note("warning: the context uses a proxy, which the controller does not");
    }
}

/// Creates the Secret, or updates what a registration writes of it. Returns what happened.
async fn write(hub: &Hub, secret: &Json, existing: Option<&Registration>) -> anyhow::Result<String> {
    let kind = hub.kind("secrets")?;
    let field = |path: &str| text(secret, path).unwrap_or_default();
    let (namespace, name) = (field("/metadata/namespace"), field("/metadata/name"));
    let cannot = || {
        format!(
            "cannot write Secret `{namespace}/{name}`; with `--export`, an administrator of the hub can apply it"
        )
    };
    let Some(existing) = existing else {
        hub.client
            .create(&kind, &secret.clone().into(), managers::REGISTRATION)
            .await
            .with_context(cannot)?;
        return Ok(format!("secret/{name} created"));
    };
    let patch = json!({
        "metadata": {"resourceVersion": existing.resource_version(), "labels": secret.pointer("/metadata/labels"),
            "annotations": secret.pointer("/metadata/annotations")},
        "data": secret.get("data"),
    });
    hub.client
        .merge_patch(&kind, Some(namespace), name, None, managers::REGISTRATION, &patch.into())
        .await
        .with_context(cannot)?;
    Ok(format!("secret/{name} configured"))
}
