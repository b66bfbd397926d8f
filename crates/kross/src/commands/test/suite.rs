//! Loads a fixture with its definitions: reads and compiles them once for all tests of the file.

use std::path::{Component, Path as FilePath, PathBuf};

use kross_api::yaml::Document;
use kross_diagnostics::{Code, Diagnostics, Place, Problem, Sources, suggest};
use kross_graph::{Graph, Options, is_definition, validate};
use kross_plan::BranchRecord;
use kross_plan::simulate::admitted;
use kross_value::Value;

use super::expectation::{Expected, Named};
use super::fields::{Located, Problems, quoted};
use super::fixture::{Fixture, Test};
use crate::commands::render::validation_errors;
use crate::input::{GivenSchemas, Input, Schemas};

/// What the names of fixtures end with, before the extension.
pub(super) const SUFFIX: &str = "_test";

/// A fixture that was read, with its definitions.
#[derive(Debug)]
pub(super) struct Suite {
    pub(super) file: PathBuf,
    pub(super) sources: Sources,
    /// The mistakes in the fixture and in its definitions.
    pub(super) diagnostics: Diagnostics,
    /// The fixture, if it could be read.
    pub(super) fixture: Option<(Document, Fixture)>,
    pub(super) definitions: Vec<DefinitionFile>,
}

/// A file with definitions.
#[derive(Debug)]
pub(super) struct DefinitionFile {
    /// As the fixture names it; none for the file that a fixture is for.
    named: Option<String>,
    pub(super) schemas: Schemas,
    pub(super) compiled: Vec<Compiled>,
}

/// A definition that was compiled.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) graph: Graph,
    pub(super) document: Document,
    pub(super) branches: BranchRecord,
}

