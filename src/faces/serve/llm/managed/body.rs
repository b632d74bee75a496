//! The requests of the loop to a model: the agent's own bytes, with the gate's tools and what was said
//! since.

use serde_json::value::RawValue;

use crate::enforce::ManagedTool;
use crate::mcp::raw::{Members, ObjectWriter, array};
use crate::serve::problem::Problem;
use crate::serve::problem::exchange::Broken;

/// Members by which a request offers tools of its own, or chooses among them.
const OWN_TOOLS: [&str; 4] = ["tools", "tool_choice", "functions", "function_call"];

/// Members that the gate sets in each of its requests.
const SET_HERE: [&str; 2] = ["stream", "stream_options"];

/// The member that says which form an answer has.
const FORM: &str = "response_format";

/// What a step offers to a model, and asks of its answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepForm<'a> {
    /// Tools for the model's own tool calls.
    pub tools: &'a [ManagedTool],
    /// The schema of the whole answer.
    pub schema: Option<&'a [u8]>,
    /// Whether the answer streams.
    pub streams: bool,
}

/// The agent's request, as it came.
#[derive(Debug)]
pub(super) struct LoopBody {
    members: Vec<(String, Box<RawValue>)>,
    /// The id of the model.
    pub model: String,
    /// Whether the agent asks for a stream.
    pub streams: bool,
    /// Whether the agent asks a stream for its usage figures.
    pub wants_usage: bool,
}

fn malformed(detail: &'static str, message: &str) -> Problem {
    Broken::Message.because(message).detail(detail).into()
}

impl LoopBody {
    /// Reads a request. The strict reader has read it before.
    pub fn read(text: &[u8]) -> Result<Self, Problem> {
        let members = Members::parse(text).map_err(|error| {
            malformed("json.syntax", &format!("the body is no object: {error}"))
        })?;
        if let Some((name, _)) = members.iter().find(|(name, _)| OWN_TOOLS.contains(name)) {
            let message = format!(
                "`{name}` is not taken here: the gate offers its own tools; leave it out, or ask at `/v1/chat/completions`"
            );
            return Err(malformed("managed.tools", &message));
        }
        let model = members.text("model");
        let model = model.ok_or_else(|| malformed("model.argument", "`model` is missing"))?;
        let list = members.get("messages").filter(|raw| raw.get().starts_with('['));
        list.ok_or_else(|| malformed("model.argument", "`messages` is a list of messages"))?;
        let is_true = |raw: Option<&RawValue>| raw.is_some_and(|raw| raw.get() == "true");
        let options = members.get("stream_options").and_then(|raw| Members::of(raw).ok());
        let wants_usage = options.is_some_and(|options| is_true(options.get("include_usage")));
        let streams = is_true(members.get("stream"));
        let kept = members.iter().filter(|(name, _)| !SET_HERE.contains(name));
        let members = kept.map(|(name, raw)| (name.to_owned(), raw.to_owned())).collect();
        Ok(Self { members, model, streams, wants_usage })
    }

    /// Checks that the agent leaves the form of the answers to the gate.
    pub fn leaves_the_form(&self) -> Result<(), Problem> {
        match self.members.iter().any(|(name, _)| name == FORM) {
            false => Ok(()),
            true => Err(malformed(
                "managed.response_format",
                "`response_format` is not taken here: with `text_tools: schema` the gate sets the form of each answer; leave it out",
            )),
        }
    }

    /// The request of one step: `before` and `after` stand around the agent's messages.
    pub fn step(
        &self,
        (before, after): (&[Vec<u8>], &[Vec<u8>]),
        StepForm { tools, schema, streams }: StepForm<'_>,
    ) -> Vec<u8> {
        let mut written = ObjectWriter::default();
        for (name, raw) in &self.members {
            let raw = raw.get();
            written = match name.as_str() {
                "messages" => written.member(name, &around(raw, before, after)),
                _ => written.member(name, raw.as_bytes()),
            };
        }
        if !tools.is_empty() {
            let tools: Vec<Vec<u8>> = tools.iter().map(offered).collect();
            written = written.member("tools", &array(&tools));
        }
        if let Some(schema) = schema {
            written = written.member(FORM, schema);
        }
        if streams {
            written = written.member("stream", b"true");
            written = written.member("stream_options", br#"{"include_usage":true}"#);
        }
        written.end()
    }
}

/// A list with these items around its own.
fn around(list: &str, before: &[Vec<u8>], after: &[Vec<u8>]) -> Vec<u8> {
    let own = list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or_default();
    let own = own.trim();
    let own = (!own.is_empty()).then(|| own.as_bytes().to_vec());
    let items: Vec<Vec<u8>> =
        before.iter().cloned().chain(own).chain(after.iter().cloned()).collect();
    array(&items)
}

/// A tool as a request offers it.
fn offered(tool: &ManagedTool) -> Vec<u8> {
    let function = ObjectWriter::default()
        .text("name", &tool.offered)
        .text("description", &tool.tool.description)
        .member("parameters", &tool.tool.input_schema)
        .end();
    ObjectWriter::default().text("type", "function").member("function", &function).end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_keeps_the_agents_bytes_in_their_order_and_adds_what_was_said_since() {
        let sent = br#"{"temperature":0.50, "messages": [ {"role":"user","content":"\u00e9"} ],"stream":true,"model":"m","stream_options":{"include_usage":true}}"#;
        let body = LoopBody::read(sent).unwrap();
        assert!(body.streams && body.wants_usage);
        assert_eq!(body.model, "m");
        let around = (&[b"1".to_vec()][..], &[b"2".to_vec(), b"3".to_vec()][..]);
        let step = body.step(around, StepForm::default());
        assert_eq!(
            String::from_utf8(step).unwrap(),
            r#"{"temperature":0.50,"messages":[1,{"role":"user","content":"\u00e9"},2,3],"model":"m"}"#
        );
        let body = LoopBody::read(br#"{"model":"m","messages":[]}"#).unwrap();
        assert!(!body.streams && !body.wants_usage);
        let step = body.step((&[], &[]), StepForm { streams: true, ..StepForm::default() });
        assert_eq!(
            String::from_utf8(step).unwrap(),
            r#"{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true}}"#
        );
    }

    #[test]
    fn a_request_with_tools_of_its_own_is_refused() {
        for (body, detail) in [
            (r#"{"model":"m","messages":[],"tools":[]}"#, "managed.tools"),
            (r#"{"model":"m","messages":[],"tool_choice":"none"}"#, "managed.tools"),
            (r#"{"model":"m","messages":[],"functions":[]}"#, "managed.tools"),
            (r#"{"messages":[]}"#, "model.argument"),
            (r#"{"model":"m"}"#, "model.argument"),
            (r#"{"model":"m","messages":{}}"#, "model.argument"),
        ] {
            let refused = LoopBody::read(body.as_bytes()).map(|_body| ()).unwrap_err();
            assert_eq!(refused.detail, detail, "{body}");
        }
    }
}
