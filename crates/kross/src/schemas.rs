//! The schemas of a cluster: fetched from its API server, written to a folder, and read from there without the cluster.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use kross_cluster::{ClientOptions, ClusterClient, ConnectionOverrides, LocalCluster};
use kross_schema::LiveSchemas;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::hub::block_on;

/// The path of the index of documents.
const INDEX: &str = "/openapi/v3";
/// The file that lists the documents of a folder.
const INDEX_FILE: &str = "index.json";
/// What the index of a folder says that this version can read.
const FORMAT: &str = "kross-schemas/v1";

/// What a folder with schemas has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredIndex {
    format: String,
    /// The context of the kubeconfig that the schemas are of.
    pub(crate) context: String,
    /// The version of the API server, such as `v1.36.3`.
    pub(crate) kubernetes: String,
    /// By group and version, such as `apps/v1`.
    pub(crate) documents: BTreeMap<String, StoredDocument>,
}

/// A document in a folder.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct StoredDocument {
    /// The name of the file.
    pub(crate) file: String,
    /// The path that it was fetched from, which changes with its content.
    pub(crate) source: String,
}

/// The schemas of a cluster, with the version of its API server.
#[derive(Debug)]
pub(crate) struct ClusterSchemas {
    pub(crate) schemas: LiveSchemas,
    pub(crate) kubernetes: String,
}

#[derive(Deserialize)]
struct Index {
    paths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

/// A client of the cluster of a context; of the current one if it is empty.
///
/// # Errors
/// There is no such context, or its configuration cannot be used.
pub(crate) async fn client(context: &str) -> anyhow::Result<ClusterClient> {
    let context = Some(context.to_owned()).filter(|context| !context.is_empty());
    let cluster = LocalCluster { kubeconfig: None, context, overrides: ConnectionOverrides::default() };
    Ok(ClusterClient::local(&cluster, ClientOptions::default()).await?)
}

/// The version of an API server, and the paths of its documents by group and version.
async fn index(client: &ClusterClient) -> anyhow::Result<(String, BTreeMap<String, String>)> {
    let version = client.fetch("/version").await.context("cannot read the version of the cluster")?;
    let version: serde_json::Value = serde_json::from_slice(&version)
        .context("the cluster answers with something else than its version")?;
    let version = version.get("gitVersion").and_then(serde_json::Value::as_str).unwrap_or("unknown");
    let bytes = client.fetch(INDEX).await.context("cannot read the index of schemas")?;
    let index: Index = serde_json::from_slice(&bytes)
        .with_context(|| format!("the answer for `{INDEX}` is not an index of schemas"))?;
    let mut paths = BTreeMap::new();
    for (path, Entry { url }) in index.paths {
        let Some(api_version) = path.strip_prefix("apis/").or_else(|| path.strip_prefix("api/")) else {
            continue;
        };
        // Groups without a version have no kinds. The URL is the server's choice, and must not lead to another API.
        let is_group_version = path.starts_with("api/") || api_version.contains('/');
        let is_document = url.starts_with("/openapi/v3/") && !url.contains("..");
        if is_group_version && is_document && is_plain(api_version) {
            paths.insert(api_version.to_owned(), url);
        }
    }
    Ok((version.to_owned(), paths))
}

/// Whether a text can be a group and version, and so a part of the name of a file.
fn is_plain(api_version: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    api_version.chars().all(|letter| is_letter(letter) || matches!(letter, '.' | '-' | '/'))
        && api_version.matches('/').count() <= 1
        && api_version.chars().next().is_some_and(is_letter)
}

/// Fetches documents, several at once.
async fn fetch(
    client: &ClusterClient,
    wanted: BTreeMap<String, String>,
) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut requests = JoinSet::new();
    for (api_version, url) in wanted {
        let client = client.clone();
        requests.spawn(async move {
            let bytes = fetch_document(&client, &api_version, &url).await;
            (api_version, bytes)
        });
    }
    let mut documents = BTreeMap::new();
    while let Some(done) = requests.join_next().await {
        let (api_version, bytes) = done.context("a request ended early")?;
        documents.insert(api_version, bytes?);
    }
    Ok(documents)
}

/// Fetches one document. Its URL has its hash, and an API server redirects to another one if the document has changed since the index
/// was made, for example because a CRD was created. Without the hash, it answers with the current document.
async fn fetch_document(client: &ClusterClient, api_version: &str, url: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = client.fetch(url).await;
    if let (Err(_), Some((path, _))) = (&bytes, url.split_once('?')) {
        bytes = client.fetch(path).await;
    }
    Ok(bytes.with_context(|| format!("cannot read the schemas of `{api_version}`"))?.to_vec())
}

