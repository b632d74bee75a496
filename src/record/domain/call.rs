//! An agent's call: one tool, its arguments, and how the request arrived.

use std::ops::Range;
use std::sync::Arc;

use super::canonical;
use super::dialect::{Dialect, Operation};
use super::digest::Digest;
use super::effect::AskFacts;
use super::id::{CallId, RunId, ToolName};
use super::json::{self, Json, Limits};
use super::sent::{DialectReading, RequestSearch, SearchedFor, SentJson, SentMessage, unsearched};
use super::tier::Face;
use super::token;

/// How the caller authenticated, as every entry records it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallerAuth {
    /// `uds`, `mtls`, `token`, `service_account`, `internal`.
    pub method: String,
    /// The peer's uid on a Unix socket.
    pub uid: Option<u32>,
    /// Keyed hash of the token it sent, 16 hex digits.
    pub token: Option<String>,
    /// `sha256:` and 64 hex digits of the certificate of its TLS connection.
    pub certificate: Option<String>,
    /// The SPIFFE id in that certificate.
    pub spiffe: Option<String>,
    /// The Kubernetes service account whose token it sent, `NAMESPACE/NAME`.
    pub account: Option<String>,
}

impl CallerAuth {
    /// The owner of the certificate, if there is one: the SPIFFE id, which a workload keeps while
    /// its certificates change every hour; else the certificate itself.
    pub fn holder(&self) -> Option<&str> {
        self.spiffe.as_deref().or(self.certificate.as_deref())
    }

    /// Whether a peer may continue what this caller began: on a socket it needs the same uid, over
    /// TLS the same SPIFFE id or certificate.
    #[must_use]
    pub fn admits(&self, peer: &Self) -> bool {
        let same_uid = self.uid.is_none() || self.uid == peer.uid;
        same_uid && (self.holder().is_none() || self.holder() == peer.holder())
    }

    /// What distinguishes callers: method, uid, token or service account, and the owner of the certificate.
    pub fn identity(&self) -> (&str, Option<u32>, Option<&str>, Option<&str>) {
        let shown = self.token.as_deref().or(self.account.as_deref());
        (&self.method, self.uid, shown, self.holder())
    }
}

/// A request to a model in a dialect of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DialectRequest {
    /// The protocol.
    pub dialect: Dialect,
    /// What is asked for.
    pub operation: Operation,
    /// Whether the provider's preview API is asked for (`?beta=true` of `messages`).
    pub beta: bool,
    /// Headers of the agent for the provider, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// How the request compares with its run.
    pub facts: AskFacts,
    /// What was read of it. An executor trusts it only if it was made of the arguments of this call.
    pub reading: Option<DialectReading>,
}

/// Who made a call, and in which form.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum CallSource {
    /// An agent: the arguments are those of the tool.
    #[default]
    Agent,
    /// An agent, in a dialect of models: the arguments are the body of its request.
    Dialect(Arc<DialectRequest>),
    /// A model: its answer asks the agent to run this.
    Proposal {
        /// The call of the model that answered.
        model_call: CallId,
        /// The place among the tool calls of the answer, from 0.
        index: u64,
    },
    /// The gate: it checks what a call of the run did, or takes it back.
    Gate {
        /// That call.
        of: CallId,
    },
}

/// One call as the agent made it: parsed strictly, made canonical once, then immutable.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolCall {
    run: RunId,
    id: CallId,
    tool: ToolName,
    args: Arc<Json>,
    canonical: Arc<[u8]>,
    sent: Arc<[u8]>,
    messages: Arc<[SentMessage]>,
    searched: Option<SearchedFor>,
    after: u64,
    agent: String,
    auth: Box<CallerAuth>,
    traceparent: Option<String>,
    justification: Option<Box<str>>,
    face: Option<Face>,
    source: CallSource,
    step: Option<Arc<LoopStep>>,
}

/// A step of the loop in which the gate itself asks a model and runs the tools that it asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopStep {
    /// The request of the agent.
    pub parent: CallId,
    /// The digest of the instructions by which the gate offers its tools, if it added some.
    pub tools_text: Option<Digest>,
}

