//! The loop in which the gate itself asks a model and runs the tools that the model asks for, below
//! `/managed/v1` or for a request with `X-Wicketgate-Managed: true`.
//!
//! It decides nothing: each call of the model and of a tool is a call on the road. What a tool call
//! gives, a denial too, goes back to the model. The ids of all calls follow from the id of the request,
//! so a request that is sent again gets the recorded calls, and runs none twice.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use http::HeaderMap;
use hyper::body::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::reply::{self, LlmResponse};
use super::stream::{
    self as answers, AnswerForm, StreamHead, StreamPart, StreamParts, StreamReply,
};
use super::{Asked, Known, LlmShared, ModelCaller, call_id, frames, passed_on, sent};
use crate::catalog::llm::framing::StreamFraming;
use crate::domain::code::Code;
use crate::domain::dialect::{Dialect, Operation};
use crate::domain::id::{CallId, ToolName};
use crate::enforce::{
    Answer, Fault, FlowPart, Flowing, ManagedStep, ManagedTerms, ModelReply, ModelRequest,
    OfferedNames, Road, Run, ToolStep,
};
use crate::identity::callers::TextTools;
use crate::serve::dialect::spoken;
use crate::serve::guard;
use crate::serve::problem::Problem;
use crate::serve::problem::exchange::Broken;
use crate::serve::trace::{self, AnsweredBy, ManagedTrace};
use answer::{AskedTool, RoundAnswer};
use body::{LoopBody, StepForm};

mod answer;
mod body;
mod text_tools;

/// The header that asks for the loop at the ordinary path.
const WANTED: &str = "x-wicketgate-managed";

/// The most characters of the request's id: those of its steps are longer.
const ID_CHARS_MAX: usize = 52;

/// Parts of an answer that wait for the client.
const PARTS: usize = 64;

/// Whether the request asks for the loop by its header.
pub(super) fn wanted(headers: &HeaderMap, dialect: Dialect) -> Result<bool, Problem> {
    let Some(value) = headers.get(WANTED) else { return Ok(false) };
    let malformed =
        |message: &str| Problem::from(Broken::Message.because(message).detail("managed.header"));
    match (value.as_bytes(), spoken(dialect).runs_loop()) {
        (b"false", _) => Ok(false),
        (b"true", true) => Ok(true),
        (b"true", false) => {
            Err(malformed("the gate runs the tool loop of `chat/completions` only"))
        }
        (_, _) => Err(malformed("`X-Wicketgate-Managed` is `true` or `false`")),
    }
}

/// Whether this text asks for a tool that was offered as instructions.
pub(in crate::serve) fn asks_as_text(text: &str) -> bool {
    text_tools::read(text).is_some()
}

impl LlmShared {
    /// Runs the loop of one request.
    pub(super) async fn managed(
        &self,
        caller: ModelCaller,
        asked: Asked,
        known: &mut Known,
    ) -> Result<LlmResponse, Problem> {
        let refuse = |problem: Problem| self.api.refuse(problem);
        let Asked { headers, read, .. } = asked;
        let key = request_id(&headers).map_err(refuse)?;
        let body = LoopBody::read(read.sent.text()).map_err(refuse)?;
        let place = match body.streams {
            true => Some(self.places.stream().map_err(refuse)?),
            false => None,
        };
        let run = self.run(caller, &headers, known).await?;
        let road = Arc::clone(self.api.road()?);
        let Some(terms) = road.managed(&run, &body.model)? else {
            let message = "the gate runs no tool loop for this agent: set `agents[].model.managed`, or ask at `/v1`";
            return Err(refuse(Problem::new(Code::RouteUnknown, "managed", message)));
        };
        let minted = || road.minted_id(&run, "managed", read.sent.text());
        let id = CallId::parse(&key.unwrap_or_else(minted));
        let id = id.ok_or_else(|| refuse(Problem::of(Code::RequestMalformed, "call.id")))?;
        known.call = id.to_string();
        let (headers, traceparent) = (passed_on(&headers), guard::traceparent(&headers));
        let names = terms.tools.iter().filter_map(|tool| {
            let name = ToolName::parse(&tool.tool.name)?;
            Some((tool.offered.clone(), name))
        });
        let names: OfferedNames = Arc::new(names.collect());
        let as_text = terms.as_text.filter(|_| !terms.tools.is_empty());
        let tools_text = as_text.map(|how| Arc::from(text_tools::instructions(&terms.tools, how)));
        let schema = as_text.filter(|how| *how == TextTools::Schema);
        let schema = schema.map(|_| text_tools::form(&terms.tools));
        if schema.is_some() {
            body.leaves_the_form().map_err(refuse)?;
        }
        let (streams, memory) = (body.streams, read.memory);
        let work = ToolLoop {
            road,
            run,
            id,
            body,
            headers,
            traceparent,
            terms,
            names,
            as_text,
            tools_text,
            schema,
            answered_by: Mutex::default(),
            sink: LoopSink(None),
        };
        if streams {
            let asking = Box::pin(async move {
                let begun = work.begun().await;
                drop(memory);
                begun
            });
            let (dialect, framing) = (Dialect::Chat, StreamFraming::Events);
            return answers::answered(asking, AnswerForm { dialect, framing, place }).await;
        }
        let ended = Box::pin(work.run()).await?;
        drop(memory);
        Ok(reply::managed(
            ended.answer.whole(ended.usage.as_ref(), &ended.trace),
            &ended.answer.receipt,
        ))
    }
}

