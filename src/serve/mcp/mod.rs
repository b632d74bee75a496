//! MCP for agents at `/mcp`: streamable HTTP, with a handshake (2025) and without (2026-07-28).

use super::Faces;

/// The MCP face. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mcp {
    faces: Faces,
}

impl Mcp {
    /// The face over the gate.
    #[must_use]
    pub const fn new(faces: Faces) -> Self {
        Self { faces }
    }

    /// What it serves from.
    #[must_use]
    pub const fn faces(&self) -> &Faces {
        &self.faces
    }
}
