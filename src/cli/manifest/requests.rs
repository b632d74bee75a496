//! The requests to models that a ledger has of some runs, as far as their payloads are stored.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::cli::Failure;
use crate::domain::commitment::opens;
use crate::domain::dialect::Dialect;
use crate::domain::digest::Digest;
use crate::domain::effect::EffectKind;
use crate::domain::id::{RunId, ToolName};
use crate::domain::json::{Json, Limits};
use crate::domain::tier::Binding;
use crate::evidence::disclosed::{DisclosureKeys, Redactions, disclose};
use crate::evidence::gather;
use crate::evidence::payloads::{Payload, Payloads, WithheldReason};
use crate::evidence::projection::decides;
use crate::identity::pin::{ShownRequest, ShownRequestError};
use crate::ledger::retention::Records;
use crate::ledger::store::LedgerReader;
use crate::ledger::vault::Vault;
use crate::ledger::verify::EntryLine;
use crate::record::conversation::References;
use crate::record::run::RunOpened;
use crate::record::{Kind, Role};
use crate::verify::conversation::RunMessages;

/// What a ledger has of the requests of some runs.
#[derive(Debug, Default)]
pub(super) struct RecordedRequests {
    /// The runs, in the order of the command line.
    pub runs: Vec<RecordedRun>,
    /// The requests that can be read, run by run, in their order.
    pub requests: Vec<RecordedRequest>,
    /// The others.
    pub left_out: Vec<LeftOut>,
}

/// A run that asked a model.
#[derive(Debug)]
pub(super) struct RecordedRun {
    pub run: RunId,
    /// The digest of its manifest.
    pub manifest: Option<Digest>,
    /// Whether it claimed neither a model nor instructions.
    pub is_unclaimed: bool,
}

/// One request.
#[derive(Debug)]
pub(super) struct RecordedRequest {
    pub run: RunId,
    pub call: String,
    /// Whether the gate denied it.
    pub is_denied: bool,
    pub shown: ShownRequest,
}

/// A request that is not used.
#[derive(Debug)]
pub(super) struct LeftOut {
    pub run: RunId,
    pub call: String,
    pub why: LeaveReason,
}

/// Why a request is not used, and what to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeaveReason {
    /// Its arguments are not in the ledger.
    #[error("its arguments held a credential or a secret, so the ledger does not have them")]
    Credential,
    /// The fleet log records an erasure.
    #[error("a payload of it was erased (entry {seq} of `{log}`)")]
    Erased {
        /// The log.
        log: String,
        /// The entry.
        seq: u64,
    },
    /// No key.
    #[error("its payloads are encrypted; name the key with `--encryption-key`")]
    Encrypted,
    /// The stored bytes are not those that were committed to.
    #[error("a payload of it was changed where it is stored; run `wicketgate ledger verify`")]
    Damaged,
    /// No row.
    #[error("a payload of it is not stored: it was larger than 1 MiB, or has expired")]
    NotStored,
    /// No dialect.
    #[error(transparent)]
    Unread(#[from] ShownRequestError),
    /// The instructions are not those that the gate saw.
    #[error("its stored arguments hold other instructions than its policy input names")]
    Contradiction,
    /// The gate refused it.
    #[error("the gate denied it; `--include-denied` uses it all the same")]
    Denied,
}

/// Why no request is read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// No chain has the run.
    #[error(
        "no run `{0}` in this ledger; the header `wicketgate-run` of an answer names its run, and \
         `wicketgate ledger tail` shows the runs"
    )]
    NoRun(RunId),
    /// The run has no such calls.
    #[error(
        "run `{0}` has no request to a model; an agent makes one when its base URL is the gate's `/v1`: name a run \
         in which it did"
    )]
    NoRequest(RunId),
    /// The run has calls, and nothing says what they were.
    #[error(
        "the payloads of the calls of run `{0}` cannot be read, so nothing says which of them asked a model: they were \
         erased or never stored (an incognito run), or the key is missing (`--encryption-key`); name another run"
    )]
    Unstored(RunId),
    /// None of the requests can be used.
    #[error("no request to a model can be used:{}", shown(.0))]
    Unusable(Vec<LeftOut>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::NoRun(_) => Self::usage(error),
            Error::NoRequest(_) | Error::Unstored(_) | Error::Unusable(_) => Self::invalid(error),
        }
    }
}

/// Requests that a message names, at most.
pub(super) const NAMED_MAX: usize = 8;

fn shown(all: &[LeftOut]) -> String {
    let mut lines: String = all.iter().take(NAMED_MAX).map(|one| format!("\n  {one}")).collect();
    let more = all.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        lines.push_str(&format!("\n  and {more} more"));
    }
    lines
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "call {} of run {}: {}", self.call, self.run, self.why)
    }
}

