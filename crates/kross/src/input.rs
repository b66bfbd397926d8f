//! Turns paths from the command line into documents and schemas: files, folders, standard input; built-in kinds, CRDs, and
//! the kinds that definitions among the documents generate.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kross_api::yaml::{self, Document};
use kross_diagnostics::{Diagnostics, Problem, Sources};
use kross_graph::{OfflineSchemas, generated_crd, is_crd, is_definition};
use kross_schema::{Bundle, CrdSchemas};

/// Where schemas come from. The same flags for every offline command.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct SchemaArguments {
    /// CustomResourceDefinitions to validate against: a file, a folder, or `-` for standard input
    #[arg(long, value_name = "PATH")]
    crds: Vec<PathBuf>,
    /// Kubernetes version whose built-in kinds to validate against (default: the latest included version)
    #[arg(long, value_name = "VERSION")]
    kubernetes: Option<String>,
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
    pub(crate) fn schemas(&mut self, arguments: &SchemaArguments) -> anyhow::Result<OfflineSchemas> {
        let SchemaArguments { crds, kubernetes } = arguments;
        let bundle = match kubernetes {
            Some(version) => Bundle::of_version(version)?,
            None => Bundle::latest(),
        };
        let known = CrdSchemas::new();
        for document in self.documents.iter().filter(|document| is_definition(document)) {
            if let Some(crd) = generated_crd(document) {
                // Compiling the definition reports an invalid schema.
                let _ = known.insert(&crd);
            }
        }
        let given = self.read(crds)?;
        let mut found = Vec::new();
        for document in given.iter().chain(&self.documents).filter(|document| is_crd(document)) {
            if let Err(problems) = known.insert(document.value()) {
                let located = |problem: &Problem| problem.diagnostic(Some(document));
                found.extend(problems.iter().map(located));
            }
        }
        self.diagnostics.extend(found);
        Ok(OfflineSchemas::new(known, bundle))
    }
}

/// The files below a path, sorted.
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
            } else if is_document(&entry.path()) {
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
