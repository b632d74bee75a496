//! Entries about operators' orders, and about what gates did to obey them.

use super::text::{Int, List, TaggedDigest, Text};
use crate::domain::closed::{closed, members};
use crate::domain::id::{CallId, RunId};
use crate::domain::time::Timestamp;

closed! {
    /// What an order does.
    pub enum Action {
        /// No new calls until it is reinstated.
        Suspend = "suspend",
        /// No further calls; running calls are stopped.
        Revoke = "revoke",
        /// Ends `suspend` and `revoke`.
        Reinstate = "reinstate",
        /// Running calls are stopped, and the runs are sealed.
        Kill = "kill",
        /// One value passes the firewall until it ends.
        Allow = "allow",
        /// Ends `allow` early.
        Disallow = "disallow",
        /// Calls of one agent run without approval for a while.
        BreakGlass = "break_glass",
        /// Nothing: an order of another kind stood in its place.
        Note = "note",
    }
}

closed! {
    /// What kind of thing an order is about.
    pub enum TargetKind {
        /// Everything.
        All = "all",
        /// Every run of an agent.
        Agent = "agent",
        /// One run.
        Run = "run",
        /// One tool.
        Tool = "tool",
        /// One manifest.
        Manifest = "manifest",
        /// One key.
        Key = "key",
        /// The face that agents call at: `grpc`, `http`, `mcp` or `llm`.
        Face = "face",
        /// Every tool of a kind.
        Kind = "kind",
        /// Everything of one MCP server.
        Server = "server",
        /// One upstream of models.
        Upstream = "upstream",
    }
}

closed! {
    /// What an order did to a call.
    pub enum StoppedAs {
        /// It ran, and its tool was stopped.
        Cancelled = "cancelled",
        /// It ran, and its outcome is unknown.
        Unknown = "unknown",
        /// It had not begun.
        NeverStarted = "never_started",
        /// It waited for approval.
        Unheld = "unheld",
    }
}

members! {
    /// A call that an order stopped.
    #[cfg_attr(test, schemars(rename = "stopped_call"))]
    pub struct StoppedCall {
        /// The call.
        pub call: CallId,
        /// How it was stopped.
        pub how: StoppedAs,
        /// Its run.
        pub run: RunId,
    }

    /// A call that an order could not stop in time.
    #[cfg_attr(test, schemars(rename = "left_call"))]
    pub struct LeftCall {
        /// The call.
        pub call: CallId,
        /// Its run.
        pub run: RunId,
    }
}

closed! {
    /// An order that stays in force.
    pub enum Stop {
        /// No new calls.
        Suspend = "suspend",
        /// No calls any more.
        Revoke = "revoke",
    }
}

members! {
    /// An order in force, as a gate found it when it started.
    #[cfg_attr(test, schemars(rename = "standing"))]
    pub struct Standing {
        /// What it does.
        pub action: Stop,
        /// When it ends by itself.
        pub expires: Option<Timestamp>,
        /// When the `reinstate` order that lifts it ends.
        pub lifted: Option<Timestamp>,
        /// The name of its target; empty for `all`.
        pub name: Text,
        /// Its number.
        pub seq: Int,
        /// Kind of the target.
        pub target: TargetKind,
    }

    /// `control.set`: an operator gave an order.
    pub struct ControlSet {
        /// What the order does.
        pub action: Action,
        /// How the operator proved who it is.
        pub auth: Text,
        /// When the order ends by itself.
        pub expires: Option<Timestamp>,
        /// The name of its target; empty for `all`.
        pub name: Text,
        /// The operator's reason.
        pub reason: Text,
        /// The operator's roles.
        pub roles: List<Text>,
        /// The order's number.
        pub seq: Int,
        /// The operator.
        pub subject: Text,
        /// Kind of the target.
        pub target: TargetKind,
    }

    /// `control.applied`: what a gate did to carry out an order, or stopped by itself.
    pub struct ControlApplied {
        /// What the order does.
        pub action: Action,
        /// Number of the newest order that the signer knew.
        pub after: Option<Int>,
        /// How the operator proved who it is.
        pub auth: Option<Text>,
        /// `disallow`: the number of the order that it ends.
        pub exception: Option<Int>,
        /// Orders of kind `allow` in force when the gate started.
        pub exceptions: Option<List<Int, 256>>,
        /// When the order ends by itself.
        pub expires: Option<Timestamp>,
        /// Id of the key that signed the order.
        pub key: Option<Text>,
        /// Number of calls that are still running.
        pub left: Int,
        /// The first of the calls that are still running.
        pub left_calls: Option<List<LeftCall>>,
        /// The name of its target; empty for `all`.
        pub name: Text,
        /// Digest of the order's row.
        pub row: Option<TaggedDigest>,
        /// Number of runs that the gate sealed because of the order.
        pub runs_sealed: Int,
        /// The order's number; 0 if the gate acted by itself.
        pub seq: Int,
        /// The signature of the order, armored.
        pub signature: Option<Text>,
        /// Digest of the list of signers that it was checked against.
        pub signers: Option<TaggedDigest>,
        /// Orders in force when the gate started.
        pub standing: Option<List<Standing, 32>>,
        /// The statement that was signed.
        pub statement: Option<Text>,
        /// The first of the stopped calls.
        pub stopped: List<StoppedCall>,
        /// Number of stopped calls.
        pub stopped_count: Int,
        /// The operator.
        pub subject: Option<Text>,
        /// Kind of the target.
        pub target: TargetKind,
    }
}

impl ControlApplied {
    /// The entry of an order that stopped no running call.
    pub fn idle(seq: u64, action: Action, (target, name): (TargetKind, &str)) -> Self {
        Self {
            action,
            after: None,
            auth: None,
            exception: None,
            exceptions: None,
            expires: None,
            key: None,
            left: 0_u64.into(),
            left_calls: None,
            name: name.into(),
            row: None,
            runs_sealed: 0_u64.into(),
            seq: seq.into(),
            signature: None,
            signers: None,
            standing: None,
            statement: None,
            stopped: List::default(),
            stopped_count: 0_u64.into(),
            subject: None,
            target,
        }
    }
}

members! {
    /// `control.refused`: a gate refused a signed order.
    pub struct ControlRefused {
        /// How the operator proved who it is.
        pub auth: Text,
        /// The stable code of the refusal.
        pub code: Text,
        /// The refusal as text.
        pub message: Text,
        /// The order's number.
        pub seq: Int,
        /// The statement that was signed.
        pub statement: Text,
        /// The operator.
        pub subject: Text,
    }
}