/// The id that the client gives its request, if it gives one.
fn request_id(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let key = call_id(headers)?;
    if key.as_ref().is_some_and(|key| key.len() > ID_CHARS_MAX) {
        let message = format!(
            "`Idempotency-Key` has at most {ID_CHARS_MAX} characters here: the ids of the steps follow from it"
        );
        return Err(Broken::Message.because(message).detail("call.id").into());
    }
    Ok(key)
}

/// What has come of the answer, for a client that asks for a stream.
struct LoopSink(Option<mpsc::Sender<Bytes>>);

impl LoopSink {
    async fn send(&self, bytes: impl Into<Bytes>) {
        if let Some(sender) = &self.0 {
            // A client that left drops the loop.
            let _ = sender.send(bytes.into()).await;
        }
    }

    async fn chunk(&self, chunk: serde_json::Map<String, Value>) {
        self.send(format!("data: {}\n\n", Value::Object(chunk))).await;
    }
}

/// One request on its way.
struct ToolLoop {
    road: Arc<Road>,
    run: Arc<Run>,
    /// The id of the request.
    id: CallId,
    body: LoopBody,
    headers: Vec<(String, String)>,
    traceparent: Option<String>,
    terms: ManagedTerms,
    names: OfferedNames,
    /// How the tools are offered to a model without tool calls.
    as_text: Option<TextTools>,
    /// The instructions that offer them.
    tools_text: Option<Arc<str>>,
    /// The `response_format` of the model's answers.
    schema: Option<Vec<u8>>,
    answered_by: Mutex<AnsweredBy>,
    sink: LoopSink,
}

/// The end of a loop.
struct LoopEnd {
    answer: RoundAnswer,
    usage: Option<Value>,
    trace: ManagedTrace,
}

impl ToolLoop {
    /// Asks the model and runs its tools until it asks for no more.
    async fn run(&self) -> Result<LoopEnd, Problem> {
        let (mut said, mut usage) = (Vec::new(), None);
        let mut number = 0_u32;
        loop {
            number = number.saturating_add(1);
            let answer = Box::pin(self.round(number, &said)).await?;
            if let Some(more) = answer.usage() {
                answer::add(&mut usage, more);
            }
            if answer.calls.is_empty() || number >= self.terms.iterations_max {
                let answered_by = self.answered_by.lock().clone();
                let trace = trace::of_request(&self.road, &self.run, &self.id, &answered_by);
                let missing = || Fault::of(Code::CallUnknown).about(&self.id);
                let trace = Box::pin(trace).await?.ok_or_else(missing)?;
                return Ok(LoopEnd { answer, usage, trace });
            }
            said.push(answer.message(self.as_text.is_some()).to_string().into_bytes());
            said.extend(self.tools(number, &answer.calls).await);
        }
    }

    fn model_id(&self, number: u32) -> Result<CallId, Problem> {
        let id = trace::model_step(&self.id, number);
        id.ok_or_else(|| Problem::of(Code::RequestMalformed, "call.id"))
    }

