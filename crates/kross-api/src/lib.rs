//! Turns YAML into typed objects with source positions; holds every wire type, label, reason and CRD.
