//! Turns paths from the command line into documents and schemas: files, folders, standard input; built-in kinds, CRDs, and
//! the kinds that definitions among the documents generate.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use kross_api::ResolvedCluster;
use kross_api::yaml::{self, Document};
use kross_diagnostics::{Diagnostics, Problem, Sources};
use kross_graph::{Graph, OfflineSchemas, ReportAs, Resolvers, generated_crd, is_crd, is_definition};
use kross_plan::simulate::is_named;
use kross_schema::{Bundle, CrdSchemas, Overlay, SchemaResolver};
use kross_value::Text;

use crate::commands::is_fixture;
use crate::schemas::{self, ClusterSchemas};

/// Where schemas come from. The same flags for every offline command.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct SchemaArguments {
    /// CustomResourceDefinitions to validate against: a file, a folder, or `-` for standard input
    #[arg(long, value_name = "PATH")]
    crds: Vec<PathBuf>,
    /// Kubernetes version whose built-in kinds to validate against (default: the latest included version)
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["from_cluster", "schemas"])]
    kubernetes: Option<String>,
    /// Schemas of a cluster, in a folder that `kross schemas pull` wrote; with the name of a remote cluster, for resources in it
    #[arg(long, value_name = "[CLUSTER=]DIR")]
    schemas: Vec<String>,
    /// Fetch the schemas from the cluster of a kubeconfig context (default: the current one); with the name of a remote cluster, for resources in it
    #[arg(long, value_name = "[CLUSTER=]CONTEXT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    from_cluster: Vec<String>,
}

/// How to report kinds without a schema. The same flag for every offline command.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct UnknownKinds {
    /// How to report kinds without a schema (default: error, or warn if the cluster depends on the instance)
    #[arg(long, value_name = "LEVEL", value_enum)]
    unknown_kinds: Option<Level>,
}

impl UnknownKinds {
    pub(crate) fn report_as(self) -> Option<ReportAs> {
        self.unknown_kinds.map(ReportAs::from)
    }
}

/// How a finding is reported.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Level {
    /// The definition is invalid
    Error,
    /// The definition is valid, and the finding is shown
    #[value(alias = "warning")]
    Warn,
    /// The finding is not shown
    #[value(alias = "off")]
    Ignore,
}

impl From<Level> for ReportAs {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::Error,
            Level::Warn => Self::Warning,
            Level::Ignore => Self::Nothing,
        }
    }
}

/// The documents that were read, and the diagnostics found while reading them.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// The source texts, for positions in diagnostics.
    pub(crate) sources: Sources,
    /// The documents, in the order of the paths.
    pub(crate) documents: Vec<Document>,
    /// Syntax errors in the texts.
    pub(crate) diagnostics: Diagnostics,
    /// The names of the sources without a document.
    pub(crate) empty: Vec<String>,
}

impl Input {
    /// Reads every path. A folder means every YAML and JSON file below it, `-` standard input.
    ///
    /// # Errors
    /// A path cannot be read.
    pub(crate) fn read(&mut self, paths: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
        let mut documents = Vec::new();
        for path in paths {
            if path.as_os_str() == "-" {
                let mut bytes = Vec::new();
                std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
                documents.extend(self.parse("<stdin>", &bytes));
                continue;
            }
            for file in files(path)? {
                let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
                documents.extend(self.parse(&file.to_string_lossy(), &bytes));
            }
        }
        Ok(documents)
    }

    /// Reads the documents that a command works on.
    ///
    /// # Errors
    /// A path cannot be read.
    pub(crate) fn documents(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut input = Self::default();
        input.documents = input.read(paths)?;
        Ok(input)
    }

    /// Adds the documents of a text that was not read from a file.
    pub(crate) fn add_text(&mut self, name: &str, text: &str) {
        let documents = self.parse(name, text.as_bytes());
        self.documents.extend(documents);
    }

    fn parse(&mut self, name: &str, bytes: &[u8]) -> Vec<Document> {
        let before = self.diagnostics.len();
        let limits = yaml::Limits::default();
        let documents = yaml::parse_bytes(&mut self.sources, name, bytes, &limits, &mut self.diagnostics);
        if documents.is_empty() && self.diagnostics.len() == before {
            self.empty.push(name.to_owned());
        }
        documents
    }

    /// The schemas to validate against. They include CRDs among the documents and the kinds that definitions generate, so
    /// that one definition can use another's kind.
    ///
    /// # Errors
    /// A path cannot be read, or the Kubernetes version is unknown.
    pub(crate) fn schemas(&mut self, arguments: &SchemaArguments) -> anyhow::Result<Schemas> {
        let given = self.given_schemas(arguments)?;
        Ok(given.with(&self.documents, &mut self.diagnostics))
    }

