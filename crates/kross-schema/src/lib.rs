//! Turns SimpleSchema into OpenAPI, OpenAPI into CEL types, and definitions into CRDs.
