//! Turns an application, a claim or a target and what belongs to it into a tree: which cluster, since when, and what is being
//! waited for.

use std::fmt::Write;

use serde_json::{Value as Json, json};

use super::super::wrap::wrap;
use super::draw::Style;
use crate::hub::{InstanceView, Tone, text};

/// One of these objects, with the objects that are shown with it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Workload {
    pub(super) object: Json,
    /// Targets: the one of an application or a claim.
    pub(super) targets: Vec<Json>,
    /// Applications that are scheduled to a target.
    pub(super) applications: Vec<Json>,
    /// Resources of an application, or those that are applied through a target.
    pub(super) resources: Vec<Json>,
    /// The managed resource of a claim or a target, if it can be read.
    pub(super) managed: Option<Json>,
}

impl Workload {
    /// What is shown, as JSON.
    pub(super) fn summary(&self) -> Json {
        let Self { object, targets, applications, resources, managed } = self;
        let outline = |object: &Json| {
            let at = |path: &str| object.pointer(path).cloned().unwrap_or_default();
            json!({
                "kind": at("/kind"), "namespace": at("/metadata/namespace"), "name": at("/metadata/name"),
                "spec": at("/spec"), "status": at("/status"),
            })
        };
        let outlines = |objects: &[Json]| objects.iter().map(outline).collect::<Vec<_>>();
        json!({
            "object": outline(object),
            "targets": outlines(targets),
            "applications": outlines(applications),
            "resources": outlines(resources),
            "managedResource": managed.as_ref().map(outline),
        })
    }
}

/// One line of the tree.
struct Line {
    cells: [String; 3],
    tone: Tone,
    note: String,
}

impl Line {
    fn new(title: &str, object: impl Into<String>, state: &str, note: impl Into<String>) -> Self {
        let tone = tone(state);
        Self { cells: [title.to_owned(), object.into(), state.to_owned()], tone, note: note.into() }
    }
}

/// Draws an application, a claim or a target.
pub(super) fn draw(workload: &Workload, style: Style) -> String {
    let object = &workload.object;
    let view = InstanceView(object);
    let (state, lines) = match view.kind() {
        "KubernetesApplication" => application(workload),
        "KubernetesCluster" => claim(workload),
        _ => target(workload),
    };
    let mut drawn = format!("{}  {}\n", view.title(), tone(&state).paint(&state, style.coloured));
    if let Some(message) = view.message() {
        let width = style.width.map(|width| width.saturating_sub(2));
        for line in wrap(&style.sentence(message), width, 0).lines() {
            // Writing to a string cannot fail.
            let _ = writeln!(drawn, "│ {}", tone(&state).paint(line, style.coloured));
        }
    }
    let width =
        |cell: usize| lines.iter().filter_map(|line| line.cells.get(cell)).map(|it| it.chars().count()).max();
    let [first, second, third] = [0, 1, 2].map(|cell| width(cell).unwrap_or(0));
    for (at, Line { cells: [title, object, state], tone, note }) in lines.iter().enumerate() {
        let (fork, below) = if at + 1 == lines.len() { ("└─", "  ") } else { ("├─", "│ ") };
        let start = format!("{fork} {title:first$}  {object:second$}  ");
        let length = start.chars().count() + third;
        let line = format!("{start}{}", tone.paint(&format!("{state:third$}"), style.coloured));
        let noted = style.noted(&line, length, note, &format!("{below}   "));
        let _ = writeln!(drawn, "{}", noted.trim_end());
    }
    drawn
}

fn application(workload: &Workload) -> (String, Vec<Line>) {
    let object = &workload.object;
    let state = text(object, "/status/state").unwrap_or("not reconciled yet").to_owned();
    let mut lines = vec![target_line(object, text(object, "/spec/targetRef/name"), &workload.targets)];
    lines.extend(workload.resources.iter().map(resource_line));
    (state, lines)
}

fn claim(workload: &Workload) -> (String, Vec<Line>) {
    let object = &workload.object;
    let state = text(object, "/status/bindingPhase").unwrap_or("not reconciled yet").to_owned();
    let mut lines = Vec::new();
    if let Some(class) = text(object, "/spec/classRef/name") {
        lines.push(Line::new("class", class, "", ""));
    }
    lines.push(managed_line("resource", object, "/spec/resourceRef", workload.managed.as_ref()));
    lines.push(secret_line(object, "/spec/writeConnectionSecretToRef/name"));
    lines.push(match text(object, "/spec/writeConnectionSecretToRef/name") {
        Some(_) => target_line(object, text(object, "/metadata/name"), &workload.targets),
        None => Line::new("target", "-", "", "a claim without `writeConnectionSecretToRef` gets no target"),
    });
    (state, lines)
}