impl Suite {
    /// Reads a fixture. Mistakes in it and in its definitions are diagnostics.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn load(file: &FilePath, given: &GivenSchemas, options: &Options) -> anyhow::Result<Self> {
        let mut input = Input::default();
        let documents = input.read(&[file.to_owned()])?;
        let mut problems = Problems::new();
        let mut suite = Self {
            file: file.to_owned(),
            sources: Sources::new(),
            diagnostics: Diagnostics::new(),
            fixture: None,
            definitions: Vec::new(),
        };
        if let [document] = documents.as_slice() {
            let fixture = Fixture::read(document.value(), &mut problems);
            if let Some(fixture) = fixture {
                suite.load_definitions(&fixture, (&mut input, given, options), &mut problems);
                if !input.diagnostics.has_errors() {
                    suite.check_names(&fixture, &mut problems);
                }
                suite.fixture = Some((document.clone(), fixture));
            }
            input.diagnostics.extend(problems.iter().map(|problem| problem.diagnostic(Some(document))));
        } else if !input.diagnostics.has_errors() {
            let message =
                format!("{} has {} documents, and a fixture is one", file.display(), documents.len());
            let problem = Problem::new(Code::InvalidFixture, Place::default(), message);
            let document = documents.get(1).map(|document| document as &dyn kross_diagnostics::Locate);
            input.diagnostics.push(problem.diagnostic(document));
        }
        suite.sources = input.sources;
        suite.diagnostics = input.diagnostics;
        suite.diagnostics.sort();
        Ok(suite)
    }

    fn load_definitions(
        &mut self,
        fixture: &Fixture,
        (input, given, options): (&mut Input, &GivenSchemas, &Options),
        problems: &mut Problems,
    ) {
        let own = match &fixture.definition {
            Some(named) => Ok(self.beside(named.value.as_str().unwrap_or_default())),
            None => self.default_definition(),
        };
        match own {
            Ok(path) => {
                let at = fixture.definition.as_ref();
                self.load_file(None, &path, (&mut *input, given, options), at, problems);
            }
            Err(help) => {
                let place = Place::default();
                let message = "there is no definition for the fixture";
                problems.push(Problem::new(Code::FixtureReference, place, message).help(help));
            }
        }
        for step in fixture.tests.iter().flat_map(|test| &test.steps) {
            let Some(located) = &step.definition else { continue };
            let named = located.value.as_str().unwrap_or_default();
            if self.definitions.iter().any(|file| file.named.as_deref() == Some(named)) {
                continue;
            }
            let path = self.beside(named);
            self.load_file(
                Some(named.to_owned()),
                &path,
                (&mut *input, given, options),
                Some(located),
                problems,
            );
        }
    }

    fn beside(&self, named: &str) -> PathBuf {
        let mut path = self.file.parent().unwrap_or_else(|| FilePath::new("")).to_owned();
        for part in FilePath::new(named).components() {
            match part {
                Component::ParentDir if path.file_name().is_some() => {
                    path.pop();
                }
                Component::CurDir => {}
                other => path.push(other),
            }
        }
        path
    }

    /// The file with the name of the fixture, without the suffix, in its folder or in the one above.
    fn default_definition(&self) -> Result<PathBuf, String> {
        let stem = self.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let stem = stem.strip_suffix(SUFFIX).unwrap_or(stem);
        for folder in ["", ".."] {
            for extension in ["yaml", "yml"] {
                let path = self.beside(folder).join(format!("{stem}.{extension}"));
                if path.is_file() {
                    return Ok(path);
                }
            }
        }
        Err(format!("add `definition`, its path, or name the definition `{stem}.yaml`"))
    }

    fn load_file(
        &mut self,
        named: Option<String>,
        path: &FilePath,
        (input, given, options): (&mut Input, &GivenSchemas, &Options),
        at: Option<&Located>,
        problems: &mut Problems,
    ) {
        let documents = match input.read(&[path.to_owned()]) {
            Ok(documents) => documents,
            Err(error) => {
                let place = at.map_or_else(Place::default, |at| Place::value(&at.path));
                let message = format!("the definition cannot be read: {error:#}");
                problems.push(Problem::new(Code::FixtureReference, place, message));
                return;
            }
        };
        let schemas = given.with(&documents, &mut input.diagnostics);
        let mut compiled = Vec::new();
        let mut count = 0;
        for document in documents.iter().filter(|document| is_definition(document)) {
            count += 1;
            let validation = validate(document, &schemas, options);
            input.diagnostics.extend(validation.diagnostics);
            if let Some(graph) = validation.graph {
                let graph = schemas.with_known_kinds(graph);
                compiled.push(Compiled {
                    graph,
                    document: document.clone(),
                    branches: BranchRecord::default(),
                });
            }
        }
        if count == 0 {
            let place = at.map_or_else(Place::default, |at| Place::value(&at.path));
            let message = format!("{} has no ResourceGraphDefinition", path.display());
            problems.push(Problem::new(Code::FixtureReference, place, message));
        }
        self.definitions.push(DefinitionFile { named, schemas, compiled });
    }

    /// The definition of this file whose instances have this kind.
    pub(super) fn compiled(&self, named: Option<&str>, kind: &str) -> Option<(&DefinitionFile, &Compiled)> {
        let file = self.definitions.iter().find(|file| file.named.as_deref() == named)?;
        let compiled = file.compiled.iter().find(|compiled| *compiled.graph.instance.kind == *kind)?;
        Some((file, compiled))
    }

    /// Reports kinds that no definition serves, instances that an API server would reject, and ids that no definition has.
    fn check_names(&self, fixture: &Fixture, problems: &mut Problems) {
        for test in &fixture.tests {
            let kind = test.kind();
            let Some((file, compiled)) = self.compiled(None, kind) else {
                let kinds: Vec<&str> = self
                    .definitions
                    .iter()
                    .flat_map(|file| &file.compiled)
                    .map(|compiled| compiled.graph.instance.kind.as_str())
                    .collect();
                let place = Place::value(&test.instance.path.key("kind"));
                let message = format!("no definition of the fixture serves the kind `{kind}`");
                let problem = Problem::new(Code::FixtureReference, place, message);
                problems.push(match suggest(kind, kinds.iter().copied()) {
                    Some(meant) => problem.did_you_mean(Some(meant)),
                    None => problem.help(format!("the definitions serve {}", quoted(&kinds))),
                });
                continue;
            };
            let stored = admitted(&compiled.graph, &test.instance.value);
            let found = validation_errors(&compiled.graph, &stored, &file.schemas);
            problems.extend(found.into_iter().map(|problem| below(problem, &test.instance)));
            self.check_ids(test, problems);
        }
    }

    fn check_ids(&self, test: &Test, problems: &mut Problems) {
        let of_kind = self.definitions.iter().flat_map(|file| &file.compiled);
        let of_kind = of_kind.filter(|compiled| *compiled.graph.instance.kind == *test.kind());
        let mut ids: Vec<&str> =
            of_kind.flat_map(|compiled| &compiled.graph.nodes).map(|node| node.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut check = |id: &str, place: Place| {
            if ids.contains(&id) {
                return;
            }
            let problem = Problem::new(Code::FixtureReference, place, format!("there is no resource `{id}`"));
            problems.push(match suggest(id, ids.iter().copied()) {
                Some(meant) => problem.did_you_mean(Some(meant)),
                None => problem.help(format!("the resources are {}", quoted(&ids))),
            });
        };
        for step in &test.steps {
            let keys = step.status.iter().map(|(id, at)| (id, at));
            let keys = keys.chain(step.refuse.iter().map(|(id, _, at)| (id, at)));
            keys.for_each(|(id, at)| check(id, Place::key(&at.path)));
            for expectation in &step.expect.0 {
                match &expectation.kind {
                    Expected::Resources(entries)
                    | Expected::Failures(entries)
                    | Expected::Waiting(entries) => {
                        entries.iter().for_each(|(id, at)| check(id, Place::key(&at.path)));
                    }
                    Expected::Actions { names, .. } => {
                        names.iter().for_each(|it| check_named(it, &mut check));
                    }
                    Expected::Order { groups, .. } => {
                        groups.iter().flatten().for_each(|it| check_named(it, &mut check));
                    }
                    _ => {}
                }
            }
        }
    }
}

fn check_named(named: &Named, check: &mut impl FnMut(&str, Place)) {
    if !named.what.contains('/') {
        check(&named.what, Place::value(&named.at.path));
    }
}

impl Test {
    /// The kind of its instance.
    pub(super) fn kind(&self) -> &str {
        self.instance.value.get("kind").and_then(Value::as_str).unwrap_or_default()
    }
}

/// A problem of a value, as a problem of the fixture that has it.
pub(super) fn below(mut problem: Problem, at: &Located) -> Problem {
    problem.place.path = problem.place.path.under(&at.path);
    for (place, _) in &mut problem.also {
        place.path = place.path.under(&at.path);
    }
    problem
}