/// The context of a call: everything except tool name and arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct CallOrigin {
    /// The open run.
    pub run: RunId,
    /// The call id, from the agent or minted.
    pub id: CallId,
    /// Highest `run_seq` already released to this run when the request arrived.
    pub after: u64,
    /// The agent, by the name in its manifest. Shares of a pool are per agent.
    pub agent: String,
    /// How the caller authenticated.
    pub auth: CallerAuth,
    /// W3C trace context from the caller, if valid.
    pub traceparent: Option<String>,
}

impl ToolCall {
    /// Parses tool name and arguments strictly and fixes the bytes that are judged, run and hashed.
    /// A text that contains a token of a gate is refused, so such a call is never judged, recorded
    /// or run.
    ///
    /// # Errors
    /// What is wrong with the text, as a stable detail code.
    pub fn parse(asking: CallOrigin, tool: &str, arguments: &[u8]) -> Result<Self, json::Error> {
        let tool = tool_name(tool)?;
        let sent = SentJson::read(arguments, &Limits::ARGUMENTS)?;
        is_object(&sent)?;
        let canonical = canonical::bytes(sent.value());
        if token::stands_in(sent.value(), &canonical) {
            return Err(held_token());
        }
        Self::of((asking, CallSource::Agent), tool, sent, canonical)
    }

