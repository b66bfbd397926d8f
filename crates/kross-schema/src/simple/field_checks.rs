//! Checks the markers of one field for conflicts for which the API server would reject the CRD.

use kross_diagnostics::{Code, suggest};

use crate::literal::check_complete;
use crate::openapi::{Additional, Kind, Schema};
use crate::view::SchemaView;
use kross_diagnostics::{Path, Place, Problem};

use super::marker_text::{Marker, MarkerName};
use super::rules;

/// Checks a field whose markers are individually valid.
pub(super) fn check(schema: &Schema, markers: &[Marker], path: &Path, problems: &mut Vec<Problem>) {
    let checking = Checking { schema, markers, path };
    checking.ranges(problems);
    checking.list(problems);
    checking.default(problems);
    rules::check(schema, markers, path, problems);
}

struct Checking<'a> {
    schema: &'a Schema,
    markers: &'a [Marker],
    path: &'a Path,
}

impl Checking<'_> {
    fn find(&self, name: MarkerName) -> Option<&Marker> {
        self.markers.iter().rfind(|marker| marker.name == name)
    }

    /// A problem at the first of these markers that the field itself has; other markers come from its type.
    fn problem(&self, names: &[MarkerName], message: String) -> Problem {
        let problem = Problem::new(Code::ConflictingMarkers, Place::value(self.path), message);
        match names.iter().find_map(|name| self.find(*name)) {
            Some(marker) => problem.within(marker.key_range.start..marker.value_range.end),
            None => problem,
        }
    }

    fn ranges(&self, problems: &mut Vec<Problem>) {
        let details = self.schema.details();
        #[expect(clippy::cast_precision_loss, reason = "lengths are compared, not computed with")]
        let float = |count: Option<i64>| count.map(|count| count as f64);
        let pairs = [
            (MarkerName::Minimum, MarkerName::Maximum, details.minimum, details.maximum),
            (
                MarkerName::MinLength,
                MarkerName::MaxLength,
                float(details.min_length),
                float(details.max_length),
            ),
            (MarkerName::MinItems, MarkerName::MaxItems, float(details.min_items), float(details.max_items)),
        ];
        for (low_name, high_name, low, high) in pairs {
            let (Some(low), Some(high)) = (low, high) else { continue };
            if low > high {
                let (low_name_text, high_name_text) = (low_name.as_str(), high_name.as_str());
                let message = format!(
                    "`{low_name_text}` {low} is greater than `{high_name_text}` {high}, so no value is valid"
                );
                problems.push(self.problem(&[high_name, low_name], message));
            }
        }
    }

    fn list(&self, problems: &mut Vec<Problem>) {
        let details = self.schema.details();
        let list_type = details.list_type.as_deref().unwrap_or("atomic");
        let places = [MarkerName::ListMapKey, MarkerName::ListType, MarkerName::UniqueItems];
        if list_type != "map" && !details.list_map_keys.is_empty() {
            let message = "`listMapKey` requires `listType=map`".to_owned();
            problems.push(self.problem(&places, message).help("add `listType=map`"));
        }
        if list_type == "map" {
            if details.list_map_keys.is_empty() {
                let message = "`listType=map` requires a `listMapKey`".to_owned();
                problems.push(
                    self.problem(&[MarkerName::ListType], message)
                        .help("add `listMapKey=<field>` with the field that identifies an item"),
                );
            }
            self.map_keys(problems);
        }
        let item = self.schema.items.as_deref();
        if list_type == "set" && item.is_some_and(|item| !may_be_in_set(item)) {
            let message = "items of a set must be strings, numbers or booleans".to_owned();
            problems.push(self.problem(&[MarkerName::ListType, MarkerName::UniqueItems], message));
        }
    }

    /// The API server rejects a CRD with a default that violates its own schema.
    fn default(&self, problems: &mut Vec<Problem>) {
        let Some(default) = &self.schema.default else { return };
        let mut violations = Vec::new();
        let mut schema = self.schema.clone();
        schema.default = None;
        let view = SchemaView::of("default", schema);
        check_complete(default, &view, &Path::root(), Code::DefaultRefused, &mut violations);
        let Some(reason) = violations.first() else { return };
        let location = match reason.place.path.to_string() {
            path if path.is_empty() => String::new(),
            path => format!(" at `{path}`"),
        };
        let message = format!("the default is not valid for its own field: {}{location}", reason.message);
        let problem = Problem::new(Code::DefaultRefused, Place::value(self.path), message);
        problems.push(match self.find(MarkerName::Default) {
            Some(marker) => problem.within(marker.value_range.clone()),
            None => problem,
        });
    }

    fn map_keys(&self, problems: &mut Vec<Problem>) {
        let Some(item) = self.schema.items.as_deref() else { return };
        if item.kind != Some(Kind::Object) {
            let message = "`listType=map` applies only to lists of structs".to_owned();
            problems.push(self.problem(&[MarkerName::ListType], message));
            return;
        }
        if item.preserve_unknown {
            return;
        }
        for marker in self.markers.iter().filter(|marker| marker.name == MarkerName::ListMapKey) {
            let key = marker.value.as_str();
            let problem = |message: String| {
                Problem::new(Code::InvalidListMapKey, Place::value(self.path), message)
                    .within(marker.value_range.clone())
            };
            match item.properties.get(key) {
                None => {
                    let names = item.properties.names().map(|name| name.as_str());
                    let message = format!("the items have no field `{key}`");
                    problems.push(problem(message).did_you_mean(suggest(key, names)));
                }
                Some(field) if !item.requires(key) && field.default.is_none() => {
                    let message = format!("`{key}` must be required, because it identifies the items");
                    problems.push(problem(message).help(format!("add `required=true` to `{key}`")));
                }
                Some(_) => {}
            }
        }
    }
}

fn may_be_in_set(item: &Schema) -> bool {
    let details = item.details();
    match item.kind {
        Some(Kind::Object) => {
            details.map_type.as_deref() == Some("atomic")
                && matches!(item.additional, Additional::Unspecified | Additional::Schema(_))
        }
        Some(Kind::Array) => details.list_type.as_deref().is_none_or(|list_type| list_type == "atomic"),
        _ => true,
    }
}
