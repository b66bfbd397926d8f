//! Plans what to do for an instance from its graph and what was observed.
