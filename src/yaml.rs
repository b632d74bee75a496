//! The one strict YAML reader: manifests, configuration and tests go through it.
//!
//! No duplicate keys, no anchors or aliases, no tags, no unknown fields, one document; every error
//! names file, line and column (and the key, where there is one).
