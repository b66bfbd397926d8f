//! Values of expressions for an instance in the workspace: the graph is simulated for it, as `kross render` does.

use jiff::Timestamp;
use kross_api::yaml::Document;
use kross_cel::types::Type;
use kross_cel::value::Value as CelValue;
use kross_cel::{Budget, Env, Program};
use kross_graph::{Graph, Options, ReportAs, validate};
use kross_plan::simulate::admitted;
use kross_plan::{Settings, Simulation, simulate};
use kross_value::{Text, Value};

use crate::workspace::Workspace;

/// Graphs with more resources are not simulated while somebody waits.
const MAX_NODES: usize = 200;

/// A graph that was simulated for an instance.
pub(crate) struct Bound {
    /// The name of the instance.
    pub(crate) instance: String,
    graph: Graph,
    stored: Value,
    simulation: Simulation,
}

impl Workspace {
    /// The definition, bound to the first instance of it in the workspace. None if it does not compile or has none.
    pub(crate) fn bound(&self, definition: &Document) -> Option<Bound> {
        let (_, _, instance) = self.instances_of(definition).next()?;
        // Findings do not matter here, unless there is no graph.
        let options = Options { deferred: ReportAs::Nothing, ..self.settings().options() };
        let graph = validate(definition, self.schemas(), &options).graph?;
        if graph.nodes.len() > MAX_NODES {
            return None;
        }
        let graph = self.schemas().with_known_kinds(graph);
        let stored = admitted(&graph, instance.value());
        let simulation = simulate(&graph, &stored, &[], &Settings::default(), Timestamp::UNIX_EPOCH);
        let name = stored.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or("instance").to_owned();
        Some(Bound { instance: name, graph, stored, simulation })
    }
}

impl Bound {
    /// The value of an expression, or why it has none.
    pub(crate) fn evaluate(&self, env: &Env, source: &str) -> Option<String> {
        let checked = env.compile(source).ok()?;
        let program = Program::new(&checked).ok()?;
        let result = program.evaluate_with(|name: &Text| self.variable(name), &mut Budget::default());
        match result {
            Ok(value) => Some(value.to_string()),
            Err(error) if error.fault.is_pending() => Some(format!("not known yet: {error}")),
            Err(error) => Some(error.to_string()),
        }
    }

    fn variable(&self, name: &Text) -> Option<CelValue> {
        if &**name == "schema" {
            return Some(CelValue::from_data(&self.stored, Some(&self.graph.schema_type)));
        }
        let (_, node) = self.graph.find(name)?;
        let objects: Vec<&Value> = self
            .simulation
            .applied
            .iter()
            .filter(|applied| applied.node == *name)
            .map(|applied| &applied.desired)
            .collect();
        if node.is_list() {
            let all = Value::list(objects.into_iter().cloned());
            return Some(CelValue::from_data(&all, Some(&Type::list(node.object_type.clone()))));
        }
        Some(CelValue::from_data(objects.first()?, Some(&node.object_type)))
    }
}
