//! JSON-RPC 2.0 as MCP uses it: parses the frame of one message, and leaves the rest raw.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::raw::{self, Members, ObjectWriter, quoted};

/// The text is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON is not a message.
pub const INVALID_REQUEST: i64 = -32600;
/// The server does not know this method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The method cannot work with these parameters.
pub const INVALID_PARAMS: i64 = -32602;
/// An error with no more specific code.
pub const INTERNAL_ERROR: i64 = -32603;
/// A header contradicts the body (MCP 2026-07-28).
pub const HEADER_MISMATCH: i64 = -32020;
/// The client lacks a capability the request needs (MCP 2026-07-28).
pub const MISSING_CAPABILITY: i64 = -32021;
/// This protocol version is not spoken (MCP 2026-07-28).
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// Begins the outcome of a call that a server answered with an error; its code and `: ` follow.
const ANSWERED: &str = "the server answered with error ";
/// Before the names of capabilities, at the end of a message about `MISSING_CAPABILITY`.
const NEEDS: &str = "; it needs the capabilities ";

/// What joins a response to its request.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Id {
    /// A whole number.
    Int(i64),
    /// Text.
    Text(String),
}

impl Id {
    /// Reads an id.
    #[must_use]
    pub fn read(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        if text.starts_with('"') {
            return serde_json::from_str(text).ok().map(Self::Text);
        }
        text.parse().ok().map(Self::Int)
    }

    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        match self {
            Self::Int(number) => number.to_string(),
            Self::Text(text) => quoted(text),
        }
    }
}

/// An error that a peer answered with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The code.
    pub code: i64,
    /// For a person.
    pub message: String,
    /// Further data of the error, as the peer sent it.
    pub data: Option<String>,
}

/// An error of a server, in the form that the ledger keeps in the outcome of a call.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{ANSWERED}{code}: {message}")]
pub struct ServerError {
    /// The server's code.
    pub code: i64,
    /// The server's message on one line, with the capabilities that it needs.
    pub message: String,
}

impl ServerError {
    /// Of an error that a server answered with.
    #[must_use]
    pub fn of(error: &Error) -> Self {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let mut message: String = error.message.chars().map(plain).collect();
        message.push_str(&needs(error).unwrap_or_default());
        Self { code: error.code, message }
    }

    /// Of the message of an outcome, if it is one.
    #[must_use]
    pub fn read(outcome: &str) -> Option<Self> {
        let (code, message) = outcome.strip_prefix(ANSWERED)?.split_once(": ")?;
        Some(Self { code: code.parse().ok()?, message: message.to_owned() })
    }

    /// The message alone, and the client capabilities that the server needs.
    #[must_use]
    pub fn needs(&self) -> Option<(&str, Vec<&str>)> {
        let (message, names) = self.message.split_once(NEEDS)?;
        (self.code == MISSING_CAPABILITY).then(|| (message, names.split(", ").collect()))
    }
}

/// The `data` of an error about a missing capability.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MissingCapability<'a> {
    #[serde(borrow)]
    required_capabilities: &'a RawValue,
}

/// The client capabilities that the server demands.
fn needs(error: &Error) -> Option<String> {
    let data = error.data.as_ref().filter(|_| error.code == MISSING_CAPABILITY)?;
    let data: MissingCapability<'_> = raw::read(data).ok()?;
    let required = Members::of(data.required_capabilities).ok()?;
    let plain = |name: &&str| name.len() <= 32 && name.bytes().all(|b| b.is_ascii_alphanumeric());
    let names: Vec<&str> = required.iter().map(|(name, _)| name).filter(plain).take(8).collect();
    (!names.is_empty()).then(|| format!("{NEEDS}{}", names.join(", ")))
}

