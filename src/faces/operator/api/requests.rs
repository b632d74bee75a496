//! What routes take: the parameters of paths, queries and bodies. A member that no struct has is refused.

use std::num::NonZeroU64;

use http::HeaderMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Input;
use crate::approval::SignedApproval;
use crate::domain::members::present;
use crate::operator::credential::ShownCredential;
use crate::operator::live::{Standing, last_event};

macro_rules! paths {
    ($($(#[doc = $about:literal])+ $name:ident { $($(#[doc = $of:literal])+ $member:ident: $of_type:ty),+ })*) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Debug, Deserialize, Serialize)]
        pub struct $name { $($(#[doc = $of])+ pub $member: $of_type),+ }
    )*};
}

paths! {
    /// Names a proposed bundle.
    BundlePath {
        /// Its digest, `sha256:…`.
        bundle: String
    }
    /// Names a held call.
    HeldCallPath {
        /// The id of its run.
        run: String,
        /// Its id.
        call: String
    }
    /// Names a recorded call.
    CallPath {
        /// Its chain, in hex.
        chain: String,
        /// The number of the entry that first decided it.
        seq: String
    }
    /// Names an entry.
    ReceiptPath {
        /// Its chain, in hex.
        chain: String,
        /// Its number.
        seq: String
    }
    /// Names a run.
    RunPath {
        /// Its id.
        run: String
    }
    /// Names a break-glass statement.
    NoncePath {
        /// Its nonce.
        nonce: String
    }
    /// Names an order.
    OrderPath {
        /// Its number.
        seq: NonZeroU64
    }
    /// Names a backtest.
    BacktestPath {
        /// Its id.
        id: String
    }
    /// Names an erasure.
    ErasurePath {
        /// The number of its entry in the newest fleet log.
        seq: u64
    }
}

macro_rules! inputs {
    ($(
        $(#[$meta:meta])+
        $name:ident { $($(#[$of:meta])+ $member:ident: $of_type:ty,)* } $(with { $($own:tt)* })?
    )*) => {$(
        $(#[$meta])+
        #[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$of])+ pub $member: $of_type,)* }

        impl Input for $name { $($($own)*)? }
    )*};
}

/// Lines of a list, unless the client says how many.
const LINES: u64 = 100;

inputs! {
    /// A body without members.
    Empty {}

    /// How much of a list is wanted.
    Page {
        /// Maximum number of items in the list; 100 if absent, at most 200.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    }

    /// Which alerts are wanted.
    AlertSearch {
        /// Only those about this run.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        run: Option<String>,
        /// Only those about this agent.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// Only those about this tool.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// Only this alert: `path_traversal`, `secret_egress`, …
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        alert: Option<String>,
        /// Only this severity: `medium`, `high` or `critical`.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        severity: Option<String>,
        /// Only those that were raised at this date, at this time or this duration ago, or later.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        since: Option<String>,
        /// Maximum number of items in the list; 100 if absent, at most 200.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    } with {
        const TEXTS: &'static [&'static str] =
            &["run", "agent", "tool", "alert", "severity", "since"];
    }

    /// Which calls are wanted.
    CallSearch {
        /// Terms `word:value` that must all match, such as `tool:payments.refund -verdict:allow since:2h`.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        q: Option<String>,
        /// Only what began at this date, at this time or this duration ago, or later.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        since: Option<String>,
        /// Only what began before this.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        until: Option<String>,
        /// The `next` of the answer before.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
        /// Maximum number of items in the list; 100 if absent, at most 200.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    } with {
        const TEXTS: &'static [&'static str] = &["q", "since", "until", "cursor"];
    }

    /// Where the live feed begins.
    LiveFrom {
        /// The `id` of the last event that the client has; if absent, the feed begins now.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        after: Option<String>,
        /// How long the stream lasts.
        #[serde(skip)]
        standing: Option<Standing>,
    } with {
        const TEXTS: &'static [&'static str] = &["after"];

        fn complete(&mut self, headers: &HeaderMap, shown: &ShownCredential) {
            // A browser that comes back names it here, in the address of its first request.
            self.after = last_event(headers).or(self.after.take());
            self.standing = Some(Standing::of_credential(shown));
        }
    }

    /// Which runs are wanted. Without any member except `limit`: the open runs, those with held calls first.
    RunSearch {
        /// `open` (if absent), `sealed` or `all`.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        state: Option<String>,
        /// Terms `word:value` that must all match, such as `tool:payments.refund -verdict:allow since:2h`.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        q: Option<String>,
        /// Only what began at this date, at this time or this duration ago, or later.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        since: Option<String>,
        /// Only what began before this.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        until: Option<String>,
        /// The `next` of the answer before.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
        /// Maximum number of items in the list; 100 if absent, at most 200.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    } with {
        const TEXTS: &'static [&'static str] = &["state", "q", "since", "until", "cursor"];
    }

    /// Which calls of a run are wanted.
    RunCalls {
        /// Only calls that began after this entry.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
        /// Maximum number of calls; 100 if absent, at most 200.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    }

    /// Which orders are wanted.
    OrdersAfter {
        /// Only orders with a number above this one.
        #[serde(default)]
        since: u64,
    }

    /// Takes the labels of a run away.
    TaintClearing {
        /// Why; it is recorded in the ledger.
        reason: String,
    }

    /// Ends an exception of the firewall.
    ExceptionEnd {
        /// Why; it is recorded in the ledger.
        reason: String,
    }

    /// A statement and one signature over it.
    SignedStatement {
        /// The bytes that were signed, as text.
        statement: String,
        /// The SSH signature over the statement, armored.
        signature: String,
    }

    /// A bundle that is proposed.
    Proposal {
        /// The files of the bundle by name, each as base64.
        files: Map<String, Value>,
        /// Digest of the bundle it replaces; if absent, the bundle that all gates have in force.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        base: Option<String>,
        /// The reason, for the publishers.
        #[serde(default)]
        reason: String,
    } with {
        const BYTES_MAX: usize = 1024 * 1024;
    }

    /// Other arguments for a held call.
    Modification {
        /// The arguments: text that is a JSON object.
        arguments: String,
        /// The reason, for the ledger.
        #[serde(default)]
        reason: String,
        /// The proposal that was signed, as text.
        statement: String,
        /// The SSH signature over it, armored.
        signature: String,
    }

    /// A break-glass statement and the signatures over it.
    BreakGlassStatement {
        /// The statement, as text.
        statement: String,
        /// The SSH signatures over it, armored.
        #[schemars(length(max = 16))]
        signatures: Vec<String>,
    }

    /// An order to end a break-glass statement early.
    BreakGlassEnd {
        /// The reason, for the ledger.
        #[serde(default)]
        reason: String,
    }

    /// The review of a break-glass statement.
    BreakGlassReview {
        /// Findings of the review; 1 to 1024 bytes.
        #[serde(default)]
        note: String,
    }

    /// A stop.
    Stop {
        /// `suspend`, `revoke` or `kill`.
        action: String,
        /// `all`, `agent`, `run`, `tool`, `manifest`, `key`, `face`, `kind`, `server` or `upstream`.
        target: String,
        /// The name of the target; empty for `all`.
        #[serde(default)]
        name: String,
        /// The reason, for the ledger.
        reason: String,
        /// When the stop ends by itself, such as `2026-11-21T20:05:03.123Z`.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        expires: Option<String>,
    }

    /// Payloads to erase: a signed order names them; a dry run needs no order.
    Erasure {
        /// The order, as text.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        statement: Option<String>,
        /// The SSH signature over the order, armored.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// Rewrite the file of a SQLite ledger even if no traces of the payloads are found in it.
        #[serde(default)]
        vacuum: bool,
        /// Erase nothing, and count what would be erased.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        dry_run: bool,
        /// With `dry_run`: the id of a run.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        run: Option<String>,
        /// With `run`: only payloads of this role.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// With `dry_run`: commitments of payloads, 64 hex digits each.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        commitments: Option<Vec<String>>,
    }

    /// A legal hold to place, or a signed order that lifts one.
    LegalHold {
        /// The order that ends a hold, as text.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        statement: Option<String>,
        /// The SSH signature over the order, armored.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// To place a hold: the id of a run.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        run: Option<String>,
        /// To place a hold: the name of a log.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        log: Option<String>,
        /// To place a hold: the reason, for the ledger.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }

    /// What an evidence bundle contains.
    Export {
        /// `{scope: run, run}`, `{scope: range, log, from, to}` or `{scope: population}` with `since`, `until`,
        /// `agent`, `tool`, `verdict` and `chains`.
        #[schemars(required)]
        query: Option<Value>,
        /// Sizes of a log's heads; the bundle proves that the log extends each of them.
        #[serde(default)]
        #[schemars(length(max = 64))]
        since: Vec<u64>,
        /// Whether the bundle includes the payloads; a bundle of one run always does.
        #[serde(default)]
        payloads: bool,
        /// Members to hide: a role and members, such as `args:iban,note`.
        #[serde(default)]
        #[schemars(length(max = 64))]
        redact: Vec<String>,
        /// Members to disclose; all others of that role are hidden.
        #[serde(default)]
        #[schemars(length(max = 64))]
        disclose: Vec<String>,
    } with {
        const CAUSE: &'static str = "export.options";
    }

    /// Which part of the ledger is verified: a run, one call of it, or a range of a chain.
    AuditSelection {
        /// The id of a run.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        run: Option<String>,
        /// With `run`: the id of a call. Its whole run is verified.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// A chain: the name of its log, or its id in hex.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        chain: Option<String>,
        /// With `chain`: the number of the first entry; 0 if absent.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        from: Option<u64>,
        /// With `chain`: the number after the last entry; at most 10000 entries after `from`, and the end of the log
        /// at the latest.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        to: Option<u64>,
    } with {
        const CAUSE: &'static str = "audit.selection";
    }

    /// Which decisions observe mode is asked about.
    ObservedSince {
        /// Only decisions since this date, this time or this duration ago; `7d` if absent.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        since: Option<String>,
    } with {
        const TEXTS: &'static [&'static str] = &["since"];
    }

    /// A bundle to test on recorded decisions.
    BacktestRequest {
        /// Its digest, `sha256:…`: a proposed bundle, or one that is kept for evidence.
        bundle: String,
        /// Only decisions since this date, this time or this duration ago.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        since: Option<String>,
        /// Only decisions before this.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        until: Option<String>,
        /// Only calls of this agent.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// Only calls of this tool.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// Maximum number of decisions, the oldest first; 1000000 if absent, and at most.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    }

    /// A writer's key to certify.
    Enrolment {
        /// The request, as text.
        request: String,
        /// The signature over the request by the key it names.
        proof: String,
    } with {
        const BYTES_MAX: usize = 16 * 1024;
    }
}

impl From<SignedApproval> for SignedStatement {
    fn from(SignedApproval { statement, signature }: SignedApproval) -> Self {
        Self { statement, signature }
    }
}

impl Page {
    /// How many lines are wanted.
    pub fn lines(&self) -> usize {
        usize::try_from(self.limit.unwrap_or(LINES)).unwrap_or(usize::MAX)
    }
}
