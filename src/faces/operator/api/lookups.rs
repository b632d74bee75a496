//! What routes answer with about calls and runs that were looked up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Reply;
use crate::index::IndexReach;
use crate::index::rows::{CallRow, RunRow};
use crate::operator::view::copies::ReadBefore;
use crate::record::Entry;
use crate::record::call::Reason;

replies! {
    /// One call.
    CallLine {
        /// The chain, in hex.
        chain: String,
        /// The number of the entry that first decided the call.
        seq: u64,
        /// When that was.
        at: String,
        /// The run.
        run: String,
        /// The id of the call in the run.
        call: String,
        /// The agent, by its manifest.
        agent: String,
        /// The version of the manifest.
        version: String,
        /// The tool.
        tool: Option<String>,
        /// `T0` to `T3`.
        tier: Option<String>,
        /// The newest verdict: `allow`, `deny` or `require_approval`.
        verdict: String,
        /// Whether the verdict was enforced; if not, a denied call ran.
        enforced: bool,
        /// `held`, `running`, `completed`, `failed`, `unknown`, `cancelled`, `expired` or `denied`.
        state: String,
        /// The code of the first reason.
        code: Option<String>,
        /// The finer code below it.
        detail: Option<String>,
        /// The rule that decided.
        rule: Option<String>,
        /// How it ended: a status, a class of failure or a cause.
        outcome: Option<String>,
        /// Microseconds from the permit to the end.
        us: Option<u64>,
        /// Number of places of the result that were masked.
        masked: u64,
        /// What the gate found in it: `credential`, `masked` or `unscanned`.
        findings: Vec<String>,
        /// The hosts that it reaches, as the configuration of its tool names them.
        hosts: Vec<String>,
        /// Number of approvals that counted.
        approvals: u64,
        /// Who approved or refused it.
        decided_by: Vec<String>,
    }

    /// One event of the live feed.
    LiveLine {
        /// When it was recorded.
        ts: String,
        /// The kind of the entry: `run.opened`, `call.denied`, `approval.granted`, `health.changed`, `alert.raised`, …
        kind: String,
        /// The agent, by its manifest.
        agent: Option<String>,
        /// The tool.
        tool: Option<String>,
        /// The newest verdict: `allow`, `deny` or `require_approval`.
        verdict: Option<String>,
        /// Why: the finer code of a decision's first reason, the class or cause of an end, the kind of an alert, `ready` or `not_ready`.
        code: Option<String>,
        /// The run.
        run: Option<String>,
        /// The id of the call in the run.
        call: Option<String>,
        /// The address of the call: the `{chain}/{seq}` of `GET /v1/calls/{chain}/{seq}`.
        at: Option<String>,
    }

    /// Says that events of the live feed were left out: look the calls up instead.
    LiveMore {
        /// Number of the events; `null`: it is not known whether there were any.
        more: Option<u64>,
    }

    /// Calls that match a query.
    Calls {
        /// The calls, newest first.
        calls: Vec<CallLine>,
        /// The value of `cursor` for the next page; `null` at the end.
        next: Option<String>,
        /// Everything that was recorded before this time was searched.
        as_of: String,
        /// Number of entries that were not searched yet.
        behind: u64,
    }

    /// One reason of a decision.
    ReasonLine {
        /// The code.
        code: String,
        /// The finer code below it.
        detail: String,
        /// The reason as text.
        message: String,
        /// The rule that gave it.
        rule: String,
    }

    /// A payload of a call. Its content is not shown here.
    PayloadLine {
        /// `args`, `result`, `policy_input`, …
        role: String,
        /// The salted commitment to it, in hex.
        commitment: String,
        /// Its size in bytes.
        bytes: u64,
    }

    /// One entry about a call.
    CallEntry {
        /// Its number in the chain.
        seq: u64,
        /// Its number in the run.
        run_seq: u64,
        /// When it was recorded.
        at: String,
        /// Its kind: `call.authorized`, …
        kind: String,
        /// Its hash, in hex: the leaf of the log.
        leaf: String,
        /// The payloads that it commits to.
        payloads: Vec<PayloadLine>,
    }

    /// One call, read from its entries.
    CallDetail {
        /// The call.
        #[serde(flatten)]
        call: CallLine,
        /// The name of the log.
        origin: String,
        /// Why it was denied or held.
        reasons: Vec<ReasonLine>,
        /// The digest of the policy bundle.
        policy: Option<String>,
        /// The approver who proposed the arguments, if the agent did not choose them.
        asked_by: Option<String>,
        /// The call that it checks or takes back, if the gate made it itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gate_of: Option<String>,
        /// Why the agent made it, in its own words: a claim.
        justification: Option<String>,
        /// The W3C trace context of the caller.
        traceparent: Option<String>,
        /// What the run had read when it was decided, and which passages of its arguments are copies of that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        read_before: Option<ReadBefore>,
        /// Its entries, in order.
        entries: Vec<CallEntry>,
        /// The size of the signed checkpoint that all of them are in, their hashes computed again; `null` if that is not
        /// shown.
        checkpoint: Option<u64>,
        /// Why it is not shown.
        unproven: Option<String>,
    }

    /// The proof that an entry is in the log.
    ReceiptProof {
        /// The name of the log.
        origin: String,
        /// The number of the entry.
        seq: u64,
        /// Its hash, in hex, computed from the entry: the leaf of the log.
        leaf: String,
        /// Number of entries under the checkpoint.
        size: u64,
        /// The root over them, in hex.
        root: String,
        /// The proof with the signed checkpoint: a file of the form c2sp.org/tlog-proof@v1.
        proof: String,
    }

    /// An earlier call that a held call is compared with.
    SimilarCall {
        /// The chain, in hex.
        chain: String,
        /// The number of the entry that first decided it.
        seq: u64,
        /// When it was held.
        at: String,
        /// The run.
        run: String,
        /// The id of the call in the run.
        call: String,
        /// Who approved it.
        decided_by: Vec<String>,
    }

    /// A place at which the arguments differ.
    ArgumentChange {
        /// A JSON pointer; empty for the whole value.
        at: String,
        /// The value of the earlier call as JSON; `null`: it had none.
        old: Option<String>,
        /// The value of the held call as JSON; `null`: it has none.
        new: Option<String>,
    }

    /// A held call beside the last one of its kind that was approved.
    Similar {
        /// That call: of the same agent, tool and definition, with an effect of the same shape; `null`: there is none.
        against: Option<SimilarCall>,
        /// Where the arguments differ, in the order of their places.
        changes: Vec<ArgumentChange>,
        /// Whether they differ at more places than are listed.
        more: bool,
    }

    /// One payload of a call.
    PayloadBody {
        /// `args` or `result`.
        role: String,
        /// The number of the entry that commits to it.
        entry: u64,
        /// The salted commitment to it, in hex.
        commitment: String,
        /// Its size in bytes.
        bytes: u64,
        /// Its content; `null` if it is not shown.
        text: Option<String>,
        /// Why its content is not shown.
        withheld: Option<String>,
    }

    /// The arguments and the result of a call.
    CallPayloads {
        /// The payloads, arguments first.
        payloads: Vec<PayloadBody>,
    }

    /// One run.
    RunLine {
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
        /// The run that delegated to it.
        parent: Option<String>,
        /// When it was opened.
        opened: String,
        /// When it was sealed; `null`: it is open.
        sealed: Option<String>,
        /// Why it was sealed, if the agent did not seal it.
        reason: Option<String>,
        /// Number of its calls.
        calls: u64,
        /// Number of its running calls.
        in_flight: u64,
        /// Number of its held calls.
        held: u64,
        /// Number of its denied calls.
        denied: u64,
    }

    /// Runs that match a query.
    Runs {
        /// The runs.
        runs: Vec<RunLine>,
        /// Number of all open runs.
        open: u64,
        /// Whether there are more than are listed.
        more: bool,
        /// The value of `cursor` for the next page; `null` at the end.
        next: Option<String>,
        /// Everything that was recorded before this time was searched.
        as_of: String,
        /// Number of entries that were not searched yet.
        behind: u64,
    }

    /// One run: its time line.
    RunDetail {
        /// The run.
        #[serde(flatten)]
        run: RunLine,
        /// Its calls, in the order they began.
        timeline: Vec<CallLine>,
        /// The value of `after` for the calls that follow; `null` at the end.
        next: Option<u64>,
        /// The newest runs that it delegated to.
        children: Vec<RunLine>,
        /// Everything that was recorded before this time was searched.
        as_of: String,
        /// Number of entries that were not searched yet.
        behind: u64,
    }
}

