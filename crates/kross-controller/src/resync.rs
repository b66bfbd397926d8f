//! Reconciles every definition and every instance once in a long period, without an event, should one have been missed. Each
//! has its own time within the period, so that they are spread over it. There is one timer, and nothing runs in between.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use kross_cluster::ObjectKey;
use tokio::time::{Instant, sleep_until};

use crate::context::Context;
use crate::key::{InstanceKey, Key, WorkloadKey};
use crate::workload::WorkloadKind;

/// So often in a period the definitions and instances are collected that are due next: those that were created meanwhile too.
const SLICES: u32 = 20;

/// Requeues definitions and instances for ever; never returns.
pub(crate) async fn run(context: Arc<Context>, period: Duration) {
    let mut begun = Instant::now();
    loop {
        for slice in 0..SLICES {
            let from = period / SLICES * slice;
            sleep_until(begun + from).await;
            for (offset, objects) in schedule(&context, period, from..from + period / SLICES) {
                sleep_until(begun + offset).await;
                objects.into_iter().for_each(|key| requeue(&context, key));
            }
        }
        begun += period;
    }
}

/// When in a part of the period to reconcile which definitions and instances.
fn schedule(
    context: &Context,
    period: Duration,
    part: Range<Duration>,
) -> BTreeMap<Duration, Vec<ObjectKey>> {
    let hub = context.client.cluster();
    let mut objects = context.definitions.known();
    for served in context.graphs.all() {
        objects.extend(served.instances.known());
    }
    for (_, cache) in context.workload.caches() {
        objects.extend(cache.known());
    }
    let mut schedule: BTreeMap<Duration, Vec<ObjectKey>> = BTreeMap::new();
    for key in objects.iter().map(|object| object.key(hub)) {
        let offset = offset(&key, period);
        if part.contains(&offset) {
            schedule.entry(offset).or_default().push(key);
        }
    }
    schedule
}

/// The time of an object within a period: always the same, so that it is reconciled once in each period.
fn offset(key: &ObjectKey, period: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let share = hasher.finish() % 100_000;
    period.mul_f64(f64::from(u32::try_from(share).unwrap_or_default()) / 100_000.0)
}

fn requeue(context: &Context, key: ObjectKey) {
    if (&*key.group, &*key.kind) == crate::kinds::DEFINITION {
        context.definition_queue.add(&Key::Definition(key.name));
        return;
    }
    let kind = WorkloadKind::find(&key.group, &key.kind);
    match (kind, key.namespace.clone()) {
        (Some(WorkloadKind::ApplicationResource) | None, _) => context.instance_queue.add(&InstanceKey(key)),
        (Some(kind), Some(namespace)) => {
            context.workload_queue.add(&WorkloadKey { kind, namespace, name: key.name });
        }
        // A class is not reconciled.
        (Some(_), None) => {}
    }
}

#[cfg(test)]
mod tests {
    use kross_api::ClusterId;

    use super::*;

    #[test]
    fn objects_are_spread_over_the_period() {
        let period = Duration::from_secs(36_000);
        let key = |number: u32| ObjectKey {
            cluster: ClusterId::local(),
            group: "kro.run".into(),
            kind: "App".into(),
            namespace: Some("shop".into()),
            name: number.to_string().into(),
        };
        let mut hours = [0_u32; 10];
        for number in 0..10_000 {
            let offset = offset(&key(number), period);
            assert_eq!(offset, super::offset(&key(number), period));
            hours[usize::try_from(offset.as_secs() / 3_600).unwrap()] += 1;
        }
        assert!(hours.iter().all(|count| (800..1_200).contains(count)), "{hours:?}");
    }
}
