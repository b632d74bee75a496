//! (evidence)
