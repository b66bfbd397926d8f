//! Turns what external references ask for into watches, and their copies into what the plan sees.

use kross_cluster::{Lookup, ObjectKey, Selection, Watch};
use kross_plan::{CollectionQuery, ExternalRead, ObservedObject, Plan};
use kross_value::Text;

use super::memory::Memory;
use super::observe::Sight;
use super::reach::{Reach, ReachError};
use crate::hub::Hub;
use crate::selector::text;

/// Answers what a plan wants to read. Gives whether there was anything new.
///
/// # Errors
/// A kind is not served.
pub(super) async fn answer(
    hub: &Hub,
    reach: &Reach<'_>,
    instance: &ObjectKey,
    plan: &Plan,
    sight: &mut Sight,
    memory: &mut Memory,
) -> Result<bool, ReachError> {
    let mut news = false;
    for read in &plan.reads {
        if !memory.externals.contains_key(read) {
            // What is in a cluster that does not answer is read once it does.
            if reach.connection(read.cluster()).is_err() {
                continue;
            }
            let watches = watch(hub, reach, read).await?;
            for watch in &watches {
                hub.instances.look_at(instance, watch.key());
            }
            memory.externals.insert(read.clone(), watches);
        }
        let Some(watches) = memory.externals.get(read) else { continue };
        news |= match read {
            ExternalRead::Object { key, .. } => see_object(key, watches, sight),
            ExternalRead::Collection(query) => see_collection(query, watches, sight),
        };
    }
    Ok(news)
}

/// Lets go of watches that the last plan does not ask for.
pub(super) fn retain(hub: &Hub, instance: &ObjectKey, plan: &Plan, memory: &mut Memory) {
    memory.externals.retain(|read, watches| {
        let wanted = plan.reads.contains(read);
        if !wanted {
            watches.iter().for_each(|watch| hub.instances.look_away(instance, watch.key()));
        }
        wanted
    });
}

async fn watch(hub: &Hub, reach: &Reach<'_>, read: &ExternalRead) -> Result<Vec<Watch>, ReachError> {
    let connection = reach.connection(read.cluster())?;
    match read {
        ExternalRead::Object { key, version } => {
            let kind = connection.kind(&key.group, Some(version), &key.kind).await?;
            let selection = Selection::Name { namespace: key.namespace.clone(), name: key.name.clone() };
            Ok(vec![hub.watches.watch(connection, &kind, selection)])
        }
        ExternalRead::Collection(query) => {
            let kind = connection.kind(&query.group, Some(&query.version), &query.kind).await?;
            let selection =
                Selection::Labels { namespace: query.namespace.clone(), selector: text(&query.selector()) };
            let mut watches = vec![hub.watches.watch(connection, &kind, selection)];
            if let Some(namespaces) = query.namespace_selector() {
                let kind = connection.kind("", Some("v1"), "Namespace").await?;
                let selection = Selection::Labels { namespace: None, selector: text(&namespaces) };
                watches.push(hub.watches.watch(connection, &kind, selection));
            }
            Ok(watches)
        }
    }
}

fn see_object(key: &ObjectKey, watches: &[Watch], sight: &mut Sight) -> bool {
    let Some(watch) = watches.first() else { return false };
    let found = match watch.get(key.namespace.as_deref(), &key.name) {
        Lookup::Found(object) => Some(ObservedObject::new(object.value().clone())),
        Lookup::Absent => None,
        Lookup::Unknown => return false,
    };
    let before = sight.observed.externals.insert(key.clone(), found.clone());
    before != Some(found)
}

fn see_collection(query: &CollectionQuery, watches: &[Watch], sight: &mut Sight) -> bool {
    let Some(mut objects) = watches.first().and_then(Watch::list) else { return false };
    if let Some(namespaces) = watches.get(1) {
        let Some(namespaces) = namespaces.list() else { return false };
        let chosen = |namespace: Option<&Text>| {
            namespace.is_some_and(|name| namespaces.iter().any(|chosen| chosen.name() == name))
        };
        objects.retain(|object| chosen(object.namespace()));
    }
    objects.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    let found: Vec<_> = objects.iter().map(|object| ObservedObject::new(object.value().clone())).collect();
    let before = sight.observed.collections.insert(query.clone(), found.clone());
    before != Some(found)
}