/// The schemas of the cluster of a context.
///
/// # Errors
/// The cluster does not answer, or an answer is no schema.
async fn of_cluster(context: &str) -> anyhow::Result<ClusterSchemas> {
    let client = client(context).await?;
    let (kubernetes, paths) = index(&client).await?;
    let schemas = LiveSchemas::new();
    for (api_version, bytes) in fetch(&client, paths.clone()).await? {
        let source = paths.get(&api_version).map(String::as_str).unwrap_or_default();
        let inserted = schemas.insert(&api_version, source, &bytes);
        inserted.with_context(|| format!("cannot read the schemas of `{api_version}`"))?;
    }
    Ok(ClusterSchemas { schemas, kubernetes })
}

/// As [`of_cluster`], wherever it is called: on a thread of its own.
///
/// # Errors
/// As [`of_cluster`].
pub(crate) fn fetch_from(context: &str) -> anyhow::Result<ClusterSchemas> {
    let fetched = std::thread::scope(|scope| scope.spawn(|| block_on(of_cluster(context))).join());
    fetched.map_err(|_| anyhow::anyhow!("fetching the schemas ended with a panic: this is a bug of kross"))?
}

/// The result of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pulled {
    /// Documents that were written.
    pub(crate) written: usize,
    /// Documents that were there already.
    pub(crate) kept: usize,
    /// Documents that the cluster does not serve any more.
    pub(crate) removed: usize,
}

/// Writes the schemas of a cluster to a folder. Documents that did not change are not fetched again.
///
/// # Errors
/// The cluster does not answer, or a file cannot be written.
pub(crate) async fn pull(context: &str, folder: &Path) -> anyhow::Result<(StoredIndex, Pulled)> {
    let before = read_index(folder).ok().map(|index| index.documents).unwrap_or_default();
    if before.is_empty() && fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("{} has other files; name a new or an empty folder", folder.display());
    }
    let client = client(context).await?;
    let (kubernetes, paths) = index(&client).await?;
    let stored: BTreeMap<String, StoredDocument> = paths
        .into_iter()
        .map(|(api_version, source)| {
            let file = format!("{}.json", api_version.replace('/', "_"));
            (api_version, StoredDocument { file, source })
        })
        .collect();
    let is_new = |(api_version, document): &(&String, &StoredDocument)| {
        before.get(*api_version) != Some(*document) || !folder.join(&document.file).is_file()
    };
    let wanted: BTreeMap<String, String> = stored
        .iter()
        .filter(is_new)
        .map(|(api_version, document)| (api_version.clone(), document.source.clone()))
        .collect();
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let written = wanted.len();
    for (api_version, bytes) in fetch(&client, wanted).await? {
        let Some(document) = stored.get(&api_version) else { continue };
        LiveSchemas::new()
            .insert(&api_version, &document.source, &bytes)
            .with_context(|| format!("cannot read the schemas of `{api_version}`"))?;
        let path = folder.join(&document.file);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut removed = 0;
    for (_, document) in before.iter().filter(|(api_version, _)| !stored.contains_key(*api_version)) {
        removed += usize::from(fs::remove_file(folder.join(&document.file)).is_ok());
    }
    let kept = stored.len() - written;
    let index =
        StoredIndex { format: FORMAT.to_owned(), context: context.to_owned(), kubernetes, documents: stored };
    let path = folder.join(INDEX_FILE);
    fs::write(&path, serde_json::to_string_pretty(&index)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok((index, Pulled { written, kept, removed }))
}

fn read_index(folder: &Path) -> anyhow::Result<StoredIndex> {
    let path = folder.join(INDEX_FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let index: StoredIndex = serde_json::from_str(&text).with_context(|| {
        format!("{} is not the index of a folder that `kross schemas pull` wrote", path.display())
    })?;
    if index.format != FORMAT {
        bail!("{} has the format `{}`; run `kross schemas pull` again", path.display(), index.format);
    }
    Ok(index)
}

/// Reads the schemas that [`pull`] wrote.
///
/// # Errors
/// A file cannot be read, or is no schema.
pub(crate) fn read(folder: &Path) -> anyhow::Result<ClusterSchemas> {
    let index = read_index(folder)?;
    let schemas = LiveSchemas::new();
    for (api_version, document) in &index.documents {
        // The name of a file, and nothing that leads out of the folder.
        let file = document.file.trim_end_matches(".json").replace('_', "/");
        if !is_plain(&file) {
            bail!("{} names the file `{}`; run `kross schemas pull` again", folder.display(), document.file);
        }
        let path = folder.join(&document.file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        schemas
            .insert(api_version, &document.source, &bytes)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(ClusterSchemas { schemas, kubernetes: index.kubernetes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_and_versions_become_files() {
        for plain in ["v1", "apps/v1", "gateway.networking.k8s.io/v1beta1"] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in ["", "../v1", "a/b/c", "apps/../x", "Apps/v1", "/v1"] {
            assert!(!is_plain(other) || !other.contains(".."), "{other}");
        }
        assert!(!is_plain("") && !is_plain("../v1") && !is_plain("a/b/c") && !is_plain("/v1"));
    }
}
