//! The stable codes of the error contract: one name for each thing a caller can be told.
//!
//! They are listed in `docs/reference/errors.md` and held by a golden test; the wire rendering (gRPC, HTTP,
//! JSON-RPC) lives in `serve::problem` and nowhere else.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// A stable dotted code.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Code { $($(#[$doc])* $name,)* }
        impl Code {
            /// The code as it stands on the wire and in entries.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
            /// Every code, in the order of the contract's table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            /// Reads a code.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

codes! {
    /// The request cannot be read; `detail` says why.
    RequestMalformed = "request.malformed";
    /// No credential, or one that is not known.
    IdentityMissing = "identity.missing";
    /// Model, instructions or tools are not those of the manifest.
    ManifestMismatch = "manifest.mismatch";
    /// The face is switched off for this agent, or too little is known of the model behind the run or
    /// call (`spec.binding` of the manifest).
    BindingInsufficient = "binding.insufficient";
    /// The tool does not exist for this agent.
    ToolNotGranted = "tool.not_granted";
    /// The arguments do not satisfy the tool's schema.
    ArgumentsInvalid = "arguments.invalid";
    /// What the tool would touch cannot be opened or is out of bounds.
    EffectRefused = "effect.refused";
    /// A policy said no.
    PolicyDenied = "policy.denied";
    /// The policy could not answer.
    PolicyError = "policy.error";
    /// The call waits for an approval.
    CallHeld = "call.held";
    /// A limit of the manifest is reached.
    LimitExceeded = "limit.exceeded";
    /// Too much work is waiting; nothing was recorded or run.
    Overloaded = "overloaded";
    /// The gate is draining; nothing was recorded or run.
    Shutdown = "shutdown";
    /// The ledger cannot be written; nothing ran.
    LedgerUnavailable = "ledger.unavailable";
    /// The ledger did not confirm in time; nothing ran and nothing will.
    LedgerUnknown = "ledger.unknown";
    /// The tool said error, or a known timeout.
    ToolFailed = "tool.failed";
    /// It ran and the outcome is unknown or not recorded.
    CallUnknown = "call.unknown";
    /// The same call id with other bytes.
    CallConflict = "call.conflict";
    /// No call of this id in this run.
    CallNotFound = "call.not_found";
    /// The recorded result can no longer be given.
    CallResultUnavailable = "call.result_unavailable";
    /// No such run, or not yours.
    RunUnknown = "run.unknown";
    /// The run is over.
    RunSealed = "run.sealed";
    /// The call was held too long.
    CallExpired = "call.expired";
    /// The call was cancelled.
    CallCancelled = "call.cancelled";
    /// The operator is known and may not do this.
    OperatorForbidden = "operator.forbidden";
    /// A held call cannot be shown completely, so it is not shown at all; `detail` says why.
    ApprovalUnviewable = "approval.unviewable";
    /// The gate is not ready to serve (no policy, no manifest, not the writer).
    NotReady = "not_ready";
    /// No method or path of this name is served here.
    RouteUnknown = "route.unknown";
}

impl Code {
    /// Whether a recorded denial can be for this reason. The caller is then told this very code, on every
    /// face; the others say how something else than a denial ended.
    #[must_use]
    pub const fn denies(self) -> bool {
        match self {
            Self::RequestMalformed
            | Self::IdentityMissing
            | Self::ManifestMismatch
            | Self::BindingInsufficient
            | Self::ToolNotGranted
            | Self::ArgumentsInvalid
            | Self::EffectRefused
            | Self::PolicyDenied
            | Self::PolicyError
            | Self::LimitExceeded
            | Self::CallExpired
            | Self::OperatorForbidden
            | Self::ApprovalUnviewable => true,
            // Something else happened, or the same call may be asked again and run.
            Self::CallHeld
            | Self::Overloaded
            | Self::Shutdown
            | Self::LedgerUnavailable
            | Self::LedgerUnknown
            | Self::ToolFailed
            | Self::CallUnknown
            | Self::CallConflict
            | Self::CallNotFound
            | Self::CallResultUnavailable
            | Self::RunUnknown
            | Self::RunSealed
            | Self::CallCancelled
            | Self::NotReady
            | Self::RouteUnknown => false,
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
