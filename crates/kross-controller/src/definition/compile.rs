//! Turns a spec into a graph, against the schemas of the cluster as they are now.

use std::sync::Arc;
use std::time::Instant;

use kross_api::ResourceGraphDefinitionSpec;
use kross_cluster::Selection;
use kross_diagnostics::{Code, render};
use kross_graph::{Graph, compile as compile_graph};
use kross_schema::GroupVersionKind;
use kross_value::Text;

use super::error::DefinitionError;
use crate::hub::Hub;
use crate::selector;

/// The longest message of a condition. Longer ones are summed up.
const LONGEST_MESSAGE: usize = 4096;

/// A graph, and what the schemas were that it was compiled against.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) graph: Arc<Graph>,
    pub(super) fingerprint: Text,
    /// Which objects of its kind are instances.
    pub(super) selection: Selection,
}

/// Compiles a spec. The schemas of the kinds that it names are fetched before.
///
/// # Errors
/// Mistakes in the spec ([`DefinitionError::Invalid`]), or schemas that cannot be fetched.
pub(super) async fn compile(
    hub: &Hub,
    name: &str,
    spec: &ResourceGraphDefinitionSpec,
    kinds: &[GroupVersionKind],
) -> Result<Compiled, DefinitionError> {
    let selection = selector::instances(spec)
        .map_err(|message| DefinitionError::Invalid { message, unknown_kinds: false })?;
    hub.schemas.prepare(kinds).await?;
    let fingerprint = hub.schemas.fingerprint(kinds);
    let started = Instant::now();
    let (name, spec) = (name.to_owned(), spec.clone());
    let (schemas, options) = (Arc::clone(&hub.schemas), hub.settings.compile.clone());
    // Large graphs take long enough to hold up others on the same thread.
    let compiled = tokio::task::spawn_blocking(move || {
        let definition = kross_graph::Definition { name: &name, spec: &spec, document: None };
        compile_graph(definition, &*schemas, &options)
    })
    .await;
    let compiled = match compiled {
        Ok(compiled) => compiled,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => return Err(DefinitionError::NotSynced { what: "graphs" }),
    };
    hub.metrics.built(started.elapsed(), compiled.is_ok());
    match compiled {
        Ok(graph) => Ok(Compiled { graph: Arc::new(graph), fingerprint, selection }),
        Err(diagnostics) => Err(DefinitionError::Invalid {
            message: render::condition(&diagnostics, LONGEST_MESSAGE),
            unknown_kinds: diagnostics.iter().any(|diagnostic| diagnostic.code == Code::UnknownKind),
        }),
    }
}
