//! Parses the entries of a kubeconfig. What is dangerous is refused in every entry, also in those that the current
//! context does not use; whether an entry is usable matters for the current ones only.

use zeroize::Zeroizing;

use super::document::Node;
use super::fields::{Fields, LocatedText};
use super::refusal::{Refusal, RefusalReason};

/// The cluster and the user of the current context.
pub(super) struct Current {
    pub(super) cluster: Cluster,
    pub(super) user: User,
}

pub(super) struct Cluster {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) server: Option<LocatedText>,
    pub(super) server_name: Option<LocatedText>,
    pub(super) authority: Option<LocatedText>,
}

pub(super) struct User {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) token: Option<LocatedText>,
    pub(super) certificate: Option<LocatedText>,
    pub(super) key: Option<LocatedText>,
    pub(super) username: Option<LocatedText>,
    pub(super) password: Option<LocatedText>,
    pub(super) exec: Option<Exec>,
}

/// An `exec` command, as the kubeconfig has it.
pub(super) struct Exec {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) command: Option<LocatedText>,
    pub(super) version: Option<LocatedText>,
    pub(super) interactive: Option<LocatedText>,
    pub(super) arguments: Vec<Zeroizing<String>>,
    pub(super) environment: Vec<(LocatedText, Zeroizing<String>)>,
    pub(super) cluster_info: bool,
}

struct Context {
    cluster: Option<LocatedText>,
    user: Option<LocatedText>,
    path: String,
    line: usize,
}

/// Parses a document. `check_exec` refuses commands that are not allowed, in every entry.
pub(super) fn read(
    document: Node,
    check_exec: impl Fn(&Exec) -> Result<(), Refusal>,
) -> Result<Current, Refusal> {
    let mut top = Fields::of(document, String::new())?;
    expect(&mut top, "apiVersion", "v1")?;
    expect(&mut top, "kind", "Config")?;
    top.ignore("preferences");
    top.ignore("extensions");
    let current = top.text("current-context")?;
    let clusters = named(&mut top, "clusters", "cluster", cluster)?;
    let users = named(&mut top, "users", "user", user)?;
    let contexts = named(&mut top, "contexts", "context", context)?;
    let line = top.line();
    top.end()?;
    for (_, user) in &users {
        user.exec.as_ref().map_or(Ok(()), &check_exec)?;
    }

    let Some(current) = current else {
        return Err(Refusal::new(RefusalReason::Context, "current-context", Some(line)));
    };
    let context = choose(contexts, &current).ok_or_else(|| current.refuse(RefusalReason::Context))?;
    let missing =
        |field: &str, reason| Refusal::new(reason, format!("{}.{field}", context.path), Some(context.line));
    let cluster_name = context.cluster.as_ref().ok_or_else(|| missing("cluster", RefusalReason::Cluster))?;
    let cluster =
        choose(clusters, cluster_name).ok_or_else(|| cluster_name.refuse(RefusalReason::Cluster))?;
    let user_name = context.user.as_ref().ok_or_else(|| missing("user", RefusalReason::User))?;
    let user = choose(users, user_name).ok_or_else(|| user_name.refuse(RefusalReason::User))?;
    Ok(Current { cluster, user })
}

fn choose<T>(entries: Vec<(LocatedText, T)>, name: &LocatedText) -> Option<T> {
    entries.into_iter().find(|(entry, _)| entry.text == name.text).map(|(_, value)| value)
}

/// A field that must have this value if it is present.
fn expect(fields: &mut Fields, name: &str, value: &str) -> Result<(), Refusal> {
    match fields.text(name)? {
        Some(text) if *text.text != value => Err(text.refuse(RefusalReason::NotAConfig)),
        _ => Ok(()),
    }
}

