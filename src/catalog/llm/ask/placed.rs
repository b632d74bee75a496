//! What the path of a request to Gemini says: the model, and the form of the answer.
//!
//! The judged and recorded arguments are the body with these as members before its own, so policies,
//! records and replays see them where they see those of every other dialect. They are taken out of what
//! is sent to the provider, whose path says them again.

use crate::domain::canonical;
use crate::domain::json::Json;

/// The members of the arguments that stand for the path and the query.
pub const PATH_MEMBERS: [&str; 3] = ["alt", "model", "stream"];

/// What a path and its query say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskPlace {
    /// The id of the model.
    pub model: String,
    /// Whether the answer is to be a stream; none if the path says nothing of it.
    pub stream: Option<bool>,
    /// Whether a stream is to be one list of JSON values.
    pub is_list: bool,
}

impl AskPlace {
    /// The arguments of a request with this body. A body that has such a member itself has it twice
    /// then, and is refused where it is read.
    #[must_use]
    pub fn arguments(&self, body: &[u8]) -> Vec<u8> {
        let Some(inner) = body.trim_ascii_start().strip_prefix(b"{") else { return body.to_vec() };
        let behind = inner.trim_ascii_start();
        let before = body.get(..body.len().saturating_sub(behind.len())).unwrap_or_default();
        let model = canonical::text(&Json::from(self.model.as_str()));
        let mut members = format!("\"model\":{model}");
        // WHY all of them: one that the body has itself is found by that.
        members.push_str(match self.stream {
            Some(true) if self.is_list => r#","stream":true,"alt":"json""#,
            Some(true) => r#","stream":true,"alt":"sse""#,
            Some(false) => r#","stream":false,"alt":"json""#,
            None => "",
        });
        let comma = if behind.starts_with(b"}") { "" } else { "," };
        [before, members.as_bytes(), comma.as_bytes(), behind].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::dialect::Dialect;
    use crate::llm::ask::{Edits, upstream_body};

    #[test]
    fn what_the_path_says_is_put_into_the_arguments_and_taken_out_byte_for_byte() {
        let place = AskPlace { model: "m\"1".to_owned(), stream: Some(true), is_list: true };
        for body in ["{\"contents\":[]}", " {\n  \"contents\" : [ ] ,\"a\":1}\n"] {
            let arguments = place.arguments(body.as_bytes());
            let text = String::from_utf8(arguments.clone()).unwrap();
            assert!(
                text.contains(r#""model":"m\"1","stream":true,"alt":"json","contents""#),
                "{text}"
            );
            let edits = Edits { strip_members: PATH_MEMBERS.into(), ..Edits::default() };
            let sent = upstream_body(&arguments, Dialect::Gemini, &edits).unwrap();
            assert_eq!(String::from_utf8(sent).unwrap(), body);
        }
        let none = AskPlace { model: "m".to_owned(), stream: None, is_list: false };
        assert_eq!(none.arguments(b"{ }"), br#"{ "model":"m"}"#);
        assert_eq!(none.arguments(b"[]"), b"[]");
    }
}
