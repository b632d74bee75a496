//! Risk tiers, and how it is known which model and instructions stand behind a call.

use crate::domain::closed::closed;

closed! {
    /// How much harm a call can do. Ordered: a greater tier is more dangerous.
    pub enum Tier {
        /// Inert: reads.
        T0 = "T0",
        /// Reversible.
        T1 = "T1",
        /// Controlled: execution, network.
        T2 = "T2",
        /// Irreversible. A binding without a tier is this.
        T3 = "T3",
    }
}

closed! {
    /// How the model and instructions behind a call are known. Ordered: a greater one is better known.
    pub enum Binding {
        /// The face takes no claim, or the agent made none.
        Unclaimed = "unclaimed",
        /// The agent claimed them at `OpenRun`, and the manifest lists what it claimed; or it came in
        /// by a dialect of models, where the gate compares each request with the manifest.
        Claimed = "claimed",
        /// The gate saw it: of a tool call, a model asking for exactly it; of a request to a model, the model and
        /// the instructions of the manifest.
        Observed = "observed",
    }
}

closed! {
    /// The protocols an agent can come in by (`spec.binding.faces`).
    pub enum Face {
        /// `wicketgate.v1.Gate`.
        Grpc = "grpc",
        /// The Model Context Protocol.
        Mcp = "mcp",
        /// HTTP and JSON below `/gate/v1`.
        Http = "http",
        /// The model dialects.
        Llm = "llm",
    }
}

impl Face {
    /// The best binding that a run of this face can have in this build; `None`: this build does not
    /// serve the face.
    pub const fn best(self) -> Option<Binding> {
        match self {
            Self::Grpc | Self::Http | Self::Llm => Some(Binding::Claimed),
            Self::Mcp => Some(Binding::Unclaimed),
        }
    }
}
