//! Turns a request, as received, into a call.

use super::Road;
use super::answer::Fault;
use super::run::Run;
use crate::clock::random16;
use crate::domain::call::{CallOrigin, ToolCall};
use crate::domain::canonical;
use crate::domain::code::Code;
use crate::domain::guarded::GuardAction;
use crate::domain::id::CallId;
use crate::domain::json::{self, Json};
use crate::domain::tier::Face;
use crate::domain::token;
use crate::firewall::{self, Class, Confidence, Hit};
use crate::telemetry::trace;
use std::sync::Arc;

/// One request to run a tool, not yet admitted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallRequest {
    /// The name of the tool.
    pub tool: String,
    /// The arguments, as UTF-8 JSON.
    pub arguments: Vec<u8>,
    /// The agent's id for the call; if empty, the gate mints one and the call is not idempotent.
    pub call_id: String,
    /// W3C trace context from the caller.
    pub traceparent: Option<String>,
    /// Why the agent makes the call, in its own words.
    pub justification: Option<String>,
    /// The face that it came to; none if the gate makes the call itself.
    pub face: Option<Face>,
}

impl Road {
    /// An id for a call to which its agent gave none. Each id is given once.
    #[must_use]
    pub fn minted_id(&self, run: &Run, tool: &str, arguments: &[u8]) -> String {
        let minted = run.mint(tool, arguments).unwrap_or_else(|| random16(&*self.entropy));
        format!("c-{}", hex::encode(minted))
    }

    /// The id that the agent chose for this call, or a minted one if it chose none.
    pub(super) fn call_id(
        &self,
        run: &Run,
        chosen: &str,
        (tool, arguments): (&str, &[u8]),
    ) -> Result<CallId, Fault> {
        let id = match chosen {
            "" => CallId::parse(&self.minted_id(run, tool, arguments)),
            chosen => CallId::parse(chosen),
        };
        id.ok_or_else(|| malformed("call.id", "a call id is [A-Za-z0-9_.-]{1,64}".to_owned()))
    }

    pub(super) fn decode(&self, run: &Arc<Run>, request: CallRequest) -> Result<ToolCall, Fault> {
        let CallRequest { tool, arguments, call_id, traceparent, justification, face } = request;
        let id = self.call_id(run, &call_id, (&tool, &arguments))?;
        let justification = justification.filter(|text| !text.is_empty());
        justification.as_deref().map(|text| self.may_justify(text)).transpose()?;
        self.no_secret(&Json::from(vec![tool.as_str().into(), id.as_str().into()]))?;
        let asking = run.origin(id, traceparent.filter(|t| trace::valid_traceparent(t)));
        let call = ToolCall::parse(asking, &tool, &arguments).map_err(|error| unread(&error))?;
        Ok(call.justified(justification).at(face))
    }

    /// Refuses a reason that cannot be recorded. WHY stricter than arguments: the entry has it for good,
    /// and no setting lets a secret or personal data into an entry.
    fn may_justify(&self, text: &str) -> Result<(), Fault> {
        let refuse = |message: String| Err(malformed("call.justification", message));
        let most = ToolCall::JUSTIFICATION_MAX;
        if text.chars().count() > most || text.trim().is_empty() || text.contains(char::is_control)
        {
            return refuse(format!(
                "`justification` is one sentence of at most {most} characters without line breaks"
            ));
        }
        let json = Json::from(text);
        let canonical = canonical::bytes(&json);
        let scrub = self.in_force.toolbox();
        if token::stands_in(&json, &canonical) || scrub.scrub().hides_in(&canonical) {
            return refuse(
                "`justification` holds what the ledger must not keep: leave it out".to_owned(),
            );
        }
        let hits = firewall::scan(&json);
        let is_unfit = |hit: &&Hit| match hit.class {
            Class::Secret => hit.confidence == Confidence::High,
            Class::Personal | Class::Unscanned => true,
            Class::Injection | Class::Unicode => false,
        };
        match hits.iter().find(is_unfit) {
            None => Ok(()),
            Some(hit) => refuse(format!(
                "`justification` holds a secret or personal data (`{}`), and the ledger would keep it: leave it out",
                hit.kind
            )),
        }
    }

    /// Refuses words of an agent that entries have as they are, if one holds a secret.
    pub(super) fn no_secret(&self, words: &Json) -> Result<(), Fault> {
        let guard = self.in_force.toolbox().guard().of("");
        if guard.arguments.secret < GuardAction::Redact {
            return Ok(());
        }
        let hits = firewall::scan(words);
        let is_secret =
            |hit: &Hit| hit.class == Class::Secret && hit.confidence == Confidence::High;
        match hits.iter().find(|hit| is_secret(hit)) {
            None => Ok(()),
            Some(hit) => {
                let message = format!(
                    "an id, a name or a label of the request holds a secret (`{}`), and the ledger would keep it: leave it out",
                    hit.kind
                );
                Err(malformed("dlp.secret", message))
            }
        }
    }
}

impl Run {
    /// The context of a call that is made now.
    pub(super) fn origin(&self, id: CallId, traceparent: Option<String>) -> CallOrigin {
        CallOrigin {
            run: *self.id(),
            id,
            after: self.released.load(std::sync::atomic::Ordering::Acquire),
            agent: self.opener.name.clone(),
            auth: self.auth.clone(),
            traceparent,
        }
    }
}

/// A request that cannot be read.
pub(super) fn malformed(detail: &str, message: String) -> Fault {
    Fault::new(Code::RequestMalformed, message).detail(detail)
}

/// A request whose JSON the strict reader refuses.
pub(super) fn unread(error: &json::Error) -> Fault {
    malformed(error.code, error.to_string())
}

/// Refuses an opening whose claims contain a run token: the claims would be recorded.
pub(super) fn no_token(claims: &Json) -> Result<(), Fault> {
    if token::stands_in(claims, &canonical::bytes(claims)) {
        let message = "what the run is opened with holds a token of a gate: leave it out";
        return Err(Fault::new(Code::RequestMalformed, message).detail("run.token"));
    }
    Ok(())
}
