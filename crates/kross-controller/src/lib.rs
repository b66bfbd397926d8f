//! Turns events into reconciles: definitions, revisions and instances.