    /// The same for a request to a model, which was read within [`Limits::MODEL`]. `list`: the member
    /// with its messages.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn of_request(
        asking: CallOrigin,
        tool: &str,
        sent: SentJson,
        (request, list, search): (DialectRequest, &str, &dyn RequestSearch),
    ) -> Result<Self, json::Error> {
        let tool = tool_name(tool)?;
        is_object(&sent)?;
        let (canonical, places) = canonical::bytes_with_items(sent.value(), list);
        let message = |at: Range<usize>| {
            let known = search.remembers(canonical.get(at.clone()).unwrap_or_default());
            let (key, is_searched) = known.unzip();
            SentMessage { at, key, is_searched: is_searched.unwrap_or_default() }
        };
        let messages: Arc<[SentMessage]> = places.into_iter().map(message).collect();
        let new = unsearched(&canonical, &messages);
        let searched = search.search(new.as_deref().unwrap_or(&canonical));
        // What is clean holds no token either; what is not may hold a credential only, which is a denial
        // on record.
        if searched.is_none() && token::stands_in(sent.value(), &canonical) {
            return Err(held_token());
        }
        let source = CallSource::Dialect(Arc::new(request));
        let call = Self::of((asking, source), tool, sent, canonical)?;
        Ok(Self { messages, searched, ..call })
    }

    fn of(
        (asking, source): (CallOrigin, CallSource),
        tool: ToolName,
        sent: SentJson,
        canonical: Vec<u8>,
    ) -> Result<Self, json::Error> {
        let CallOrigin { run, id, after, agent, auth, traceparent } = asking;
        if [id.as_str(), tool.as_str()].into_iter().any(token::holds) {
            return Err(held_token());
        }
        let (text, args) = sent.into_parts();
        let canonical: Arc<[u8]> = canonical.into();
        let sent = if *canonical == *text { Arc::clone(&canonical) } else { text };
        let (messages, searched) = (Vec::new().into(), None);
        Ok(Self {
            run,
            id,
            tool,
            args,
            canonical,
            sent,
            messages,
            searched,
            after,
            agent,
            auth: Box::new(auth),
            traceparent,
            justification: None,
            face: None,
            source,
            step: None,
        })
    }

    /// The same call under another id.
    #[must_use]
    pub fn under(self, id: CallId) -> Self {
        Self { id, ..self }
    }

    /// The most characters of a justification.
    pub const JUSTIFICATION_MAX: usize = 512;

    /// The same call with the agent's reason for it.
    #[must_use]
    pub fn justified(self, justification: Option<String>) -> Self {
        Self { justification: justification.map(String::into_boxed_str), ..self }
    }

    /// The same call, made at this face.
    #[must_use]
    pub fn at(self, face: Option<Face>) -> Self {
        Self { face, ..self }
    }

    /// The same call as this step of the gate's own loop. Boxed: few calls are one.
    #[must_use]
    pub fn within(self, step: Option<LoopStep>) -> Self {
        Self { step: step.map(Arc::new), ..self }
    }

    /// The step of the gate's own loop that it is, if it is one.
    pub fn step(&self) -> Option<&LoopStep> {
        self.step.as_deref()
    }

    /// The face that the agent called at; none if that is not known, or if the gate makes the call.
    pub const fn face(&self) -> Option<Face> {
        self.face
    }

    /// Why the agent makes the call, in its own words. A claim, which decides nothing by itself.
    pub fn justification(&self) -> Option<&str> {
        self.justification.as_deref()
    }

    /// The same call with these arguments in place of its own: those that the gate masked.
    #[must_use]
    pub fn with_masked_args(self, args: Json) -> Self {
        let canonical: Arc<[u8]> = canonical::bytes(&args).into();
        let (sent, messages) = (Arc::clone(&canonical), Vec::new().into());
        Self { args: Arc::new(args), canonical, sent, messages, searched: None, ..self }
    }

    /// The same call, which an answer of a model asks for.
    #[must_use]
    pub fn proposed(self, model_call: CallId, index: u64) -> Self {
        Self { source: CallSource::Proposal { model_call, index }, ..self }
    }

    /// The same call, which the gate makes after this one.
    #[must_use]
    pub fn of_gate(self, of: CallId) -> Self {
        Self { source: CallSource::Gate { of }, ..self }
    }

    /// Whether the gate makes it, while the call that it is about has not ended.
    pub const fn is_of_gate(&self) -> bool {
        self.gate_of().is_some()
    }

    /// The call that it checks or takes back, if the gate makes it.
    pub const fn gate_of(&self) -> Option<&CallId> {
        match &self.source {
            CallSource::Gate { of } => Some(of),
            CallSource::Agent | CallSource::Dialect(_) | CallSource::Proposal { .. } => None,
        }
    }

    /// Who made it, and in which form.
    pub const fn source(&self) -> &CallSource {
        &self.source
    }

    /// The request to a model that it is, if it was made in a dialect.
    pub fn dialect(&self) -> Option<&DialectRequest> {
        match &self.source {
            CallSource::Dialect(request) => Some(request),
            CallSource::Agent | CallSource::Proposal { .. } | CallSource::Gate { .. } => None,
        }
    }

    /// The run it belongs to.
    pub const fn run(&self) -> &RunId {
        &self.run
    }

    /// The agent, by name.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Its id in the run.
    pub const fn id(&self) -> &CallId {
        &self.id
    }

    /// The tool that was named.
    pub const fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// The arguments, typed.
    pub fn args(&self) -> &Json {
        &self.args
    }

    /// The arguments, canonical: the bytes that are judged, run and hashed.
    pub fn canonical(&self) -> &[u8] {
        &self.canonical
    }

    /// The arguments as sent: the same value, in the agent's own order and spelling. For tools that
    /// depend on the order, which canonical JSON loses.
    pub fn sent(&self) -> &[u8] {
        &self.sent
    }

    /// The arguments as sent, with their value.
    pub fn sent_json(&self) -> SentJson {
        SentJson::of_parts(Arc::clone(&self.sent), Arc::clone(&self.args))
    }

    /// The messages of a request to a model in a dialect, in order; none of any other call.
    pub fn messages(&self) -> &[SentMessage] {
        &self.messages
    }

    /// The credentials for which all of it was searched, and of which it is clean; `None` if it was not
    /// searched yet.
    pub const fn searched(&self) -> Option<SearchedFor> {
        self.searched
    }

    /// Highest `run_seq` released to the run when this call arrived.
    pub const fn after(&self) -> u64 {
        self.after
    }

    /// How the caller authenticated.
    pub const fn auth(&self) -> &CallerAuth {
        &self.auth
    }

    /// W3C trace context from the caller.
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }
}

fn tool_name(tool: &str) -> Result<ToolName, json::Error> {
    ToolName::parse(tool).ok_or_else(|| json::Error {
        code: "tool.name",
        message: "a tool name is [A-Za-z0-9_.-]{1,128}".into(),
        offset: 0,
    })
}

fn is_object(sent: &SentJson) -> Result<(), json::Error> {
    let message = || "arguments are a JSON object".into();
    let error = || json::Error { code: "arguments.type", message: message(), offset: 0 };
    sent.value().as_object().map(|_| ()).ok_or_else(error)
}

fn held_token() -> json::Error {
    let message = "the call holds a token of a gate, and tokens go into no tool: leave it out";
    json::Error { code: "call.token", message: message.into(), offset: 0 }
}