    /// The schemas that the flags name, without those of the documents.
    ///
    /// # Errors
    /// As [`Input::schemas`].
    pub(crate) fn given_schemas(&mut self, arguments: &SchemaArguments) -> anyhow::Result<GivenSchemas> {
        let SchemaArguments { crds, kubernetes, schemas, from_cluster } = arguments;
        let known = CrdSchemas::new();
        let given = self.read(crds)?;
        insert_crds(&known, &given, &mut self.diagnostics);
        let known: Arc<dyn SchemaResolver> = Arc::new(known);
        let mut clusters = Vec::new();
        for text in schemas {
            let (cluster, folder) = named(text);
            clusters.push((cluster, schemas::read(Path::new(folder))?));
        }
        for text in from_cluster {
            let (cluster, context) = named(text);
            clusters.push((cluster, schemas::fetch_from(context)?));
        }
        let (mut hub, mut remote) = (None, Vec::new());
        for (cluster, ClusterSchemas { schemas, kubernetes }) in clusters {
            let schemas: Arc<dyn SchemaResolver> = Arc::new(schemas);
            match cluster {
                Some(cluster) => {
                    let resolvers = vec![Arc::clone(&known), schemas];
                    remote.push((cluster.to_owned(), Overlay::new(resolvers)));
                }
                None if hub.is_some() => {
                    bail!("the schemas of the hub are named twice; name a remote cluster with `CLUSTER=`")
                }
                None => hub = Some((schemas, Text::from(kubernetes.trim_start_matches('v')))),
            }
        }
        let (builtin, version) = match hub {
            Some(hub) => hub,
            None => {
                let bundle = match kubernetes {
                    Some(version) => Bundle::of_version(version)?,
                    None => Bundle::latest(),
                };
                let version = Text::from(bundle.minor());
                let bundle: Arc<dyn SchemaResolver> = bundle;
                (bundle, version)
            }
        };
        Ok(GivenSchemas { resolvers: vec![known, builtin], remote, version })
    }
}

/// The name of a remote cluster before `=`, if there is one, and the rest.
fn named(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((cluster, rest)) => (Some(cluster), rest),
        None => (None, text),
    }
}

/// The schemas that flags name.
#[derive(Clone, Debug)]
pub(crate) struct GivenSchemas {
    resolvers: Vec<Arc<dyn SchemaResolver>>,
    /// The schemas of remote clusters, by the names of these.
    remote: Vec<(String, Overlay)>,
    /// The Kubernetes version of the built-in kinds.
    version: Text,
}

impl GivenSchemas {
    /// These schemas, those of CRDs among the documents, and the kinds that definitions among them generate.
    pub(crate) fn with(&self, documents: &[Document], diagnostics: &mut Diagnostics) -> Schemas {
        let known = CrdSchemas::new();
        for document in documents.iter().filter(|document| is_definition(document)) {
            if let Some(crd) = generated_crd(document) {
                // Compiling the definition reports an invalid schema.
                let _ = known.insert(&crd);
            }
        }
        insert_crds(&known, documents, diagnostics);
        let mut resolvers: Vec<Arc<dyn SchemaResolver>> = vec![Arc::new(known)];
        resolvers.extend(self.resolvers.iter().cloned());
        let known = OfflineSchemas::from_resolvers(resolvers, self.version.clone());
        Schemas { known, remote: self.remote.clone() }
    }
}

/// Adds the CRDs among the documents. Their mistakes become diagnostics.
fn insert_crds(known: &CrdSchemas, documents: &[Document], diagnostics: &mut Diagnostics) {
    for document in documents.iter().filter(|document| is_crd(document)) {
        if let Err(problems) = known.insert(document.value()) {
            diagnostics.extend(problems.iter().map(|problem: &Problem| problem.diagnostic(Some(document))));
        }
    }
}

/// The schemas of every cluster. Offline, one set serves for all of them that have none of their own.
#[derive(Debug)]
pub(crate) struct Schemas {
    known: OfflineSchemas,
    /// The schemas of remote clusters, by the names of these.
    remote: Vec<(String, Overlay)>,
}

impl Schemas {
    /// Fills in the kinds that the compiler could not resolve, because their cluster is known only at run time.
    pub(crate) fn with_known_kinds(&self, graph: Graph) -> Graph {
        self.known.with_known_kinds(graph)
    }
}

impl Resolvers for Schemas {
    fn local(&self) -> &dyn SchemaResolver {
        self.known.local()
    }

    fn remote(&self, cluster: &ResolvedCluster) -> Option<&dyn SchemaResolver> {
        let own = self.remote.iter().find(|(name, _)| is_named(cluster, name));
        Some(own.map_or_else(|| self.local(), |(_, schemas)| schemas))
    }

    fn assumption(&self) -> String {
        self.known.assumption()
    }

    fn missing_kind_help(&self) -> &'static str {
        self.known.missing_kind_help()
    }
}

/// The files below a path, sorted. Fixtures of tests are left out, unless one is the path itself.
pub(crate) fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
            let kind =
                entry.file_type().with_context(|| format!("cannot read {}", entry.path().display()))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if is_document(&entry.path()) && !is_fixture(&entry.path()) {
                found.push(entry.path());
            }
        }
    }
    if found.is_empty() {
        bail!("no YAML or JSON file in {}", path.display());
    }
    found.sort();
    Ok(found)
}

fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
}