/// One message. What it carries is not looked into.
#[derive(Debug)]
pub enum Message<'a> {
    /// Wants an answer.
    Request {
        /// Its id.
        id: Id,
        /// Its method.
        method: String,
        /// Its parameters: an object if there are any.
        params: Option<&'a RawValue>,
    },
    /// A message without an answer.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters: an object if there are any.
        params: Option<&'a RawValue>,
    },
    /// Is an answer.
    Response {
        /// The id of the request; absent when the peer could not read one.
        id: Option<Id>,
        /// The result or the error.
        outcome: Result<&'a RawValue, Error>,
    },
}

/// The text is not a message; `id` is the request's if it could be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Malformed {
    /// `PARSE_ERROR` or `INVALID_REQUEST`.
    pub code: i64,
    /// What is wrong.
    pub message: String,
    /// The id, if one could be read.
    pub id: Option<Id>,
}

impl<'a> Message<'a> {
    /// Reads one message. A batch is an error.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn read(line: &'a [u8]) -> Result<Self, Malformed> {
        let members = Members::parse(line).map_err(|error| {
            let code = if error.is_data() { INVALID_REQUEST } else { PARSE_ERROR };
            Malformed { code, message: error.to_string(), id: None }
        })?;
        let [sent, version, method, params] = members.pick(["id", "jsonrpc", "method", "params"]);
        let id = sent.and_then(Id::read);
        let malformed = |message: &str| Malformed {
            code: INVALID_REQUEST,
            message: message.to_owned(),
            id: id.clone(),
        };
        if version.and_then(text).as_deref() != Some("2.0") {
            return Err(malformed("`jsonrpc` is not \"2.0\""));
        }
        let Some(method) = method else {
            return response(&members, id.clone())
                .ok_or_else(|| malformed("neither a request nor a response"));
        };
        let method = text(method).ok_or_else(|| malformed("`method` is no text"))?;
        if params.is_some_and(|raw| !raw.get().starts_with('{')) {
            return Err(malformed("`params` is no object"));
        }
        match (sent, id.clone()) {
            (None, _) => Ok(Self::Notification { method, params }),
            (Some(_), Some(id)) => Ok(Self::Request { id, method, params }),
            (Some(_), None) => Err(malformed("`id` is neither text nor a whole number")),
        }
    }
}

fn response<'a>(members: &Members<'a>, id: Option<Id>) -> Option<Message<'a>> {
    let outcome = match members.pick(["result", "error"]) {
        [Some(result), None] => Ok(result),
        [None, Some(error)] => Err(read_error(error)?),
        [None, None] | [Some(_), Some(_)] => return None,
    };
    Some(Message::Response { id, outcome })
}

fn read_error(raw: &RawValue) -> Option<Error> {
    let members = Members::of(raw).ok()?;
    let [code, message, data] = members.pick(["code", "message", "data"]);
    Some(Error {
        code: code?.get().parse().ok()?,
        message: message.and_then(text).unwrap_or_default(),
        data: data.map(|data| data.get().to_owned()),
    })
}

/// The value, if it is a string.
fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn frame() -> ObjectWriter {
    ObjectWriter::default().text("jsonrpc", "2.0")
}

/// A request. `params` must be a JSON object.
#[must_use]
pub fn request(id: &Id, method: &str, params: &[u8]) -> Vec<u8> {
    frame()
        .member("id", id.to_json().as_bytes())
        .text("method", method)
        .member("params", params)
        .end()
}

/// A notification. `params` must be a JSON object.
#[must_use]
pub fn notification(method: &str, params: Option<&[u8]>) -> Vec<u8> {
    let frame = frame().text("method", method);
    match params {
        Some(params) => frame.member("params", params).end(),
        None => frame.end(),
    }
}

/// The notification that gives up this request.
#[must_use]
pub fn cancellation(id: &Id) -> Vec<u8> {
    let params = ObjectWriter::default()
        .member("requestId", id.to_json().as_bytes())
        .text("reason", "the call was given up")
        .end();
    notification("notifications/cancelled", Some(&params))
}

/// The request that the parameters of such a notification name.
#[must_use]
pub fn cancelled(params: &RawValue) -> Option<Id> {
    Id::read(Members::of(params).ok()?.get("requestId")?)
}

