//! Turns a cluster reference into a live connection: discovery, schemas, watch, poll, apply, inventory, audit.
