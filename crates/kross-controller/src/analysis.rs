//! Analyzes whether a graph fits a cluster that only an instance resolved: its schemas and our permissions there. A graph is
//! compiled once for each revision and each set of schemas, whichever instance requests it first, and no reconcile waits for
//! it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kross_api::{FailureReason, ResourceGraphDefinitionSpec};
use kross_cluster::{ClusterClient, ObjectKey, Task, WorkQueue, catch};
use kross_diagnostics::render;
use kross_value::Text;
use parking_lot::Mutex;

use crate::context::Context;
use crate::definition::{Resolvers, deferred_warnings};
use crate::graphs::Revision;
use crate::key::InstanceKey;
use crate::preflight::{Findings, Needs, Place, PreflightResult, Requester};

/// The longest message of a failed check. Longer ones are summarized.
const MAX_MESSAGE: usize = 1536;
/// How many results are kept.
const MAX_RESULTS: usize = 10_000;

/// Whether the resources that are placed in a cluster fit there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// That is being analyzed; the instance is requeued.
    Pending,
    /// They fit.
    Passed,
    /// They do not. The instance is requeued when that changes.
    Failed {
        /// The class of the failure.
        reason: FailureReason,
        /// What is wrong.
        message: Text,
    },
}

/// A cluster that an instance resolved, and the resources that are placed there.
pub(crate) struct AnalysisRequest<'a> {
    pub(crate) instance: &'a ObjectKey,
    pub(crate) revision: &'a Revision,
    /// The name of the cluster in messages.
    pub(crate) display: &'a str,
    pub(crate) client: &'a ClusterClient,
    /// Indexes into `spec.resources`, and whether each resource is watched; else it is polled.
    pub(crate) resources: &'a [(usize, bool)],
}

/// The results of all analyses.
///
/// # Lock order
///
/// The lock is a leaf: it is not held while a graph is compiled, nor while instances are requeued.
#[derive(Debug, Default)]
pub(crate) struct Analyses(Arc<Mutex<HashMap<AnalysisKey, Analysis>>>);

/// The hash of a revision's graph, the fingerprints of the hub's and the cluster's schemas, and the resources that are
/// placed there.
type AnalysisKey = (Text, Text, Text, Vec<usize>);

#[derive(Debug)]
enum Analysis {
    /// The graph is being compiled. These instances are requeued afterwards.
    Running(HashSet<ObjectKey>),
    /// The graph was compiled: what is wrong, if anything is.
    Done(Option<Text>),
}

impl Analyses {
    /// Checks whether the resources that are placed in a cluster fit there. Returns at once.
    pub(crate) fn check(&self, context: &Context, request: &AnalysisRequest<'_>) -> Check {
        let AnalysisRequest { instance, revision, display, client, resources } = request;
        let home = instance.namespace.clone().map_or(Place::Anywhere, Place::Namespace);
        let needs = Arc::new(Needs::of(&revision.spec, resources.iter().copied(), &home));
        let requester = Requester::Instance((*instance).clone());
        let findings = match context.preflights.request(client, &needs, requester) {
            PreflightResult::Known(findings) => findings,
            // Without findings the first request to the cluster tells what is wrong.
            PreflightResult::Failed(_) => return Check::Passed,
            PreflightResult::Pending => return Check::Pending,
        };
        match self.check_schemas(context, request, &findings) {
            Check::Passed => {}
            other => return other,
        }
        match findings.missing_permissions(display) {
            Some(missing) => Check::Failed { reason: FailureReason::Forbidden, message: missing.into() },
            None => Check::Passed,
        }
    }

