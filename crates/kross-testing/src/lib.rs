//! A fault proxy, builders, waiting and snapshots for tests.