    /// Asks the model once; or gives its answer, if it was asked before.
    async fn round(&self, number: u32, said: &[Vec<u8>]) -> Result<RoundAnswer, Problem> {
        let call = self.model_id(number)?;
        let as_text = self.as_text;
        // WHY not the first: its bytes are those of the client, and must be the recorded ones.
        if number > 1 && self.run.has(&call) {
            return Ok(RoundAnswer::read(
                self.road.call(&self.run, call.as_str()).await?,
                as_text,
                false,
            ));
        }
        let streams = self.sink.0.is_some() && as_text.is_none();
        let request = self.request(&call, said, streams)?;
        let ask = Box::pin(self.road.begin_ask(&self.run, request)).await;
        let ask = ask.map_err(|failed| Problem::of_model(*failed))?;
        match Box::pin(ask.reply()).await {
            Ok(ModelReply::Whole(released, _)) => Ok(RoundAnswer::read(released, as_text, false)),
            Ok(ModelReply::Begun(flowing)) => {
                Box::pin(self.flow(flowing)).await?;
                let released = self.road.call(&self.run, call.as_str()).await?;
                Ok(RoundAnswer::read(released, as_text, true))
            }
            Err(failed) => Err(Problem::of_model(*failed)),
        }
    }

    fn request(
        &self,
        call: &CallId,
        said: &[Vec<u8>],
        streams: bool,
    ) -> Result<ModelRequest, Problem> {
        let own = self.tools_text.as_deref();
        let own =
            own.map(|text| json!({"role": "system", "content": text}).to_string().into_bytes());
        let own: Vec<Vec<u8>> = own.into_iter().collect();
        let tools = if own.is_empty() { self.terms.tools.as_slice() } else { &[] };
        let form = StepForm { tools, schema: self.schema.as_deref(), streams };
        let body = self.body.step((&own, said), form);
        Ok(ModelRequest {
            dialect: Dialect::Chat,
            operation: Operation::Generate,
            beta: false,
            body: sent(&body)?,
            headers: self.headers.clone(),
            call_id: call.to_string(),
            traceparent: self.traceparent.clone(),
            managed: Some(ManagedStep {
                parent: self.id.clone(),
                tools: Arc::clone(&self.names),
                tools_text: self.tools_text.clone(),
            }),
        })
    }