fn target(workload: &Workload) -> (String, Vec<Line>) {
    let object = &workload.object;
    let (state, note) = target_state(object);
    let mut lines = vec![Line::new("cluster", text(object, "/status/cluster/uid").unwrap_or("-"), "", note)];
    if object.pointer("/spec/clusterRef").is_some() {
        lines.push(managed_line("resource", object, "/spec/clusterRef", workload.managed.as_ref()));
    }
    lines.push(secret_line(object, "/spec/connectionSecretRef/name"));
    for application in &workload.applications {
        let state = text(application, "/status/state").unwrap_or("not reconciled yet");
        let counts = ["submittedResources", "desiredResources"]
            .map(|field| application.pointer("/status").and_then(|status| status.get(field)?.as_i64()));
        let note = match counts {
            [Some(submitted), Some(desired)] => format!("{submitted}/{desired} resources submitted"),
            _ => String::new(),
        };
        lines.push(Line::new("application", plain_name(application), state, note));
    }
    lines.extend(workload.resources.iter().map(resource_line));
    (state.to_owned(), lines)
}

/// The line of a target that an object uses. What the object itself says of the target is not repeated.
fn target_line(object: &Json, wanted: Option<&str>, targets: &[Json]) -> Line {
    let Some(wanted) = wanted else { return Line::new("target", "-", "", "no target is chosen yet") };
    match targets.iter().find(|target| text(target, "/metadata/name") == Some(wanted)) {
        Some(target) => {
            let (state, mut note) = target_state(target);
            let said = unready(object).unwrap_or_default();
            if let Some(message) = unready(target).filter(|message| !said.contains(message.as_str())) {
                note = [note, message]
                    .into_iter()
                    .filter(|part| !part.is_empty())
                    .collect::<Vec<_>>()
                    .join(": ");
            }
            Line::new("target", wanted, state, note)
        }
        None => {
            Line::new("target", wanted, "Missing", "the KubernetesTarget does not exist, or may not be read")
        }
    }
}

