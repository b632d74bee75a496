//! Converts a server's response to an outcome: the bytes it sent, plus members of the gate's own.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::traffic::Notes;
use crate::domain::json::Json;
use crate::domain::members::present;
use crate::domain::outcome::{AnswerContent, FailureClass, Opaque, Unmasked};
use crate::mcp::raw::{Members, ObjectWriter};
use crate::mcp::{META_NOTIFICATIONS, OWN, rpc};
use crate::tool::shape::lenient;

/// The outcome of one result. Its bytes stay unchanged, except in `_meta`: members that only this
/// gate may write are dropped, and the server's notifications during the call are added.
///
/// `structuredContent` is not checked against `outputSchema`; that is the client's task.
pub(super) fn outcome(result: &RawValue, notes: &Notes, bytes_max: usize) -> Unmasked {
    let text = result.get().as_bytes();
    if text.len() > bytes_max {
        let message = format!("the server's answer has more than {bytes_max} bytes");
        return failed(FailureClass::TooLarge, &message);
    }
    let Ok(members) = Members::parse(text) else {
        return failed(FailureClass::Protocol, "the server's result is no object");
    };
    let Ok(ResultHead { result_type, is_error, meta }) = serde_json::from_slice(text) else {
        return failed(FailureClass::Protocol, "the server's result is no object");
    };
    match result_type.as_ref().map(|kind| kind.as_str().unwrap_or_default()) {
        None | Some("complete") => {}
        Some("input_required") => {
            let message = "the tool asks its client for input, which this gate does not give";
            return failed(FailureClass::ToolError, message);
        }
        Some(_) => return failed(FailureClass::Protocol, "the result is of an unknown type"),
    }
    let status = if is_error == Some(true) { "error" } else { "ok" }.to_owned();
    let opaque = opaque(text);
    match rewritten(&members, meta, (notes, bytes_max)) {
        Ok(None) => {
            Unmasked::Completed { result: AnswerContent::of(text.to_vec(), opaque), status }
        }
        Ok(Some(result)) => {
            Unmasked::Completed { result: AnswerContent::of(result, opaque), status }
        }
        Err(message) => failed(FailureClass::Protocol, message),
    }
}

/// The members that every result may have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultHead<'a> {
    #[serde(default, deserialize_with = "present")]
    result_type: Option<Json>,
    #[serde(default, deserialize_with = "lenient")]
    is_error: Option<bool>,
    #[serde(borrow, default, rename = "_meta", deserialize_with = "present")]
    meta: Option<&'a RawValue>,
}

/// The members of a result that show whether it is text: of a tool, a resource or a prompt.
#[derive(Deserialize)]
struct Shape {
    #[serde(default)]
    content: Vec<ContentPart>,
    #[serde(default)]
    contents: Vec<Resource>,
    #[serde(default)]
    messages: Vec<PromptMessage>,
}

#[derive(Deserialize)]
struct PromptMessage {
    content: ContentPart,
}

#[derive(Deserialize)]
struct ContentPart {
    r#type: String,
    resource: Option<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    blob: Option<IgnoredAny>,
}

impl ContentPart {
    fn is_text(&self) -> bool {
        match self.r#type.as_str() {
            "text" | "resource_link" => true,
            "resource" => self.resource.as_ref().is_some_and(Resource::is_text),
            _media_or_unknown => false,
        }
    }
}

impl Resource {
    const fn is_text(&self) -> bool {
        self.blob.is_none()
    }
}

/// Whether some part of the result is not text, or has an unknown form.
fn opaque(result: &[u8]) -> Option<Opaque> {
    let plain = serde_json::from_slice::<Shape>(result).is_ok_and(|shape| {
        let messages = shape.messages.iter().map(|message| &message.content);
        shape.content.iter().chain(messages).all(ContentPart::is_text)
            && shape.contents.iter().all(Resource::is_text)
    });
    (!plain).then_some(Opaque::Media)
}

