//! Compiles a ResourceGraphDefinition into a typed, ordered, immutable graph.