    /// Passes the text of an answer on as it comes, and waits for its end.
    async fn flow(&self, mut flowing: Flowing) -> Result<(), Problem> {
        loop {
            let (bytes, is_end) = match flowing.next().await {
                FlowPart::Piece(piece) => (piece.into_bytes(), false),
                FlowPart::Last(last) => (last.into_bytes(), true),
                FlowPart::Broken(fault) => return Err(Problem::from(*fault)),
            };
            for event in frames::data(&bytes) {
                let text = event.pointer("/choices/0/delta/content").and_then(Value::as_str);
                let Some(text) = text.filter(|text| !text.is_empty()) else { continue };
                let of = |name: &str| event.get(name).cloned().unwrap_or_default();
                let begin = (of("id"), of("created"), of("model"));
                let delta = json!({"role": "assistant", "content": text});
                self.sink.chunk(answer::chunk(begin, &delta, None)).await;
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// Runs the tool calls of an answer; the messages with what they gave.
    async fn tools(&self, number: u32, calls: &[AskedTool]) -> Vec<Vec<u8>> {
        let again = self.model_id(number.saturating_add(1)).is_ok_and(|next| self.run.has(&next));
        let calls = calls.iter().enumerate();
        let run = calls.map(|(place, asked)| self.tool((number, place), asked, again));
        let run: Vec<_> = run.map(Box::pin).collect();
        stream::iter(run).buffered(self.terms.together).collect().await
    }

    /// Runs one tool call. `again`: the model has its result already.
    async fn tool(&self, (number, place): (u32, usize), asked: &AskedTool, again: bool) -> Vec<u8> {
        let step = self.model_id(number).ok().and_then(|step| trace::tool_step(&step, place));
        let text = match step {
            Some(id) => self.tool_text(id, asked, again).await,
            None => Problem::of(Code::RequestMalformed, "call.id").tool_text(),
        };
        let message = match self.tools_text {
            Some(_) => text_tools::result(asked, &text),
            None => json!({"role": "tool", "tool_call_id": asked.id, "content": text}),
        };
        message.to_string().into_bytes()
    }

    async fn tool_text(&self, id: CallId, asked: &AskedTool, again: bool) -> String {
        let reads =
            self.terms.tools.iter().any(|one| one.offered == asked.name && one.tool.read_only);
        self.sink.send(format!(": wicketgate-tool {id}\n\n")).await;
        let answer = if again && !self.run.has(&id) {
            Err(Fault::of(Code::CallResultUnavailable).about(&id))
        } else {
            let mut leaving = StopOnLeaving::of(self, &id, reads);
            let answer = self.called(id, asked).await;
            leaving.armed = false;
            answer
        };
        match answer {
            Ok(released) => String::from_utf8_lossy(released.result()).into_owned(),
            Err(fault) => Problem::from(fault).tool_text(),
        }
    }

    async fn called(&self, id: CallId, asked: &AskedTool) -> Answer {
        let step = ToolStep {
            parent: self.id.clone(),
            id: id.clone(),
            name: asked.name.clone(),
            arguments: asked.arguments.clone(),
            tools: Arc::clone(&self.names),
            hold_wait: self.terms.hold_wait,
            traceparent: self.traceparent.clone(),
        };
        let (by, answer) = Box::pin(self.road.execute_step(&self.run, step)).await;
        if by != id {
            self.answered_by.lock().insert(id, by);
        }
        answer
    }

    /// Begins to answer a client that asks for a stream.
    async fn begun(mut self) -> Result<StreamReply, Problem> {
        let (sender, came) = mpsc::channel(PARTS);
        self.sink = LoopSink(Some(sender));
        let work: LoopWork = Box::pin(async move {
            let ended = self.run().await?;
            Ok(self.last(ended))
        });
        let mut parts = parts(work, came);
        match parts.next().await {
            Some(StreamPart::Broken(problem)) => Err(*problem),
            first => {
                let head = StreamHead::of_the_gate();
                Ok(StreamReply::Begun(head, Box::pin(stream::iter(first).chain(parts))))
            }
        }
    }

    /// The last frames of a stream.
    fn last(&self, ended: LoopEnd) -> Bytes {
        let LoopEnd { answer, usage, trace } = ended;
        let mut frames = String::new();
        let mut write = |chunk: serde_json::Map<String, Value>| {
            frames.push_str(&format!("data: {}\n\n", Value::Object(chunk)));
        };
        if !answer.has_left && !answer.content().is_empty() {
            write(answer.chunk(&json!({"role": "assistant", "content": answer.content()}), None));
        }
        let mut traced = answer.chunk(&json!({}), None);
        traced.insert("trace".into(), serde_json::to_value(&trace).unwrap_or_default());
        write(traced);
        write(answer.chunk(&json!({}), Some(answer.finish())));
        if self.body.wants_usage {
            let mut figures = answer.chunk(&json!({}), None);
            figures.insert("choices".into(), json!([]));
            figures.insert("usage".into(), usage.unwrap_or_default());
            write(figures);
        }
        format!(": wicketgate-receipt {}\n\n{frames}data: [DONE]\n\n", answer.receipt).into()
    }
}

/// Stops a tool call that only reads when the client leaves.
struct StopOnLeaving<'a> {
    of: &'a ToolLoop,
    call: CallId,
    armed: bool,
}

impl<'a> StopOnLeaving<'a> {
    fn of(of: &'a ToolLoop, call: &CallId, armed: bool) -> Self {
        Self { of, call: call.clone(), armed }
    }
}

impl Drop for StopOnLeaving<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.of.road.cancel(&self.of.run, self.call.as_str());
        }
    }
}

type LoopWork = std::pin::Pin<Box<dyn Future<Output = Result<Bytes, Problem>> + Send>>;

/// What comes of a loop, in order. Dropping it ends the loop.
fn parts(work: LoopWork, came: mpsc::Receiver<Bytes>) -> StreamParts {
    let state = LoopParts { work: Some(work), came, ended: None };
    Box::pin(stream::unfold(state, |mut state| async move {
        let part = state.next().await?;
        Some((part, state))
    }))
}

struct LoopParts {
    work: Option<LoopWork>,
    came: mpsc::Receiver<Bytes>,
    ended: Option<Result<Bytes, Problem>>,
}

impl LoopParts {
    async fn next(&mut self) -> Option<StreamPart> {
        loop {
            if let Ok(bytes) = self.came.try_recv() {
                return Some(StreamPart::Bytes(bytes));
            }
            match self.ended.take() {
                Some(Ok(end)) => return Some(StreamPart::End(end, None)),
                Some(Err(problem)) => return Some(StreamPart::Broken(Box::new(problem))),
                None => {}
            }
            let work = self.work.as_mut()?;
            tokio::select! {
                biased;
                Some(bytes) = self.came.recv() => return Some(StreamPart::Bytes(bytes)),
                ended = work => {
                    self.ended = Some(ended);
                    self.work = None;
                }
            }
        }
    }
}