/// Whether a target is ready, and since when, with what is known of its cluster.
fn target_state(target: &Json) -> (&'static str, String) {
    let conditions = target.pointer("/status/conditions").and_then(Json::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let state = match ready.and_then(|ready| ready["status"].as_str()) {
        _ if target.pointer("/metadata/deletionTimestamp").is_some() => "Deleting",
        Some("True") => "Ready",
        Some("False") => "NotReady",
        _ => "Unknown",
    };
    let since = ready.and_then(|ready| ready["lastTransitionTime"].as_str());
    let known = |field: &str| text(target, &format!("/status/cluster/{field}")).map(str::to_owned);
    let parts = [
        since.map(|since| format!("since {since}")),
        known("version"),
        known("roundTripTime").map(|time| format!("round trip {time}")),
    ];
    (state, parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn managed_line(title: &str, object: &Json, path: &str, managed: Option<&Json>) -> Line {
    let field = |name: &str| text(object, &format!("{path}/{name}"));
    let (Some(kind), Some(name)) = (field("kind"), field("name")) else {
        return Line::new(title, "-", "", "no managed resource yet");
    };
    let phase = managed.and_then(|managed| text(managed, "/status/bindingPhase")).unwrap_or_default();
    let note = managed.and_then(unready).unwrap_or_default();
    Line::new(title, format!("{kind} {name}"), phase, note)
}

fn secret_line(object: &Json, path: &str) -> Line {
    match text(object, path) {
        Some(name) => Line::new("secret", name, "", ""),
        None => Line::new("secret", "-", "", "no connection Secret"),
    }
}

fn resource_line(resource: &Json) -> Line {
    let template = |field: &str| text(resource, &format!("/spec/template/{field}")).unwrap_or_default();
    let object = format!("{} {}", template("kind"), template("metadata/name"));
    let state = text(resource, "/status/state").unwrap_or("not reconciled yet");
    Line::new(&plain_name(resource), object, state, unready(resource).unwrap_or_default())
}

fn tone(state: &str) -> Tone {
    match state {
        "Submitted" | "Bound" | "Ready" => Tone::Good,
        "Failed" | "NotReady" | "Missing" => Tone::Bad,
        "" => Tone::Plain,
        _ => Tone::Busy,
    }
}

fn plain_name(object: &Json) -> String {
    text(object, "/metadata/name").unwrap_or_default().to_owned()
}

/// Why an object is not ready.
fn unready(object: &Json) -> Option<String> {
    InstanceView(object).message().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { coloured: false, width: None, now: None };

    fn target_object() -> Json {
        json!({"kind": "KubernetesTarget", "metadata": {"name": "dev", "namespace": "team"},
            "spec": {"clusterRef": {"kind": "GKECluster", "name": "dev-k8s"}, "connectionSecretRef": {"name": "copy"}},
            "status": {"cluster": {"uid": "u-1", "version": "v1.36.3", "roundTripTime": "12ms"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
    }

    fn resources() -> Vec<Json> {
        let resource = |name: &str, kind: &str, status: Json| json!({"metadata": {"name": name}, "spec": {"template": {"kind": kind, "metadata": {"name": "web"}}}, "status": status});
        vec![
            resource("app", "Deployment", json!({"state": "Submitted"})),
            resource(
                "service",
                "Service",
                json!({"state": "Failed", "conditions": [{"type": "Ready", "status": "False",
                "message": "cannot create Service team/web in cluster dev: forbidden"}]}),
            ),
        ]
    }

    #[test]
    fn an_application_shows_its_target_and_its_resources() {
        let object = json!({"kind": "KubernetesApplication", "metadata": {"name": "web", "namespace": "team"},
            "spec": {"targetRef": {"name": "dev"}}, "status": {"state": "PartiallySubmitted", "conditions": [
                {"type": "Ready", "status": "False", "message": "1 of 2 resources is not submitted: service"}]}});
        let workload = Workload {
            object,
            targets: vec![target_object()],
            resources: resources(),
            ..Workload::default()
        };
        insta::assert_snapshot!(draw(&workload, PLAIN));
    }

    #[test]
    fn an_application_that_is_not_scheduled_says_so() {
        let object = json!({"kind": "KubernetesApplication", "metadata": {"name": "web", "namespace": "team"}, "spec": {},
            "status": {"state": "Pending", "conditions": [{"type": "Ready", "status": "False",
                "message": "no KubernetesTarget of namespace `team` is ready"}]}});
        insta::assert_snapshot!(draw(&Workload { object, ..Workload::default() }, PLAIN));
    }

    #[test]
    fn a_claim_shows_what_it_is_bound_to() {
        let object = json!({"kind": "KubernetesCluster", "metadata": {"name": "dev", "namespace": "team"},
            "spec": {"classRef": {"name": "small"}, "resourceRef": {"kind": "GKECluster", "name": "dev-k8s"},
                "writeConnectionSecretToRef": {"name": "dev-connection"}}, "status": {"bindingPhase": "Bound"}});
        let managed = Some(json!({"status": {"bindingPhase": "Bound"}}));
        let workload = Workload { object, targets: vec![target_object()], managed, ..Workload::default() };
        insta::assert_snapshot!(draw(&workload, PLAIN));
    }

    #[test]
    fn a_claim_that_waits_for_its_target_says_why_once() {
        let conditions = |message: &str| json!([{"type": "Ready", "status": "False", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let object = json!({"kind": "KubernetesCluster", "metadata": {"name": "dev", "namespace": "team"},
            "spec": {"resourceRef": {"kind": "GKECluster", "name": "dev-k8s"},
                "writeConnectionSecretToRef": {"name": "dev-connection"}}, "status": {"bindingPhase": "Bound",
                "conditions": conditions("waiting for KubernetesTarget `team/dev` to be deleted: target `dev` is used by `web`")}});
        let mut target = target_object();
        target["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        target["status"]["conditions"] = conditions("target `dev` is used by `web`");
        let workload = Workload { object, targets: vec![target], ..Workload::default() };
        insta::assert_snapshot!(draw(&workload, PLAIN));
    }

    #[test]
    fn a_claim_without_a_connection_secret_has_no_target() {
        let object = json!({"kind": "KubernetesCluster", "metadata": {"name": "dev", "namespace": "team"},
            "spec": {"resourceRef": {"kind": "GKECluster", "name": "dev-k8s"}}, "status": {"bindingPhase": "Bound"}});
        insta::assert_snapshot!(draw(&Workload { object, ..Workload::default() }, PLAIN));
    }

    #[test]
    fn a_target_shows_its_cluster_and_its_users() {
        let application = json!({"metadata": {"name": "web"},
            "status": {"state": "Submitted", "submittedResources": 2, "desiredResources": 2}});
        let workload = Workload {
            object: target_object(),
            applications: vec![application],
            resources: resources(),
            managed: Some(json!({"status": {"bindingPhase": "Bound"}})),
            ..Workload::default()
        };
        insta::assert_snapshot!(draw(&workload, PLAIN));
    }
}
