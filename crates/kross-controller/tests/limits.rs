//! What one instance may cost and set, against a real control plane: an instance that exceeds a limit says so, and its neighbours
//! notice nothing. All tests of this program share one controller with low limits, whose requests go through a fault proxy.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    unused_imports,
    clippy::needless_pass_by_value,
    missing_docs,
    unreachable_pub
)]

#[path = "limits/clusters.rs"]
mod clusters;
#[path = "limits/expressions.rs"]
mod expressions;
#[path = "support/instance_api.rs"]
mod instance_api;
#[path = "limits/reserved_keys.rs"]
mod reserved_keys;
#[path = "limits/secret_values.rs"]
mod secret_values;
#[path = "support/setup.rs"]
mod setup;
#[path = "limits/sizes.rs"]
mod sizes;
#[path = "support/hub_world.rs"]
mod world;

use std::time::Duration;

use kross_controller::Settings;
use kross_plan::Limits;
use serde_json::Value as Json;

/// A world whose controller has low limits.
async fn limited(kind: &str, schema: Json, resources: Json) -> world::World {
    world::SETTINGS.get_or_init(|| Settings {
        limits: Limits { object_size: 100_000, total_size: 500_000, status_size: 100_000, clusters: 30 },
        max_namespace_clusters: 40,
        plan_timeout: Duration::from_secs(5),
        ..Settings::default()
    });
    world::World::new(kind, schema, resources).await
}
