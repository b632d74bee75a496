//! The content of an entry: one struct per kind.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::alert::AlertRaised;
use super::approval::{
    AmendmentApproved, AmendmentProposed, AmendmentRefused, ApprovalGranted, ApprovalRefused,
};
use super::call::{
    CallAuthorized, CallCancelled, CallCompleted, CallDenied, CallExpired, CallFailed, CallHeld,
    CallProgress, CallUnknown, Decision, Observed,
};
use super::chain::{
    AnchorObserved, ChainGenesis, ClockStep, ConfigChanged, EnforcementTested, EvidenceExported,
    HealthChanged, Heartbeat, LedgerRecovered, ManifestBound, ManifestRefused, PolicyActivated,
    PostureObserved, RequestRejected, SignersBound, WriterStarted, WriterStopped,
};
use super::control::{ControlApplied, ControlRefused, ControlSet};
use super::fleet::{
    ChainCheckpoint, ChainEnrolled, ChainRetired, KeyRevoked, KeyRotated, WriterEnrolled,
};
use super::payload::{HoldLifted, HoldPlaced, PayloadErased, PayloadViewed, RetentionPruned};
use super::run::{RunOpened, RunSealed, TaintCleared};
use crate::Error;
use crate::domain::canonical;
use crate::domain::closed::closed;
use crate::domain::json::Json;

/// The struct of one kind of entry.
pub trait Content: Into<Body> {
    /// The kind.
    const KIND: Kind;

    /// This struct, if the body is of its kind.
    fn of(body: &Body) -> Option<&Self>;
}

