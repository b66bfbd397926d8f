//! Turns JSON and YAML into a compact, shared tree with interned keys, and back.
