//! When a call is the same again: by its bytes, and for requests to models by what they say.

use std::time::Duration;

use super::answer::Fault;
use super::run::{self, CallOnRoad, Run};
use super::runs::Runs;
use super::{Entered, Entry, Road};
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::identity::manifest::RunLimits;
use crate::ledger::recall::Likeness;
use crate::limits::Usage;
use crate::record::conversation::list_member;
use crate::tool::guard::as_judged;

/// Requests to models that say the same in a row, where the manifest names no number.
const REPEATED_MAX: u64 = 10;

/// Members of a request that say something besides its messages. WHY tools and the form of the answer:
/// clients count the tokens of each tool with the same message, and read one text in several forms.
const SAID: [&str; 15] = [
    "model",
    "system",
    "instructions",
    "previous_response_id",
    "conversation",
    "thread",
    "tools",
    "functions",
    "response_format",
    "text",
    "output_config",
    "output_format",
    "systemInstruction",
    "generationConfig",
    "format",
];
/// Members that differ when a client asks for the same again.
const MARKS: [&str; 9] = [
    "cache_control",
    "call_id",
    "encrypted_content",
    "id",
    "signature",
    "status",
    "thoughtSignature",
    "tool_call_id",
    "tool_use_id",
];

/// What a call is compared by.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallLikeness {
    /// Identifies its tool and arguments.
    pub fingerprint: Digest,
    /// The same for calls that count as the same one again (`limits.repeated_calls`).
    pub pattern: Digest,
    /// How long another id counts as the same call.
    pub window: Option<Duration>,
}

impl Runs {
    /// What the call is compared by. `window`: how long another id counts as the same call.
    pub fn likeness(&self, call: &ToolCall, window: Option<Duration>) -> CallLikeness {
        let fingerprint = self.fingerprint(call);
        let pattern = said(call).unwrap_or(fingerprint);
        CallLikeness { fingerprint, pattern, window }
    }
}

impl Road {
    /// Whether a request asks for a call that the gate knows: as the agent wrote it, or as the gate would judge that.
    /// `masked`: the kinds that were masked in the known call. `compare` compares canonical arguments of the request's
    /// tool with those of the known call.
    pub(super) fn is_again(
        &self,
        call: &ToolCall,
        masked: &[String],
        compare: impl Fn(&[u8]) -> Likeness,
    ) -> Likeness {
        let like = compare(call.canonical());
        // WHY only then: the known call may be older than the rules that mask it now.
        if like == Likeness::Same {
            return like;
        }
        let exceptions = self.exceptions(call.tool());
        let judged = as_judged(&self.in_force.toolbox(), call, (&exceptions, masked));
        judged.map_or(like, |args| compare(&args))
    }

    /// Waits for the answer of the call that is on the road under the same id, if the request asks for that one. WHY not
    /// always by its own arguments: a call that was held goes on with those that the gate masked.
    pub(super) fn join(&self, call: &ToolCall, at: &CallOnRoad) -> Result<Entered, Fault> {
        let like = self.is_again(call, &at.masked, |args| {
            match self.runs.fingerprint_of(call.tool(), args) == at.fingerprint {
                true => Likeness::Same,
                false => Likeness::Other,
            }
        });
        match like {
            Likeness::Same => Ok(Entered::Known(Entry::Wait(at.listen()))),
            Likeness::Other | Likeness::Unknown => Err(run::conflict(call.id())),
        }
    }
}

impl Run {
    /// Counts a new call, and gives the limits of the run that it violates. WHY requests in a dialect
    /// have a number of repetitions where the manifest names none: their clients repeat a request that
    /// they take for failed, without end.
    pub(super) fn count(
        &self,
        usage: &mut Usage,
        (call, pattern): (&ToolCall, Digest),
        now: Duration,
    ) -> Vec<LayerReason> {
        let limits = &self.manifest.limits;
        if call.dialect().is_none() || limits.repeated_calls.is_some() {
            return usage.begin(limits, pattern, now);
        }
        let limits = RunLimits { repeated_calls: Some(REPEATED_MAX), ..limits.clone() };
        let mut reasons = usage.begin(&limits, pattern, now);
        for reason in reasons.iter_mut().filter(|one| one.detail == "limit.repeated_calls") {
            reason.message = format!(
                "the same conversation came {REPEATED_MAX} times in a row; `spec.limits.repeated_calls` of the manifest allows another number"
            );
        }
        reasons
    }
}

