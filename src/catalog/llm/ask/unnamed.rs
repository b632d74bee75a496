//! Tool calls without an id. Providers of two dialects may give none, and a result names its call by the
//! name of the tool alone, in the order of the calls.

use serde::Deserialize;

use super::DENIED_TOOL;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};

/// What the arguments of a denied call say of it.
#[derive(Deserialize)]
struct DeniedArguments {
    call: String,
}

/// The id under which the gate knows a tool call that has none: of its tool and arguments, or, if it
/// was denied, of the denial.
#[must_use]
pub fn unnamed_call(name: &str, arguments: &str) -> String {
    let value = Json::parse(arguments.as_bytes(), &Limits::MODEL);
    let denied = value.as_ref().ok().filter(|_| name == DENIED_TOOL);
    if let Some(Ok(DeniedArguments { call })) = denied.map(Json::read) {
        return unnamed_denial(&call);
    }
    let text = value.map_or_else(|_| arguments.to_owned(), |value| canonical::text(&value));
    format!("unnamed:{}", Digest::of(&[name.as_bytes(), b"\0", text.as_bytes()]).hex())
}

/// The same of a call that was denied as this proposal.
#[must_use]
pub fn unnamed_denial(proposal: &str) -> String {
    format!("denied:{proposal}")
}

/// The tool calls of a conversation that have no result yet, in order.
#[derive(Default, Debug)]
pub(super) struct PendingCalls(Vec<(String, String)>);

impl PendingCalls {
    /// Adds a call; its id, or the one that stands for it.
    pub fn called(&mut self, id: Option<&str>, name: &str, arguments: &str) -> String {
        let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
        let id = id.unwrap_or_else(|| unnamed_call(name, arguments));
        self.0.push((name.to_owned(), id.clone()));
        id
    }

    /// Takes the call of a result: of this id, else the first of this name, else the first.
    pub fn answered(&mut self, id: Option<&str>, name: Option<&str>) -> String {
        let id = id.filter(|id| !id.is_empty());
        let fits = |(called, of): &(String, String)| match id {
            Some(id) => of == id,
            None => name.is_none_or(|name| called == name),
        };
        let found = self.0.iter().position(fits).map(|at| self.0.remove(at).1);
        found.or_else(|| id.map(str::to_owned)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_without_ids_are_of_the_calls_of_their_names_in_order() {
        let mut all = PendingCalls::default();
        let first = all.called(None, "f", r#"{"b":1, "a":2}"#);
        let other = all.called(Some(""), "g", "{}");
        let second = all.called(None, "f", r#"{"a":3}"#);
        let named = all.called(Some("c1"), "f", "{}");
        assert_eq!(first, unnamed_call("f", r#"{"a":2,"b":1}"#));
        assert_eq!(all.answered(None, Some("f")), first);
        assert_eq!(all.answered(Some("c1"), Some("f")), named);
        assert_eq!(all.answered(None, Some("f")), second);
        assert_eq!(all.answered(None, Some("f")), "");
        assert_eq!(all.answered(Some("c9"), None), "c9");
        assert_eq!(all.answered(None, None), other);
    }

    #[test]
    fn a_denied_call_is_known_by_its_proposal() {
        let told = r#"{"call":"m-1","code":"c","message":"no","rule":"r","tool":"f"}"#;
        assert_eq!(unnamed_call(DENIED_TOOL, told), unnamed_denial("m-1"));
        assert_ne!(unnamed_call("f", told), unnamed_denial("m-1"));
        assert_ne!(unnamed_call(DENIED_TOOL, "{}"), unnamed_denial("m-1"));
    }
}
