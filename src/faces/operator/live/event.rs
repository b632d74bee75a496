//! One event: what an entry says, with what is known of its run and its call.

use std::collections::BTreeMap;

use super::LiveCursor;
use crate::domain::decision::Verdict;
use crate::domain::id::{CallId, Seq, ToolName};
use crate::operator::api::lookups::LiveLine;
use crate::operator::approval_queue::RaisedAlert;
use crate::record::call::{CallCancelled, CallCompleted, CallExpired, CallFailed, CallUnknown};
use crate::record::chain::HealthChanged;
use crate::record::run::{RunOpened, RunSealed};
use crate::record::{Entry, Kind};

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveEvent {
    /// Its entry.
    pub place: LiveCursor,
    /// What followers get.
    pub line: LiveLine,
}

/// What events of a run are told with, from its entries so far.
#[derive(Debug, Default)]
pub struct RunFeed {
    agent: Option<String>,
    /// The calls that are not over.
    calls: BTreeMap<CallId, CallFeed>,
}

/// The newest decision about a call.
#[derive(Clone, Debug)]
struct CallFeed {
    /// The entry that first decided it.
    first: Seq,
    tool: Option<ToolName>,
    verdict: Option<Verdict>,
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// Where an entry stands.
fn place(entry: &Entry) -> LiveCursor {
    LiveCursor { at: entry.ts, chain: entry.chain, seq: entry.seq }
}

/// Why: of a decision its first reason, of an end without a result what it was.
fn code(entry: &Entry) -> Option<String> {
    let draft = &entry.draft;
    if let Some(decision) = draft.body.decision() {
        let reason = decision.reasons.first()?;
        return some(&reason.detail).or_else(|| some(&reason.code));
    }
    let ends = [
        draft.get::<CallCompleted>().map(|end| &*end.status),
        draft.get::<CallFailed>().map(|end| &*end.class),
        draft.get::<CallUnknown>().map(|end| &*end.cause),
        draft.get::<CallCancelled>().map(|end| &*end.reason),
        draft.get::<CallExpired>().map(|end| &*end.reason),
        draft.get::<RunSealed>().and_then(|end| end.reason.as_deref()),
    ];
    ends.into_iter().flatten().next().and_then(some)
}

impl RunFeed {
    /// The event of the next entry of the run, if it is one.
    pub fn event(&mut self, entry: &Entry) -> Option<LiveEvent> {
        let (draft, kind) = (&entry.draft, entry.draft.kind());
        if let Some(opened) = draft.get::<RunOpened>() {
            self.agent = some(&opened.agent);
        }
        let of_run = matches!(kind, Kind::RunOpened | Kind::RunSealed);
        if !of_run && (!kind.of_call() || kind == Kind::CallProgress) {
            return None;
        }
        let call = draft.call.as_ref().and_then(|call| self.advance(call, entry));
        let address = call.as_ref().map(|call| format!("{}/{}", entry.chain, call.first));
        let tool = call.as_ref().and_then(|call| call.tool.as_ref()).or(draft.tool.as_ref());
        let verdict = draft.verdict.or_else(|| call.as_ref().and_then(|call| call.verdict));
        let line = LiveLine {
            ts: entry.ts.to_string(),
            kind: kind.to_string(),
            agent: self.agent.clone(),
            tool: tool.map(ToString::to_string),
            verdict: verdict.map(|verdict| verdict.to_string()),
            code: code(entry),
            run: entry.run.as_ref().map(|link| link.run.to_string()),
            call: draft.call.as_ref().map(ToString::to_string),
            at: address,
        };
        Some(LiveEvent { place: place(entry), line })
    }

    /// The call of an entry, which it moves on; `None` if its first decision was not read.
    fn advance(&mut self, id: &CallId, entry: &Entry) -> Option<CallFeed> {
        let draft = &entry.draft;
        if draft.kind().decides() {
            let first = self.calls.get(id).map_or(entry.seq, |call| call.first);
            let call = CallFeed { first, tool: draft.tool.clone(), verdict: draft.verdict };
            self.calls.insert(id.clone(), call);
        }
        match draft.kind().ends_call() {
            true => self.calls.remove(id),
            false => self.calls.get(id).cloned(),
        }
    }
}

/// The event of an entry that records a change of a gate's health.
pub fn of_health(entry: &Entry) -> Option<(LiveEvent, HealthChanged)> {
    let changed = entry.draft.get::<HealthChanged>()?.clone();
    let line = LiveLine {
        ts: entry.ts.to_string(),
        kind: entry.draft.kind().to_string(),
        agent: None,
        tool: None,
        verdict: None,
        code: Some(if changed.ready { "ready" } else { "not_ready" }.to_owned()),
        run: None,
        call: None,
        at: None,
    };
    Some((LiveEvent { place: place(entry), line }, changed))
}

/// The event of an alert.
pub fn of_alert(raised: &RaisedAlert) -> LiveEvent {
    let RaisedAlert { at, chain, seq, alert } = raised;
    let line = LiveLine {
        ts: at.to_string(),
        kind: Kind::AlertRaised.to_string(),
        agent: some(&alert.agent),
        tool: alert.tool.as_ref().map(ToString::to_string),
        verdict: None,
        code: Some(alert.alert.to_string()),
        run: alert.run.map(|run| run.to_string()),
        call: alert.call.as_ref().map(ToString::to_string),
        at: None,
    };
    LiveEvent { place: LiveCursor { at: *at, chain: *chain, seq: *seq }, line }
}
