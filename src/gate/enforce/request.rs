//! Turns a request, as received, into a call.

use super::answer::Fault;
use super::run::Run;
use super::{CallRequest, Road};
use crate::clock::random16;
use crate::domain::call::{CallOrigin, ToolCall};
use crate::domain::canonical;
use crate::domain::code::Code;
use crate::domain::id::CallId;
use crate::domain::json::Json;
use crate::domain::token;
use crate::telemetry::trace;
use std::sync::Arc;

impl Road {
    /// An id for a call to which its agent gave none. Each id is given once.
    #[must_use]
    pub fn minted_id(&self, run: &Run, tool: &str, arguments: &[u8]) -> String {
        let minted = run.mint(tool, arguments).unwrap_or_else(|| random16(&*self.entropy));
        format!("c-{}", hex::encode(minted))
    }

    pub(super) fn decode(&self, run: &Arc<Run>, request: CallRequest) -> Result<ToolCall, Fault> {
        let malformed = |detail: &str, message: String| {
            Fault::new(Code::RequestMalformed, message).detail(detail)
        };
        let id = match request.call_id.as_str() {
            "" => CallId::parse(&self.minted_id(run, &request.tool, &request.arguments)),
            chosen => CallId::parse(chosen),
        };
        let id =
            id.ok_or_else(|| malformed("call.id", "a call id is [A-Za-z0-9_.-]{1,64}".to_owned()))?;
        let asking = CallOrigin {
            run: *run.id(),
            id,
            after: run.released.load(std::sync::atomic::Ordering::Acquire),
            agent: run.opener.name.clone(),
            auth: run.auth.clone(),
            traceparent: request.traceparent.filter(|t| trace::valid_traceparent(t)),
        };
        ToolCall::parse(asking, &request.tool, &request.arguments)
            .map_err(|e| malformed(e.code, e.to_string()))
    }
}

/// Refuses an opening whose claims contain a run token: the claims would be recorded.
pub(super) fn no_token(claims: &Json) -> Result<(), Fault> {
    if token::stands_in(claims, &canonical::bytes(claims)) {
        let message = "what the run is opened with holds a token of a gate: leave it out";
        return Err(Fault::new(Code::RequestMalformed, message).detail("run.token"));
    }
    Ok(())
}