/// A good answer. `result` must be a JSON object.
#[must_use]
pub fn result(id: &Id, result: &[u8]) -> Vec<u8> {
    frame().member("id", id.to_json().as_bytes()).member("result", result).end()
}

/// A bad answer. `data`, if any, must be JSON.
#[must_use]
pub fn error(id: Option<&Id>, code: i64, message: &str, data: Option<&[u8]>) -> Vec<u8> {
    let error = ObjectWriter::default()
        .member("code", code.to_string().as_bytes())
        .text("message", message);
    let error = match data {
        Some(data) => error.member("data", data).end(),
        None => error.end(),
    };
    let id = id.map_or_else(|| "null".to_owned(), Id::to_json);
    frame().member("id", id.as_bytes()).member("error", &error).end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_messages_are_distinguished_and_keep_their_content() {
        let text = request(&Id::Int(7), "tools/call", br#"{"big":123456789012345678901234567890}"#);
        let Ok(Message::Request { id, method, params }) = Message::read(&text) else { panic!() };
        assert_eq!((id, method.as_str()), (Id::Int(7), "tools/call"));
        assert_eq!(params.unwrap().get(), r#"{"big":123456789012345678901234567890}"#);
        let text = notification("notifications/initialized", None);
        assert!(matches!(Message::read(&text), Ok(Message::Notification { params: None, .. })));
        let text = result(&Id::Text("a\"b".into()), b"{}");
        let Ok(Message::Response { id, outcome: Ok(raw) }) = Message::read(&text) else { panic!() };
        assert_eq!((id, raw.get()), (Some(Id::Text("a\"b".into())), "{}"));
        let text = error(None, PARSE_ERROR, "no", Some(b"[1]"));
        let Ok(Message::Response { id: None, outcome: Err(error) }) = Message::read(&text) else {
            panic!()
        };
        assert_eq!((error.code, error.data.as_deref()), (PARSE_ERROR, Some("[1]")));
    }

    #[test]
    fn an_error_of_a_server_is_read_back_from_the_outcome_that_records_it() {
        let data = Some(r#"{"requiredCapabilities":{"sampling":{},"roots":{}}}"#.to_owned());
        let error = Error { code: MISSING_CAPABILITY, message: "no: not\nnow".into(), data };
        let read = ServerError::read(&ServerError::of(&error).to_string()).unwrap();
        assert_eq!(read, ServerError::of(&error));
        assert_eq!(read.needs(), Some(("no: not now", vec!["sampling", "roots"])));
        let other = ServerError { code: INVALID_PARAMS, ..read };
        assert_eq!(other.needs(), None);
        assert_eq!(ServerError::read("the server answered with status 500"), None);
    }

    #[test]
    fn a_cancellation_names_its_request() {
        let named = |params: &str| cancelled(serde_json::from_str(params).unwrap());
        assert_eq!(named(r#"{"requestId":7,"reason":"x"}"#), Some(Id::Int(7)));
        assert_eq!(named("{}"), None);
        let text = cancellation(&Id::Text("7".into()));
        let Ok(Message::Notification { params: Some(params), .. }) = Message::read(&text) else {
            panic!()
        };
        assert_eq!(cancelled(params), Some(Id::Text("7".into())));
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_code_and_id() {
        let code = |text: &str| Message::read(text.as_bytes()).map(|_| ()).unwrap_err().code;
        for text in ["", "{", "nonsense", "{}{}"] {
            assert_eq!(code(text), PARSE_ERROR, "{text}");
        }
        for text in [
            "[]",
            "[{}]",
            "{}",
            r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":2}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
        ] {
            assert_eq!(code(text), INVALID_REQUEST, "{text}");
        }
        let error =
            Message::read(br#"{"jsonrpc":"1.0","id":"x","method":"a"}"#).map(|_| ()).unwrap_err();
        assert_eq!(error.id, Some(Id::Text("x".into())));
    }
}