/// What a request in a dialect says: its instructions and messages, without ids and marks, the offered
/// tools, and the form of the answer.
fn said(call: &ToolCall) -> Option<Digest> {
    let request = call.dialect()?;
    let mut said = Said(Vec::with_capacity(call.canonical().len()));
    for word in [call.tool().as_str(), request.dialect.as_str(), request.operation.as_str()] {
        said.text(word);
    }
    let list = list_member(call.args());
    // A text alone is the other form of `input`.
    for name in
        SAID.into_iter().chain(["input", "messages", "contents"]).filter(|name| *name != list)
    {
        said.member(name, call.args().get(name), false);
    }
    said.member(list, call.args().get(list), true);
    Some(Digest::of(&[&said.0]))
}

/// The bytes of what is said.
struct Said(Vec<u8>);

impl Said {
    /// No byte of a text.
    const TEXT: u8 = 0xff;
    const NAME: u8 = 0xfe;
    const OBJECT: u8 = 0xfd;

    fn text(&mut self, text: &str) {
        self.0.push(Self::TEXT);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn member(&mut self, name: &str, value: Option<&Json>, unmarked: bool) {
        let Some(value) = value.filter(|value| **value != Json::Null) else { return };
        self.0.push(Self::NAME);
        self.0.extend_from_slice(name.as_bytes());
        self.value(value, unmarked);
    }

    /// `unmarked`: without the members of [`MARKS`].
    fn value(&mut self, value: &Json, unmarked: bool) {
        match value {
            Json::Null => {}
            Json::String(text) => self.text(text),
            Json::Bool(_) | Json::Int(_) | Json::Float(_) => self.text(&canonical::text(value)),
            Json::Array(items) => items.iter().for_each(|item| self.value(item, unmarked)),
            Json::Object(members) => {
                let kind = members.get("type").and_then(Json::as_str).unwrap_or_default();
                // A block of text says what the text alone says.
                if matches!(kind, "text" | "input_text" | "output_text")
                    && let Some(text) = members.get("text").and_then(Json::as_str)
                {
                    return self.text(text);
                }
                // The id of a reference is all that it says.
                let unmarked = unmarked && kind != "item_reference";
                self.0.push(Self::OBJECT);
                for (name, value) in members {
                    match (name.as_str(), value) {
                        ("arguments", Json::String(text)) => self.arguments(text),
                        // What a tool is called with is no mark, whatever its name.
                        ("input" | "action" | "args" | "arguments" | "response", _) => {
                            self.member(name, Some(value), false);
                        }
                        (name, _) if unmarked && MARKS.contains(&name) => {}
                        (name, _) => self.member(name, Some(value), unmarked),
                    }
                }
            }
        }
    }

    /// The arguments of a tool call, in one spelling.
    fn arguments(&mut self, text: &str) {
        match Json::parse(text.as_bytes(), &Limits::ARGUMENTS) {
            Ok(arguments) => self.text(&canonical::text(&arguments)),
            Err(_) => self.text(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::call::{CallOrigin, CallerAuth, DialectRequest};
    use crate::domain::dialect::{Dialect, Operation};
    use crate::domain::effect::AskFacts;
    use crate::domain::id::{CallId, RunId};
    use crate::domain::sent::{MessageKey, RequestSearch, SearchedFor, SentJson};

    /// Remembers nothing, and finds nothing.
    struct Nothing;

    impl RequestSearch for Nothing {
        fn remembers(&self, _: &[u8]) -> Option<(MessageKey, bool)> {
            None
        }

        fn search(&self, _: &[u8]) -> Option<SearchedFor> {
            Some(SearchedFor { set: 0, generation: 0 })
        }
    }

    fn of(dialect: Dialect, body: &str) -> Digest {
        let origin = CallOrigin {
            run: RunId::from_random([7; 16]),
            id: CallId::parse("c").unwrap(),
            after: 0,
            agent: "a".to_owned(),
            auth: CallerAuth::default(),
            traceparent: None,
        };
        let request = DialectRequest {
            dialect,
            operation: Operation::Generate,
            beta: false,
            headers: Vec::new(),
            facts: AskFacts::default(),
            reading: None,
        };
        let sent = SentJson::read(body.as_bytes(), &Limits::MODEL).unwrap();
        let list = list_member(sent.value());
        let asked = (request, list, &Nothing as &dyn RequestSearch);
        said(&ToolCall::of_request(origin, "llm.main", sent, asked).unwrap()).unwrap()
    }

    fn all_equal(dialect: Dialect, bodies: &[&str]) {
        let first = of(dialect, bodies[0]);
        for body in bodies {
            assert_eq!(of(dialect, body), first, "{body}");
        }
    }

    #[test]
    fn a_conversation_is_the_same_whatever_its_ids_marks_and_spellings() {
        all_equal(
            Dialect::Chat,
            &[
                r#"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1, \"b\":2}"}}]},{"role":"tool","tool_call_id":"c1","content":"1"}]}"#,
                r#"{"model":"m","temperature":1,"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","tool_calls":[{"id":"c2","type":"function","function":{"name":"f","arguments":"{\"b\":2,\"a\":1}"}}]},{"role":"tool","tool_call_id":"c2","content":"1"}]}"#,
            ],
        );
        all_equal(
            Dialect::Messages,
            &[
                r#"{"model":"m","max_tokens":1,"system":"s","messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"h","signature":"a"},{"type":"tool_use","id":"t1","name":"f","input":{"id":1}}]}]}"#,
                r#"{"model":"m","max_tokens":2,"system":[{"type":"text","text":"s"}],"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"h","signature":"b"},{"type":"tool_use","id":"t2","name":"f","input":{"id":1}}]}]}"#,
            ],
        );
    }

    #[test]
    fn what_says_something_else_is_another_request() {
        let other = [
            r#"{"model":"m","input":"hi"}"#,
            r#"{"model":"m2","input":"hi"}"#,
            r#"{"model":"m","input":"ho"}"#,
            r#"{"model":"m","input":"hi","instructions":"s"}"#,
            r#"{"model":"m","input":"hi","previous_response_id":"resp_1"}"#,
            r#"{"model":"m","input":"hi","previous_response_id":"resp_2"}"#,
            r#"{"model":"m","input":"hi","tools":[{"type":"function","name":"f"}]}"#,
            r#"{"model":"m","input":"hi","tools":[{"type":"function","name":"g"}]}"#,
            r#"{"model":"m","input":"hi","text":{"format":{"type":"json_object"}}}"#,
            r#"{"model":"m","input":[{"role":"user","content":"hi"}]}"#,
            r#"{"model":"m","input":[{"role":"user","content":"hi"},{"type":"item_reference","id":"a"}]}"#,
            r#"{"model":"m","input":[{"role":"user","content":"hi"},{"type":"item_reference","id":"b"}]}"#,
            r#"{"model":"m","input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"f","arguments":"{\"id\":1}"}]}"#,
            r#"{"model":"m","input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"f","arguments":"{\"id\":2}"}]}"#,
        ];
        let all: std::collections::BTreeSet<Digest> =
            other.iter().map(|body| of(Dialect::Responses, body)).collect();
        assert_eq!(all.len(), other.len());
        let input = |id: u64| {
            let text = format!(
                r#"{{"model":"m","messages":[{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"f","input":{{"id":{id}}}}}]}}]}}"#
            );
            of(Dialect::Messages, &text)
        };
        assert_ne!(input(1), input(2));
    }
}
