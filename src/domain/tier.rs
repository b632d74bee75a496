//! Risk tiers and what a manifest's binding was proven by.

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

/// How the running model and instructions are known to match the manifest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Binding {
    /// The agent said so at `OpenRun`.
    Claimed,
    /// The sidecar saw the model traffic itself.
    Observed,
}

impl Binding {
    /// `claimed` or `observed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Observed => "observed",
        }
    }
}