/// The outcome of an error response, with the whole message: `Scrub` masks it before it is cut.
pub(super) fn refused(error: &rpc::Error) -> Unmasked {
    failed(FailureClass::ToolError, &rpc::ServerError::of(error).to_string())
}

/// The result with another `_meta`; `None` if nothing has to change.
fn rewritten(
    members: &Members<'_>,
    meta: Option<&RawValue>,
    (notes, bytes_max): (&Notes, usize),
) -> Result<Option<Vec<u8>>, &'static str> {
    let inner = match meta {
        Some(raw) if raw.get().starts_with('{') => {
            Members::of(raw).map_err(|_error| "`_meta` of the server's result has a name twice")?
        }
        Some(_) => return Ok(None),
        None => Members::default(),
    };
    let forged = inner.iter().any(|(name, _)| name.starts_with(OWN));
    let noted = notes.array();
    if !forged && noted.is_none() {
        return Ok(None);
    }
    let whole = written(members, &inner, noted.as_deref());
    // The notifications are dropped first: the caller asked for the result.
    if whole.len() > bytes_max && noted.is_some() {
        return Ok(forged.then(|| written(members, &inner, None)));
    }
    Ok(Some(whole))
}

fn written(members: &Members<'_>, meta: &Members<'_>, notes: Option<&[u8]>) -> Vec<u8> {
    let kept = meta.iter().filter(|(name, _)| !name.starts_with(OWN));
    let own = ObjectWriter::default().copy(kept);
    let own = match notes {
        Some(notes) => own.member(META_NOTIFICATIONS, notes),
        None => own,
    };
    let own = own.end();
    let others = members.iter().filter(|(name, _)| *name != "_meta");
    ObjectWriter::default().copy(others).member("_meta", &own).end()
}

