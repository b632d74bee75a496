//! Requests to models, and the templates that their instructions are compared with.

use std::collections::BTreeMap;

use wicketgate::catalog::llm::ask::{
    self, Ask, AskRules, DENIED_TOOL, Edits, Restored, upstream_body,
};
use wicketgate::domain::dialect::{Dialect, Operation};
use wicketgate::domain::json::{Json, Limits};
use wicketgate::identity::templates::InstructionTemplate;

/// The bound that is set for answers.
const TOKENS: u64 = 64;

pub fn chat(bytes: &[u8]) {
    holds(Dialect::Chat, bytes);
}

pub fn gemini(bytes: &[u8]) {
    holds(Dialect::Gemini, bytes);
}

pub fn messages(bytes: &[u8]) {
    holds(Dialect::Messages, bytes);
}

pub fn ollama(bytes: &[u8]) {
    holds(Dialect::Ollama, bytes);
}

pub fn responses(bytes: &[u8]) {
    holds(Dialect::Responses, bytes);
}

/// The request, if its dialect's reader takes it.
pub fn read(dialect: Dialect, bytes: &[u8]) -> Option<(Json, Ask)> {
    let body = Json::parse(bytes, &Limits::MODEL).ok()?;
    let rules = AskRules { output_tokens_max: TOKENS, ..AskRules::default() };
    let asked = ask::read(dialect, Operation::Generate, &body, bytes, &rules).ok()?;
    Some((body, asked))
}

/// A request that nothing is changed of keeps its bytes. An edited one has other values only where it was edited, and
/// is read as the same request.
fn holds(dialect: Dialect, bytes: &[u8]) {
    let Some((body, asked)) = read(dialect, bytes) else { return };
    assert_eq!(upstream_body(bytes, dialect, &Edits::default()).unwrap(), bytes);
    let given = asked.output_tokens.map(|(member, _)| member);
    let bound = given.or(ask::form(dialect).bound).unwrap_or("max_tokens");
    let edits = Edits {
        model: Some("another \"model\"".into()),
        output_tokens: Some((bound, TOKENS)),
        ..asked.edits.clone()
    };
    let sent = upstream_body(bytes, dialect, &edits).unwrap();
    let (edited, again) = read(dialect, &sent).expect("an edited request is a request");
    assert_eq!(again.model, "another \"model\"");
    assert!(again.output_tokens.is_some_and(|(_, tokens)| tokens <= TOKENS));
    assert_eq!(again.edits, Edits::default(), "an edited request needs no further edit");
    assert_eq!(
        (&again.instructions, &again.offered, &again.calls, &again.results, again.stream),
        (&asked.instructions, &asked.offered, &asked.calls, &asked.results, asked.stream)
    );
    assert!(again.offered.iter().all(|tool| tool.name != DENIED_TOOL));
    let strips = asked.edits != Edits::default();
    let others = |body: &Json| others(body, (ask::form(dialect).holder, bound), strips);
    assert_eq!(others(&edited), others(&body));
    restored(dialect, bytes, &asked);
}

/// The members that no edit may change. The bound stands in the request, or in an object of it.
fn others(
    body: &Json,
    (holder, bound): (Option<&str>, &str),
    strips: bool,
) -> BTreeMap<String, Json> {
    let mut members = body.as_object().cloned().unwrap_or_default();
    members.remove("model");
    match holder.map(|holder| (holder, members.remove(holder))) {
        None => _ = members.remove(bound),
        Some((holder, Some(Json::Object(mut object)))) => {
            object.remove(bound);
            members.extend((!object.is_empty()).then(|| (holder.to_owned(), Json::Object(object))));
        }
        Some((_, _none)) => {}
    }
    if strips {
        let choices = ["tool_choice", "function_call", "parallel_tool_calls", "toolConfig"];
        for name in ["tools", "functions"].into_iter().chain(choices) {
            members.remove(name);
        }
    }
    members
}

/// A restored call has its own name and arguments, and no other call changes.
fn restored(dialect: Dialect, bytes: &[u8], asked: &Ask) {
    let Some(first) = asked.calls.iter().find(|call| !call.id.is_empty()) else { return };
    let denied = Restored {
        id: first.id.clone(),
        name: "asked_for".into(),
        arguments: r#"{"a":1}"#.into(),
        custom: false,
        result: "no, because".into(),
    };
    let edits = Edits { restore: vec![denied], ..asked.edits.clone() };
    let Ok(sent) = upstream_body(bytes, dialect, &edits) else { return };
    let (_, again) = read(dialect, &sent).expect("a restored request is a request");
    assert_eq!(again.calls.len(), asked.calls.len());
    // The id that stands for one is of its name and its arguments.
    let is_given = !["unnamed:", "denied:"].iter().any(|front| first.id.starts_with(front));
    for (now, before) in again.calls.iter().zip(&asked.calls) {
        if before.id != first.id {
            assert_eq!(now, before);
        } else if is_given {
            assert_eq!(now.id, before.id);
        }
    }
}

/// A template and, behind a zero byte, a text. What the template does not fix is not more than the text, and a
/// template is written as it was read.
pub fn template(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (written, text) = bytes.split_at(at);
    let Ok(template) = InstructionTemplate::parse(written) else { return };
    assert_eq!(InstructionTemplate::parse(template.text().as_bytes()).as_ref(), Ok(&template));
    let Some(text) = super::text(text).and_then(|text| text.strip_prefix('\0')) else { return };
    if let Some(loose) = template.loose_bytes(text) {
        let fixed = u64::try_from(template.literal_bytes()).unwrap();
        assert!(loose + fixed <= u64::try_from(text.len()).unwrap());
    }
}
