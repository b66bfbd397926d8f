//! Checks the label selector of an external reference: Kubernetes' fields with valid literals, or one expression that
//! returns a selector.

use kross_api::SelectorRequirement;
use kross_diagnostics::{Code, Path, Place, Problem};
use kross_schema::openapi::{Kind, Schema};
use kross_schema::{SchemaView, check_template};
use kross_value::Value;

use super::Compiler;
use super::context::Context;
use crate::template::Template;

impl Compiler<'_> {
    pub(super) fn label_selector(&mut self, selector: &Value, path: &Path, context: &Context) -> Template {
        let view = SchemaView::of("LabelSelector", schema());
        check_template(selector, &view, path, &mut |found| found.text.contains("${"), &mut self.problems);
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flat_map(|labels| labels.iter()) {
            if let Some(value) = value.as_str().filter(|value| !value.contains("${")) {
                let requirement = SelectorRequirement {
                    key: key.as_str().to_owned(),
                    operator: "In".to_owned(),
                    values: vec![value.to_owned()].into(),
                };
                self.check_requirement(&requirement, &path.key("matchLabels").key(key.as_str()));
            }
        }
        let requirements = selector.get("matchExpressions").and_then(Value::as_list).unwrap_or_default();
        for (at, requirement) in requirements.iter().enumerate() {
            if requirement.to_string().contains("${") {
                continue;
            }
            let read = serde_json::to_value(requirement).and_then(serde_json::from_value);
            if let Ok(requirement) = read {
                self.check_requirement(&requirement, &path.key("matchExpressions").index(at));
            }
        }
        self.fields(selector, Some(&view), path, context)
    }

    fn check_requirement(&mut self, requirement: &SelectorRequirement, path: &Path) {
        if let Some(mistake) = requirement.mistake() {
            self.report(Problem::new(Code::ValueNotAllowed, Place::value(path), mistake));
        }
    }
}

/// The schema of a selector. Both fields are optional.
fn schema() -> Schema {
    let text = || Schema::of(Kind::String);
    let requirement =
        Schema::object([("key", text()), ("operator", text()), ("values", Schema::array(text()))]);
    Schema::object([("matchLabels", Schema::map(text())), ("matchExpressions", Schema::array(requirement))])
}
