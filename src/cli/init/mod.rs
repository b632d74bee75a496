//! `wicketgate init`: from somebody else's MCP configuration to a governed one.

pub mod draft;
pub mod expand;
pub mod jsonc;
pub mod shape;