/// What is empty in the index has no value in an answer.
fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

impl From<CallRow> for CallLine {
    fn from(row: CallRow) -> Self {
        Self {
            chain: row.chain.to_string(),
            seq: row.seq,
            at: row.at.to_string(),
            run: row.run,
            call: row.call,
            agent: row.agent,
            version: row.version,
            tool: some(row.tool),
            tier: some(row.tier),
            verdict: row.verdict,
            enforced: row.enforced,
            state: row.state.to_string(),
            code: some(row.code),
            detail: some(row.detail),
            rule: some(row.rule),
            outcome: some(row.outcome),
            us: row.us,
            masked: row.masked,
            findings: row.findings,
            hosts: row.hosts,
            approvals: row.approvals,
            decided_by: row.decided_by,
        }
    }
}

impl RunLine {
    /// The line of a run in the log of this name.
    pub fn of(row: RunRow, origin: String) -> Self {
        Self {
            run: row.run,
            origin,
            agent: row.agent,
            version: row.version,
            manifest: row.manifest,
            parent: some(row.parent),
            opened: row.at.to_string(),
            sealed: row.sealed.map(|at| at.to_string()),
            reason: some(row.reason),
            calls: row.counts.all,
            in_flight: row.counts.running,
            held: row.counts.held,
            denied: row.counts.denied,
        }
    }
}

impl From<&Reason> for ReasonLine {
    fn from(reason: &Reason) -> Self {
        Self {
            code: reason.code.to_string(),
            detail: reason.detail.to_string(),
            message: reason.message.to_string(),
            rule: reason.rule.to_string(),
        }
    }
}

impl CallEntry {
    /// The line of an entry with this hash.
    pub fn of(entry: &Entry, leaf: String) -> Self {
        let payload = |commitment: &crate::record::Commitment| PayloadLine {
            role: commitment.role.to_string(),
            commitment: commitment.c.0.hex(),
            bytes: commitment.len.get(),
        };
        Self {
            seq: entry.seq,
            run_seq: entry.run.as_ref().map_or(0, |link| link.seq),
            at: entry.ts.to_string(),
            kind: entry.draft.kind().to_string(),
            leaf,
            payloads: entry.draft.commit.iter().map(payload).collect(),
        }
    }
}

/// How far the search reached, as answers say it.
pub fn reached(reach: IndexReach) -> (String, u64) {
    (reach.as_of.to_string(), reach.behind)
}