    fn check_schemas(&self, context: &Context, request: &AnalysisRequest<'_>, findings: &Findings) -> Check {
        let AnalysisRequest { instance, revision, display, resources, .. } = request;
        let mut indexes: Vec<usize> = resources.iter().map(|(index, _)| *index).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let key = (
            revision.graph.hash.clone(),
            revision.fingerprint.clone(),
            findings.fingerprint().clone(),
            indexes.clone(),
        );
        let mut results = self.0.lock();
        match results.get_mut(&key) {
            Some(Analysis::Done(None)) => return Check::Passed,
            Some(Analysis::Done(Some(problem))) => {
                let message = format!("cluster `{display}`: {problem}").into();
                return Check::Failed { reason: FailureReason::Invalid, message };
            }
            Some(Analysis::Running(waiting)) => {
                waiting.insert((*instance).clone());
                return Check::Pending;
            }
            None => {}
        }
        if results.len() > MAX_RESULTS {
            results.retain(|_, analysis| matches!(analysis, Analysis::Running(_)));
        }
        results.insert(key.clone(), Analysis::Running(HashSet::from([(*instance).clone()])));
        drop(results);
        let resolvers = Resolvers {
            local: Arc::clone(&context.schemas),
            fixed: HashMap::new(),
            resolved: indexes.iter().map(|index| (*index, Arc::clone(&findings.schemas))).collect(),
        };
        self.start(context, key, revision, resolvers);
        Check::Pending
    }

    /// Compiles a graph in the background, stores the result, and requeues the instances that wait for it.
    fn start(&self, context: &Context, key: AnalysisKey, revision: &Revision, resolvers: Resolvers) {
        let (spec, name) = (Arc::clone(&revision.spec), revision.graph.name.to_string());
        let options = context.settings.compile.clone();
        let compile = move || compile(&name, &spec, &resolvers, &options);
        self.spawn(key, context.instance_queue.clone(), compile);
    }

    fn spawn(
        &self,
        key: AnalysisKey,
        queue: WorkQueue<InstanceKey>,
        compile: impl FnOnce() -> Option<Text> + Send + 'static,
    ) {
        let results = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || {
            let problem = catch(Task::Compile, compile)
                .unwrap_or_else(|panicked| Some(format!("cannot compile the graph: {panicked}").into()));
            let before = results.lock().insert(key, Analysis::Done(problem));
            if let Some(Analysis::Running(waiting)) = before {
                waiting.into_iter().for_each(|instance| queue.add(&InstanceKey(instance)));
            }
        });
    }
}

fn compile(
    name: &str,
    spec: &ResourceGraphDefinitionSpec,
    resolvers: &Resolvers,
    options: &kross_graph::Options,
) -> Option<Text> {
    let definition = kross_graph::Definition { name, spec, document: None };
    let mut diagnostics = kross_graph::compile(definition, resolvers, options).err()?;
    // Resources that wait for the invalid ones are not analyzed before these are corrected, so their mistakes are reported
    // as far as the hub's schemas show them.
    diagnostics.extend(deferred_warnings(definition, resolvers, options, &diagnostics));
    Some(render::condition(&diagnostics, MAX_MESSAGE).into())
}

#[cfg(test)]
mod tests {
    use kross_cluster::Backoff;

    use super::*;

    #[tokio::test]
    async fn instances_that_wait_for_a_compiler_that_panics_are_requeued_with_an_error() {
        let (analyses, queue) = (Analyses::default(), WorkQueue::new(Backoff::default()));
        let key: AnalysisKey = ("graph".into(), "hub".into(), "eu".into(), vec![0]);
        let instance = ObjectKey {
            cluster: kross_cluster::ClusterId::local(),
            group: "kro.run".into(),
            kind: "Shop".into(),
            namespace: Some("default".into()),
            name: "x".into(),
        };
        let waiting = Analysis::Running(HashSet::from([instance.clone()]));
        analyses.0.lock().insert(key.clone(), waiting);
        analyses.spawn(key.clone(), queue.clone(), || panic!("injected"));
        assert_eq!(queue.next().await.unwrap().0, instance);
        let results = analyses.0.lock();
        let Some(Analysis::Done(Some(problem))) = results.get(&key) else { panic!("{results:?}") };
        assert!(problem.starts_with("cannot compile the graph: an internal error occurred"), "{problem}");
    }
}