macro_rules! bodies {
    ($($name:ident = $text:literal,)*) => {
        closed! {
            /// What an entry records.
            pub enum Kind { $(#[doc = concat!("`", $text, "`")] $name = $text,)* }
        }

        /// The content of one entry.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Body { $(#[doc = concat!("`", $text, "`")] $name(Box<$name>),)* }

        impl Body {
            /// Its kind.
            pub const fn kind(&self) -> Kind {
                match self { $(Self::$name(_) => Kind::$name,)* }
            }

            /// Reads `data` of an entry of this kind.
            pub(super) fn read(kind: Kind, data: &RawValue) -> Result<Self, Error> {
                match kind {
                    $(Kind::$name => typed::<$name>(kind, data).map(Self::$name),)*
                }
            }

            /// The schema of every kind's `data`.
            #[cfg(test)]
            pub(super) fn schemas(
                generator: &mut schemars::SchemaGenerator,
            ) -> Vec<(Kind, schemars::Schema)> {
                use schemars::JsonSchema;
                vec![$((Kind::$name, $name::json_schema(generator)),)*]
            }
        }

        impl Serialize for Body {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self { $(Self::$name(data) => data.serialize(to),)* }
            }
        }

        $(
            impl From<$name> for Body {
                fn from(data: $name) -> Self {
                    Self::$name(Box::new(data))
                }
            }

            impl Content for $name {
                const KIND: Kind = Kind::$name;

                fn of(body: &Body) -> Option<&Self> {
                    if let Body::$name(data) = body { Some(data) } else { None }
                }
            }
        )*
    };
}

bodies! {
    ChainGenesis = "chain.genesis",
    WriterStarted = "writer.started",
    WriterStopped = "writer.stopped",
    Heartbeat = "heartbeat",
    ClockStep = "clock.step",
    PolicyActivated = "policy.activated",
    ManifestBound = "manifest.bound",
    ManifestRefused = "manifest.refused",
    SignersBound = "signers.bound",
    ConfigChanged = "config.changed",
    RequestRejected = "request.rejected",
    HealthChanged = "health.changed",
    RunOpened = "run.opened",
    CallAuthorized = "call.authorized",
    CallDenied = "call.denied",
    CallHeld = "call.held",
    CallProgress = "call.progress",
    CallCompleted = "call.completed",
    CallFailed = "call.failed",
    CallUnknown = "call.unknown",
    CallCancelled = "call.cancelled",
    CallExpired = "call.expired",
    RunSealed = "run.sealed",
    LedgerRecovered = "ledger.recovered",
    ChainEnrolled = "chain.enrolled",
    ChainCheckpoint = "chain.checkpoint",
    ChainRetired = "chain.retired",
    KeyRotated = "key.rotated",
    KeyRevoked = "key.revoked",
    AnchorObserved = "anchor.observed",
    EvidenceExported = "evidence.exported",
    PayloadErased = "payload.erased",
    PayloadViewed = "payload.viewed",
    HoldPlaced = "hold.placed",
    HoldLifted = "hold.lifted",
    RetentionPruned = "retention.pruned",
    ApprovalGranted = "approval.granted",
    ApprovalRefused = "approval.refused",
    ControlSet = "control.set",
    ControlApplied = "control.applied",
    ControlRefused = "control.refused",
    AmendmentProposed = "amendment.proposed",
    AmendmentApproved = "amendment.approved",
    AmendmentRefused = "amendment.refused",
    EnforcementTested = "enforcement.tested",
    WriterEnrolled = "writer.enrolled",
    PostureObserved = "posture.observed",
    TaintCleared = "taint.cleared",
    AlertRaised = "alert.raised",
}

fn typed<T: serde::de::DeserializeOwned>(kind: Kind, data: &RawValue) -> Result<Box<T>, Error> {
    let mut from = serde_json::Deserializer::from_str(data.get());
    serde_path_to_error::deserialize(&mut from).map(Box::new).map_err(|e| Error::Data {
        kind,
        path: e.path().to_string(),
        why: e.into_inner().to_string(),
    })
}

/// The member from the first kind that the body has.
macro_rules! first {
    ($body:expr; $($kind:ident: |$data:ident| $value:expr,)*) => {
        None$(.or_else(|| $kind::of($body).and_then(|$data| $value)))*
    };
}

impl Body {
    /// Reads `data` of an entry of this kind from JSON.
    ///
    /// # Errors
    /// Where the data departs from the schema of its kind, and how.
    pub fn from_json(kind: Kind, data: &Json) -> Result<Self, Error> {
        let text = RawValue::from_string(canonical::text(data));
        let text =
            text.map_err(|error| Error::Header { path: "data".into(), why: error.to_string() })?;
        Self::read(kind, &text)
    }

    /// This struct, if it is of its kind.
    pub fn get<T: Content>(&self) -> Option<&T> {
        T::of(self)
    }

    /// The log that it is about, if it is an entry of a fleet log.
    pub fn log(&self) -> Option<&str> {
        first! { self;
            ChainEnrolled: |data| Some(&*data.log),
            ChainCheckpoint: |data| Some(&*data.log),
            ChainRetired: |data| Some(&*data.log),
            KeyRevoked: |data| data.log.as_deref(),
            AnchorObserved: |data| Some(&*data.log),
            PayloadErased: |data| Some(&*data.log),
            HoldPlaced: |data| Some(&*data.log),
            HoldLifted: |data| Some(&*data.log),
            RetentionPruned: |data| Some(&*data.log),
            WriterEnrolled: |data| Some(&*data.log),
        }
    }

    /// What the executor observed, if it ends a call.
    pub fn observed(&self) -> Option<&Observed> {
        first! { self;
            CallCompleted: |call| call.observed.as_ref(),
            CallFailed: |call| call.observed.as_ref(),
            CallUnknown: |call| call.observed.as_ref(),
            CallCancelled: |call| call.observed.as_ref(),
        }
    }

    /// The decision about a call, if it is one.
    pub fn decision(&self) -> Option<Decision<'_>> {
        first! { self;
            CallAuthorized: |call| Some(call.common()),
            CallDenied: |call| Some(call.common()),
            CallHeld: |call| Some(call.common()),
        }
    }
}

impl Kind {
    /// Whether this is about one call of a run: `call.*` and `approval.*`.
    #[must_use]
    pub fn of_call(self) -> bool {
        self.as_str().starts_with("call.")
            || matches!(self, Self::ApprovalGranted | Self::ApprovalRefused)
    }

    /// Whether this is a decision about a call.
    #[must_use]
    pub const fn decides(self) -> bool {
        matches!(self, Self::CallAuthorized | Self::CallDenied | Self::CallHeld)
    }

    /// Whether this ends a call for good.
    #[must_use]
    pub const fn ends_call(self) -> bool {
        matches!(
            self,
            Self::CallDenied
                | Self::CallCompleted
                | Self::CallFailed
                | Self::CallUnknown
                | Self::CallCancelled
                | Self::CallExpired
        )
    }
}
