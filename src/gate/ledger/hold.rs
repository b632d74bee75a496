//! A held call as the ledger records it: what its approvers see and sign, and who has signed.
//!
//! The gate always reads it from the ledger and never caches it, so a restart changes nothing.

use super::recall::masked_kinds;
use super::{Error, Ledger};
use crate::approval::Approval;
use crate::approval::proposal::Proposer;
use crate::domain::call::{CallerAuth, LoopStep};
use crate::domain::digest::{Digest, Salt};
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::tier::Tier;
use crate::domain::time::Timestamp;
use crate::record::call::{AskedIn, CallHeld};
use crate::record::calls::Calls;
use crate::record::{Entry, Kind, Nonce, Role};
use crate::verify::entries::approval::{granted, layers, proposer, refused};

/// One call that waits for an approval.
#[derive(Clone, PartialEq, Debug)]
pub struct HeldCall {
    /// The run.
    pub run: RunId,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// Its tier when it was held.
    pub tier: Tier,
    /// Run, call, tool and arguments in one digest.
    pub call_digest: Digest,
    /// What the tool was.
    pub definition: Option<Digest>,
    /// The effect of the call, keyed with `salt`.
    pub effect: Option<Digest>,
    /// The layers of the policy bundle that held it.
    pub layers: Vec<(String, Digest)>,
    /// Drawn for this hold.
    pub nonce: Nonce,
    /// When it stops waiting.
    pub expires: Timestamp,
    /// Highest `run_seq` released to the run when the call arrived.
    pub after: u64,
    /// How the caller authenticated.
    pub auth: CallerAuth,
    /// W3C trace context of the request.
    pub traceparent: Option<String>,
    /// The agent's reason for the call.
    pub justification: Option<String>,
    /// The canonical arguments; their commitment opens with `salt`.
    pub args: Vec<u8>,
    /// The arguments as sent, where that matters.
    pub sent: Option<Vec<u8>>,
    /// The salt of the arguments.
    pub salt: Salt,
    /// The approvals so far, in order.
    pub granted: Vec<Approval>,
    /// The refusal, if any: the call can then only be denied.
    pub refused: Option<Approval>,
    /// The approver who wrote its arguments, if the agent did not.
    pub asked_by: Option<Proposer>,
    /// The call of a model whose answer asks for exactly this call.
    pub proposed_by: Option<CallId>,
    /// The step of the gate's own loop that it is, if it is one.
    pub step: Option<LoopStep>,
    /// The call that it checks or takes back, if the gate made it.
    pub gate_of: Option<CallId>,
    /// The form of a request to a model in a dialect.
    pub asked_in: Option<AskedIn>,
    /// The kinds of which every finding in the arguments is masked.
    pub masked: Vec<String>,
}

impl HeldCall {
    /// Reads the hold from the ascending entries of a call and its opened arguments. `None` if the
    /// call is not held, or no longer held.
    #[must_use]
    pub fn read(entries: &[Entry], args: Vec<u8>, salt: Salt) -> Option<Self> {
        let first = entries.first().filter(|first| first.draft.kind() == Kind::CallHeld)?;
        Calls::of(entries).get(first.draft.call.as_ref()?)?.held_until()?;
        let held = first.draft.get::<CallHeld>()?;
        Some(Self {
            run: first.draft.run?,
            call: first.draft.call.clone()?,
            tool: first.draft.tool.clone()?,
            tier: held.tier?,
            call_digest: held.call_digest?.0,
            definition: held.definition.map(|digest| digest.0),
            effect: held.effect.map(|digest| digest.0),
            layers: layers(&held.layers),
            nonce: held.nonce?,
            expires: held.expires?,
            after: held.after.get(),
            auth: CallerAuth::from(&held.auth),
            traceparent: held.traceparent.as_ref().map(ToString::to_string),
            justification: held.justification.as_ref().map(ToString::to_string),
            args,
            sent: None,
            salt,
            granted: Approval::counted(entries.iter().filter_map(granted)),
            refused: entries.iter().find_map(refused),
            asked_by: held.asked_by.as_ref().map(proposer),
            proposed_by: held.proposed_by.as_ref().and_then(|call| CallId::parse(call)),
            step: held.parent.clone().map(|parent| LoopStep {
                parent,
                tools_text: held.tools_text.map(|digest| digest.0),
            }),
            gate_of: held.gate_of.clone(),
            asked_in: held.asked_in.clone(),
            masked: masked_kinds(&held.common()),
        })
    }
}

impl Ledger {
    /// The hold on this call, or `None` if the call is not held.
    ///
    /// # Errors
    /// The store cannot be read, or the arguments are not stored. Then the state of the call is
    /// unknown.
    pub async fn hold(&self, run: &RunId, call: &CallId) -> Result<Option<HeldCall>, Error> {
        let unread = |e: super::store::StoreError| Error::Unavailable(e.to_string());
        let rows = self.shared.store.call_entries(self.key()?, run, call).await.map_err(unread)?;
        let entries: Result<Vec<Entry>, _> =
            rows.iter().map(|row| Entry::parse(&row.body)).collect();
        let entries = entries.map_err(|e| Error::Unavailable(e.to_string()))?;
        let Some(first) = entries.first() else { return Ok(None) };
        let Some(args) = first.draft.committed(Role::Args) else {
            return Ok(None);
        };
        let opened = self.payload_row(first.seq, &args.c.0).await?;
        let opened =
            opened.ok_or_else(|| Error::Unavailable("the arguments are not kept".into()))?;
        let mut hold = HeldCall::read(&entries, opened.body, opened.salt);
        if let (Some(hold), Some(raw)) = (&mut hold, first.draft.committed(Role::Raw)) {
            let sent = self.payload_row(first.seq, &raw.c.0).await?;
            let sent = sent.ok_or_else(|| {
                Error::Unavailable("the arguments as they were sent are not kept".into())
            })?;
            hold.sent = Some(sent.body);
        }
        Ok(hold)
    }
}
