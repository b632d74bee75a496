//! Streams of Gemini: each event is an answer with the parts that are new.
//!
//! A tool call comes whole in one part, and leaves in an event of its own: the provider's, with that part
//! alone. So its signature stays with it. The event with the finish reason and everything behind it wait
//! for the end of the stream, which is that of the connection.

mod part;
pub(super) mod whole;

use std::collections::BTreeMap;

use self::part::{CANDIDATE, PARTS, PartKind};
use super::error::unexpected;
use super::places::{At, SplicedJson};
use super::{
    AnswerError, AnswerRules, Assembled, CALL_BYTES_MAX, CallForm, DialectStream, Frame, FrameText,
    Step, TokenUsage, broken, given, parse, usage,
};
use crate::domain::canonical;
use crate::domain::dialect::Dialect;
use crate::domain::json::Json;

/// What stands for the parts of an answer whose parts have left.
const NO_PARTS: &str = r#"[{"text":""}]"#;

/// A stream of answers.
#[derive(Debug)]
pub(super) struct GeminiStream {
    rules: AnswerRules,
    /// The members of the answer, without those that follow.
    head: BTreeMap<String, Json>,
    candidate: BTreeMap<String, Json>,
    role: Json,
    /// The parts in order; `null` is a call that waits.
    parts: Vec<Json>,
    calls: Vec<WaitingCall>,
    usage: Json,
    stop: Option<String>,
    end: Vec<Frame>,
    text: String,
}

/// A tool call that waits.
#[derive(Clone, Debug)]
struct WaitingCall {
    /// The event, with the part of this call alone.
    event: SplicedJson,
    /// Where it stands among the parts.
    slot: usize,
}

impl GeminiStream {
    pub(super) const fn new(rules: AnswerRules) -> Self {
        Self {
            rules,
            head: BTreeMap::new(),
            candidate: BTreeMap::new(),
            role: Json::Null,
            parts: Vec::new(),
            calls: Vec::new(),
            usage: Json::Null,
            stop: None,
            end: Vec::new(),
            text: String::new(),
        }
    }

    /// Keeps what an event says besides its parts.
    fn keep(&mut self, event: &Json, candidate: Option<&Json>) {
        usage::merge(&mut self.usage, event.get("usageMetadata").unwrap_or(&Json::Null));
        let known = ["candidates", "usageMetadata"];
        for (name, value) in event.as_object().into_iter().flatten() {
            if !known.contains(&name.as_str()) && *value != Json::Null {
                self.head.insert(name.clone(), value.clone());
            }
        }
        for (name, value) in candidate.and_then(Json::as_object).into_iter().flatten() {
            if name != "content" && *value != Json::Null {
                self.candidate.insert(name.clone(), value.clone());
            }
        }
        let content = candidate.and_then(|candidate| given(candidate, "content"));
        if let Some(role) = content.and_then(|content| given(content, "role")) {
            self.role = role.clone();
        }
    }

    /// The parts of an event that has something to say or to call.
    fn parts(
        &mut self,
        parts: &[Json],
        kinds: &[PartKind],
        data: &str,
    ) -> Result<Vec<Step>, AnswerError> {
        let mut steps = Vec::new();
        let mut at = 0;
        while let Some(kind) = kinds.get(at) {
            let is_call = *kind == PartKind::Call;
            let others = kinds.iter().skip(at).take_while(|kind| **kind != PartKind::Call).count();
            let until = at.saturating_add(if is_call { 1 } else { others });
            let within = at..until;
            let mut event = SplicedJson(data.to_owned());
            if until.saturating_sub(at) < kinds.len() {
                event.keep_items(&PARTS, |number| within.contains(&number))?;
            }
            if event.at(&[&CANDIDATE[..], &[At::Member("finishReason")]].concat()).is_some() {
                event.remove(&CANDIDATE, "finishReason")?;
            }
            let run = parts.get(within).unwrap_or_default();
            match (is_call, run) {
                (true, [part]) => steps.push(self.call(part, event)?),
                (true | false, run) => steps.push(self.pass(run, event.0)),
            }
            at = until;
        }
        Ok(steps)
    }

    fn call(&mut self, part: &Json, event: SplicedJson) -> Result<Step, AnswerError> {
        if event.0.len() > CALL_BYTES_MAX {
            return Err(AnswerError::CallTooLarge);
        }
        let args = [&PARTS[..], &[At::Item(0), At::Member("functionCall"), At::Member("args")]];
        let answered = part::answered(part, event.at(&args.concat()), self.calls.len())?;
        self.calls.push(WaitingCall { event, slot: self.parts.len() });
        self.parts.push(Json::Null);
        Ok(Step::Call(answered))
    }

    /// Lets parts leave.
    fn pass(&mut self, parts: &[Json], data: String) -> Step {
        let mut texts = Vec::new();
        for part in parts {
            let (kind, text) = part::said(part);
            texts.extend(FrameText::of((kind, kind), text.to_owned()));
            self.text.push_str(text);
            self.parts.push(part.clone());
        }
        Step::Frame { frame: Frame::unnamed(data), texts }
    }

