//! The stable codes of the error contract: one name for each error that a caller can receive.
//!
//! They are listed in `docs/reference/errors.md` and held by a golden test; only `serve::problem`
//! renders them on the wire (gRPC, HTTP, JSON-RPC).

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $next:literal;)*) => {
        /// A stable dotted code.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Code { $($(#[$doc])* $name,)* }
        impl Code {
            /// The code as it stands on the wire and in entries.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
            /// What the caller, or the person who runs the gate, does about it.
            pub const fn next(self) -> &'static str {
                match self { $(Self::$name => $next,)* }
            }
            /// Every code, in the order of the contract's table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            /// Reads a code.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

codes! {
    /// The request cannot be read; `detail` says why.
    RequestMalformed = "request.malformed", "correct the request: `detail` names the place";
    /// No credential, or one that is not known.
    IdentityMissing = "identity.missing", "show the agent's token or certificate, or use its socket with its uid";
    /// Model, instructions or tools are not those of the manifest.
    ManifestMismatch = "manifest.mismatch",
        "claim the model and instructions of the signed manifest, or sign a new one";
    /// The face is switched off for this agent, or too little is known of the model behind the run or
    /// call (`spec.binding` of the manifest).
    BindingInsufficient = "binding.insufficient",
        "use a face the manifest's `spec.binding` accepts, claim the model at `OpenRun`, or sign other terms";
    /// The tool does not exist for this agent.
    ToolNotGranted = "tool.not_granted", "list the tools; grant the tool in the manifest if the agent needs it";
    /// The arguments do not satisfy the tool's schema.
    ArgumentsInvalid = "arguments.invalid", "correct the arguments to the tool's schema";
    /// What the tool would touch cannot be opened or is out of bounds.
    EffectRefused = "effect.refused", "choose another target; `detail` names the limit of the binding";
    /// A policy said no.
    PolicyDenied = "policy.denied", "read `reasons`: change the call, or go on without it";
    /// The policy could not answer.
    PolicyError = "policy.error", "policy author: explain the entry with `wicketgate policy eval --entry`";
    /// The call waits for an approval.
    CallHeld = "call.held", "wait for an approver, and ask for the same id";
    /// A limit of the manifest is reached.
    LimitExceeded = "limit.exceeded", "wait; raise the limit in the manifest or the pool if it is too low";
    /// Too much work is waiting; nothing was recorded or run.
    Overloaded = "overloaded", "ask again later; raise `limits.in_flight_max` if it stays";
    /// The gate is draining; nothing was recorded or run.
    Shutdown = "shutdown", "ask again: the gate restarts";
    /// The ledger cannot be written; nothing ran.
    LedgerUnavailable = "ledger.unavailable", "operator: see `wicketgate control health`; nothing ran";
    /// The ledger did not confirm in time; nothing ran and nothing will.
    LedgerUnknown = "ledger.unknown", "ask again: the answer is the call's, or the proof that it never started";
    /// The tool said error, or a known timeout.
    ToolFailed = "tool.failed", "read `detail`; the call ran and failed";
    /// It ran and the outcome is unknown or not recorded.
    CallUnknown = "call.unknown", "look at the tool's own records before asking for the same again";
    /// The same call id with other bytes.
    CallConflict = "call.conflict", "choose a new call id";
    /// No call of this id in this run.
    CallNotFound = "call.not_found", "check the id: the run has no such call";
    /// The recorded result can no longer be given.
    CallResultUnavailable = "call.result_unavailable",
        "use the receipt: the call ran, and its result was erased or not kept";
    /// No such run, or not yours.
    RunUnknown = "run.unknown", "open a run first";
    /// The run is over.
    RunSealed = "run.sealed", "open a new run";
    /// The call was held too long.
    CallExpired = "call.expired", "ask again as a new call";
    /// The call was cancelled.
    CallCancelled = "call.cancelled", "ask again as a new call, if it is still wanted";
    /// The operator is known and may not do this.
    OperatorForbidden = "operator.forbidden", "use a login with the role that the message names";
    /// A held call cannot be shown completely, so it is not shown at all; `detail` says why.
    ApprovalUnviewable = "approval.unviewable", "refuse the call; `detail` says what cannot be shown";
    /// The gate is not ready to serve (no policy, no manifest, not the writer).
    NotReady = "not_ready", "operator: `/readyz` lists the reasons";
    /// No method or path of this name is served here.
    RouteUnknown = "route.unknown", "check the method or the path";
}

impl Code {
    /// Whether a recorded denial can have this code. The caller then receives this very code on
    /// every face. The other codes report something other than a denial.
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
            // These are no denials, or the same call may be made again and run.
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
