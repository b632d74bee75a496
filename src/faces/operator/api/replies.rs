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

    /// What one gate did to carry out an order.
    GateReport {
        /// The gate: the name of its log.
        origin: String,
        /// When the gate reported it.
        at: String,
        /// What it did.
        done: Value,
    }

    /// A gate that did not report what it did.
    SilentGate {
        /// The gate: the name of its log.
        origin: String,
        /// When it last reported.
        last_seen: String,
    }

    /// Outcome of an order.
    Outcome {
        /// The number of the order.
        seq: u64,
        /// Whether every gate applied it and no affected call is still running; for a signature,
        /// whether it was counted.
        complete: bool,
        /// Number of calls that were stopped.
        stopped_count: u64,
        /// Number of runs that were sealed.
        runs_sealed: u64,
        /// Number of calls that are still running.
        left: u64,
        /// Reports of the gates.
        gates: Vec<GateReport>,
        /// Gates that did not report.
        not_reached: Vec<SilentGate>,
    }

    /// The answer to an order.
    OrderReply {
        /// Where it is recorded; `null` if the ledger did not confirm the entry.
        recorded: Option<Recorded>,
        /// Its outcome.
        #[serde(flatten)]
        outcome: Outcome,
    } with {
        fn is_complete(&self) -> bool {
            self.outcome.complete
        }
    }

    /// One order.
    OrderRow {
        /// Its number.
        seq: u64,
        /// When it was sent.
        at: String,
        /// Who sent it.
        subject: String,
        /// The roles of the subject.
        roles: Vec<String>,
        /// How the subject logged in.
        auth: String,
        /// Why.
        reason: String,
        /// When it ends by itself.
        expires: Option<String>,
        /// The kind of the order.
        kind: String,
        /// The content of the order; of proposed arguments, only their length.
        body: Value,
    }

    /// One order and its outcome.
    OrderDetail {
        /// The order.
        order: OrderRow,
        /// Its outcome.
        #[serde(flatten)]
        outcome: Outcome,
    }

    /// Orders.
    Orders {
        /// The orders, oldest first.
        orders: Vec<OrderRow>,
        /// The value of `since` for the next page.
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
        /// When it last reported.
        last_seen: String,
        /// Milliseconds since it last reported.
        age_ms: i64,
        /// Number of the newest order that it has applied.
        obeyed: u64,
        /// Number of its open runs.
        runs: Option<usize>,
        /// Number of its held calls.
        held: Option<usize>,
        /// Number of its running calls.
        in_flight: Option<usize>,
        /// The state that it reports.
        state: Value,
    }

    /// The gates.
    Fleet {
        /// Gates that have reported.
        gates: Vec<Gate>,
        /// Logs that have open runs and whose gate has never reported.
        never_seen: Vec<String>,
    }

    /// One request that is held: a call, or several equal ones.
    HeldCall {
        /// The run.
        run: Option<String>,
        /// The id of the first call.
        call: String,
        /// Number of the calls.
        count: usize,
        /// The ids of all calls.
        calls: Vec<String>,
        /// The tool.
        tool: Option<String>,
        /// `T0` to `T3`.
        tier: Option<String>,
        /// The agent, by its manifest.
        agent: String,
        /// The version of the manifest.
        version: String,
        /// When the first call was held.
        held: String,
        /// When the hold expires.
        expires: Option<String>,
        /// Size of the arguments in bytes.
        bytes: Option<u64>,
        /// Reasons of the policy.
        reasons: Vec<String>,
        /// The digest of the call, in hex.
        digest: Option<String>,
        /// The digest as a list of dictionary words, for comparison by people.
        words: Option<String>,
        /// Number of recorded approvals.
        approvals: usize,
        /// The approver who proposed the arguments, if the agent did not choose them.
        asked_by: Option<String>,
    }

    /// Held calls.
    HeldCalls {
        /// The requests, highest tier first.
        held: Vec<HeldCall>,
        /// Number of all held requests.
        asks: usize,
        /// Number of all held calls.
        calls: usize,
        /// Whether there are more than are listed.
        more: bool,
    }

    /// One held call.
    HeldCallDetail {
        /// The call with its arguments.
        facts: Facts,
        /// The bytes to sign to approve it.
        statement: String,
        /// The bytes to sign to refuse it.
        refusal: String,
        /// The call as text for the approver.
        view: String,
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
        /// Tools that need no approval.
        tools: Vec<String>,
        /// Why.
        reason: String,
        /// When it was opened.
        opened: String,
        /// When it ends.
        expires: String,
        /// Who sent it.
        brought_by: String,
        /// Number of people who signed it.
        signatures: usize,
        /// Whether it is open.
        open: bool,
        /// When it was ended early.
        closed: Option<String>,
        /// Its review.
        review: Option<GlassReview>,
    }

    /// One value that passes the firewall by a signed order.
    FindingException {
        /// The number of the order.
        seq: u64,
        /// When it was ordered.
        at: String,
        /// Who sent it.
        subject: String,
        /// The tool.
        tool: String,
        /// `arguments`, `results` or `prompts`.
        direction: String,
        /// What the firewall takes it for.
        kind: String,
        /// JSON pointer of the text with it.
        path: String,
        /// Its keyed mark.
        mark: String,
        /// Why.
        reason: String,
        /// When it ends by itself.
        expires: String,
        /// `in force`, `over`, `revoked`, `not applied` (no gate has answered) or `refused`.
        state: String,
        /// Number of gates that applied it.
        gates: usize,
    }

    /// The values that pass the firewall by a signed order.
    FindingExceptions {
        /// Those, newest first.
        exceptions: Vec<FindingException>,
        /// Whether there are more than are listed.
        more: bool,
    }

    /// Break-glass statements.
    BreakGlass {
        /// Whether signers are configured.
        configured: bool,
        /// The statements, newest first.
        orders: Vec<OpenedGlass>,
        /// Number of statements that need a review.
        unreviewed: usize,
        /// Whether there are more than are listed.
        more: bool,
    }

    /// How a bundle was activated.
    Activation {
        /// Who ordered it.
        subject: String,
        /// When it was ordered.
        at: String,
        /// Reports of the gates.
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
        /// When it was proposed.
        proposed: String,
        /// When the proposal expires.
        expires: String,
        /// `proposed`, `approved`, `refused` or `activated`.
        standing: String,
        /// Who approved it.
        approved_by: Vec<String>,
        /// Who refused it.
        refused_by: Vec<String>,
        /// Reports of the gates that tested it.
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
        /// Number of payloads that were deleted.
        deleted: u64,
        /// Whether bytes of the payloads may remain in the files of the store: `none`, `some` or
        /// `unknown`.
        residue: String,
        /// Name of the fleet log.
        log: String,
        /// Numbers of the erasure's entries in the fleet log.
        entries: Vec<u64>,
        /// The signed receipt; `null` if nothing new was recorded.
        receipt: Value,
    }

    /// The answer to an erasure.
    ErasureReply {
        /// Number of payloads of the request that are stored.
        payloads: usize,
        /// Number of payloads that were already erased.
        before: usize,
        /// Number of payloads that were never stored.
        absent: usize,
        /// `sqlite` or `postgres`.
        store: String,
        /// What was erased; absent from a dry run.
        #[serde(flatten)]
        erased: Option<ErasedPayloads>,
    }

    /// An erasure as its entry records it.
    ErasureFacts {
        /// When they were erased.
        at: String,
        /// The log of the payloads.
        log: String,
        /// Number of payloads.
        payloads: usize,
        /// The legal basis or the reason.
        basis: String,
        /// Who erased them.
        by: String,
        /// Number of the request that it fulfils.
        request: Option<String>,
        /// Who signed the order.
        signed_by: Option<String>,
        /// When the last backup that contains the payloads is deleted.
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
        /// A new copy of the receipt.
        receipt: Value,
    }

    /// One legal hold.
    LegalHoldRow {
        /// The log.
        log: String,
        /// The run; `null` if the hold covers the whole log.
        run: Option<String>,
        /// The reason of the hold.
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

    /// The answer to placing or lifting a legal hold.
    LegalHoldReply {
        /// Whether the payloads are on hold now.
        held: bool,
        /// The fleet log.
        log: String,
        /// The number of the entry.
        entry: u64,
        /// Whether the payloads were on hold before.
        already: bool,
    }
}
