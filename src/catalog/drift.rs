//! What a server's tool has become, compared with what was signed.

use crate::domain::json::Json;

/// How far a tool is from its pin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Drift {
    /// Not at all.
    Same,
    /// Its words.
    Text,
    /// It takes more than it did, and what was pinned still works.
    Compatible,
    /// It is another tool: what changed, for a person.
    Breaking(Vec<String>),
}

/// Compares the pinned tool object with the one the server shows now.
#[must_use]
pub fn grade(pinned: &Json, live: Option<&Json>) -> Drift {
    match live {
        Some(live) if live == pinned => Drift::Same,
        Some(_) => Drift::Breaking(vec!["the tool".to_owned()]),
        None => Drift::Breaking(vec!["the tool is gone".to_owned()]),
    }
}
