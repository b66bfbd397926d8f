//! Holds a graph to a cluster that only an instance resolved: to its schemas and to what we may do there. Each is worked out
//! once for a revision and the schemas of a cluster, whoever asks, and nobody waits for it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kross_api::{FailureReason, ResourceGraphDefinitionSpec};
use kross_cluster::{ClusterClient, ObjectKey};
use kross_diagnostics::render;
use kross_value::Text;
use parking_lot::Mutex;

use crate::context::Context;
use crate::definition::Resolvers;
use crate::graphs::Revision;
use crate::key::InstanceKey;
use crate::preflight::{Findings, Needs, Place, PreflightResult, Requester};

/// The longest message. Longer ones are summed up.
const LONGEST_MESSAGE: usize = 1024;
/// So many results are kept.
const MOST_RESULTS: usize = 10_000;

/// What a cluster says to the part of a graph that goes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// That is being worked out; the instance is woken.
    Pending,
    /// It fits.
    Passed,
    /// It does not. The instance is woken when that changes.
    Failed {
        /// The class of what is wrong.
        reason: FailureReason,
        /// What is wrong.
        message: Text,
    },
}

/// A cluster that an instance resolved, and what goes there.
pub(crate) struct AnalysisRequest<'a> {
    pub(crate) instance: &'a ObjectKey,
    pub(crate) revision: &'a Revision,
    /// What messages call the cluster.
    pub(crate) display: &'a str,
    pub(crate) client: &'a ClusterClient,
    /// The places in `spec.resources` of what goes there, and whether each is watched; else it is polled.
    pub(crate) resources: &'a [(usize, bool)],
}

/// Results so far.
#[derive(Debug, Default)]
pub(crate) struct Analyses(Arc<Mutex<HashMap<ResultKey, Outcome>>>);

/// A revision, its local schemas, the schemas of the cluster, and what goes there.
type ResultKey = (Text, Text, Text, Vec<usize>);

#[derive(Debug)]
enum Outcome {
    /// It is being compiled, and these wait.
    Running(HashSet<ObjectKey>),
    /// It was compiled: what is wrong, if anything is.
    Done(Option<Text>),
}

impl Analyses {
    /// Holds a part of a graph to a cluster. Returns at once.
    pub(crate) fn check(&self, context: &Context, request: &AnalysisRequest<'_>) -> Check {
        let AnalysisRequest { instance, revision, display, client, resources } = request;
        let home = instance.namespace.clone().map_or(Place::Anywhere, Place::Namespace);
        let needs = Arc::new(Needs::of(&revision.spec, resources.iter().copied(), &home));
        let requester = Requester::Instance((*instance).clone());
        let findings = match context.preflights.request(client, &needs, requester) {
            PreflightResult::Known(findings) => findings,
            // A cluster that does not tell is found out about soon enough: the first request says what is wrong.
            PreflightResult::Failed(_) => return Check::Passed,
            PreflightResult::Pending => return Check::Pending,
        };
        match self.schemas(context, request, &findings) {
            Check::Passed => {}
            other => return other,
        }
        match findings.missing_permissions(display) {
            Some(missing) => Check::Failed { reason: FailureReason::Forbidden, message: missing.into() },
            None => Check::Passed,
        }
    }

    fn schemas(&self, context: &Context, request: &AnalysisRequest<'_>, findings: &Findings) -> Check {
        let AnalysisRequest { instance, revision, display, resources, .. } = request;
        let mut places: Vec<usize> = resources.iter().map(|(index, _)| *index).collect();
        places.sort_unstable();
        places.dedup();
        let key = (
            revision.graph.hash.clone(),
            revision.fingerprint.clone(),
            findings.fingerprint().clone(),
            places.clone(),
        );
        let mut results = self.0.lock();
        match results.get_mut(&key) {
            Some(Outcome::Done(None)) => return Check::Passed,
            Some(Outcome::Done(Some(problem))) => {
                let message = format!("cluster `{display}`: {problem}").into();
                return Check::Failed { reason: FailureReason::Invalid, message };
            }
            Some(Outcome::Running(waiting)) => {
                waiting.insert((*instance).clone());
                return Check::Pending;
            }
            None => {}
        }
        if results.len() > MOST_RESULTS {
            results.retain(|_, outcome| matches!(outcome, Outcome::Running(_)));
        }
        results.insert(key.clone(), Outcome::Running(HashSet::from([(*instance).clone()])));
        drop(results);
        let resolvers = Resolvers {
            local: Arc::clone(&context.schemas),
            fixed: HashMap::new(),
            resolved: places.iter().map(|place| (*place, Arc::clone(&findings.schemas))).collect(),
        };
        let (spec, name) = (Arc::clone(&revision.spec), revision.graph.name.to_string());
        let options = context.settings.compile.clone();
        let (results, queue) = (Arc::clone(&self.0), context.instance_queue.clone());
        tokio::task::spawn_blocking(move || {
            let problem = compile(&name, &spec, &resolvers, &options);
            let outcome = results.lock().insert(key, Outcome::Done(problem));
            if let Some(Outcome::Running(waiting)) = outcome {
                waiting.into_iter().for_each(|instance| queue.add(&InstanceKey(instance)));
            }
        });
        Check::Pending
    }
}

fn compile(
    name: &str,
    spec: &ResourceGraphDefinitionSpec,
    resolvers: &Resolvers,
    options: &kross_graph::Options,
) -> Option<Text> {
    let definition = kross_graph::Definition { name, spec, document: None };
    let diagnostics = kross_graph::compile(definition, resolvers, options).err()?;
    Some(render::condition(&diagnostics, LONGEST_MESSAGE).into())
}