/// Reads the requests of these runs.
///
/// # Errors
/// The ledger cannot be read, or one of the runs has no request to a model.
pub(super) async fn read(
    reader: &dyn LedgerReader,
    vault: Option<&Vault>,
    runs: &[RunId],
) -> Result<RecordedRequests, Failure> {
    let mut all = RecordedRequests::default();
    let chains = reader.chains().await?;
    for run in runs {
        if all.runs.iter().any(|known| known.run == *run) {
            continue;
        }
        let row = gather::chain_of(reader, &chains, run).await?.ok_or(Error::NoRun(*run))?;
        let records = Records::read(reader, &row.tenant).await?;
        let rows = reader.run_entries(&row.chain, run).await?;
        let lines = gather::read(&rows).map_err(Failure::invalid)?;
        let redactions = Redactions::default();
        let keys = DisclosureKeys { vault, redactions: &redactions, records: &records };
        let wanted = lines.iter().filter(|line| decides(line) || line.is(Kind::RunOpened));
        let mut payloads = Payloads::default();
        disclose(reader, row, wanted, (&keys, true), &mut payloads).await?;
        distrust(&mut payloads);
        all.add(*run, &lines, &payloads)?;
    }
    Ok(all)
}

/// Marks the payloads whose bytes do not open their commitments as damaged. WHY: what a person signs has to
/// be what the gate recorded, and a person who can write the rows of a ledger could propose other instructions.
fn distrust(payloads: &mut Payloads) {
    for (c, payload) in &mut payloads.0 {
        if let Payload::Opened { salt, body, .. } = payload
            && opens(c, salt, body).is_none()
        {
            *payload = Payload::Withheld(WithheldReason::Damaged);
        }
    }
}

impl RecordedRequests {
    /// Adds the requests of one run.
    fn add(&mut self, run: RunId, lines: &[EntryLine], payloads: &Payloads) -> Result<(), Error> {
        let said = RunMessages::of(lines.iter(), payloads);
        let decisions: Vec<&EntryLine> = lines.iter().filter(|line| decides(line)).collect();
        let mut models: BTreeSet<&ToolName> = BTreeSet::new();
        for line in &decisions {
            let input = ModelInput::of(line, payloads);
            if input.is_some_and(|input| input.effect.dialect.is_some()) || is_in_parts(line) {
                models.extend(line.entry.draft.tool.as_ref());
            }
        }
        let before = self.requests.len().saturating_add(self.left_out.len());
        for line in decisions {
            let draft = &line.entry.draft;
            let is_model = draft.tool.as_ref().is_some_and(|tool| models.contains(tool));
            let input = ModelInput::of(line, payloads);
            // An input without a dialect is that of a call of the model as a tool.
            let dialect = input.as_ref().map(|input| input.effect.dialect);
            if !is_model || dialect.is_some_and(|dialect| dialect.is_none()) {
                continue;
            }
            let call = draft.call.as_ref().map(ToString::to_string).unwrap_or_default();
            match request(line, (&said, payloads), input.as_ref()) {
                Ok(shown) => {
                    let is_denied = line.is(Kind::CallDenied);
                    self.requests.push(RecordedRequest { run, call, is_denied, shown });
                }
                Err(why) => self.left_out.push(LeftOut { run, call, why }),
            }
        }
        if self.requests.len().saturating_add(self.left_out.len()) == before {
            let unread =
                lines.iter().filter(|line| decides(line)).any(|line| is_unread(line, payloads));
            return Err(if unread { Error::Unstored(run) } else { Error::NoRequest(run) });
        }
        let opened = lines.iter().find_map(EntryLine::get::<RunOpened>);
        self.runs.push(RecordedRun {
            run,
            manifest: opened.map(|opened| opened.manifest.0),
            is_unclaimed: opened.is_some_and(|opened| opened.binding == Binding::Unclaimed),
        });
        Ok(())
    }

    /// Leaves out the requests that the gate denied, unless they are wanted; fails if none is left.
    ///
    /// # Errors
    /// No request can be used.
    pub fn usable(mut self, with_denied: bool) -> Result<Self, Error> {
        let denied = |one: &mut RecordedRequest| one.is_denied && !with_denied;
        let left = self.requests.extract_if(.., denied);
        let left =
            left.map(|one| LeftOut { run: one.run, call: one.call, why: LeaveReason::Denied });
        self.left_out.extend(left);
        if self.requests.is_empty() {
            return Err(Error::Unusable(self.left_out));
        }
        Ok(self)
    }
}

/// Whether the arguments of this decision are stored in parts, as those of a call to a model are.
fn is_in_parts(line: &EntryLine) -> bool {
    line.decision().is_some_and(|made| made.args_bytes.is_some())
}

