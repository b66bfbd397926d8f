//! Runs one test: simulates its steps with the planner of the controller, and checks the expectations of each.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kross_api::yaml::Document;
use kross_diagnostics::{Code, Diagnostic, Place, Problem, Span};
use kross_plan::Settings;
use kross_plan::simulate::{Location, Simulator, admitted, is_named};

use super::check::{check, unmet};
use super::expectation::Expected;
use super::fixture::{Step, Test};
use super::situation::{Situation, Unmet};
use super::snapshot;
use super::suite::{Compiled, Suite, below};
use crate::commands::render::validation_errors;

/// The time at which every test begins.
const START: i64 = 1_893_456_000;

/// The result of a test.
#[derive(Debug)]
pub(super) struct TestResult {
    pub(super) name: String,
    /// The place of the test in the fixture.
    pub(super) span: Span,
    pub(super) failures: Vec<Failure>,
    pub(super) duration: Duration,
    /// The snapshots that were written.
    pub(super) written: Vec<PathBuf>,
}

/// An expectation that was not met.
#[derive(Debug)]
pub(super) struct Failure {
    /// The step, as people know it.
    pub(super) step: String,
    pub(super) diagnostic: Diagnostic,
}

/// Runs a test. With `update`, snapshots are written instead of compared.
pub(super) fn run(test: &Test, suite: &Suite, fixture: &Document, update: bool) -> TestResult {
    let begin = Instant::now();
    let mut result = TestResult {
        name: test.name.clone(),
        span: fixture.span_of(&test.instance.path),
        failures: Vec::new(),
        duration: Duration::ZERO,
        written: Vec::new(),
    };
    if let Some((file, compiled)) = suite.compiled(None, test.kind()) {
        let now = Timestamp::from_second(START).unwrap_or(Timestamp::UNIX_EPOCH);
        let settings = Settings { branches: Some(compiled.branches.clone()), ..Settings::default() };
        let stored = admitted(&compiled.graph, &test.instance.value);
        let simulator = Simulator::new(stored, &settings, now);
        let schemas = &file.schemas;
        let mut run = Run { test, suite, fixture, simulator, compiled, schemas, update, result: &mut result };
        run.steps();
    }
    result.duration = begin.elapsed();
    result
}

struct Run<'r> {
    test: &'r Test,
    suite: &'r Suite,
    fixture: &'r Document,
    simulator: Simulator,
    compiled: &'r Compiled,
    schemas: &'r crate::input::Schemas,
    update: bool,
    result: &'r mut TestResult,
}

impl Run<'_> {
    fn steps(&mut self) {
        let test = self.test;
        for (at, step) in test.steps.iter().enumerate() {
            let title = match &step.name {
                Some(name) => format!("step {}: {name}", at + 1),
                None => format!("step {}", at + 1),
            };
            if self.simulator.is_deleted() {
                let problem = step.at.problem("the instance was deleted in an earlier step");
                self.fail(&title, &Unmet::new(problem.help("remove the step")));
                return;
            }
            self.step(at, step, &title);
        }
        self.check_cluster_names();
    }

    fn step(&mut self, at: usize, step: &Step, title: &str) {
        if let Some(after) = step.after {
            let by = SignedDuration::try_from(after).unwrap_or(SignedDuration::ZERO);
            self.simulator.advance(&self.compiled.graph, by);
        }
        self.change(step, title);
        let reconcile = self.simulator.reconcile(&self.compiled.graph);
        for id in self.simulator.take_unused_statuses() {
            let given = step.status.iter().find(|(known, _)| **known == *id);
            if let Some((_, at)) = given {
                let message = format!("`{id}` has no object whose status could be set");
                let node = reconcile.plan.node(&id).and_then(|node| node.progress.message());
                let mut unused = unmet(at, message);
                if let Some(message) = node {
                    unused.problem = unused.problem.note(format!("`{id}`: {message}"));
                }
                self.fail(title, &unused);
            }
        }
        let actions = self.simulator.take_actions();
        let situation = Situation {
            graph: &self.compiled.graph,
            definition: &self.compiled.document,
            simulator: &self.simulator,
            reconcile: &reconcile,
            actions: &actions,
        };
        let mut wrong = check(&step.expect, &situation);
        for expectation in &step.expect.0 {
            if matches!(expectation.kind, Expected::Snapshot) {
                let name = snapshot::Name { fixture: &self.suite.file, test: &self.test.name, step: at + 1 };
                match snapshot::check(&name, &expectation.at, &situation, self.update) {
                    Ok(written) => self.result.written.extend(written),
                    Err(unmet) => wrong.push(*unmet),
                }
            }
        }
        wrong.into_iter().for_each(|unmet| self.fail(title, &unmet));
    }

    /// Changes what the step changes, before the controller reconciles.
    fn change(&mut self, step: &Step, title: &str) {
        if let Some(named) = &step.definition
            && let Some((file, compiled)) = self.suite.compiled(named.value.as_str(), self.test.kind())
        {
            (self.compiled, self.schemas) = (compiled, &file.schemas);
        }
        let graph = &self.compiled.graph;
        for (name, connection, _) in &step.clusters {
            self.simulator.set_connection(name, connection.clone());
        }
        for (location, object) in &step.objects {
            self.simulator.add_object(location, &object.value);
        }
        let mut wrong = Vec::new();
        for (location, object) in &step.remove {
            if !self.simulator.delete_object(location, &object.value) {
                let problem = object.problem("there is no such object to delete");
                wrong.push(Unmet::new(problem));
            }
        }
        for (id, refusal, _) in &step.refuse {
            self.simulator.refuse(id, refusal.clone());
        }
        for (id, status) in &step.status {
            self.simulator.set_status(id, status.value.clone());
        }
        if let Some(patch) = &step.instance {
            self.simulator.edit(graph, &patch.value);
            let found = validation_errors(graph, self.simulator.instance(), self.schemas);
            wrong.extend(found.into_iter().map(|problem| Unmet::new(below(problem, patch))));
        }
        if step.delete {
            self.simulator.request_deletion();
        }
        wrong.into_iter().for_each(|unmet| self.fail(title, &unmet));
    }

    /// Reports names of clusters that the instance never used: they are probably misspelled.
    fn check_cluster_names(&mut self) {
        let known: BTreeSet<String> =
            self.simulator.clusters().map(|cluster| cluster.display.clone()).collect();
        let mut wrong = Vec::new();
        for step in &self.test.steps {
            let given = step.clusters.iter().map(|(name, _, at)| (name.as_str(), at));
            let placed = step.objects.iter().filter_map(|(location, at)| match location {
                Location::Cluster(name) => Some((name.as_str(), at)),
                Location::Local | Location::Anywhere => None,
            });
            for (name, at) in given.chain(placed) {
                if self.simulator.clusters().any(|cluster| is_named(cluster, name)) {
                    continue;
                }
                let place = Place::value(&at.path);
                let message = format!("the instance uses no cluster `{name}`");
                let problem = Problem::new(Code::FixtureReference, place, message);
                let names: Vec<&String> = known.iter().collect();
                wrong.push(Unmet::new(match names.is_empty() {
                    true => problem.note("it uses no other cluster than its own"),
                    false => problem.help(format!("it uses {}", super::fields::quoted(&names))),
                }));
            }
        }
        wrong.into_iter().for_each(|unmet| self.fail("names of clusters", &unmet));
    }

    fn fail(&mut self, step: &str, unmet: &Unmet) {
        let diagnostic = unmet.diagnostic(self.fixture, &self.compiled.document);
        self.result.failures.push(Failure { step: step.to_owned(), diagnostic });
    }
}
