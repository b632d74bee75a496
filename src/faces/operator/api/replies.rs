//! What routes answer with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Reply;
use crate::operator::view::Facts;

macro_rules! replies {
    ($(
        $(#[$meta:meta])+
        $name:ident { $($(#[$of:meta])+ $member:ident: $of_type:ty,)* } $(with { $($own:tt)* })?
    )*) => {$(
        $(#[$meta])+
        #[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
        pub struct $name { $($(#[$of])+ pub $member: $of_type,)* }

        impl Reply for $name { $($($own)*)? }
    )*};
}

replies! {
    /// Where an order is recorded.
    Recorded {
        /// The log.
        origin: String,
        /// The number of the entry.
        seq: u64,
        /// The hash of the entry, in hex.
        hash: String,
    }

    /// What one gate did about an order.
    GateReport {
        /// The gate: the name of its log.
        origin: String,
        /// When.
        at: String,
        /// What it did.
        done: Value,
    }

    /// A gate that did not say what it did about an order.
    SilentGate {
        /// The gate: the name of its log.
        origin: String,
        /// When it last showed itself.
        last_seen: String,
    }

    /// What became of an order.
    Outcome {
        /// The number of the order.
        seq: u64,
        /// Whether every gate applied it and nothing is left running; of a signature, whether it was counted.
        complete: bool,
        /// Calls that were stopped.
        stopped_count: u64,
        /// Runs that were ended.
        runs_sealed: u64,
        /// Calls that are still running.
        left: u64,
        /// What the gates did.
        gates: Vec<GateReport>,
        /// Gates that did not say what they did.
        not_reached: Vec<SilentGate>,
    }

    /// The answer to an order.
    OrderReply {
        /// Where it is recorded; `null` if the ledger did not confirm the entry.
        recorded: Option<Recorded>,
        /// What became of it.
        #[serde(flatten)]
        outcome: Outcome,
    } with {
        fn is_complete(&self) -> bool {
            self.outcome.complete
        }
    }

    /// One order as it was given.
    OrderRow {
        /// Its number.
        seq: u64,
        /// When it was given.
        at: String,
        /// Who gave it.
        subject: String,
        /// The roles of the subject.
        roles: Vec<String>,
        /// How the subject logged in.
        auth: String,
        /// Why.
        reason: String,
        /// When it ends by itself.
        expires: Option<String>,
        /// What kind of order it is.
        kind: String,
        /// What is ordered; of changed arguments, only their length.
        body: Value,
    }

    /// One order and what became of it.
    OrderDetail {
        /// The order.
        order: OrderRow,
        /// What became of it.
        #[serde(flatten)]
        outcome: Outcome,
    }

    /// Orders.
    Orders {
        /// The orders, oldest first.
        orders: Vec<OrderRow>,
        /// The number to ask for next.
        next: u64,
        /// Whether there are more.
        more: bool,
    }

    /// The newest order or entry, which a signed order names as its predecessor.
    Head {
        /// The tenant.
        tenant: String,
        /// The number; 0 if there is none.
        seq: u64,
        /// The digest, `sha256:…`.
        digest: String,
    }

    /// One gate.
    Gate {
        /// The name of its log.
        origin: String,
        /// Host and process.
        writer: String,
        /// `there`, `silent` or `stopped`.
        standing: String,
        /// When it last showed itself.
        last_seen: String,
        /// Milliseconds since then.
        age_ms: i64,
        /// The newest order it has applied.
        obeyed: u64,
        /// Its open runs.
        runs: Option<usize>,
        /// Its held calls.
        held: Option<usize>,
        /// Its calls that are running.
        in_flight: Option<usize>,
        /// What it says of itself.
        state: Value,
    }

    /// The gates.
    Fleet {
        /// Gates that showed themselves.
        gates: Vec<Gate>,
        /// Logs with open runs whose gate never showed itself.
        never_seen: Vec<String>,
    }

    /// Held calls that are the same request.
    HeldCall {
        /// The run.
        run: Option<String>,
        /// The id of the first call.
        call: String,
        /// How many calls.
        count: usize,
        /// The ids of all of them.
        calls: Vec<String>,
        /// The tool.
        tool: Option<String>,
        /// `T0` to `T3`.
        tier: Option<String>,
        /// The agent, by its manifest.
        agent: String,
        /// The version of the manifest.
        version: String,
        /// Since when.
        held: String,
        /// Until when.
        expires: Option<String>,
        /// Bytes of the arguments.
        bytes: Option<u64>,
        /// Why, by the policy.
        reasons: Vec<String>,
        /// The digest of the call, in hex.
        digest: Option<String>,
        /// The digest in words.
        words: Option<String>,
        /// How many have approved.
        approvals: usize,
        /// The approver who wrote the arguments, if the agent did not.
        asked_by: Option<String>,
    }

    /// Held calls.
    HeldCalls {
        /// The calls, highest tier first.
        held: Vec<HeldCall>,
        /// How many requests there are.
        asks: usize,
        /// How many calls there are.
        calls: usize,
        /// Whether there are more than are listed.
        more: bool,
    }

    /// One held call.
    HeldCallDetail {
        /// Everything about it.
        facts: Facts,
        /// The bytes to sign to approve it.
        statement: String,
        /// The bytes to sign to refuse it.
        refusal: String,
        /// The call as a person reads it.
        view: String,
    }

    /// One open run.
    OpenRun {
        /// Its id.
        run: String,
        /// The log it is in.
        origin: String,
        /// The agent, by its manifest.
        agent: String,
        /// The version of the manifest.
        version: String,
        /// The digest of the manifest.
        manifest: String,
        /// When it was opened.
        opened: String,
        /// Its calls.
        calls: usize,
        /// Its calls that are running.
        in_flight: usize,
        /// Its held calls.
        held: usize,
    }

    /// Open runs.
    Runs {
        /// The runs.
        runs: Vec<OpenRun>,
        /// How many there are.
        open: usize,
        /// Whether there are more than are listed.
        more: bool,
    }

    /// The review of a break-glass statement.
    GlassReview {
        /// Who reviewed it.
        by: String,
        /// What the review found.
        note: String,
    }

    /// One break-glass statement that was opened.
    OpenedGlass {
        /// The number of the order.
        seq: u64,
        /// The nonce of the statement.
        nonce: String,
        /// The agent.
        agent: String,
        /// The tools that need no approver.
        tools: Vec<String>,
        /// Why.
        reason: String,
        /// When it was opened.
        opened: String,
        /// When it ends.
        expires: String,
        /// Who sent it.
        brought_by: String,
        /// How many signed it.
        signatures: usize,
        /// Whether it is open.
        open: bool,
        /// When it was ended early.
        closed: Option<String>,
        /// Its review.
        review: Option<GlassReview>,
    }

    /// Break-glass statements.
    BreakGlass {
        /// Whether signers are configured.
        configured: bool,
        /// The statements, newest first.
        orders: Vec<OpenedGlass>,
        /// How many need a review.
        unreviewed: usize,
        /// Whether there are more than are listed.
        more: bool,
    }

    /// How a bundle was activated.
    Activation {
        /// Who ordered it.
        subject: String,
        /// When.
        at: String,
        /// What the gates did.
        gates: Vec<GateReport>,
    }

    /// One proposed bundle.
    Amendment {
        /// Its digest.
        bundle: String,
        /// The digest of the bundle it replaces.
        base: String,
        /// Its version.
        version: String,
        /// Who proposed it.
        author: String,
        /// Why.
        reason: String,
        /// When.
        proposed: String,
        /// When the proposal ends.
        expires: String,
        /// `proposed`, `approved`, `refused` or `activated`.
        standing: String,
        /// Who approved it.
        approved_by: Vec<String>,
        /// Who refused it.
        refused_by: Vec<String>,
        /// What the gates say of it.
        gates: Vec<GateReport>,
        /// How it was activated.
        activation: Option<Activation>,
    }

    /// Proposed bundles.
    Amendments {
        /// The proposals, oldest first.
        amendments: Vec<Amendment>,
    }

    /// One proposed bundle with its files.
    AmendmentDetail {
        /// The proposal.
        #[serde(flatten)]
        amendment: Amendment,
        /// Its files by name, each as base64.
        files: Value,
        /// The bytes to sign to approve it.
        statement: String,
        /// The bytes to sign to refuse it.
        refusal: String,
    }

    /// What was erased.
    ErasedPayloads {
        /// How many payloads were deleted.
        deleted: u64,
        /// `none`, `some` or `unknown`: bytes that may remain in the files of the store.
        residue: String,
        /// The fleet log.
        log: String,
        /// The numbers of its entries.
        entries: Vec<u64>,
        /// The signed receipt; `null` if nothing new was recorded.
        receipt: Value,
    }

    /// The answer to an erasure.
    ErasureReply {
        /// Payloads that are meant and stored.
        payloads: usize,
        /// Payloads that were erased before.
        before: usize,
        /// Payloads that were never stored.
        absent: usize,
        /// `sqlite` or `postgres`.
        store: String,
        /// What was erased; absent from a dry run.
        #[serde(flatten)]
        erased: Option<ErasedPayloads>,
    }

    /// What an entry says of an erasure.
    ErasureFacts {
        /// When.
        at: String,
        /// The log of the payloads.
        log: String,
        /// How many payloads.
        payloads: usize,
        /// Why.
        basis: String,
        /// Who erased them.
        by: String,
        /// The number of the request it answers.
        request: Option<String>,
        /// Who signed the order.
        signed_by: Option<String>,
        /// When the last backup that holds them is gone.
        backups_expire_by: String,
    }

    /// One erasure.
    ErasureRow {
        /// The fleet log.
        fleet: String,
        /// The number of its entry.
        entry: u64,
        /// What the entry says.
        #[serde(flatten)]
        facts: Option<ErasureFacts>,
    }

    /// Erasures.
    Erasures {
        /// The erasures, newest first.
        erasures: Vec<ErasureRow>,
        /// Whether there are more than are listed.
        more: bool,
    }

    /// One erasure with its receipt.
    ErasureDetail {
        /// The erasure.
        #[serde(flatten)]
        erasure: ErasureRow,
        /// The receipt, made anew.
        receipt: Value,
    }

    /// One legal hold.
    LegalHoldRow {
        /// The log.
        log: String,
        /// The run; of a whole log `null`.
        run: Option<String>,
        /// Why.
        reason: String,
        /// Who placed it.
        by: String,
        /// The number of its entry in the fleet log.
        entry: u64,
    }

    /// Legal holds in force.
    LegalHolds {
        /// The holds.
        holds: Vec<LegalHoldRow>,
    }

    /// The answer to a legal hold.
    LegalHoldReply {
        /// Whether the payloads are held.
        held: bool,
        /// The fleet log.
        log: String,
        /// The number of the entry.
        entry: u64,
        /// Whether they were held before.
        already: bool,
    }
}