fn failed(class: FailureClass, message: &str) -> Unmasked {
    Unmasked::Failed { class, started: true, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, notes: &Notes, bytes_max: usize) -> Unmasked {
        outcome(&RawValue::from_string(text.to_owned()).unwrap(), notes, bytes_max)
    }

    fn completed(text: &str, status: &str) -> Unmasked {
        let result = AnswerContent::of(text.into(), opaque(text.as_bytes()));
        Unmasked::Completed { result, status: status.into() }
    }

    fn class(outcome: &Unmasked) -> Option<FailureClass> {
        if let Unmasked::Failed { class, .. } = outcome { Some(*class) } else { None }
    }

    fn one_note() -> Notes {
        let mut notes = Notes::default();
        assert!(notes.keep("notifications/message", None));
        notes
    }

    #[test]
    fn a_result_is_the_bytes_it_came_as() {
        for text in [
            r#"{ "content" : [ {"type":"hologram","z":1.50,"a":"\u00e9\/"} ] }"#,
            r#"{"n":123456789012345678901234567890,"x":{"a":1,"a":2},"_meta":{"b":1E+2}}"#,
            r#"{"_meta":null}"#,
            "{}",
        ] {
            assert_eq!(of(text, &Notes::default(), 999), completed(text, "ok"));
        }
        let text = r#"{"isError":true,"content":[]}"#;
        assert_eq!(of(text, &Notes::default(), 999), completed(text, "error"));
    }

    #[test]
    fn what_only_the_gate_may_write_is_dropped_and_the_rest_kept() {
        let text = r#"{"a": 1.0,"_meta":{"wicketgate.dev/receipt":7,"b": 1.0,"\u0077icketgate.dev/x":{}},"c":[ ]}"#;
        let clean = r#"{"a":1.0,"c":[ ],"_meta":{"b":1.0}}"#;
        assert_eq!(of(text, &Notes::default(), 999), completed(clean, "ok"));
    }

    #[test]
    fn notifications_during_a_call_are_added_to_meta_if_there_is_room() {
        let text = r#"{"a":1.0,"_meta":{"b":2.0}}"#;
        let note = r#"{"method":"notifications/message","params":{}}"#;
        let with =
            format!(r#"{{"a":1.0,"_meta":{{"b":2.0,"wicketgate.dev/notifications":[{note}]}}}}"#);
        assert_eq!(of(text, &one_note(), 999), completed(&with, "ok"));
        assert_eq!(of(text, &one_note(), with.len() - 1), completed(text, "ok"));
        let none = format!(r#"{{"_meta":{{"wicketgate.dev/notifications":[{note}]}}}}"#);
        assert_eq!(of("{}", &one_note(), 999), completed(&none, "ok"));
        assert_eq!(of(r#"{"_meta":7}"#, &one_note(), 999), completed(r#"{"_meta":7}"#, "ok"));
    }

    #[test]
    fn a_result_with_any_part_that_is_no_text_is_opaque() {
        for text in [
            "{}",
            r#"{"content":[],"structuredContent":{"blob":"x","content":[7]}}"#,
            r#"{"content":[{"type":"text","text":"a"},{"type":"resource_link","uri":"u"}]}"#,
            r#"{"content":[{"type":"resource","resource":{"uri":"u","text":"a","blob":null}}]}"#,
            r#"{"contents":[{"uri":"u","text":"a"}]}"#,
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}"#,
            r#"{"completion":{"values":["a"]}}"#,
        ] {
            assert_eq!(opaque(text.as_bytes()), None, "{text}");
        }
        for text in [
            r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"aGk="}]}"#,
            r#"{"content":[{"type":"audio","data":"aGk="}]}"#,
            r#"{"content":[{"type":"hologram"}]}"#,
            r#"{"content":[{"text":"a"}]}"#,
            r#"{"content":"a"}"#,
            r#"{"content":[{"type":"resource","resource":{"uri":"u","\u0062lob":"aGk="}}]}"#,
            r#"{"content":[{"type":"resource"}]}"#,
            r#"{"contents":[{"uri":"u","text":"a"},{"uri":"u","blob":"aGk="}]}"#,
            r#"{"messages":[{"role":"user","content":{"type":"image","data":"aGk="}}]}"#,
        ] {
            assert_eq!(opaque(text.as_bytes()), Some(Opaque::Media), "{text}");
        }
    }

    #[test]
    fn what_is_no_result_is_a_failure() {
        for text in ["[]", "7", "null", r#"{"a":1,"a":2}"#, r#"{"_meta":{"a":1,"a":2}}"#] {
            assert_eq!(class(&of(text, &one_note(), 999)), Some(FailureClass::Protocol), "{text}");
        }
        assert_eq!(class(&of("{}", &Notes::default(), 1)), Some(FailureClass::TooLarge));
        for (text, expected) in [
            (r#"{"resultType":"input_required"}"#, FailureClass::ToolError),
            (r#"{"resultType":"task"}"#, FailureClass::Protocol),
            (r#"{"resultType":7}"#, FailureClass::Protocol),
        ] {
            assert_eq!(class(&of(text, &Notes::default(), 999)), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_servers_error_is_passed_on_whole_and_without_control_characters() {
        let error = rpc::Error { code: -32000, message: "x\n".repeat(9999), data: None };
        let Unmasked::Failed { class, message, started } = refused(&error) else { panic!() };
        assert_eq!((class, started), (FailureClass::ToolError, true));
        assert!(message.chars().count() > 9999 && !message.contains('\n'));
        let data =
            Some(r#"{"requiredCapabilities":{"sampling":{},"a b":{},"roots":{}}}"#.to_owned());
        let error = rpc::Error { code: rpc::MISSING_CAPABILITY, message: "no".into(), data };
        let Unmasked::Failed { message, .. } = refused(&error) else { panic!() };
        let expected =
            "the server answered with error -32021: no; it needs the capabilities sampling, roots";
        assert_eq!(message, expected);
    }
}
