//! Risk tiers, and how it is known which model and instructions stand behind a call.

use std::fmt;

/// How much harm a call can do. Ordered: a greater tier is more dangerous.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Tier {
    /// Inert: reads.
    T0,
    /// Reversible.
    T1,
    /// Controlled: execution, network.
    T2,
    /// Irreversible. A binding without a tier is this.
    T3,
}

impl Tier {
    /// Reads `T0` … `T3`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "T0" => Some(Self::T0),
            "T1" => Some(Self::T1),
            "T2" => Some(Self::T2),
            "T3" => Some(Self::T3),
            _ => None,
        }
    }

    /// `T0` … `T3`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::T0 => "T0",
            Self::T1 => "T1",
            Self::T2 => "T2",
            Self::T3 => "T3",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the model and instructions behind a call are known. Ordered: a greater one is better known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Binding {
    /// The face takes no claim, or the agent made none.
    Unclaimed,
    /// The agent claimed them at `OpenRun`, and the manifest lists what it claimed.
    Claimed,
    /// The gate saw the model ask for exactly this call.
    Observed,
}

impl Binding {
    /// Every binding, the weakest first.
    pub const ALL: [Self; 3] = [Self::Unclaimed, Self::Claimed, Self::Observed];

    /// Reads `unclaimed`, `claimed` or `observed`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|binding| binding.as_str() == text)
    }

    /// `unclaimed`, `claimed` or `observed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unclaimed => "unclaimed",
            Self::Claimed => "claimed",
            Self::Observed => "observed",
        }
    }
}

/// The protocols an agent can come in by (`spec.binding.faces`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Face {
    /// `wicketgate.v1.Gate`.
    Grpc,
    /// The Model Context Protocol.
    Mcp,
    /// HTTP and JSON below `/gate/v1`.
    Http,
    /// The model dialects.
    Llm,
}

impl Face {
    /// Every face.
    pub const ALL: [Self; 4] = [Self::Grpc, Self::Mcp, Self::Http, Self::Llm];

    /// Reads `grpc`, `mcp`, `http` or `llm`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|face| face.as_str() == text)
    }

    /// `grpc`, `mcp`, `http` or `llm`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Mcp => "mcp",
            Self::Http => "http",
            Self::Llm => "llm",
        }
    }

    /// The best binding that a run of this face can have in this build; `None`: this build does not
    /// serve the face.
    #[must_use]
    pub const fn best(self) -> Option<Binding> {
        match self {
            Self::Grpc => Some(Binding::Claimed),
            Self::Mcp => Some(Binding::Unclaimed),
            Self::Http | Self::Llm => None,
        }
    }
}