    fn put(&mut self, slot: usize, part: Json) {
        if let Some(place) = self.parts.get_mut(slot) {
            *place = part;
        }
    }
}

impl DialectStream for GeminiStream {
    fn event(&mut self, name: Option<&str>, data: &str) -> Result<Vec<Step>, AnswerError> {
        let event = parse(data)?;
        if event.as_object().is_none() {
            return Err(unexpected("event"));
        }
        if let Some(error) =
            given(&event, "error").or_else(|| (name == Some("error")).then_some(&event))
        {
            return Err(AnswerError::provider(error));
        }
        let candidate = part::candidate(&event)?;
        part::refuse_beside(&event, candidate, &self.rules.hosted_allowed)?;
        let parts = candidate.map(part::parts).transpose()?.unwrap_or_default();
        let kinds = parts.iter().map(|part| part::part_kind(part, &self.rules.hosted_allowed));
        let kinds: Vec<PartKind> = kinds.collect::<Result<_, _>>()?;
        self.keep(&event, candidate);
        let is_bare = kinds.iter().all(|kind| *kind == PartKind::Empty);
        let stop = part::stop(&event, candidate);
        if self.stop.is_some() {
            if !is_bare {
                return Err(broken("the answer goes on after its finish reason"));
            }
            self.end.push(Frame::unnamed(data));
            return Ok(vec![Step::Hold]);
        }
        if stop.is_some() {
            let mut last = SplicedJson(data.to_owned());
            if !is_bare {
                last.set(&PARTS, NO_PARTS)?;
            }
            self.end.push(Frame::unnamed(last.0));
            self.stop = stop;
            return if is_bare { Ok(vec![Step::Hold]) } else { self.parts(parts, &kinds, data) };
        }
        if is_bare {
            return Ok(vec![self.pass(&[], data.to_owned())]);
        }
        self.parts(parts, &kinds, data)
    }

    fn leave(&mut self, call: usize, form: CallForm) -> Result<Vec<Frame>, AnswerError> {
        let mut call = self.calls.get(call).ok_or(AnswerError::UnknownCall(call))?.clone();
        let at = [&PARTS[..], &[At::Item(0)]].concat();
        part::write(&mut call.event, &at, &form)?;
        if let CallForm::Text(text) = &form {
            self.text.push_str(text);
        }
        let left = call.event.at(&at).map(parse).transpose();
        // A model may break off within its arguments: they are judged as text then.
        self.put(call.slot, left.ok().flatten().unwrap_or_default());
        Ok(vec![Frame::unnamed(call.event.0)])
    }

    fn finish(self: Box<Self>) -> Result<(Vec<Frame>, Assembled), AnswerError> {
        let Some(stop) = self.stop else { return Err(AnswerError::Cut) };
        let word = |name: &str| self.head.get(name).and_then(Json::as_str).map(str::to_owned);
        let (model, id) = (word("modelVersion"), word("responseId"));
        let mut json = self.head;
        // A request that was blocked has no candidate.
        if !self.candidate.is_empty() || !self.parts.is_empty() {
            let role = if self.role == Json::Null { Json::from("model") } else { self.role };
            let mut candidate = self.candidate;
            let content = [("parts", Json::from(joined(self.parts))), ("role", role)];
            candidate.insert("content".into(), Json::object(content));
            json.insert("candidates".into(), vec![Json::Object(candidate)].into());
        }
        let usage = TokenUsage::read(Dialect::Gemini, &self.usage);
        if self.usage != Json::Null {
            json.insert("usageMetadata".into(), self.usage);
        }
        let json = canonical::bytes(&Json::Object(json));
        Ok((self.end, Assembled { json, model, id, usage, stop, text: self.text }))
    }

    fn usage(&self) -> Option<TokenUsage> {
        TokenUsage::read(Dialect::Gemini, &self.usage)
    }

    /// Only the end of the connection ends an answer.
    fn is_over(&self) -> bool {
        false
    }
}

/// The parts as an answer in one piece has them: a text goes on in the one before it.
fn joined(parts: Vec<Json>) -> Vec<Json> {
    let is_text = |part: &Json| {
        let mut names = part.as_object().into_iter().flat_map(|members| members.keys());
        part.get("text").is_some() && names.all(|name| name == "text" || name == "thought")
    };
    let mut all: Vec<Json> = Vec::new();
    for part in parts {
        let (kind, more) = part::said(&part);
        if let Some(last) = all.last_mut()
            && is_text(last)
            && is_text(&part)
            && part::said(last).0 == kind
            && let Json::Object(members) = last
            && let Some(Json::String(text)) = members.get_mut("text")
        {
            text.push_str(more);
        } else {
            all.push(part);
        }
    }
    all
}
