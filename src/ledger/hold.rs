//! A held call as it stands on the books: what its approvers are shown, what they sign, and who did.
//!
//! It is always read from there, never kept in memory, so that it is the same after a restart.

use super::entry::{Entry, Kind};
#[cfg(feature = "gate")]
use super::{Error, Ledger};
use crate::approval::Approval;
use crate::approval::proposal::Proposer;
use crate::domain::call::Auth;
use crate::domain::digest::{Digest, Salt};
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::json::Json;
use crate::domain::tier::Tier;
use crate::domain::time::Timestamp;

/// One call that waits for an approval.
#[derive(Clone, PartialEq, Debug)]
pub struct Hold {
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
    /// What the call would have touched, keyed with `salt`.
    pub effect: Option<String>,
    /// The layers of the policy bundle that held it.
    pub layers: Vec<(String, Digest)>,
    /// Drawn for this hold: 32 hex digits.
    pub nonce: String,
    /// When it stops waiting.
    pub expires: Timestamp,
    /// Highest `run_seq` released to the run when the call arrived.
    pub after: u64,
    /// How the caller proved who it is.
    pub auth: Auth,
    /// W3C trace context of the request.
    pub traceparent: Option<String>,
    /// The canonical arguments, and what opens their commitment with them.
    pub args: Vec<u8>,
    /// The same as they were sent, where that matters.
    pub sent: Option<Vec<u8>>,
    /// The salt of the arguments.
    pub salt: Salt,
    /// Who approved it since, in order.
    pub granted: Vec<Approval>,
    /// Who refused it: then it is only to be denied.
    pub refused: Option<Approval>,
    /// The approver who wrote its arguments, if the agent did not.
    pub asked_by: Option<Proposer>,
}

impl Hold {
    /// Reads the hold from the entries of a call, ascending, and the opened arguments. `None` if the call
    /// is not held, or not any more.
    #[must_use]
    pub fn read(entries: &[Entry], args: Vec<u8>, salt: Salt) -> Option<Self> {
        let first = entries.first().filter(|first| first.draft.kind == Kind::CallHeld)?;
        let waits = [Kind::CallHeld, Kind::ApprovalGranted, Kind::ApprovalRefused];
        let over = |entry: &Entry| !waits.contains(&entry.draft.kind);
        if entries.iter().any(over) {
            return None;
        }
        let data = &first.draft.data;
        let text = |name: &str| data.get(name).and_then(Json::as_str);
        let digest = |name: &str| text(name).and_then(Digest::parse);
        Some(Self {
            run: first.draft.run?,
            call: first.draft.call.clone()?,
            tool: first.draft.tool.clone()?,
            tier: Tier::parse(text("tier")?)?,
            call_digest: digest("call_digest")?,
            definition: digest("definition"),
            effect: text("effect").map(str::to_owned),
            layers: layers(data)?,
            nonce: text("nonce")?.to_owned(),
            expires: Timestamp::parse(text("expires")?)?,
            after: data.get("after").and_then(Json::as_u64)?,
            auth: Auth::read(data.get("auth")?)?,
            traceparent: text("traceparent").map(str::to_owned),
            args,
            sent: None,
            salt,
            granted: entries.iter().filter_map(|e| said(e, Kind::ApprovalGranted)).collect(),
            refused: entries.iter().find_map(|e| said(e, Kind::ApprovalRefused)),
            asked_by: match data.get("asked_by") {
                // What cannot be read is no call of the agent's either.
                Some(_) => Some(asked_by(data)?),
                None => None,
            },
        })
    }
}

/// Whose word an entry of this kind records.
#[must_use]
pub fn said(entry: &Entry, kind: Kind) -> Option<Approval> {
    let data = &entry.draft.data;
    let text = |name: &str| data.get(name).and_then(Json::as_str).map(str::to_owned);
    let roles = || data.get("roles").and_then(Json::as_array).unwrap_or_default();
    (entry.draft.kind == kind).then_some(())?;
    Some(Approval {
        subject: text("subject")?,
        roles: roles().iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        key: text("key")?,
    })
}

/// The approver who wrote the arguments of a call, as an entry about it says; `None` if it names nobody.
#[must_use]
pub fn asked_by(data: &Json) -> Option<Proposer> {
    let said = data.get("asked_by")?;
    let text = |name: &str| said.get(name).and_then(Json::as_str);
    let roles = said.get("roles").and_then(Json::as_array)?.iter();
    let roles = roles.filter_map(Json::as_str).map(str::to_owned).collect();
    let (subject, key) = (text("subject")?.to_owned(), text("key")?.to_owned());
    let signers = text("signers").and_then(Digest::parse);
    Some(Proposer { approval: Approval { subject, roles, key }, signers, signed: None })
}

/// Name and digest of each layer that an entry names.
#[must_use]
pub fn layers(data: &Json) -> Option<Vec<(String, Digest)>> {
    let one = |item: &Json| {
        let layer = item.get("layer").and_then(Json::as_str)?;
        let digest = item.get("digest").and_then(Json::as_str).and_then(Digest::parse)?;
        Some((layer.to_owned(), digest))
    };
    data.get("layers")?.as_array()?.iter().map(one).collect()
}

#[cfg(feature = "gate")]
impl Ledger {
    /// The hold this call is under, or `None` if it is not held.
    ///
    /// # Errors
    /// The store cannot be read, or the arguments are not kept: nothing is known.
    pub async fn hold(&self, run: &RunId, call: &CallId) -> Result<Option<Hold>, Error> {
        let unread = |e: super::store::StoreError| Error::Unavailable(e.to_string());
        let rows = self.shared.store.call_entries(self.key()?, run, call).await.map_err(unread)?;
        let entries: Result<Vec<Entry>, _> =
            rows.iter().map(|row| Entry::parse(&row.body)).collect();
        let entries = entries.map_err(|e| Error::Unavailable(e.to_string()))?;
        let Some(first) = entries.first() else { return Ok(None) };
        let Some(args) = first.draft.committed("args") else {
            return Ok(None);
        };
        let opened = self.payload_row(&args.c).await?;
        let opened =
            opened.ok_or_else(|| Error::Unavailable("the arguments are not kept".into()))?;
        let mut hold = Hold::read(&entries, opened.body, opened.salt);
        if let (Some(hold), Some(raw)) = (&mut hold, first.draft.committed("raw")) {
            let sent = self.payload_row(&raw.c).await?;
            let sent = sent.ok_or_else(|| {
                Error::Unavailable("the arguments as they were sent are not kept".into())
            })?;
            hold.sent = Some(sent.body);
        }
        Ok(hold)
    }
}