/// The entries of a list of `{name, <inner>}`; names are unique.
fn named<T>(
    top: &mut Fields,
    list: &str,
    inner: &str,
    read: impl Fn(Fields) -> Result<T, Refusal>,
) -> Result<Vec<(LocatedText, T)>, Refusal> {
    let mut entries: Vec<(LocatedText, T)> = Vec::new();
    for mut fields in top.items(list)? {
        let name = fields.text("name")?.ok_or_else(|| fields.refuse(RefusalReason::Type))?;
        if entries.iter().any(|(earlier, _)| earlier.text == name.text) {
            return Err(name.refuse(RefusalReason::Duplicate));
        }
        let value = fields.fields(inner)?.ok_or_else(|| fields.refuse(RefusalReason::Type))?;
        fields.end()?;
        entries.push((name, read(value)?));
    }
    Ok(entries)
}

fn cluster(mut fields: Fields) -> Result<Cluster, Refusal> {
    let cluster = Cluster {
        path: fields.path().to_owned(),
        line: fields.line(),
        server: fields.text("server")?,
        server_name: fields.text("tls-server-name")?,
        authority: fields.text("certificate-authority-data")?,
    };
    fields.forbid("certificate-authority", RefusalReason::FilePath)?;
    fields.forbid("proxy-url", RefusalReason::Proxy)?;
    if fields.boolean("insecure-skip-tls-verify")? {
        let path = format!("{}.insecure-skip-tls-verify", cluster.path);
        return Err(Refusal::new(RefusalReason::Insecure, path, Some(cluster.line)));
    }
    fields.boolean("disable-compression")?;
    fields.ignore("extensions");
    fields.end()?;
    Ok(cluster)
}

fn context(mut fields: Fields) -> Result<Context, Refusal> {
    let context = Context {
        path: fields.path().to_owned(),
        line: fields.line(),
        cluster: fields.text("cluster")?,
        user: fields.text("user")?,
    };
    // An object without a namespace is applied to that of the instance, never to this one.
    fields.text("namespace")?;
    fields.ignore("extensions");
    fields.end()?;
    Ok(context)
}

fn user(mut fields: Fields) -> Result<User, Refusal> {
    for path in ["client-certificate", "client-key", "tokenFile"] {
        fields.forbid(path, RefusalReason::FilePath)?;
    }
    for impersonation in ["as", "as-uid", "as-groups", "as-user-extra"] {
        fields.forbid(impersonation, RefusalReason::Impersonation)?;
    }
    fields.forbid("auth-provider", RefusalReason::AuthProvider)?;
    let user = User {
        path: fields.path().to_owned(),
        line: fields.line(),
        token: fields.text("token")?,
        certificate: fields.text("client-certificate-data")?,
        key: fields.text("client-key-data")?,
        username: fields.text("username")?,
        password: fields.text("password")?,
        exec: fields.fields("exec")?.map(exec).transpose()?,
    };
    fields.ignore("extensions");
    fields.end()?;
    Ok(user)
}

fn exec(mut fields: Fields) -> Result<Exec, Refusal> {
    let exec = Exec {
        path: fields.path().to_owned(),
        line: fields.line(),
        command: fields.text("command")?,
        version: fields.text("apiVersion")?,
        interactive: fields.text("interactiveMode")?,
        arguments: fields.texts("args")?,
        environment: environment(&mut fields)?,
        cluster_info: fields.boolean("provideClusterInfo")?,
    };
    // A message for people at a terminal, which is never shown.
    fields.ignore("installHint");
    fields.end()?;
    Ok(exec)
}

fn environment(fields: &mut Fields) -> Result<Vec<(LocatedText, Zeroizing<String>)>, Refusal> {
    let mut variables: Vec<(LocatedText, Zeroizing<String>)> = Vec::new();
    for mut variable in fields.items("env")? {
        let name = variable.text("name")?.ok_or_else(|| variable.refuse(RefusalReason::Type))?;
        if variables.iter().any(|(earlier, _)| earlier.text == name.text) {
            return Err(name.refuse(RefusalReason::Duplicate));
        }
        let value = variable.text("value")?.map(|value| value.text).unwrap_or_default();
        variable.end()?;
        variables.push((name, value));
    }
    Ok(variables)
}