/// Whether the policy input of this decision was recorded and cannot be read.
fn is_unread(line: &EntryLine, payloads: &Payloads) -> bool {
    let input = line.entry.draft.committed(Role::PolicyInput);
    input.is_some_and(|c| !matches!(payloads.0.get(&c.c.0), Some(Payload::Opened { .. })))
}

/// What a policy input says about a request to a model.
#[derive(Deserialize)]
struct ModelInput {
    effect: RecordedEffect,
}

#[derive(Deserialize)]
struct RecordedEffect {
    kind: String,
    dialect: Option<Dialect>,
    #[serde(default)]
    instructions: Vec<RecordedInstruction>,
}

#[derive(Deserialize)]
struct RecordedInstruction {
    place: String,
    sha256: String,
}

impl ModelInput {
    /// The policy input of a decision about a model, if it is stored.
    fn of(line: &EntryLine, payloads: &Payloads) -> Option<Self> {
        let c = line.entry.draft.committed(Role::PolicyInput)?;
        let Payload::Opened { body, .. } = payloads.0.get(&c.c.0)? else { return None };
        let input: Self = Json::parse(body, &Limits::FILE).ok()?.read().ok()?;
        (input.effect.kind == EffectKind::Model.as_str()).then_some(input)
    }

    /// Whether these are the instructions that the gate saw.
    fn names(&self, shown: &ShownRequest) -> bool {
        let seen = self.effect.instructions.iter();
        let seen = seen.map(|one| (one.place.clone(), one.sha256.clone()));
        let read = shown.instructions.iter();
        let read = read.map(|one| {
            let sha256 = Digest::of(&[one.text.as_bytes()]).hex();
            (one.place.as_str().to_owned(), sha256)
        });
        seen.eq(read)
    }
}

/// One request, from the payloads of its decision.
fn request(
    line: &EntryLine,
    (said, payloads): (&RunMessages<'_>, &Payloads),
    input: Option<&ModelInput>,
) -> Result<ShownRequest, LeaveReason> {
    if line.decision().is_some_and(|made| made.args_withheld.is_some()) {
        return Err(LeaveReason::Credential);
    }
    let c = line.entry.draft.committed(Role::Args).map(|c| c.c.0);
    let args = opened(payloads, c)?;
    let whole = said.whole(&args, payloads).ok_or_else(|| missing(&args, (said, payloads)))?;
    let shown = ShownRequest::read(&whole, input.and_then(|input| input.effect.dialect))?;
    match input {
        Some(input) if !input.names(&shown) => Err(LeaveReason::Contradiction),
        Some(_) | None => Ok(shown),
    }
}

/// The document in a payload.
fn opened(payloads: &Payloads, c: Option<Digest>) -> Result<Json, LeaveReason> {
    match c.and_then(|c| payloads.0.get(&c)) {
        Some(Payload::Opened { body, .. }) => {
            Json::parse(body, &Limits::FILE).map_err(|_| LeaveReason::Damaged)
        }
        Some(Payload::Erased { log, seq }) => {
            Err(LeaveReason::Erased { log: log.clone(), seq: *seq })
        }
        Some(Payload::Withheld(WithheldReason::Encrypted)) => Err(LeaveReason::Encrypted),
        Some(Payload::Withheld(WithheldReason::Damaged)) => Err(LeaveReason::Damaged),
        Some(
            Payload::Withheld(WithheldReason::Unsaid | WithheldReason::Incognito)
            | Payload::Redacted { .. },
        )
        | None => Err(LeaveReason::NotStored),
    }
}

/// Why arguments in parts cannot be put together.
fn missing(args: &Json, (said, payloads): (&RunMessages<'_>, &Payloads)) -> LeaveReason {
    let Some(References { conversation, apart }) = References::of(args) else {
        return LeaveReason::NotStored;
    };
    let named = said.missing(&conversation, payloads).into_iter().chain(apart.into_values());
    let mut missing = named.filter_map(|commitment| opened(payloads, Some(commitment)).err());
    missing.next().unwrap_or(LeaveReason::NotStored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::commitment::commit;

    #[test]
    fn bytes_that_were_changed_where_they_are_stored_are_not_read() {
        let (salt, written) = ([7; 32], br#"{"model":"m"}"#);
        let c = commit(&salt, written);
        for (body, is_read) in [(&written[..], true), (br#"{"model":"n"}"#, false)] {
            let (role, media_type) = ("args".to_owned(), "application/json".to_owned());
            let payload = Payload::Opened { salt, role, media_type, body: body.to_vec() };
            let mut payloads = Payloads([(c, payload)].into());
            distrust(&mut payloads);
            let read = opened(&payloads, Some(c));
            assert_eq!(read.is_ok(), is_read, "{read:?}");
            assert!(is_read || matches!(read, Err(LeaveReason::Damaged)));
        }
    }
}
