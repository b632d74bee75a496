//! `VERIFY.md`: how to check a bundle without running any of our code.

/// The text shipped in every bundle.
pub const GUIDE: &str = include_str!("VERIFY.md");
